"""Executors that run another minor version of Python than the driver are one clear error.

It takes a second interpreter on this machine: one on the path, of pyenv, or of a runner's tool cache. Where
there is none, the test is not collected.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cluster import finished

if TYPE_CHECKING:
    from spillway.spark import Packed

    from .cluster import Cluster

# In continuous integration test_jobs.py has the error of both ways, told by tasks that name another Python.
pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(300)]

PROGRAM = """
import json, os
os.environ.update({environment!r}, PYSPARK_PYTHON={python!r})
import pyarrow as pa
from pyspark.sql import SparkSession
import spillway.spark
spark = SparkSession.builder.master({master!r}).config(map={settings!r}).getOrCreate()
spillway.spark.register(spark)

def made(number):
    yield pa.record_batch({{"id": [number]}})

def by_write(path):
    schema = pa.schema({{"id": pa.int64()}})
    spillway.spark.write_generated(spark, made, 2, path, schema=schema, table="delta")

def by_format(path):
    spark.range(2).write.format("spillway").mode("append").save(path)

for work in (by_write, by_format):
    try:
        work(work.__name__)
    except Exception as error:
        print(json.dumps([type(error).__name__, str(error), os.path.exists(work.__name__)]))
"""


def version(python: Path) -> tuple[int, ...]:
    """The version of an interpreter; empty where it does not run."""
    told = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", told],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(int(part) for part in done.stdout.split()) if done.returncode == 0 else ()


def others() -> list[Path]:
    """An interpreter of another minor version that Spark accepts."""
    cache = Path(os.environ.get("RUNNER_TOOL_CACHE", "/nowhere"))
    folders = [
        *(Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)),
        *Path.home().glob(".pyenv/versions/*/bin"),
        *cache.glob("Python/*/*/bin"),
    ]
    names = [f"python3.{minor}" for minor in (12, 13, 14, 11, 10) if minor != sys.version_info.minor]
    found = (folder / name for name in names for folder in folders)
    there = (python for python in found if python.is_file())
    return next(([python] for python in there if version(python)), [])


OTHERS = [str(python) for python in others()]
# Without parameters the test would be a skip, which fails continuous integration.
__test__ = bool(OTHERS)


@pytest.mark.parametrize("python", OTHERS, ids=lambda python: Path(python).name)
def test_executors_with_another_python_are_one_clear_error(
    cluster: Cluster, packed: Packed, tmp_path: Path, python: str
) -> None:
    program = PROGRAM.format(
        environment=packed.environment,
        python=python,
        master=cluster.master,
        # One executor says as much as two.
        settings=cluster.settings(packed) | {"spark.cores.max": "1"},
    )
    with cluster.bare_driver(tmp_path, program) as driver:
        out = finished(driver)
    by_write, by_format = map(json.loads, out.splitlines())
    here = ".".join(map(str, sys.version_info[:2]))
    there = ".".join(map(str, version(Path(python))))
    expected = (
        f"the driver has Python {here} and executors have {there}: let PYSPARK_PYTHON name a Python {here} "
        "on them, or give all of them the same environment, as spark.archives does"
    )
    assert by_write == ["SpillwayError", expected, False]
    assert by_format[0] != "SpillwayError"
    assert f"different version: {there} than that in driver: {here}" in by_format[1]
    assert not by_format[2]
