"""Crossovers: the number of rows from which on one writer is faster than another, with its interval.

Between two measured numbers of rows the logarithm of the ratio is taken to be a straight line over the
logarithm of the rows. The ends of the interval are where the same lines through the ends of the ratios'
intervals cross 1. The estimate of a ratio lies between those ends at each number of rows, so that its line
lies between theirs, and the crossover within its interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.bench.plan import base_of
from spillway.bench.ranking import ratio
from spillway.bench.summary import speed
from spillway.bench.tables import setting_title
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.summary import CellSummary, RunSummary, Setting

__all__ = ["CROSSOVER_LEGEND", "Crossover", "crossover_of", "crossover_table", "crossover_text"]

CROSSOVER_LEGEND = (
    "A *crossover* is the number of rows from which on, as far as it was measured, one backend is faster "
    "than the other, on a straight line between two measured numbers; in brackets where the ends of the "
    "ratios' intervals cross. An end with < or > lies outside what was measured, and `~` stands where "
    "both do."
)
"""The meaning of the entries of `crossover_table`."""

_FEWEST_COUNTS = 2


@dataclass(frozen=True)
class Crossover:
    """The rows from which on one backend leads another.

    Attributes:
        leader: The backend that leads from there on.
        other: The one that leads before.
        rows: The estimate.
        low: Lower end of its interval; 0 where it lies below all measured rows.
        high: Upper end; infinite where it lies above them.
        measured: The least and the most rows that were measured.
    """

    leader: str
    other: str
    rows: float
    low: float
    high: float
    measured: tuple[int, int]


def crossover_of(one: Sequence[CellSummary], other: Sequence[CellSummary]) -> Crossover | None:
    """The crossover of two backends by their cells of one setting; None where the same leads at all rows.

    Args:
        one: The cells of one of them, each of another number of rows.
        other: Those of the other.
    """
    others = {each.cell.rows: each for each in other if each.is_right}
    pairs = [(each, others[each.cell.rows]) for each in one if each.is_right and each.cell.rows in others]
    found = {each.cell.rows: over for each, beside in pairs if (over := ratio(each, beside, speed))}
    if len(found) < _FEWEST_COUNTS:
        return None
    counts = sorted(found)
    leads = found[counts[-1]].median > 1
    ends = [
        (each.low, each.median, each.high) if leads else (1 / each.high, 1 / each.median, 1 / each.low)
        for each in (found[rows] for rows in counts)
    ]
    high, rows, low = (_crossing(counts, line) for line in zip(*ends, strict=True))
    if not 0 < rows < math.inf:
        return None
    names = (one[0].cell.backend, other[0].cell.backend)
    leader, loser = names if leads else names[::-1]
    # Ends that are equal to the estimate may differ from it by how they were rounded.
    return Crossover(leader, loser, rows, min(low, rows), max(high, rows), (counts[0], counts[-1]))


def crossover_table(run: RunSummary, setting: Setting) -> Table | None:
    """The crossovers of the run's base with each other backend of a setting; None without any."""
    by_backend: dict[str, list[CellSummary]] = {}
    for each in run.of(setting):
        by_backend.setdefault(each.cell.backend, []).append(each)
    base = base_of(each.cell.backend for each in run.cells)
    own = by_backend.pop(str(base), None)
    if own is None:
        return None
    met = (crossover_of(own, cells) for cells in by_backend.values())
    rows = [
        [Entry(each.leader), Entry(each.other), Entry(crossover_text(each))]
        for each in met
        if each is not None
    ]
    if not rows:
        return None
    return Table(
        f"Crossovers with {base}: {setting_title(setting)}",
        ("backend", "faster than", "from rows"),
        rows,
        [],
    )


def crossover_text(found: Crossover) -> str:
    """A crossover with its interval: "61,200 [48,000, 75,300]"; `~` where that is all that was measured."""
    least, most = found.measured
    low = f"< {least:,}" if found.low < least else _rows(found.low)
    high = f"> {most:,}" if found.high > most else _rows(found.high)
    return "~" if low.startswith("<") and high.startswith(">") else f"{_rows(found.rows)} [{low}, {high}]"


def _rows(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"


def _crossing(counts: Sequence[int], ratios: Sequence[float]) -> float:
    """The rows from which on a line of ratios stays above 1: 0 if it always is, infinite if it ends below."""
    behind = [place for place, each in enumerate(ratios) if each <= 1]
    if not behind:
        return 0.0
    last = behind[-1]
    if last == len(counts) - 1:
        return math.inf
    before, after = math.log(ratios[last]), math.log(ratios[last + 1])
    share = before / (before - after)
    return math.exp((1 - share) * math.log(counts[last]) + share * math.log(counts[last + 1]))
