"""A driver that is killed at any stage: the run of the same name, run again, publishes audited rows once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from spillway.spark import Pipeline, Sink, between, unique

from ..counts import SOAK
from .test_pipeline import ids

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
# Each kill takes a JVM of its own.
__test__ = SOAK

STAGES = ("before_write", "after_write", "after_audit", "between", "before_publish", "after_publish")

#: Kills this process at a stage. The first commit is that of the quarantine, the second that of the sink.
PROGRAM = """
import os, signal, sys
stage, to, table = sys.argv[1:]
from spillway.spark import local_session
from spillway.spark.delta_job import DeltaJob
from spillway.spark.pipeline.audit import Staged
from spillway.spark.pipeline.run import Run
from spillway.spark.stream_jobs import FolderRun
from tests.pipeline.test_kills import pipeline

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def kills(owner, name, before, after, at=1):
    real, calls = getattr(owner, name), []
    def wrapped(self, *given, **more):
        calls.append(1)
        if before == stage and len(calls) == at:
            killed()
        result = real(self, *given, **more)
        if after == stage and len(calls) == at:
            killed()
        return result
    setattr(owner, name, wrapped)

kills(Run, "_tasks", "before_write", "after_write")
kills(Staged, "audited", None, "after_audit")
job = DeltaJob if table == "delta" else FolderRun
kills(job, "commit", None, "between")
kills(job, "commit", "before_publish", "after_publish", at=2)
session = local_session("killed")
pipeline(session, to, table).run(session)
"""


def pipeline(session: SparkSession, to: str, table: Any) -> Pipeline:
    rows = session.range(0, 100, 1, 3).selectExpr("id", "id % 10 AS lat")
    checks = [between("lat", 0, 8), unique("id")]
    sink = Sink(to, table=table)
    return Pipeline(source=rows, checks=checks, bad_rows="quarantine", sink=sink, run_id="run")


@pytest.mark.parametrize("table", ["parquet", "delta"])
@pytest.mark.parametrize("stage", STAGES)
def test_rows_are_there_once_after_a_kill_and_a_repetition(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, stage: str, table: str
) -> None:
    to, bad = tmp_path / "to", tmp_path / "to__quarantine"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, stage, str(to), table],
        cwd=request.config.rootpath,
        env={**os.environ, "PYTHONPATH": str(request.config.rootpath)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    good = [number for number in range(100) if number % 10 < 9]
    published = good if stage == "after_publish" else []
    assert (ids(to) if _has_rows(to, table) else []) == published
    result = pipeline(spark, str(to), table).run(spark)
    assert result.repeated is (stage == "after_publish")
    assert ids(to) == good
    assert ids(bad) == [number for number in range(100) if number % 10 == 9]


def _has_rows(path: Path, table: str) -> bool:
    if table == "delta":
        return (path / "_delta_log").exists() and any((path / "_delta_log").glob("*.json"))
    return any(path.glob("*.parquet"))
