"""Statistics of samples: medians with intervals, outliers, ratios of pairs. The replicate is the process.

Both kinds of intervals are exact for any number of samples: that of a median is of order statistics, that of
a ratio, taken block by block, of signed ranks (`rank_tests`). A ratio's interval leaves 1 out exactly where
its p is below 0.05.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special  # `stats` takes longer to load than most reports to make, and few need it

from spillway.harness.rank_tests import change_of_ratios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "CONFIDENCE",
    "FEWEST_FOR_INTERVAL",
    "FEWEST_FOR_OUTLIERS",
    "Estimate",
    "Ratio",
    "Trend",
    "estimate",
    "exact_value",
    "exceeds",
    "paired_ratio",
    "pooled_ratio",
    "trend",
]

CONFIDENCE = 0.95
FEWEST_FOR_INTERVAL = 6
"""From here on an interval of order statistics can cover the median with 95 %: 1 - 2 / 2**6 = 96.9 %."""
FEWEST_FOR_OUTLIERS = 5
"""With fewer samples no rule tells an outlier from a wide distribution."""

_FEWEST_TO_TELL_APART = 2
_POWER = 0.8
_OUTLIER = 3.5  # modified z: Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993)
_MAD_OF_NORMAL = 0.6745


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
        outliers: How many lie further from the median than 3.5 standard deviations, as the median absolute
            deviation estimates them; 0 with fewer than five samples, which cannot tell.
    """

    median: float
    low: float
    high: float
    coverage: float
    iqr: float
    minimum: float
    n: int
    outliers: int


@dataclass(frozen=True)
class Ratio(Estimate):
    """The ratio of two cells by the blocks that they share.

    The median is Hodges' and Lehmann's. With fewer than six blocks the interval is the whole range.

    Attributes:
        p: How likely a ratio as far from 1 would be without a difference: Wilcoxon's signed ranks, two-sided.
        least_effect: The least share by which the two would have to differ for so many blocks with so much
            noise to show it 8 times in 10, uncorrected for other pairs; infinite for one block.
    """

    p: float
    least_effect: float


@dataclass(frozen=True)
class Trend:
    """A straight line through samples.

    Attributes:
        change: The share by which the last differ from the first.
        p: How likely so steep a line would be without a trend.
    """

    change: float
    p: float


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
    return Estimate(
        median=float(np.median(ordered)),
        low=float(ordered[rank - 1]),
        high=float(ordered[n - rank]),
        coverage=1 - 2 * _chance_below(rank, n),
        iqr=float(upper - lower),
        minimum=float(ordered[0]),
        n=n,
        outliers=_outliers(ordered),
    )


def paired_ratio(above: Mapping[int, float], below: Mapping[int, float]) -> Ratio:
    """The ratio of two cells' positive samples, block by block: what drifts between blocks hits both alike.

    Args:
        above: Sample by block.
        below: Sample by block; blocks that only one of them has are left out.

    Raises:
        ValueError: They share no block.
    """
    return _ratio(tuple(above[block] / below[block] for block in sorted(above.keys() & below.keys())))


def pooled_ratio(pairs: Sequence[tuple[Mapping[int, float], Mapping[int, float]]]) -> Ratio | None:
    """The geometric mean of the ratios of several pairs of cells, block by block; None if no block is shared.

    Args:
        pairs: For each pair what `paired_ratio` takes.
    """
    blocks = [above.keys() & below.keys() for above, below in pairs]
    shared = sorted(set.intersection(*map(set, blocks))) if blocks else []
    if not shared:
        return None
    means = (math.fsum(math.log(above[block] / below[block]) for above, below in pairs) for block in shared)
    return _ratio(tuple(math.exp(total / len(pairs)) for total in means))


def exceeds(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Tell two cells apart by the blocks they share: True if the interval of one over the other is above 1.

    Where a sample is not positive there is no ratio: then the interval of one minus the other is above 0. One
    block tells nothing.

    Args:
        one: Sample by block.
        other: Sample by block.
    """
    shared = one.keys() & other.keys()
    if len(shared) < _FEWEST_TO_TELL_APART:
        return False
    if min(one[block] for block in shared) <= 0 or min(other[block] for block in shared) <= 0:
        return estimate([one[block] - other[block] for block in shared]).low > 0
    return paired_ratio(one, other).low > 1


def trend(places: Sequence[float], logarithms: Sequence[float]) -> Trend | None:
    """The trend of samples by their logarithms over places from 0 to 1; None where all places are one."""
    if len(set(places)) < _FEWEST_TO_TELL_APART or len(places) <= _FEWEST_TO_TELL_APART:
        return None
    from scipy import stats

    line = stats.linregress(places, logarithms)
    return Trend(math.exp(float(line.slope)) - 1, float(line.pvalue))


def exact_value(values: Sequence[int]) -> tuple[int, bool]:
    """The value of a metric that should not vary, and whether it did; of several the largest."""
    return max(values), len(set(values)) > 1


@lru_cache(maxsize=4096)
def _ratio(ratios: tuple[float, ...]) -> Ratio:
    plain = estimate(ratios)
    changed = change_of_ratios(ratios)
    has_interval = plain.n >= FEWEST_FOR_INTERVAL
    return Ratio(
        median=changed.ratio,
        low=changed.low if has_interval else min(plain.low, changed.ratio),
        high=changed.high if has_interval else max(plain.high, changed.ratio),
        coverage=changed.coverage if has_interval else plain.coverage,
        iqr=plain.iqr,
        minimum=plain.minimum,
        n=plain.n,
        outliers=plain.outliers,
        p=changed.p,
        least_effect=_least_effect(np.log(np.asarray(ratios))),
    )


def _least_effect(logs: NDArray[np.float64]) -> float:
    """The effect that a paired t-test of these samples' number and spread finds with a power of 0.8."""
    n = len(logs)
    if n < _FEWEST_TO_TELL_APART:
        return math.inf
    reach = special.stdtrit(n - 1, 1 - (1 - CONFIDENCE) / 2) + special.stdtrit(n - 1, _POWER)
    exponent = float(reach * np.std(logs, ddof=1) / math.sqrt(n))
    return math.expm1(exponent) if exponent < 1 else math.inf


def _outliers(ordered: NDArray[np.float64]) -> int:
    if len(ordered) < FEWEST_FOR_OUTLIERS:
        return 0
    distances = np.abs(ordered - np.median(ordered))
    spread = float(np.median(distances))
    if spread == 0:
        return int((distances > 0).sum())
    return int((_MAD_OF_NORMAL * distances / spread > _OUTLIER).sum())


@cache
def _rank(n: int) -> int:
    """The r for which the r-th smallest and r-th largest samples enclose the median often enough; else 1."""
    rank = 1
    while 2 * (rank + 1) <= n and 2 * _chance_below(rank + 1, n) <= 1 - CONFIDENCE:
        rank += 1
    return rank


def _chance_below(rank: int, n: int) -> float:
    """The chance that fewer than `rank` of `n` samples lie below the median."""
    return float(special.bdtr(rank - 1, n, 0.5))
