"""A block of samples as an executor takes it: its Python has what `pack` sends, PySpark, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spillway.bench.block import Block, Part
from spillway.bench.record import SCHEMA
from spillway.harness.limits import detect_limiters
from spillway.harness.schedule import Slot

from .conftest import ROWS, cell

if TYPE_CHECKING:
    from spillway.datasets import PreparedInput

# The interpreter below the virtual environment has none of its packages.
BASE_PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
SENT = ("spillway", "pyspark_spillway", "pyarrow", "pyspark", "py4j")
TAKE = """
import pickle, sys
from pyspark import SparkFiles
from spillway.bench.block import survey, take_block
SparkFiles._is_running_on_worker, SparkFiles._root_directory = True, sys.argv[1]
block = pickle.load(sys.stdin.buffer)
names = sorted({slot.cell.backend for slot in block.slots})
found = [tuple(part) for part in take_block(block)]
told = {name.partition(".")[0] for name in sys.modules}
pickle.dump((survey(names, None), found, told), sys.stdout.buffer)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the packages that an executor has."""
    folder = tmp_path_factory.mktemp("site")
    for name in SENT:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        (folder / name).symlink_to(Path(spec.origin).parent)
    return folder


def take(site: Path, folder: Path, prepared: PreparedInput, *slots: Slot[Any], keep: bool = True) -> Any:
    """The account of a task, and the modules that it has loaded."""
    block = Block("run", 1, slots, {("logs", ROWS): prepared.path.name}, 60.0, keep)
    done = subprocess.run(
        [BASE_PYTHON, "-c", TAKE, prepared.path.parent],
        input=pickle.dumps(block),
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(site),
            "SPARK_LOCAL_DIRS": str(folder),
            "SPILLWAY_ALLOW_CHECKED_BUILD": "1",
        },
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found, parts, modules = pickle.loads(done.stdout)  # noqa: S301 - of the process above
    return found, [Part(*part) for part in parts], modules


def test_a_block_tells_of_its_host_its_samples_and_its_files(
    site: Path, disk_folder: Path, prepared: PreparedInput
) -> None:
    limit = {"memory_bytes": 1 << 30, "limit_kind": detect_limiters()[0].kind}
    cells = [cell("spillway", **limit), cell("pyarrow-streaming", **limit), cell("spillway", **limit)]
    slots = [Slot(3, position, each) for position, each in enumerate(cells)]
    found, parts, modules = take(site, disk_folder, prepared, *slots)
    assert (found.missing, found.refusal, found.limit_kind) == ({}, None, limit["limit_kind"])
    assert not modules & {"numpy", "scipy", "jsonschema", "rich", "polars"}

    (host,) = [part.value for part in parts if part.kind == "host"]
    assert [proof["holds"] for proof in host["limit_proofs"]] == [True]
    assert host["cpu_model"]
    samples = [part.value for part in parts if part.kind == "sample"]
    assert [(sample["block"], sample["position"]) for sample in samples] == [(3, 0), (3, 1), (3, 2)]
    for sample in samples:
        SCHEMA.check(sample)
        assert (sample["outcome"], sample["output"]["rows"]) == ("ok", ROWS)
    # The same content is stored once.
    stored = {part.name: part.value for part in parts if part.kind == "stored"}
    assert stored == {sample["output"]["content_hash"]: sample["output"]["bytes"] for sample in samples}
    for name in stored:
        content = b"".join(part.value for part in parts if part.kind == "chunk" and part.name == name)
        assert hashlib.sha256(content).hexdigest() == name
    assert not list(disk_folder.iterdir())
    assert str(disk_folder) not in json.dumps([host, *samples])


def test_files_that_nobody_wants_are_not_handed_on(
    site: Path, disk_folder: Path, prepared: PreparedInput
) -> None:
    _, parts, _ = take(site, disk_folder, prepared, Slot(0, 0, cell("pyarrow-streaming")), keep=False)
    assert [part.kind for part in parts] == ["host", "sample"]


def test_a_host_that_cannot_measure_says_why(site: Path, disk_folder: Path, prepared: PreparedInput) -> None:
    asked = cell("pyarrow-streaming", threads=10_000)
    _, parts, _ = take(site, disk_folder, prepared, Slot(0, 0, asked))
    assert [part.kind for part in parts] == ["refused"]
    assert "--cores 10000: this process may use" in parts[0].value
