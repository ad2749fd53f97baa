"""The progress of a run: the current step, its progress, and the remaining time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.progress import TextColumn, TimeRemainingColumn

from spillway._wording import counted
from spillway.bench.summary import outcome_words, reason
from spillway.harness.progress import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from spillway.bench.plan import Cell
    from spillway.bench.record import Sample
    from spillway.harness.schedule import Slot

# A sample's length for the estimate: starting a process, and writing a million rows. Only their ratio counts.
_PROCESS_SECONDS = 1.0
_SECONDS_PER_ROW = 4e-6

_SILENCE_SECONDS = 30.0
_REASON_CHARACTERS = 200


class Progress(ProgressLine):
    """A line of progress on a terminal; elsewhere one that stays per stage and block, or half a minute.

    Args:
        console: Where it is.
        clock: Seconds that pass.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, TextColumn("left"), TimeRemainingColumn(), refreshes=2, clock=clock)
        self._began = clock()
        self._done = 0
        self._of = 0
        self._weight_done = 0.0
        self._weight = 0.0
        self._last_of_block: dict[int, int] = {}
        self._blocks = 0
        self._failures: set[str] = set()

    def say(self, line: str) -> None:
        """Print a line that stays, wrapped to the terminal as the tables around it are."""
        self._console.print(line, highlight=False, markup=False)
        self._said_at = self._clock()

    def preparing(self, rows: int, total: int) -> None:
        """Rows of the input that are made."""
        if self._task is None:
            self._begin("preparing the input", total or None)
            self._log("preparing the input" + (f": {counted(total, 'row')}" if total else ""))
        self._update(completed=rows, count=counted(rows, "row"))
        self._log_at_times(f"preparing the input: {counted(rows, 'row')}")

    def sampling(self, slots: Sequence[Slot[Cell]]) -> None:
        """The samples that will be taken."""
        self._began = self._clock()
        self._of = len(slots)
        self._weight = sum(_weight(slot.cell.rows) for slot in slots)
        self._last_of_block = {slot.block: place for place, slot in enumerate(slots, start=1)}
        self._blocks = 1 + max(self._last_of_block)
        self._begin("samples", self._weight)
        self._log(f"taking {counted(self._of, 'sample')} in {counted(len(self._last_of_block), 'block')}")

    def sample_begins(self, slot: Slot[Cell]) -> None:
        """A process starts."""
        cell = slot.cell
        self._update(description=f"block {slot.block + 1}: {cell.words}", count=f"{self._done}/{self._of}")

    def sample_ended(self, slot: Slot[Cell], record: Sample) -> None:
        """A process ended; how one failed is said at once, and once."""
        self._done += 1
        self._weight_done += _weight(slot.cell.rows)
        self._update(advance=_weight(slot.cell.rows), count=f"{self._done}/{self._of}")
        if record["outcome"] != "ok":
            why = f"{outcome_words(record['outcome'])}: {reason(record, _REASON_CHARACTERS)}"
            failure = f"{slot.cell.words}: {why}"
            if failure not in self._failures:
                self._failures.add(failure)
                self.say(failure)
        block = f"block {slot.block + 1} of {self._blocks}"
        if self._done == self._last_of_block[slot.block]:
            self._log(f"{block} done: {self._how_far()}")
        else:
            self._log_at_times(f"{block}: {self._how_far()}")

    def placed(self, done: int, blocks: int, running: int) -> None:
        """Blocks that executors of a cluster have taken, or are taking."""
        words = f"{done:,} of {counted(blocks, 'block')} done, {running:,} running"
        self._update(description=f"samples on executors: {words}")
        self._log_at_times(words)

    def fetching(self, block: int, blocks: int, size: int) -> None:
        """Files of a block that are brought here from its executor."""
        self._log_at_times(f"bringing {size / 1e6:,.1f} MB of block {block} of {blocks} from its executor")

    def follows(self, stage: str, line: str, total: int) -> None:
        """Begin a stage of `total` steps after the samples, and log `line`."""
        self._begin(stage, total)
        self._log(line)

    def step(self, line: str) -> None:
        """Show what the current step of the stage does, or has done."""
        self._update(description=line)
        self._log_at_times(line)

    def stepped(self) -> None:
        """Count a step of the stage as done."""
        self._update(advance=1)

    def validating(self, files: int, engines: Sequence[str]) -> None:
        """Distinct contents that will be read back."""
        self.say(f"reading {counted(files, 'distinct output')} back with {', '.join(engines)}")
        self._begin(f"validating with {', '.join(engines)}", files)

    def validated(self, done: int, total: int, what: str) -> None:
        """Some readings are done."""
        self._update(completed=done, total=total or None, description=what)
        self._log_at_times(f"{what}: {done:,} of {total:,} readings done" if total else what)

    def _how_far(self) -> str:
        """Samples taken, time passed, and time left by the weights of the samples to come."""
        passed = self._clock() - self._began
        left = passed / self._weight_done * (self._weight - self._weight_done)
        text = f"{self._done:,} of {counted(self._of, 'sample')}, {_time(passed)} passed"
        return text if self._done == self._of else f"{text}, about {_time(left)} left"

    def _log(self, line: str) -> None:
        """Say a line where no line of progress is seen."""
        if not self._console.is_terminal:
            self.say(line)

    def _log_at_times(self, line: str) -> None:
        """Say a line there if none was for a while."""
        if self._clock() - self._said_at >= _SILENCE_SECONDS:
            self._log(line)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _weight(rows: int) -> float:
    return _PROCESS_SECONDS + rows * _SECONDS_PER_ROW
