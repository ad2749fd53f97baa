"""Crossovers: the number of rows from which on one writer is faster than another, with its interval.

Between two measured numbers of rows the logarithm of the ratio is taken to be a straight line over the
logarithm of the rows. The interval resamples blocks, each with all its numbers of rows, since what slows one
slows all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spillway.bench.plan import base_of
from spillway.bench.summary import speed
from spillway.bench.tables import setting_title
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import CONFIDENCE, FEWEST_FOR_INTERVAL, middle_of_logs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from spillway.bench.summary import CellSummary, RunSummary, Setting

__all__ = ["CROSSOVER_LEGEND", "Crossover", "crossover_of", "crossover_table", "crossover_text"]

CROSSOVER_LEGEND = (
    "A *crossover* is the number of rows from which on, as far as it was measured, one backend is faster "
    "than the other, on a straight line between two measured numbers; in brackets its 95 % interval by "
    "resampled blocks, with fewer than six blocks the whole range. An end with < or > lies outside what was "
    "measured, and `~` stands where both do."
)
"""The meaning of the entries of `crossover_table`."""

_RESAMPLES = 999
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
    above, below = (
        {each.cell.rows: each.by_block(speed) for each in cells if each.is_right} for cells in (one, other)
    )
    counts = sorted(above.keys() & below.keys())
    logs = _log_ratios([above[rows] for rows in counts], [below[rows] for rows in counts])
    if len(counts) < _FEWEST_COUNTS or not logs.size or (logs > 0).all() or (logs < 0).all():
        return None
    places = np.log(np.asarray(counts, dtype=float))
    ratios = middle_of_logs(logs)
    direction = 1.0 if ratios[-1] > 0 else -1.0
    found = _crossings(places, direction * ratios[:, np.newaxis])[0]
    if not math.isfinite(found):
        return None
    low, high = _interval(places, direction * logs)
    names = (one[0].cell.backend, other[0].cell.backend)
    leader, loser = names if direction > 0 else names[::-1]
    measured = (counts[0], counts[-1])
    return Crossover(leader, loser, math.exp(found), _counts_of(low), _counts_of(high), measured)


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
        ("faster", "than", "from so many rows on"),
        rows,
        [],
    )


def crossover_text(found: Crossover) -> str:
    """A crossover with its interval: "61,200 [48,000, 75,300]"; `~` where that is all that was measured."""
    least, most = found.measured
    low = f"< {least:,}" if found.low < least else _rows(found.low)
    high = f"> {most:,}" if found.high > most else _rows(found.high)
    return "~" if low.startswith("<") and high.startswith(">") else f"{_rows(found.rows)} [{low}, {high}]"


def _counts_of(place: float) -> float:
    """The rows at a place on the axis of logarithms, whose ends are 0 and infinity."""
    return math.exp(place) if math.isfinite(place) else max(0.0, place)


def _rows(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"


def _log_ratios(
    above: Sequence[Mapping[int, float]], below: Sequence[Mapping[int, float]]
) -> NDArray[np.float64]:
    """Logarithms of the ratios, rows by blocks, of the blocks that all cells share."""
    shared = sorted(set.intersection(*(set(each) for each in (*above, *below)))) if above else []
    ratios = [
        [one[block] / other[block] for block in shared] for one, other in zip(above, below, strict=True)
    ]
    logs: NDArray[np.float64] = np.log(np.asarray(ratios, dtype=float))
    return logs


def _interval(places: NDArray[np.float64], logs: NDArray[np.float64]) -> tuple[float, float]:
    """The ends of the interval, as logarithms: infinite outside what was measured."""
    blocks = logs.shape[1]
    if blocks < FEWEST_FOR_INTERVAL:
        found = _crossings(places, logs)
        return float(found.min()), float(found.max())
    drawn = np.random.default_rng(0).integers(blocks, size=(_RESAMPLES, blocks))
    found = _crossings(places, middle_of_logs(logs[:, drawn]))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def _crossings(places: NDArray[np.float64], logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place from which on each column stays above 0: -inf if it is never below, inf if it ends there."""
    count, columns = logs.shape
    is_behind = logs <= 0
    last = count - 1 - np.argmax(is_behind[::-1], axis=0)  # the last place at which it is behind
    column = np.arange(columns)
    before, after = logs[last, column], logs[np.minimum(last + 1, count - 1), column]
    with np.errstate(invalid="ignore", divide="ignore"):  # of columns that do not cross
        share = before / (before - after)
        between = places[last] + share * (places[np.minimum(last + 1, count - 1)] - places[last])
    found = np.where(is_behind[-1], np.inf, between)
    starts: NDArray[np.float64] = np.where(is_behind.any(axis=0), found, -np.inf)
    return starts
