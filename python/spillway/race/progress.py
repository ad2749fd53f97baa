"""The live line of a run: which race is on, how many appends are acknowledged, how fast they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.progress import TaskID

    from spillway.harness.schedule import Slot
    from spillway.race.plan import Cell

__all__ = ["Progress", "result_line"]


class Progress:
    """One line while a race is on, and one that stays for each that is over."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            refresh_per_second=4,
        )
        self._task: TaskID | None = None
        self._title = ""
        self._done = 0
        self._of = 0

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def racing(self, slots: Sequence[Slot[Cell]]) -> None:
        """The races that will be run."""
        self._of = len(slots)

    def begins(self, slot: Slot[Cell]) -> None:
        """Processes start, and open the table."""
        self._end()
        self._title = f"[{self._done + 1}/{self._of}] {slot.cell.words}"
        self._task = self._bars.add_task(f"{self._title}: getting ready", total=None, count="")
        self._bars.start()

    def started(self) -> None:
        """All writers are let go."""
        if self._task is not None:
            self._bars.reset(self._task, description=self._title)

    def acknowledged(self, count: int, seconds: float) -> None:
        """So many appends were acknowledged by now."""
        if self._task is not None:
            speed = f"{count / seconds:,.0f}/s" if seconds > 0 else ""
            self._bars.update(self._task, completed=count, count=f"{count:,} acknowledged, {speed}")

    def checking(self, slot: Slot[Cell]) -> None:
        """The table is looked at."""
        if self._task is not None:
            self._bars.update(self._task, description=f"{self._title}: checking", total=slot.cell.expected)

    def ended(self, slot: Slot[Cell], record: dict[str, Any]) -> None:
        """A race is over."""
        self._done += 1
        self._end()
        self.say(f"{slot.cell.words}: {result_line(record)}")

    def stop(self) -> None:
        """Clear the line."""
        self._end()
        self._bars.stop()

    def _end(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None


def result_line(record: dict[str, Any]) -> str:
    """What came of a race, in one line."""
    parts = [record["outcome"], f"{record['acknowledged']:,} of {_expected(record):,} acknowledged"]
    if record["appends_per_second"] is not None:
        parts.append(f"{record['appends_per_second']:,.1f} appends/s in {record['seconds']:,.2f} s")
    if record["wait_seconds"] is not None:
        over = "more than " if record["still_waiting"] else ""
        parts.append(f"longest wait {over}{record['wait_seconds'][-1]:,.2f} s")
    parts.append(f"{record['table']['versions']:,} versions")
    parts += record["table"]["problems"]
    if record["problem"] is not None:
        parts.append(record["problem"])
    parts += [f"{each['count']:,} x {each['error']}" for each in record["errors"][:1]]
    return "; ".join(parts)


def _expected(record: dict[str, Any]) -> int:
    return int(record["cell"]["writers"] * record["cell"]["appends"])
