"""The live line of a run: what is being done, how far it is, how long it will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import TextColumn, TimeRemainingColumn

from spillway.harness.live import LiveLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from spillway.harness.plan import Cell
    from spillway.harness.schedule import Slot

__all__ = ["Progress"]

# A sample's length for the estimate: starting a process, and writing a million rows. Only their ratio counts.
_PROCESS_SECONDS = 1.0
_SECONDS_PER_ROW = 4e-6


class Progress(LiveLine):
    """One line at a time; on a console that is no terminal only `say` prints."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, TextColumn("left"), TimeRemainingColumn(), refreshes=2)
        self._done = 0
        self._of = 0

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(line, highlight=False, markup=False)

    def preparing(self, rows: int, total: int) -> None:
        """Rows of the input that are made."""
        if self._task is None:
            self._begin("preparing the input", total or None)
        self._update(completed=rows, count=f"{rows:,} rows")

    def sampling(self, slots: Sequence[Slot[Cell]]) -> None:
        """The samples that will be taken."""
        self._of = len(slots)
        self._begin("samples", sum(_weight(slot.cell.rows) for slot in slots))

    def sample_begins(self, slot: Slot[Cell]) -> None:
        """A process starts."""
        cell = slot.cell
        self._update(
            description=f"block {slot.block + 1}: {cell.backend}, {cell.mode}, {cell.rows:,} rows",
            count=f"{self._done}/{self._of}",
        )

    def sample_ended(self, slot: Slot[Cell], record: dict[str, Any]) -> None:
        """A process ended; one that failed is said at once."""
        self._done += 1
        self._update(advance=_weight(slot.cell.rows), count=f"{self._done}/{self._of}")
        if record["outcome"] != "ok":
            cell = slot.cell
            error = record["error"]
            why = f": {error['message']}" if error else ""
            self.say(f"{cell.backend}, {cell.mode}, {cell.rows:,} rows: {record['outcome']}{why}")

    def tracing(self, total: int) -> None:
        """Allocation curves that will be drawn."""
        self._begin("tracing allocations", total)

    def trace_begins(self, cell: Cell) -> None:
        """A traced write starts."""
        self._update(description=f"tracing allocations: {cell.backend}, {cell.mode}")

    def trace_ended(self) -> None:
        """A traced write ended."""
        self._update(advance=1)

    def validating(self, files: int, engines: Sequence[str]) -> None:
        """Distinct contents that will be read back."""
        self.say(f"reading {files} distinct outputs back with {', '.join(engines)}")
        self._begin(f"validating with {', '.join(engines)}", files)

    def validated(self, done: int, total: int, what: str) -> None:
        """Some readings are done."""
        self._update(completed=done, total=total or None, description=what)


def _weight(rows: int) -> float:
    return _PROCESS_SECONDS + rows * _SECONDS_PER_ROW
