"""The writers of one setting at one number of rows, the fastest first, and those that samples tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from spillway.backends import OWN_LIBRARY, library
from spillway.bench.summary import speed
from spillway.harness.statistics import exceeds, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.summary import CellSummary, Metric, RunSummary, Setting
    from spillway.harness.statistics import Ratio

__all__ = ["Ranking", "indistinct", "rankings"]

_FEWEST_FOR_WINNER = 2


@dataclass(frozen=True)
class Ranking:
    """The cells of one setting at one number of rows.

    Attributes:
        setting: The setting.
        rows: The number of rows.
        cells: All cells: those that wrote the right rows by speed, then the others by speed, then those
            without one.
    """

    setting: Setting
    rows: int
    cells: Sequence[CellSummary]

    @cached_property
    def right(self) -> list[CellSummary]:
        """The cells that compete: every sample ended well and no reader found a file wrong."""
        return [each for each in self.cells if each.is_right]

    @property
    def best(self) -> CellSummary | None:
        """The fastest of them by its median, which need not be a winner."""
        return self.right[0] if self.right else None

    @property
    def others(self) -> list[CellSummary]:
        """The other competitors, the next fastest first."""
        return self.right[1:]

    @cached_property
    def rivals(self) -> list[CellSummary]:
        """The competitors of other libraries than the fastest one's; of one library alone, all others."""
        return [each for each in self.others if not self._is_of(self.best, each)] or self.others

    @cached_property
    def siblings(self) -> list[CellSummary]:
        """The other settings of the fastest one's library, where other libraries compete too."""
        return [each for each in self.others if each not in self.rivals]

    @property
    def reference(self) -> CellSummary | None:
        """The fastest of another library than our own, or than the fastest's where ours does not compete.

        Of one library alone, the second.
        """
        own = [each for each in self.right if library(each.cell.backend) == OWN_LIBRARY]
        base = own[0] if own else self.best
        peers = [each for each in self.right if not self._is_of(base, each)]
        return next(iter([*peers, *self.others]), None)

    @staticmethod
    def _is_of(one: CellSummary | None, other: CellSummary) -> bool:
        return one is not None and library(one.cell.backend) == library(other.cell.backend)

    @cached_property
    def level(self) -> list[CellSummary]:
        """The competitors that the samples cannot tell from the fastest, each by its own interval of 95 %."""
        marks = indistinct(self.right, speed, 1)
        return [each for each, marked in zip(self.others, marks[1:], strict=True) if marked]

    @property
    def has_winner(self) -> bool:
        """True if the samples tell the fastest from all rivals: never on one sample."""
        if self.best is None or not self.others or any(each in self.rivals for each in self.level):
            return False
        return len(self.best.good) >= _FEWEST_FOR_WINNER

    def over(self, other: CellSummary, metric: Metric = speed) -> Ratio | None:
        """The ratio of the fastest to another by a metric, block by block."""
        return None if self.best is None else ratio(self.best, other, metric)


def rankings(run: RunSummary, setting: Setting) -> list[Ranking]:
    """The rankings of a setting, that of the most rows first."""
    cells = run.of(setting)
    counts = sorted({each.cell.rows for each in cells}, reverse=True)
    return [
        Ranking(setting, rows, sorted((each for each in cells if each.cell.rows == rows), key=_place))
        for rows in counts
    ]


def _place(cell: CellSummary) -> tuple[bool, bool, float]:
    found = cell.rows_per_second
    return (not cell.is_right, found is None, 0.0 if found is None else -found.median)


def ratio(above: CellSummary, below: CellSummary, metric: Metric) -> Ratio | None:
    """The ratio of two cells by a metric, block by block; None if no block has positive ones of both."""
    over, under = (
        {block: value for block, value in each.by_block(metric).items() if value > 0}
        for each in (above, below)
    )
    return paired_ratio(over, under) if over.keys() & under.keys() else None


def indistinct(cells: Sequence[CellSummary], metric: Metric, direction: int) -> list[bool]:
    """Marks on the best cell by a metric and on all that cannot be told from it; none if it has one sample.

    Args:
        cells: The cells that are compared.
        metric: The metric.
        direction: 1 if more of it is better, -1 if less is.
    """
    values = {place: each.by_block(metric) for place, each in enumerate(cells) if each.is_right}
    known = {place: blocks for place, blocks in values.items() if blocks}
    best = max(known, key=lambda place: direction * median(known[place].values()), default=None)
    if best is None or len(known[best]) < _FEWEST_FOR_WINNER:
        return [False] * len(cells)
    return [
        place == best or (place in known and not _is_better(known[best], known[place], direction))
        for place in range(len(cells))
    ]


def _is_better(one: dict[int, float], other: dict[int, float], direction: int) -> bool:
    return exceeds(one, other) if direction > 0 else exceeds(other, one)
