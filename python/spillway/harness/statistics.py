"""Statistics of a cell's samples: median, its interval, spread, outliers. The replicate is the process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CONFIDENCE",
    "FEWEST_FOR_INTERVAL",
    "Estimate",
    "estimate",
    "exact_value",
    "exceeds",
    "paired_ratio",
]

CONFIDENCE = 0.95
FEWEST_FOR_INTERVAL = 6
"""From here on an interval of order statistics can cover the median with 95 %: 1 - 2 / 2**6 = 96.9 %."""

_FEWEST_TO_TELL_APART = 2
_FENCE = 1.5  # of the interquartile range, beyond the quartiles: Tukey's outliers


@dataclass(frozen=True)
class Estimate:
    """The median of a cell's samples and how sure it is.

    Attributes:
        median: Of all samples; no outlier is dropped.
        low: Lower end of the interval.
        high: Upper end of the interval.
        coverage: How likely the interval covers the true median, whatever the distribution. At least 0.95
            from six samples on; with fewer the interval is the whole range, and covers what it can.
        iqr: Interquartile range.
        minimum: The smallest sample.
        n: Number of samples.
        outliers: How many lie beyond 1.5 interquartile ranges of the quartiles.
    """

    median: float
    low: float
    high: float
    coverage: float
    iqr: float
    minimum: float
    n: int
    outliers: int


def estimate(values: Sequence[float]) -> Estimate:
    """Summarise at least one sample.

    Raises:
        ValueError: There are none.
    """
    if not values:
        raise ValueError("no samples to summarise")
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    rank = _rank(n)
    lower, upper = np.percentile(ordered, [25, 75])
    fence = _FENCE * (upper - lower)
    outside = (ordered < lower - fence) | (ordered > upper + fence)
    return Estimate(
        median=float(np.median(ordered)),
        low=float(ordered[rank - 1]),
        high=float(ordered[n - rank]),
        coverage=float(1 - 2 * binom.cdf(rank - 1, n, 0.5)),
        iqr=float(upper - lower),
        minimum=float(ordered[0]),
        n=n,
        outliers=int(outside.sum()),
    )


def paired_ratio(above: Mapping[int, float], below: Mapping[int, float]) -> Estimate:
    """The ratio of two cells' samples, block by block: what drifts between blocks hits both alike.

    Args:
        above: Sample by block.
        below: Sample by block; blocks that only one of them has are left out.

    Raises:
        ValueError: They share no block.
    """
    return estimate([above[block] / below[block] for block in sorted(above.keys() & below.keys())])


def exceeds(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Tell two cells apart by the blocks they share: True if the interval of one minus other lies above 0.

    For positive samples that is the same as an interval of `paired_ratio` above 1. One block tells nothing.

    Args:
        one: Sample by block.
        other: Sample by block.
    """
    shared = one.keys() & other.keys()
    if len(shared) < _FEWEST_TO_TELL_APART:
        return False
    return estimate([one[block] - other[block] for block in shared]).low > 0


def exact_value(values: Sequence[int]) -> tuple[int, bool]:
    """The value of a metric that should not vary, and whether it did; of several the largest."""
    return max(values), len(set(values)) > 1


def _rank(n: int) -> int:
    """The r for which the r-th smallest and r-th largest samples enclose the median often enough; else 1."""
    rank = 1
    while 2 * (rank + 1) <= n and 2 * binom.cdf(rank, n, 0.5) <= 1 - CONFIDENCE:
        rank += 1
    return rank
