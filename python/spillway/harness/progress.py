"""The line of a terminal that says what is being done: what the progress of all runs is shown with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.progress import ProgressColumn, TaskID

# Samples differ in length: a short memory would have the time that is left jump.
_SPEED_SECONDS = 300


class ProgressLine:
    """One line at a time; on a console that is no terminal nothing of it is seen.

    Args:
        console: Where it is.
        columns: What it says beside the description, a bar, the count and the time that has passed.
        refreshes: How often in a second it is drawn.
        clock: Seconds that pass.
    """

    def __init__(
        self,
        console: Console,
        *columns: ProgressColumn,
        refreshes: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._clock = clock
        self._said_at = clock()
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            *columns,
            console=console,
            transient=True,
            refresh_per_second=refreshes,
            speed_estimate_period=_SPEED_SECONDS,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None

    def say(self, line: str) -> None:
        """Print a line that stays, however long it is."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        self._said_at = self._clock()

    def stop(self) -> None:
        """Clear the line."""
        self._end()
        self._bars.stop()

    def _begin(self, description: str, total: float | None) -> None:
        self._end()
        self._task = self._bars.add_task(description, total=total, count="")
        self._bars.start()

    def _update(self, **changes: Any) -> None:
        if self._task is None:
            raise RuntimeError("no stage of the run has begun")
        self._bars.update(self._task, **changes)

    def _end(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
