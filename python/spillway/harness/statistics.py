"""Statistics of samples: medians with intervals, outliers, ratios of pairs. The replicate is the process.

The interval of a median is of order statistics. Of samples in pairs the estimate is the median of the Walsh
averages and the test Wilcoxon's signed ranks; of others the median of all differences and the test of Mann
and Whitney. Interval and test are two readings of one distribution, exact for any number of samples: the
interval of 95 % excludes 1 exactly when p is below 0.05. All of it is done on logarithms, so that it is
about ratios. Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

ALPHA = 0.05
"""A change is significant if its p, corrected for all comparisons, is below this."""


@dataclass(frozen=True)
class Change:
    """The ratio of new samples to old ones.

    Attributes:
        ratio: The estimate; above 1 the new ones are larger.
        low: Lower end of the interval of 95 %, 0 where samples are too few.
        high: Upper end of it, infinity where samples are too few.
        p: The probability of a ratio as far from 1 if there were no change; two-sided.
        n: Samples of each: pairs, or old and new ones.
        is_paired: The samples are pairs.
        coverage: The chance that the interval covers the true ratio: at least 0.95.
    """

    ratio: float
    low: float
    high: float
    p: float
    n: tuple[int, int]
    is_paired: bool
    coverage: float = 1.0


def change_of_pairs(old: Mapping[int, float], new: Mapping[int, float]) -> Change | None:
    """The change between samples of the same blocks; None where they share no block.

    Args:
        old: A positive sample by block.
        new: A positive sample by block; blocks that only one of them has are left out.
    """
    shared = sorted(old.keys() & new.keys())
    if not shared:
        return None
    return change_of_ratios([new[block] / old[block] for block in shared])


def change_of_ratios(ratios: Sequence[float]) -> Change:
    """The change by the ratio of each pair, new to old, of at least one."""
    logs, n = np.log(ratios), len(ratios)
    first, second = np.triu_indices(n)
    averages = np.sort((logs[first] + logs[second]) / 2)
    return _change(averages, _signed_ranks(n), (n, n), is_paired=True)


def change_of_runs(old: Sequence[float], new: Sequence[float]) -> Change | None:
    """The change between unpaired positive samples; None if either side is empty."""
    if not old or not new:
        return None
    differences = np.sort(np.subtract.outer(np.log(new), np.log(old)).ravel())
    return _change(differences, _rank_sums(len(old), len(new)), (len(old), len(new)), is_paired=False)


def holm(p_values: Sequence[float]) -> list[float]:
    """Values of p corrected for their number, after Holm: one false call in all stays as unlikely."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [1.0] * len(p_values)
    highest = 0.0
    for place, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - place)))
        corrected[index] = highest
    return corrected


def least_p(n: tuple[int, int], *, is_paired: bool) -> float:
    """The smallest p that samples of these sizes can reach."""
    return 2 / 2 ** n[0] if is_paired else 2 / comb(n[0] + n[1], n[0])


def p_of_more(old: tuple[int, int], new: tuple[int, int]) -> float:
    """The chance of as many events in the new trials if they were no likelier than in the old; one-sided.

    Fisher's exact test: Statistical Methods for Research Workers, 5th edition (1934), section 21.02.

    Args:
        old: Events and trials before.
        new: Events and trials now.
    """
    events, trials = old[0] + new[0], old[1] + new[1]
    ways = (comb(new[1], k) * comb(old[1], events - k) for k in range(new[0], min(events, new[1]) + 1))
    return sum(ways) / comb(trials, events)


def _change(
    ordered: NDArray[np.float64], chances: NDArray[np.float64], n: tuple[int, int], *, is_paired: bool
) -> Change:
    """The change by the ordered averages or differences, of which the statistic counts those above 0.

    Args:
        ordered: The averages or differences.
        chances: The chance of each count, from 0 to all of them, if there is no change.
        n: The numbers of samples.
        is_paired: They are pairs.
    """
    below = np.cumsum(chances)
    # Ties with no change count half, rounded towards no change.
    above, under = int((ordered > 0).sum()), int((ordered < 0).sum())
    p = min(1.0, 2 * float(below[len(ordered) - max(above, under)]))
    # The order statistics beyond the interval at each end: with them, a tail has at most 2.5 %.
    out = int((below <= ALPHA / 2).sum())
    low, high = (-np.inf, np.inf) if out == 0 else (ordered[out - 1], ordered[len(ordered) - out])
    ratio, low, high = (float(np.exp(each)) for each in (np.median(ordered), low, high))
    coverage = 1 - 2 * float(below[out - 1]) if out else 1.0
    return Change(ratio, low, high, p, n, is_paired, coverage)


@cache
def _signed_ranks(n: int) -> NDArray[np.float64]:
    """The chances of each sum of positive ranks, of `n` signs that are tossed."""
    ways = np.ones(1)
    for rank in range(1, n + 1):
        ways = np.convolve(ways, np.concatenate([[1.0], np.zeros(rank - 1), [1.0]])) / 2
    return ways


@cache
def _rank_sums(old: int, new: int) -> NDArray[np.float64]:
    """The chances of each number of pairs in which the new sample is the larger one."""
    # The number of ways is the Gaussian binomial coefficient: a product of (1 - q^k), divided by another one.
    ways = np.ones(1, dtype=object)
    for k in range(1, new + 1):
        ways = _divided(np.convolve(ways, _one_minus_power(old + k)), k)
    return np.array([float(each / comb(old + new, new)) for each in ways])


def _one_minus_power(k: int) -> NDArray[np.object_]:
    found = np.zeros(k + 1, dtype=object)
    found[0], found[k] = 1, -1
    return found


def _divided(ways: NDArray[np.object_], k: int) -> NDArray[np.object_]:
    """A polynomial divided by (1 - q^k), which divides it."""
    found = ways.copy()
    for place in range(k, len(found)):
        found[place] += found[place - k]
    return found[: len(found) - k]


CONFIDENCE = 0.95
FEWEST_FOR_INTERVAL = 6
"""From here on an interval of order statistics can cover the median with 95 %: 1 - 2 / 2**6 = 96.9 %."""
FEWEST_FOR_OUTLIERS = 5
"""With fewer samples, no rule can distinguish an outlier from a wide distribution."""

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
            deviation estimates them; 0 with fewer than five samples, which are too few.
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
        least_effect: The smallest share by which the two would have to differ for this number of blocks, with
            their noise, to show it 8 times in 10, uncorrected for other pairs; infinite for one block.
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
        ValueError: `values` is empty.
    """
    if not values:
        raise ValueError("no samples to summarise")
    return _estimate(tuple(values))


def estimate_of(
    records: Sequence[dict[str, Any]], metric: Callable[[dict[str, Any]], float | None]
) -> Estimate | None:
    """The estimate of a metric over the records that have it; None where none has."""
    values = [value for record in records if (value := metric(record)) is not None]
    return estimate(values) if values else None


# Several tables of a report show the same cell.
@lru_cache(maxsize=4096)
def _estimate(values: tuple[float, ...]) -> Estimate:
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
        ValueError: No block has a sample of both cells.
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

    If a sample is not positive, there is no ratio; instead, the interval of the difference is above 0. One
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


def trend(places: Sequence[float], logarithms: Sequence[float], *factors: Sequence[Hashable]) -> Trend | None:
    """The trend of samples by their logarithms over places from 0 to 1, by ordinary least squares.

    Args:
        places: The place of each sample.
        logarithms: The logarithm of each sample.
        *factors: For each sample the level of something else that it depends on, as its cell or its block.
            Each level has a mean of its own, which costs a degree of freedom.

    Returns:
        The trend; None where the samples do not tell one from the factors and chance.
    """
    if len(set(places)) < _FEWEST_TO_TELL_APART:
        return None
    levels = [np.asarray(places)[:, None], *map(_indicators, factors)]
    others = np.column_stack([np.ones(len(places)), *levels[1:]])
    design = np.column_stack([levels[0], others])
    rank = int(np.linalg.matrix_rank(design))
    freedom = len(places) - rank
    if freedom < 1 or rank == np.linalg.matrix_rank(others):
        return None
    fit = np.linalg.lstsq(design, np.asarray(logarithms), rcond=None)[0]
    # What of the places the factors do not explain, which is all that the slope is told from.
    own = design[:, 0] - others @ np.linalg.lstsq(others, design[:, 0], rcond=None)[0]
    residual = np.asarray(logarithms) - design @ fit
    error = math.sqrt(float(residual @ residual) / freedom / float(own @ own))
    slope = float(fit[0])
    p = 2 * float(special.stdtr(freedom, -abs(slope) / error)) if error else float(slope == 0)
    return Trend(math.exp(slope) - 1, p)


def _indicators(factor: Sequence[Hashable]) -> NDArray[np.float64]:
    """A column for each level but the first: 1 where a sample has it."""
    levels = {level: place for place, level in enumerate(dict.fromkeys(factor))}
    return np.eye(len(levels))[[levels[level] for level in factor]][:, 1:]


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
