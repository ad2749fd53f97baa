"""Changes by ranks: as scipy's exact tests say, with intervals that agree with them and cover the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from spillway.harness.statistics import ALPHA, change_of_pairs, change_of_runs, holm, least_p

SAMPLES = st.lists(st.floats(0.5, 2), min_size=2, max_size=14, unique=True)


@given(SAMPLES, SAMPLES)
def test_p_of_two_runs_is_that_of_mann_and_whitney(old, new):
    found = change_of_runs(old, new)
    if not set(old) & set(new):
        assert found.p == pytest.approx(stats.mannwhitneyu(old, new, method="exact").pvalue)


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=14, unique=True))
def test_p_of_pairs_is_that_of_wilcoxon(ratios):
    logs = np.log(ratios)
    sums = np.add.outer(logs, logs)
    if (sums == 0).any() or len(set(np.abs(logs))) < len(logs):
        return  # scipy's exact test knows no ties
    found = change_of_pairs(dict.fromkeys(range(len(ratios)), 1.0), dict(enumerate(ratios)))
    assert found.p == pytest.approx(stats.wilcoxon(logs, method="exact").pvalue)


@given(SAMPLES, SAMPLES)
def test_the_interval_leaves_1_out_where_p_is_small(old, new):
    found = change_of_runs(old, new)
    assert (found.p <= ALPHA) == (not found.low <= 1 <= found.high)
    assert found.low <= found.ratio <= found.high


@given(SAMPLES, st.floats(0.5, 2))
def test_a_change_of_all_samples_alike_is_found_as_it_is(values, factor):
    old = dict(enumerate(values))
    found = change_of_pairs(old, {block: value * factor for block, value in old.items()})
    assert found.ratio == pytest.approx(factor)
    assert change_of_runs(values, [value * factor for value in values]).ratio == pytest.approx(factor)


def test_intervals_of_twelve_cover_the_truth_as_often_as_they_say():
    draws, truth = np.random.default_rng(3), 1.03
    covered = {True: 0, False: 0}
    rounds = 400
    for _ in range(rounds):
        block, old, new = draws.lognormal(0, 0.1, 12), *draws.lognormal(0, 0.03, (2, 12))
        pairs = change_of_pairs(dict(enumerate(block * old)), dict(enumerate(block * new * truth)))
        runs = change_of_runs([*old], [*(new * truth)])
        for each in (pairs, runs):
            covered[each.is_paired] += each.low <= truth <= each.high
    # Binomial: below 0.92 of 400 less than once in a hundred, if each covers with 95 %.
    assert min(covered.values()) / rounds > 0.92


def test_blocks_that_only_one_side_has_do_not_count():
    assert change_of_pairs({0: 1.0, 1: 1.0}, {1: 2.0, 2: 9.0}).ratio == 2
    assert change_of_pairs({0: 1.0}, {1: 1.0}) is None


def test_few_samples_have_an_interval_without_ends():
    found = change_of_pairs(dict.fromkeys(range(5), 1.0), dict.fromkeys(range(5), 2.0))
    assert (found.low, found.high) == (0, float("inf"))
    assert found.p == least_p((5, 5), is_paired=True) == 2 / 32


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_never_lowers_a_p_and_keeps_their_order(values):
    corrected = holm(values)
    assert all(after >= before for before, after in zip(values, corrected, strict=True))
    assert corrected[values.index(min(values))] == min(1.0, min(values) * len(values))
    order = sorted(range(len(values)), key=values.__getitem__)
    assert [corrected[place] for place in order] == sorted(corrected)
