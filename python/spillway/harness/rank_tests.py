"""Changes between two lots of samples by their ranks: exact for few samples, of any distribution.

Of samples in pairs the estimate is the median of the Walsh averages and the test Wilcoxon's signed ranks; of
others the median of all differences and the test of Mann and Whitney. Interval and test are two readings of
one distribution: the interval of 95 % leaves 1 out exactly where p is below 0.05. All of it is done on
logarithms, so that it is about ratios. Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ALPHA", "Change", "change_of_pairs", "change_of_ratios", "change_of_runs", "holm", "least_p"]

ALPHA = 0.05
"""A change counts as told from none where its p, corrected for all that is compared, is below."""


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
    """The change between positive samples that are no pairs; None where there are none."""
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
    """The least p that so many samples can have."""
    return 2 / 2 ** n[0] if is_paired else 2 / comb(n[0] + n[1], n[0])


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
    # The most counts in a tail of at most 2.5 %: so many ends are left out on each side.
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
