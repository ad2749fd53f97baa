"""The statistics against known values and simulated coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from spillway.harness.statistics import (
    ALPHA,
    change_of_pairs,
    estimate,
    exact_value,
    exceeds,
    p_of_more,
    paired_ratio,
    pooled_ratio,
    trend,
)

from ..counts import count

DRAWS = count(quick=1000, ci=1000, soak=4000)
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
    draws = np.random.default_rng(7).lognormal(size=(DRAWS, n))
    covered = 0
    for draw in draws:
        found = estimate(draw.tolist())
        covered += found.low <= 1.0 <= found.high  # the median of a standard log-normal
    assert covered / len(draws) == pytest.approx(found.coverage, abs=0.95 / DRAWS**0.5)
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


@pytest.mark.parametrize(
    ("values", "outliers"),
    [
        ([10.0, 10.1, 10.2, 9.9, 10.0, 10.1, 50.0], 1),
        ([10.0, 10.1, 9.9, 10.2, 50.0], 1),
        ([10.0, 10.1, 9.9, 10.2, 10.3], 0),
        ([7.0, 7.0, 7.0, 7.0, 7.1], 1),
        ([10.0, 10.1, 9.9, 50.0], 0),
    ],
)
def test_an_outlier_is_flagged_from_five_samples_on_and_kept(values, outliers):
    found = estimate(values)
    assert found.outliers == outliers
    assert found.n == len(values)


def test_one_sample_has_no_interval():
    assert estimate([5.0]).coverage == 0


def test_no_sample_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        estimate([])


def test_a_ratio_is_taken_within_each_block():
    drift = {block: 1.5**block for block in range(9)}
    found = paired_ratio({block: 3 * value for block, value in drift.items()}, drift)
    assert (found.median, found.low, found.high) == (pytest.approx(3),) * 3
    assert found.n == 9


def test_blocks_that_one_of_two_lacks_are_left_out():
    assert paired_ratio({0: 2.0, 1: 8.0}, {1: 4.0, 2: 1.0}).median == 2
    with pytest.raises(ValueError, match="no samples"):
        paired_ratio({0: 1.0}, {1: 1.0})


def test_an_exact_metric_that_varies_says_so():
    assert exact_value([3, 3, 3]) == (3, False)
    assert exact_value([3, 4]) == (4, True)


PAIRS = count(quick=40, ci=80, soak=4000)
NOISES = {
    "normal": lambda draw, shape: draw.normal(0, 0.01, shape),
    "heavy tails": lambda draw, shape: 0.008 * draw.standard_t(3, shape),
    "disturbed": lambda draw, shape: (
        draw.normal(0, 0.008, shape) + (draw.random(shape) < 0.1) * draw.exponential(0.06, shape)
    ),
}


def pairs(noise, effect, number=PAIRS):
    """Twelve samples of two cells each, of which the second is faster by `effect`."""
    draw = np.random.default_rng(5)
    for _ in range(number):
        first, second = (np.exp(NOISES[noise](draw, 12)) for _ in range(2))
        yield dict(enumerate(first * (1 + effect))), dict(enumerate(second))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("effect", [0, 0.02, 0.05])
def test_the_interval_of_a_ratio_covers_it_as_often_as_it_says(noise, effect):
    found = [paired_ratio(*pair) for pair in pairs(noise, effect)]
    covered = sum(each.low <= 1 + effect <= each.high for each in found) / len(found)
    assert covered >= 0.95 - 3 * (0.05 * 0.95 / PAIRS) ** 0.5


@pytest.mark.parametrize(("effect", "least"), [(0.02, 0.8), (0.05, 1)])
def test_an_effect_is_found_by_twelve_samples_of_one_per_cent_noise(effect, least):
    found = [exceeds(*pair) for pair in pairs("normal", effect, min(PAIRS, 100))]
    assert sum(found) >= least * len(found)


def test_the_least_effect_is_found_eight_times_in_ten():
    at_once = np.median([paired_ratio(*pair).least_effect for pair in pairs("normal", 0)])
    found = [exceeds(*pair) for pair in pairs("normal", at_once)]
    assert sum(found) / len(found) == pytest.approx(0.8, abs=0.08 + 1.3 / PAIRS**0.5)


@given(st.lists(st.tuples(*[st.floats(1e-3, 1e3)] * 2), min_size=6, max_size=14))
def test_an_interval_leaves_1_out_where_p_is_below_5_percent(samples):
    above, below = ({block: pair[place] for block, pair in enumerate(samples)} for place in (0, 1))
    found = paired_ratio(above, below)
    assert (found.p <= ALPHA) == (not found.low <= 1 <= found.high)
    changed = change_of_pairs(below, above)
    assert (changed.ratio, changed.low, changed.high) == (found.median, found.low, found.high)
    assert 0.95 <= found.coverage < 1


@given(st.lists(st.tuples(*[st.floats(1e-3, 1e3)] * 2), min_size=1, max_size=14))
def test_a_ratio_lies_in_its_interval_and_the_interval_in_the_range(samples):
    above, below = ({block: pair[place] for block, pair in enumerate(samples)} for place in (0, 1))
    found = paired_ratio(above, below)
    ratios = [one / other for one, other in samples]
    assert min(ratios) * (1 - 1e-9) <= found.low <= found.median <= found.high <= max(ratios) * (1 + 1e-9)
    assert 0 < found.p <= 1
    assert found.n == len(samples)


def test_ties_leave_an_interval():
    above = dict(enumerate([1.0] * 11 + [1.1]))
    found = paired_ratio(above, dict.fromkeys(above, 1.0))
    assert (found.low, found.median) == (1, 1)
    assert found.high <= 1.1


def test_a_geometric_mean_of_ratios_is_taken_within_each_block():
    drift = {block: 1.5**block for block in range(9)}
    twice, eightfold = ({block: factor * value for block, value in drift.items()} for factor in (2, 8))
    found = pooled_ratio([(twice, drift), (eightfold, drift)])
    assert (found.median, found.n) == (pytest.approx(4), 9)
    assert pooled_ratio([({0: 1.0}, {1: 1.0})]) is None
    assert pooled_ratio([]) is None


def test_samples_that_are_not_positive_are_told_apart_by_their_difference():
    assert exceeds(dict.fromkeys(range(6), 0.0), dict.fromkeys(range(6), -1.0))
    assert not exceeds(dict.fromkeys(range(6), 0.0), dict.fromkeys(range(6), 0.0))


def test_a_planted_drift_is_seen():
    places = [block / 11 for block in range(12)]
    noise = np.random.default_rng(3).normal(0, 0.001, 12)
    found = trend(places, [-0.05 * place + each for place, each in zip(places, noise, strict=True)])
    assert found.change == pytest.approx(-0.0488, abs=0.003)
    assert found.p < 1e-6
    assert trend([0.5, 0.5, 0.5], [1.0, 2.0, 3.0]) is None
    assert trend([], [], [], []) is None


@pytest.mark.parametrize(("cells", "blocks"), [(2, 2), (2, 3), (4, 3), (3, 12)])
def test_places_within_blocks_that_differ_by_chance_are_no_drift(cells, blocks):
    draw = np.random.default_rng(5)
    found = [within(draw, cells, blocks, lambda _: 0.0) for _ in range(1000)]
    assert sum(each is not None and each.p < 0.01 for each in found) <= 20  # 10 are expected


def test_a_drift_within_blocks_is_seen_beside_differences_of_cells_and_blocks():
    found = within(np.random.default_rng(5), 3, 12, lambda place: -0.5 * place)
    assert found.p < 0.01
    assert found.change == pytest.approx(np.exp(-0.5) - 1, abs=0.05)


def within(draw, cells, blocks, drift):
    """The trend over the places in blocks, whose cells have an order of their own in each."""
    orders = np.concatenate([draw.permutation(cells) for _ in range(blocks)])
    places = np.tile(np.arange(cells) / (cells - 1), blocks)
    of_block = np.repeat(np.arange(blocks), cells)
    logs = draw.normal(0, 0.05, cells * blocks) + orders + draw.normal(0, 1, blocks)[of_block]
    return trend(places, logs + drift(places), orders.tolist(), of_block.tolist())


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.lists(st.booleans(), min_size=1, max_size=30))
def test_more_events_than_before_have_the_p_of_fisher(old, new):
    events = [sum(new), sum(old)]
    table = [events, [len(new) - events[0], len(old) - events[1]]]
    expected = fisher_exact(table, alternative="greater").pvalue
    assert p_of_more((sum(old), len(old)), (sum(new), len(new))) == pytest.approx(expected)
