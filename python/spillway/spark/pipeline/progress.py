"""The progress of a pipeline: its stages, and the tasks of the one that runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.harness.report.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from spillway.spark.pipeline.stages import Tasks

__all__ = ["Progress"]

_EVERY_SECONDS = 5.0
_PATIENCE_SECONDS = 20.0


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
        if not tasks.running and not tasks.done and waited > _PATIENCE_SECONDS:
            words += "; no executor has taken one yet: has the cluster any that is free?"
        return words
