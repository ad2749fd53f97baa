"""A standalone cluster that ends with its tests, and writes of which an executor is killed."""

from __future__ import annotations

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
from deltalake import DeltaTable

import spillway

from ..counts import SOAK, count
from .cluster import finished, running

if TYPE_CHECKING:
    from spillway.spark import Packed

    from .cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
ROWS = count(quick=10_000, ci=60_000, soak=10_000_000)

# Each executor runs a task at a time. After half of its rows a task waits until an executor was killed.
# The first attempt of the last partition waits for a second one, which speculation has to begin.
WRITE_AND_WAIT = """
import os, time
from pathlib import Path
import pyarrow as pa
import spillway.spark

SCHEMA = pa.schema({"id": pa.int64(), "word": pa.string()})
PARTITIONS, BATCHES, BATCH = 6, 10, ROWS // 60

def batches_of(number, meeting):
    from pyspark import TaskContext
    attempts = meeting / str(number)
    attempts.mkdir(exist_ok=True)
    first = not any(attempts.iterdir())
    (attempts / str(TaskContext.get().taskAttemptId())).touch()
    for batch in range(BATCHES):
        start = (number * BATCHES + batch) * BATCH
        ids = pa.array(range(start, start + BATCH), pa.int64())
        yield pa.record_batch([ids, ids.cast(pa.string())], schema=SCHEMA)
        if batch == BATCHES // 2:
            while not (meeting / "killed").exists():
                time.sleep(0.02)
            while first and number == PARTITIONS - 1 and len(list(attempts.iterdir())) < 2:
                time.sleep(0.02)

def made_at(name):
    meeting = FOLDER / name
    meeting.mkdir()
    def made(batches):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from batches_of(number, meeting)
    return made

"""

BY_WRITE = """
meeting = FOLDER / "write"
meeting.mkdir()
result = spillway.spark.write_generated(
    spark, lambda number: batches_of(number, meeting), PARTITIONS, str(FOLDER / "rows"), schema=SCHEMA
)
assert result.rows == PARTITIONS * BATCHES * BATCH, result
"""

BY_FORMAT = """
spillway.spark.register(spark)
frame = spark.range(0, PARTITIONS, 1, PARTITIONS).mapInArrow(made_at("format"), "id long, word string")
frame.write.format("spillway").option("table", "delta").mode("append").save(str(FOLDER / "table"))
"""

# A task is repeated beside itself as soon as it is slower than others; by default, when it is far slower.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "10ms",
}

RUN_AND_WAIT = """
import sys, time
from pathlib import Path
from tests.spark.cluster import running
with running(Path(sys.argv[1]), workers=1) as cluster:
    print(*cluster.processes, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def driver_folder(tmp_path: Path) -> Path:
    """An empty folder: a stray package or archive in a driver's folder would stand in for the packed one."""
    folder = tmp_path / "driver"
    folder.mkdir()
    return folder


def kill_an_executor(cluster: Cluster, meeting: Path, driver: subprocess.Popen[str]) -> None:
    """Kill an executor while both write; then let the tasks go on."""
    deadline = time.monotonic() + 120
    while len(list(meeting.glob("*/*"))) < 2:
        assert driver.poll() is None, driver.communicate()[1]
        assert time.monotonic() < deadline, "no two tasks ran side by side"
        time.sleep(0.02)
    cluster.executors()[0].send_signal(signal.SIGKILL)
    (meeting / "killed").touch()


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def check_folder(folder: Path, made: pa.Table) -> None:
    rows = folder / "rows"
    assert pq.read_table(rows).sort_by("id").equals(made)
    parts = files_below(rows)
    assert len(parts) == 7
    assert all(part == "_SUCCESS" or part.startswith("part-") for part in parts)


def check_table(folder: Path, made: pa.Table) -> None:
    table = folder / "table"
    assert DeltaTable(table).to_pyarrow_table().sort_by("id").equals(made)
    data = {file for file in files_below(table) if not file.startswith("_delta_log/")}
    assert data == {file.path for file in spillway.delta.open(table).files()}


# Workers are killed under both kinds of write by test_tasks.py; an executor under the second in a soak.
WRITES = {"write": (BY_WRITE, check_folder), **({"format": (BY_FORMAT, check_table)} if SOAK else {})}


def test_a_killed_executor_and_speculation_neither_lose_nor_double_rows(
    cluster: Cluster, packed: Packed, driver_folder: Path, tmp_path: Path
) -> None:
    places = f"from pathlib import Path\nFOLDER, ROWS = Path({str(tmp_path)!r}), {ROWS}"
    program = "\n".join([places, WRITE_AND_WAIT, *(code for code, _ in WRITES.values())])
    with cluster.driver(driver_folder, program, packed, SPECULATION) as driver:
        for name in WRITES:
            kill_an_executor(cluster, tmp_path / name, driver)
        finished(driver)

    ids = np.arange(ROWS // 60 * 60)
    made = pa.table({"id": ids, "word": pa.array(ids).cast(pa.string())})
    # An executor was lost with its attempt, and the last partition had a second one: their files are gone.
    assert all(len(list(tmp_path.glob(f"{name}/*/*"))) >= 8 for name in WRITES)
    for _, check in WRITES.values():
        check(tmp_path, made)


def gone(processes: list[psutil.Process]) -> bool:
    return all(not each.is_running() or each.status() == psutil.STATUS_ZOMBIE for each in processes)


# The daemons end where the input of their supervisor does, as they do after every test of a cluster.
@pytest.mark.soak
def test_a_cluster_ends_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", RUN_AND_WAIT, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as program:
        assert program.stdout is not None
        daemons = [psutil.Process(int(number)) for number in program.stdout.readline().split()]
        assert len(daemons) == 2
        program.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not gone(daemons):
        assert time.monotonic() < deadline, "the cluster outlived the program that started it"
        time.sleep(0.05)


def test_a_cluster_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(RuntimeError, match=r"master\.log: .*no-java"), running(tmp_path):
        raise AssertionError("it runs without Java")
