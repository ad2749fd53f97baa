"""The statistics against known values and simulated coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.harness.statistics import estimate, exact_value, paired_ratio

samples = st.lists(st.floats(min_value=1e-6, max_value=1e9), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("n", "rank", "coverage"),
    [
        (2, 1, 0.5),
        (3, 1, 0.75),
        (5, 1, 0.9375),
        (6, 1, 0.96875),
        (9, 2, 0.9609),
        (12, 3, 0.9614),
        (20, 6, 0.9586),
    ],
)
def test_the_interval_is_that_of_the_tables(n, rank, coverage):
    found = estimate([float(value) for value in range(1, n + 1)])
    assert (found.low, found.high) == (rank, n + 1 - rank)
    assert found.coverage == pytest.approx(coverage, abs=1e-3)


@pytest.mark.parametrize("n", [6, 12, 25])
def test_the_interval_covers_the_median_as_often_as_it_says(n):
    draws = np.random.default_rng(7).lognormal(size=(4000, n))
    covered = 0
    for draw in draws:
        found = estimate(draw.tolist())
        covered += found.low <= 1.0 <= found.high  # the median of a standard log-normal
    assert covered / len(draws) == pytest.approx(found.coverage, abs=0.015)
    assert found.coverage >= 0.95


@given(samples)
def test_the_interval_encloses_the_median_and_lies_in_the_range(values):
    found = estimate(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert found.minimum == min(values)
    assert found.n == len(values)


@given(samples, st.randoms())
def test_the_order_of_samples_says_nothing(values, order):
    shuffled = values.copy()
    order.shuffle(shuffled)
    assert estimate(shuffled) == estimate(values)


def test_an_outlier_is_flagged_and_kept():
    found = estimate([10.0, 10.1, 10.2, 9.9, 10.0, 10.1, 50.0])
    assert found.outliers == 1
    assert found.high == 50.0 or found.n == 7


def test_one_sample_has_no_interval():
    assert estimate([5.0]).coverage == 0


def test_no_sample_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        estimate([])


def test_a_ratio_is_taken_within_each_block():
    drift = {block: 1.5**block for block in range(9)}
    found = paired_ratio({block: 3 * value for block, value in drift.items()}, drift)
    assert (found.median, found.low, found.high, found.n) == (3, 3, 3, 9)


def test_blocks_that_one_of_two_lacks_are_left_out():
    assert paired_ratio({0: 2.0, 1: 8.0}, {1: 4.0, 2: 1.0}).median == 2
    with pytest.raises(ValueError, match="no samples"):
        paired_ratio({0: 1.0}, {1: 1.0})


def test_an_exact_metric_that_varies_says_so():
    assert exact_value([3, 3, 3]) == (3, False)
    assert exact_value([3, 4]) == (4, True)
