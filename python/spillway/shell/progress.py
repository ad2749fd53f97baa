"""The line that says how far a command is, and the sizes that people read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.harness.report.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = ["Progress", "sized"]

_SILENT_SECONDS = 10.0
_THOUSAND = 1000
_UNITS = ("kB", "MB", "GB", "TB")


class Progress(ProgressLine):
    """A line on a terminal; elsewhere one that stays every ten seconds.

    Args:
        console: Where it is.
        clock: Seconds that pass.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, refreshes=4, clock=clock)
        self._what = ""

    def begin(self, what: str, total: float | None = None) -> None:
        """Begin a stage.

        Args:
            what: Its name.
            total: Bytes, or rows, that it ends with; None if nobody knows.
        """
        self._what = what
        self._begin(what, total)

    def show(self, rows: int, done: float | None = None) -> None:
        """Show how far the stage is.

        Args:
            rows: Rows so far.
            done: The part of the total.
        """
        self._update(completed=done or 0, count=counted(rows, "row"))
        if not self._console.is_terminal and self._clock() - self._said_at >= _SILENT_SECONDS:
            self.say(f"{self._what}: {counted(rows, 'row')}")


def sized(size: int) -> str:
    """Bytes as people write them: 812 B, 4.2 MB, 1.9 GB; a kilobyte has a thousand."""
    if size < _THOUSAND:
        return f"{size} B"
    power = min((len(str(size)) - 1) // 3, len(_UNITS))
    return f"{size / _THOUSAND**power:.1f} {_UNITS[power - 1]}"
