"""The end of a run whose samples are not counted beforehand: a precision decided before looking, or a budget.

The rule looks at how wide intervals are and never at where they lie, so that it favours no result.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from spillway.bench.plan import Cell
from spillway.harness.statistics import FEWEST_FOR_INTERVAL, estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spillway.bench.plan import Options

__all__ = ["StoppingRule", "imprecise_cells"]


class StoppingRule:
    """Tells between blocks whether another one is wanted.

    Args:
        options: The options of the run, with the precision and the budget.
        clock: Seconds that pass.
    """

    def __init__(self, options: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self._precision = options.precision
        self._clock = clock
        self._end = clock() + 60 * options.budget_minutes

    def ends_here(self, samples: Iterable[dict[str, Any]]) -> str | None:
        """The reason to take no further block after these samples; None to go on."""
        if self._precision is None:
            return None
        if self._clock() >= self._end:
            return "the budget of minutes is over"
        taken = list(samples)
        if imprecise_cells(taken, self._precision):
            return None
        if not any(sample["outcome"] == "ok" for sample in taken):
            return "no cell ended well"
        return f"every cell is within {self._precision:.1%}"


def imprecise_cells(samples: Iterable[dict[str, Any]], precision: float) -> list[Cell]:
    """The cells whose interval of the median speed reaches further than `precision`, or is not there yet.

    A cell that never ended well has no speed to be precise about.
    """
    speeds: dict[Cell, list[float]] = defaultdict(list)
    for sample in samples:
        if sample["outcome"] == "ok":
            speeds[Cell(**sample["cell"])].append(float(sample["throughput"]["rows_per_second"]))
    return [cell for cell, found in speeds.items() if not _is_precise(found, precision)]


def _is_precise(speeds: Sequence[float], precision: float) -> bool:
    found = estimate(speeds)
    reach = max(found.high - found.median, found.median - found.low)
    return found.n >= FEWEST_FOR_INTERVAL and reach <= precision * found.median
