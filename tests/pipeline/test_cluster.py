"""A pipeline on a standalone cluster whose executors have nothing but the archive, one of them killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway import datasets
from spillway.harness import records

from ..counts import SOAK, count
from ..spark.cluster import BASE_PYTHON
from .workers import kill_a_writer

if TYPE_CHECKING:
    from ..spark.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
# Collected before a release only: it takes a driver, three executors and an archive. In CI a worker that is
# killed stands for the executor (test_command.py), and spark/test_cluster.py kills one under
# `spillway.spark.write`.
__test__ = SOAK
ROWS = count(quick=20_000, ci=60_000, soak=10_000_000)
TASKS = count(quick=6, ci=6, soak=40)
SETTINGS = {
    "spark.executor.memory": "1g",
    "spark.speculation": "true",
    "spark.executorEnv.PYTHONNOUSERSITE": "1",
}


def test_an_executor_that_is_killed_costs_no_row_and_doubles_none(cluster: Cluster, tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    driver.mkdir()
    command = [Path(sys.executable).with_name("spillway"), "pipeline", "--rows", str(ROWS), "--pack"]
    command += ["--partitions", str(TASKS), "--master", cluster.master, "--to", str(tmp_path / "out")]
    for name, value in SETTINGS.items():
        command += ["--conf", f"{name}={value}"]
    with subprocess.Popen(
        command,
        cwd=driver,
        env={**os.environ, "PYSPARK_PYTHON": str(BASE_PYTHON)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        kill_a_writer(program, tmp_path / "out", cluster.executors, root_too=True)
        out, err = program.communicate(timeout=500)
    assert program.returncode == 0, err + out
    assert f"audited: spark-vectorized read {ROWS:,} rows without a difference" in out
    (record,) = records.read_lines(next(driver.glob("runs/pipeline/*/pipeline.jsonl")))
    failed = {each["stage"]: each["failed"] for each in record["tasks"]}
    assert failed["write"] >= 1
    assert [each.name for each in driver.iterdir()] == ["runs"]
    found = pq.read_table(tmp_path / "out", columns=["log_offset", "message"]).sort_by("log_offset")
    made = pa.Table.from_batches(datasets.batches("logs", 1, ROWS)).select(["log_offset", "message"])
    assert found.equals(made)
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert len(names - {"_SUCCESS"}) == TASKS
