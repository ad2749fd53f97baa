"""Crossovers are where a line between two measured numbers of rows says, with intervals that cover them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spillway.bench.ratio_tables import Crossover, crossover_of, crossover_text, told
from spillway.bench.report import html_report, run_tables
from spillway.bench.summary import CellSummary
from spillway.harness.statistics import paired_ratio

from .conftest import cell
from .made_runs import Writes, make_run

COUNTS = (10_000, 100_000, 400_000)


def ratio_at(rows, crossing, slope=0.2):
    """A ratio that is 1 at `crossing`, a straight line in logarithms."""
    return math.exp(slope * math.log(rows / crossing))


def speeds_of(crossing, noise=0.0, blocks=12, seed=0, slope=0.2):
    """The speeds of two backends by rows, equal at `crossing` rows but for noise."""
    drawn = np.random.default_rng(seed)
    for rows in COUNTS:
        shared = 1e6 * np.exp(drawn.normal(0, 0.05, blocks))  # of the machine, which both have
        speeds = shared * ratio_at(rows, crossing, slope) * np.exp(drawn.normal(0, noise, blocks))
        yield rows, speeds.tolist(), shared.tolist()


def summary(backend, rows, speeds):
    samples = [
        {"block": block, "outcome": "ok", "output": None, "throughput": {"rows_per_second": speed}}
        for block, speed in enumerate(speeds)
    ]
    return CellSummary(cell(backend, rows=rows), samples)


def crossing_of(*asked, **options):
    found = list(speeds_of(*asked, **options))
    return crossover_of(
        [summary("spillway", rows, speeds) for rows, speeds, _ in found],
        [summary("arro3", rows, speeds) for rows, _, speeds in found],
    )


@pytest.mark.parametrize("crossing", [20_000, 60_000, 200_000])
def test_a_planted_crossover_is_found_and_covered(crossing):
    found = crossing_of(crossing, noise=0.02)
    assert (found.leader, found.other) == ("spillway", "arro3")
    assert found.low < crossing < found.high
    assert 10_000 < found.low < found.rows < found.high < 400_000
    assert found.rows == pytest.approx(crossing, rel=0.2)


def test_the_interval_covers_a_planted_crossover_as_often_as_it_says():
    found = [crossing_of(60_000, noise=0.03, seed=seed) for seed in range(20)]
    covered = sum(each.low <= 60_000 <= each.high for each in found)
    assert covered >= 17  # 19 are expected, and the seeds are fixed


def test_the_one_that_is_faster_from_there_on_leads():
    found = crossing_of(60_000, slope=-0.2)
    assert (found.leader, found.other) == ("arro3", "spillway")
    assert found.rows == pytest.approx(60_000)
    assert (found.low, found.high) == (pytest.approx(60_000), pytest.approx(60_000))


@pytest.mark.parametrize("crossing", [100, 10**8])
def test_where_one_always_leads_there_is_no_crossover(crossing):
    assert crossing_of(crossing) is None


def test_with_few_blocks_the_interval_is_the_whole_range():
    found = crossing_of(60_000, noise=0.03, blocks=3)
    assert found.low < found.rows < found.high


# Tenths of logarithms, few and small: ratios near 1 that tie and cross more than once.
TENTHS = st.integers(1, 12).flatmap(
    lambda blocks: st.tuples(*[st.lists(st.integers(-3, 3), min_size=blocks, max_size=blocks)] * 3)
)


@given(TENTHS)
@example(([0, -1, -2], [-1, 2, 0], [1, -3, 3]))
@example(([-2, -1, -1, 0, 3], [3, -1, 3, 1, 0], [0, 3, 0, 0, 3]))
def test_a_crossover_lies_within_its_interval(tenths):
    speeds = [[1e6 * math.exp(each / 10) for each in blocks] for blocks in tenths]
    found = crossover_of(
        [summary("spillway", rows, own) for rows, own in zip(COUNTS, speeds, strict=True)],
        [summary("arro3", rows, [1e6] * len(own)) for rows, own in zip(COUNTS, speeds, strict=True)],
    )
    if found is not None:
        assert found.low <= found.rows <= found.high
        assert COUNTS[0] <= found.rows <= COUNTS[-1]


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 10**6) | st.just(math.inf))
def test_a_crossover_is_told_unless_its_interval_is_all_that_was_measured(low, rows, high):
    text = crossover_text(Crossover("a", "b", rows, low, high, (10_000, 400_000)))
    assert (text == "~") == (low < 10_000 and high > 400_000)
    assert text == "~" or (
        ("< 10,000" in text) == (low < 10_000) and ("> 400,000" in text) == (high > 400_000)
    )


@pytest.mark.parametrize("blocks", [1, 2])
def test_one_sample_tells_no_difference(blocks):
    ratio = paired_ratio(dict.fromkeys(range(blocks), 1.5), dict.fromkeys(range(blocks), 1.0))
    assert told([ratio]) == [blocks > 1]


def test_both_reports_show_it(tmp_path):
    backends = {"spillway": [], "arro3": []}
    for rows, *both in speeds_of(60_000):
        for writes, speeds in zip(backends.values(), both, strict=True):
            writes.append(Writes(speeds, cell={"rows": rows}))
    run = make_run(tmp_path / "run", backends)
    (table,) = (each for each in run_tables(run) if each.title.startswith("Crossovers with spillway"))
    assert [entry.text for entry in table.rows[0]] == ["spillway", "arro3", "60,000 [60,000, 60,000]"]
    assert "60,000 [60,000, 60,000]" in html_report(run)
