"""Stages of the pipeline as Spark jobs: their tasks counted while they run, and cancelled by Ctrl-C."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spillway.errors import SpillwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from spillway.pipeline.progress import Progress

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


@contextmanager
def interrupts_put_off() -> Iterator[Sequence[int]]:
    """Put off Ctrl-C and SIGTERM to the end of the block; what is yielded has the signals that came.

    An exception could be raised between any two steps of whoever waits, and leave the work behind. Nothing
    is changed in another thread than the main one, where no interrupt is raised.
    """
    came: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in before:
            signal.signal(number, lambda number, _: came.append(number))
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            before[number](number, None)


def explained(error: BaseException) -> BaseException:
    """A failure of a Spark job as an error in a sentence or two; any other error as it is."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(error, (Py4JError, PySparkException)):
        return error
    return SpillwayError(cause_of(str(error)))


def cause_of(said: str) -> str:
    """The cause in what Spark says of a failed job: what Python raised last, or Java's message."""
    lines = [line.rstrip() for line in said.splitlines()]
    if "Traceback (most recent call last):" in (line.strip() for line in lines):
        start = max(at for at, line in enumerate(lines) if line.strip().startswith("Traceback (most recent"))
        for line in lines[start + 1 :]:
            # The frames are indented: the first line that is not says what was raised.
            if line and not line.startswith(" "):
                return f"a task failed: {line}"
    causes = [line.strip().removeprefix("Caused by: ") for line in lines if line.startswith("Caused by:")]
    told = causes[-1:] or [line.strip() for line in lines if line.strip()][:2]
    return " ".join(told)
