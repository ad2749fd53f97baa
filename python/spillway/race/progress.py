"""The progress of a run: the race, the number of acknowledged operations, and their rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.harness.report.progress_line import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from spillway.harness.schedule import Slot
    from spillway.race.plan import Cell
    from spillway.race.record import RaceRecord

__all__ = ["Progress", "result_line"]


class Progress(ProgressLine):
    """One line while a race is on, and one that stays for each that is over."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, refreshes=4)
        self._title = ""
        self._done = 0
        self._of = 0

    def racing(self, slots: Sequence[Slot[Cell]]) -> None:
        """The races that will be run."""
        self._of = len(slots)

    def begins(self, slot: Slot[Cell]) -> None:
        """Note that processes start and open the table."""
        self._title = f"[{self._done + 1}/{self._of}] {slot.cell.words}"
        self._begin(f"{self._title}: getting ready", total=None)

    def started(self) -> None:
        """Note that all writers were started."""
        self._begin(self._title, total=None)

    def acknowledged(self, count: int, seconds: float) -> None:
        """Update the number of acknowledged operations."""
        speed = f"{count / seconds:,.0f}/s" if seconds > 0 else ""
        self._update(completed=count, count=f"{count:,} acknowledged, {speed}")

    def checking(self, slot: Slot[Cell]) -> None:
        """Note that the table is being checked."""
        self._update(description=f"{self._title}: checking", total=slot.cell.expected)

    def removing(self, tables: int) -> None:
        """Note that the tables of all races are being removed."""
        self._begin(f"removing {counted(tables, 'table')}", total=None)

    def ended(self, slot: Slot[Cell], record: RaceRecord) -> None:
        """Note that a race is over."""
        self._done += 1
        self._end()
        self.say(f"{slot.cell.words}: {result_line(slot.cell, record)}")


def result_line(cell: Cell, record: RaceRecord) -> str:
    """The result of a race, in one line."""
    of = "" if cell.expected is None else f" of {cell.expected:,}"
    parts = [record["outcome"], f"{record['acknowledged']:,}{of} acknowledged"]
    if conflicts := sum(each["count"] for each in record.get("conflicts", [])):
        parts.append(counted(conflicts, "conflict"))
    if record["appends_per_second"] is not None:
        parts.append(f"{record['appends_per_second']:,.1f} {cell.kind.noun}s/s in {record['seconds']:,.2f} s")
    if record["wait_seconds"] is not None:
        over = "more than " if record["still_waiting"] else ""
        parts.append(f"longest wait {over}{record['wait_seconds'][-1]:,.2f} s")
    parts.append(counted(record["table"]["versions"], "version"))
    if (compactions := record.get("compactions")) is not None:
        parts.append(f"{counted(compactions['finished'], 'compaction')}, {compactions['failed']:,} failed")
    parts += record["table"]["problems"]
    if record["problem"] is not None:
        parts.append(record["problem"])
    parts += [f"{each['count']:,} x {each['error']}" for each in record["errors"][:1]]
    return "; ".join(parts)
