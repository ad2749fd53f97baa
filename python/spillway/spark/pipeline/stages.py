"""Stages of the pipeline as Spark jobs: their tasks counted while they run, and cancelled by Ctrl-C."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spillway.spark.failures import explained, interrupts_put_off

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from spillway.spark.pipeline.progress import Progress

__all__ = ["StageRunner", "Tasks"]

Result = TypeVar("Result")

_POLL_SECONDS = 0.25
_CANCEL_SECONDS = 1.0


@dataclass
class Tasks:
    """Tasks of a stage of the pipeline, over all its Spark jobs."""

    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0


class StageRunner:
    """Runs stages one after the other, each in a job group of its own.

    Args:
        session: A running session.
        progress: Told of the tasks of each stage.
    """

    def __init__(self, session: SparkSession, progress: Progress) -> None:
        self._session = session
        self._context = session.sparkContext
        self._progress = progress
        self._numbers = count(1)

    def run(self, title: str, work: Callable[[], Result]) -> tuple[Result, Tasks]:
        """Do `work`, whose Spark jobs are watched; the result and its tasks.

        A thread of its own does it, so that Ctrl-C reaches this one while Spark is busy. However often it
        comes, the work has ended before this returns or raises.

        Raises:
            KeyboardInterrupt: Ctrl-C came; the jobs were cancelled. The work may have had its result before.
            SpillwayError: A job failed; the message is the cause, without Java's stack.
        """
        group = f"spillway-pipeline-{next(self._numbers)}"
        done: _Outcome[Result] = _Outcome()
        thread = self._thread(lambda: self._work(group, title, work, done))
        self._progress.begins(title)
        with interrupts_put_off() as interrupts:
            thread.start()
            tasks = Tasks()
            while not done.event.wait(_POLL_SECONDS):
                if interrupts:
                    self._cancel(title, group, done)
                tasks = self._count(group)
                self._progress.tasks(tasks)
            thread.join()
        tasks = self._count(group)
        self._progress.tasks(tasks)
        if done.error is not None:
            raise explained(done.error) from done.error
        return done.value, tasks

    def _cancel(self, title: str, group: str, done: _Outcome[Any]) -> None:
        """Cancel the jobs, and wait for the end of the work."""
        self._progress.say(f"{title}: interrupted, its tasks are being cancelled")
        self._context.cancelJobGroup(group)
        while not done.event.wait(_CANCEL_SECONDS):
            self._context.cancelJobGroup(group)  # of a job that had not begun

    def _work(self, group: str, title: str, work: Callable[[], Result], done: _Outcome[Result]) -> None:
        try:
            self._context.setJobGroup(group, title, interruptOnCancel=True)
            done.result = work()
        except BaseException as error:  # noqa: BLE001  # it is raised where the stage was asked for
            done.error = error
        finally:
            done.event.set()

    def _thread(self, target: Callable[[], None]) -> threading.Thread:
        """A thread with a thread of the JVM for itself, as a job group asks for."""
        from pyspark import InheritableThread

        thread: threading.Thread = InheritableThread(target, daemon=True)
        return thread

    def _count(self, group: str) -> Tasks:
        tracker = self._context.statusTracker()
        tasks = Tasks()
        for job in tracker.getJobIdsForGroup(group):
            known = tracker.getJobInfo(job)
            for stage in known.stageIds if known is not None else ():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    tasks.total += info.numTasks
                    tasks.done += info.numCompletedTasks
                    tasks.running += info.numActiveTasks
                    tasks.failed += info.numFailedTasks
        return tasks


@dataclass
class _Outcome(Generic[Result]):
    event: threading.Event = field(default_factory=threading.Event)
    result: Result | None = None
    error: BaseException | None = None

    @property
    def value(self) -> Result:
        result: Any = self.result
        return result  # type: ignore[no-any-return]  # that of the work, which may be None
