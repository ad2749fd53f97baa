"""A driver that is killed at any stage: the run of the same name, run again, publishes audited rows once."""

from __future__ import annotations

import itertools
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

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
# Each kill takes a JVM of its own.
__test__ = SOAK

STAGES = ("before_write", "after_write", "after_audit", "between", "before_publish", "after_publish")
WAYS = list(itertools.product(["parquet", "delta"], ["frame", "stream"]))

#: Kills this process at a stage. The first commit is that of the quarantine, the second that of the sink.
PROGRAM = """
import os, signal, sys
stage, to, table, kind = sys.argv[1:]
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
pipeline(session, to, table, kind).run(session)
"""


def pipeline(session: SparkSession, to: str, table: Any, kind: str) -> Pipeline:
    """A pipeline over a frame, or over a stream of three files, each of which becomes a micro-batch."""
    more: dict[str, Any] = {"source": _rows(session), "run_id": "run"}
    if kind == "stream":
        reader = session.readStream.schema("id long, lat long").option("maxFilesPerTrigger", 1)
        more = {"source": reader.parquet(f"{to}-in"), "checkpoint_location": f"{to}-checkpoint"}
    checks = [between("lat", 0, 8), unique("id")]
    return Pipeline(checks=checks, bad_rows="quarantine", sink=Sink(to, table=table), **more)


def _rows(session: SparkSession) -> DataFrame:
    return session.range(0, 100, 1, 3).selectExpr("id", "id % 10 AS lat")


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("stage", STAGES)
def test_rows_are_there_once_after_a_kill_and_a_repetition(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, stage: str, way: tuple[str, str]
) -> None:
    table, kind = way
    to, bad = tmp_path / "to", tmp_path / "to__quarantine"
    _rows(spark).write.parquet(f"{to}-in")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, stage, str(to), table, kind],
        cwd=request.config.rootpath,
        env={**os.environ, "PYTHONPATH": str(request.config.rootpath)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    good = [number for number in range(100) if number % 10 < 9]
    published = ids(to) if _has_rows(to, table) else []
    assert bool(published) is (stage == "after_publish")
    result = pipeline(spark, str(to), table, kind).run(spark)
    runs = [result.repeated] if kind == "frame" else [each.repeated for each in result.batches]
    assert runs == [stage == "after_publish", False, False][: 1 if kind == "frame" else 3]
    assert ids(to) == good
    assert ids(bad) == [number for number in range(100) if number % 10 == 9]


def _has_rows(path: Path, table: str) -> bool:
    if table == "delta":
        return (path / "_delta_log").exists() and any((path / "_delta_log").glob("*.json"))
    return any(path.glob("*.parquet"))
