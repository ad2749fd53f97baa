"""The stages of a pipeline as Spark jobs: run, cancelled by Ctrl-C, and shown while they run."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spillway._wording import counted
from spillway.harness.progress import ProgressLine
from spillway.spark.status import IDLE_SECONDS, NO_EXECUTOR, Tasks, explained, interrupts_put_off, tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from rich.console import Console

Result = TypeVar("Result")

_POLL_SECONDS = 0.25
_CANCEL_SECONDS = 1.0


class StageRunner:
    """Runs stages one after another, each in a separate job group.

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

        A separate thread does this, so that Ctrl-C reaches this one while Spark is busy. However often it
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
                tasks = tasks_of(self._context, group)
                self._progress.tasks(tasks)
            thread.join()
        tasks = tasks_of(self._context, group)
        self._progress.tasks(tasks)
        if done.error is not None:
            raise explained(done.error) from done.error
        return done.value, tasks

    def _cancel(self, title: str, group: str, done: _Outcome[Any]) -> None:
        """Cancel the jobs, and wait for the end of the work."""
        self._progress.say(f"{title}: interrupted; its tasks are being cancelled")
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


@dataclass
class _Outcome(Generic[Result]):
    event: threading.Event = field(default_factory=threading.Event)
    result: Result | None = None
    error: BaseException | None = None

    @property
    def value(self) -> Result:
        result: Any = self.result
        return result  # type: ignore[no-any-return]  # that of the work, which may be None


_EVERY_SECONDS = 5.0


class Progress(ProgressLine):
    """A line of progress on a terminal; elsewhere one that stays every few seconds while tasks run.

    Args:
        console: Where it is.
        clock: Seconds that pass.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, refreshes=4, clock=clock)
        self._title = ""
        self._began = clock()
        self._last = ""

    def begins(self, title: str) -> None:
        """Note that a stage begins."""
        self._title, self._last = title, ""
        self._began = self._clock()
        self._begin(title, total=None)
        if not self._console.is_terminal:
            self.say(title)

    def tasks(self, tasks: Tasks) -> None:
        """Update the tasks of the stage."""
        words = self._words(tasks)
        self._update(total=tasks.total or None, completed=tasks.done, count=words)
        quiet = self._clock() - self._said_at < _EVERY_SECONDS
        if words != self._last and not quiet and not self._console.is_terminal:
            self.say(f"{self._title}: {words}")
            self._last = words

    def ended(self, line: str) -> None:
        """Note that the stage is over."""
        self._end()
        self.say(line)

    def _words(self, tasks: Tasks) -> str:
        if not tasks.total:
            return "preparing"
        words = f"{tasks.done:,} of {counted(tasks.total, 'task')} done, {tasks.running:,} running"
        if tasks.failed:
            words += f", {tasks.failed:,} failed"
        waited = self._clock() - self._began
        if not tasks.running and not tasks.done and waited > IDLE_SECONDS:
            words += f"; {NO_EXECUTOR}"
        return words
