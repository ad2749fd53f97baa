"""Stages of the command: Ctrl-C cancels their tasks and leaves nothing, and a failure is one sentence."""

from __future__ import annotations

import io
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from spillway.errors import SpillwayError
from spillway.spark import Pipeline, Sink
from spillway.spark.pipeline.progress import Progress, StageRunner, Tasks
from spillway.spark.pipeline.rows import GeneratedRows
from spillway.spark.status import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def of(rows: GeneratedRows, to: Path) -> Pipeline:
    source: Any = rows
    return Pipeline(source=source, sink=Sink(str(to)))


class OtherProgress(Progress):
    """Progress in a string, with something done when tasks of a stage run."""

    def __init__(self) -> None:
        self.said = io.StringIO()
        super().__init__(Console(file=self.said))

    def tasks(self, tasks: Tasks) -> None:
        super().tasks(tasks)
        self.seen(tasks)

    def seen(self, tasks: Tasks) -> None: ...


class InterruptsWhenTasksRun(OtherProgress):
    """Sends the signal of Ctrl-C when tasks run, and again while they are being cancelled."""

    def seen(self, tasks: Tasks) -> None:
        if tasks.running:
            signal.raise_signal(signal.SIGINT)

    def say(self, line: str) -> None:
        super().say(line)
        if "cancelled" in line:
            signal.raise_signal(signal.SIGINT)


class InterruptsAtOnce(OtherProgress):
    """Sends the signal of Ctrl-C while the work waits for it."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._ended = ended

    def seen(self, tasks: Tasks) -> None:  # noqa: ARG002 - whatever they are
        signal.raise_signal(signal.SIGINT)
        self._ended.set()


class EndlessRows(GeneratedRows):
    """Rows that do not end, so that nothing is committed before the interrupt."""

    def make(self, number: int) -> Iterator[pa.RecordBatch]:
        while True:
            yield from super().make(number)


def test_an_interrupted_write_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = of(EndlessRows("wide:4", 1, 20_000, 2), tmp_path / "out")
    progress = InterruptsWhenTasksRun()
    ended = threading.Event()

    def write() -> None:
        try:
            pipeline.run(spark)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        StageRunner(spark, progress).run("writing", write)
    assert ended.is_set()
    assert "writing: interrupted; its tasks are being cancelled" in progress.said.getvalue()
    assert not (tmp_path / "out").exists()


def test_work_that_cannot_be_cancelled_is_waited_for(spark: SparkSession) -> None:
    interrupted, done = threading.Event(), []

    def work() -> None:
        assert interrupted.wait(60)
        done.append("committed")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        StageRunner(spark, InterruptsAtOnce(interrupted)).run("committing", work)
    assert done == ["committed"]
    assert signal.getsignal(signal.SIGINT) is handler


class BrokenRows(GeneratedRows):
    """Rows that cannot be made."""

    def make(self, number: int) -> Iterator[pa.RecordBatch]:
        raise ValueError(f"no rows for partition {number} today")


def test_a_failed_stage_says_what_python_raised(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = of(BrokenRows("wide:4", 1, 1_000, 1), tmp_path / "out")
    with pytest.raises(SpillwayError, match=r"^a task failed: ValueError: no rows for partition 0 today$"):
        StageRunner(spark, OtherProgress()).run("writing", lambda: pipeline.run(spark))
    assert not (tmp_path / "out").exists()


def test_the_cause_in_javas_words_is_the_last_one() -> None:
    said = (
        "An error occurred\n: org.Outer: x\n\tat a.b(C.java:1)\nCaused by: java.io.IOException: disk\n\tat d"
    )
    assert cause_of(said) == "java.io.IOException: disk"
