"""Spark jobs as a driver sees them: their tasks, their failures in a sentence, and interrupts put off.

Executors import this, so it needs no other package.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway.errors import SpillwayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark import SparkContext

__all__ = ["IDLE_SECONDS", "NO_EXECUTOR", "Tasks", "cause_of", "explained", "interrupts_put_off", "tasks_of"]

IDLE_SECONDS = 20.0
"""The wait after which progress says that no executor has taken a task."""
NO_EXECUTOR = "no executor has taken a task yet: does the cluster have a free one?"


@dataclass
class Tasks:
    """Tasks of a job group, over all its Spark jobs."""

    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0


def tasks_of(context: SparkContext, group: str) -> Tasks:
    """The tasks of all jobs of a group, as Spark counts them now."""
    tracker = context.statusTracker()
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


@contextmanager
def interrupts_put_off() -> Iterator[Sequence[int]]:
    """Defer Ctrl-C and SIGTERM to the end of the block; the yielded list contains the received signals.

    An exception could be raised between any two steps of the waiting thread, and leave the work unfinished.
    It does nothing in threads other than the main one, where no interrupt is raised.
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
    """A failure of a Spark job as an error in one or two sentences; any other error unchanged."""
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
