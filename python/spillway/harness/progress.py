"""The live line of a run: what is being done, how far it is, how long it will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.progress import TaskID

    from spillway.harness.plan import Cell
    from spillway.harness.schedule import Slot

__all__ = ["Progress"]

# A sample's length for the estimate: starting a process, and writing a million rows. Only their ratio counts.
_PROCESS_SECONDS = 1.0
_SECONDS_PER_ROW = 4e-6


class Progress:
    """One line at a time; on a console that is no terminal only `say` prints."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            refresh_per_second=2,
            speed_estimate_period=300,
        )
        self._task: TaskID | None = None
        self._done = 0
        self._of = 0

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._console.print(line, highlight=False, markup=False)

    def preparing(self, rows: int, total: int) -> None:
        """Rows of the input that are made."""
        if self._task is None:
            self._begin("preparing the input", total or None)
        self._bars.update(self._task_id, completed=rows, count=f"{rows:,} rows")

    def sampling(self, slots: Sequence[Slot[Cell]]) -> None:
        """The samples that will be taken."""
        self._of = len(slots)
        self._begin("samples", sum(_weight(slot.cell.rows) for slot in slots))

    def sample_begins(self, slot: Slot[Cell]) -> None:
        """A process starts."""
        cell = slot.cell
        self._bars.update(
            self._task_id,
            description=f"block {slot.block + 1}: {cell.backend}, {cell.mode}, {cell.rows:,} rows",
            count=f"{self._done}/{self._of}",
        )

    def sample_ended(self, slot: Slot[Cell], record: dict[str, Any]) -> None:
        """A process ended; one that failed is said at once."""
        self._done += 1
        self._bars.update(self._task_id, advance=_weight(slot.cell.rows), count=f"{self._done}/{self._of}")
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
        self._bars.update(self._task_id, description=f"tracing allocations: {cell.backend}, {cell.mode}")

    def trace_ended(self) -> None:
        """A traced write ended."""
        self._bars.update(self._task_id, advance=1)

    def validating(self, files: int, engines: Sequence[str]) -> None:
        """Distinct contents that will be read back."""
        self.say(f"reading {files} distinct outputs back with {', '.join(engines)}")
        self._begin(f"validating with {', '.join(engines)}", files)

    def validated(self, done: int, total: int, what: str) -> None:
        """Some readings are done."""
        self._bars.update(self._task_id, completed=done, total=total or None, description=what)

    def stop(self) -> None:
        """Clear the line."""
        self._end()
        self._bars.stop()

    @property
    def _task_id(self) -> TaskID:
        if self._task is None:
            raise RuntimeError("no stage of the run has begun")
        return self._task

    def _begin(self, description: str, total: float | None) -> None:
        self._end()
        self._task = self._bars.add_task(description, total=total, count="")
        self._bars.start()

    def _end(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None


def _weight(rows: int) -> float:
    return _PROCESS_SECONDS + rows * _SECONDS_PER_ROW
