"""A standalone cluster whose executors have nothing but the packed archive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ..counts import count
from .cluster import BASE_PYTHON, SPARK_HOME, running

if TYPE_CHECKING:
    from spillway.spark import Packed

    from .cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
ROWS = count(quick=10_000, ci=200_000, soak=10_000_000)

WRITE_ON_EXECUTORS = """
import json

def write(batches):
    import os, sys
    import pyarrow as pa, spillway
    from pyspark import TaskContext
    number = TaskContext.get().partitionId()
    first = next(batches)
    with spillway.ParquetWriter(f"{FOLDER}/{number}.parquet", first.schema) as writer:
        writer.write(first)
        for batch in batches:
            writer.write(batch)
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    told = {"cwd": os.getcwd(), "python": sys.executable, "rows": writer.result.rows}
    told |= {"spillway": spillway.__file__, "pyarrow": pa.__file__, "files": sorted(files - {""})}
    yield pa.RecordBatch.from_pydict({"told": [json.dumps(told)]})

frame = spark.range(0, ROWS, 1, 4).selectExpr("id", "cast(id % 7 as string) as word", "id / 3 as ratio")
print(json.dumps([json.loads(row.told) for row in frame.mapInArrow(write, "told string").collect()]))
"""

RUN_AND_WAIT = """
import sys, time
from pathlib import Path
from tests.spark.cluster import running
with running(Path(sys.argv[1])) as cluster:
    print(*cluster.processes, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def driver_folder(tmp_path: Path) -> Path:
    """An empty folder: a stray package or archive in a driver's folder would stand in for the packed one."""
    folder = tmp_path / "driver"
    folder.mkdir()
    return folder


def test_executors_write_with_the_archive_alone(
    cluster: Cluster, packed: Packed, driver_folder: Path, tmp_path: Path
) -> None:
    written = tmp_path / "written"
    written.mkdir()
    program = f"FOLDER, ROWS = {str(written)!r}, {ROWS}\n{WRITE_ON_EXECUTORS}"
    told = json.loads(cluster.run(driver_folder, program, packed.settings))

    assert sum(task["rows"] for task in told) == ROWS
    assert {Path(task["cwd"]).parents[1].parent for task in told} == {cluster.work}
    for task in told:
        unpacked = Path(task["cwd"], "spillway-packed")
        assert task["python"] == str(BASE_PYTHON)
        assert task["spillway"] == str(unpacked / "spillway" / "__init__.py")
        assert task["pyarrow"] == str(unpacked / "pyarrow" / "__init__.py")
        # Of the driver's environment only Spark itself, which each worker has on its own.
        lent = [file for file in task["files"] if file.startswith(sys.prefix + os.sep)]
        assert all(Path(file).is_relative_to(SPARK_HOME) for file in lent)
    read = pq.read_table(written).sort_by("id")
    ids = np.arange(ROWS)
    made = pa.table({"id": ids, "word": pa.array(ids % 7).cast(pa.string()), "ratio": ids / 3})
    assert read.equals(made.cast(read.schema))
    assert not [path for path in driver_folder.iterdir() if path.name not in {"scratch", "artifacts"}]


def gone(processes: list[psutil.Process]) -> bool:
    return all(not each.is_running() or each.status() == psutil.STATUS_ZOMBIE for each in processes)


def test_a_cluster_ends_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", RUN_AND_WAIT, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as program:
        assert program.stdout is not None
        daemons = [psutil.Process(int(number)) for number in program.stdout.readline().split()]
        assert len(daemons) == 3
        program.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not gone(daemons):
        assert time.monotonic() < deadline, "the cluster outlived the program that started it"
        time.sleep(0.05)


def test_a_cluster_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(RuntimeError, match=r"master\.log: .*no-java"), running(tmp_path):
        raise AssertionError("it runs without Java")
