"""Samples that are not counted beforehand end at a precision or at a budget, and at nothing else."""

from __future__ import annotations

from dataclasses import asdict
from unittest import mock
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.bench.plan import Options
from spillway.bench.record import SAMPLES
from spillway.bench.run import StoppingRule, _take_samples
from spillway.bench.summary import imprecise_cells
from spillway.harness import records
from spillway.harness.schedule import schedule

from .conftest import cell


def taken(noises, blocks, outcome="ok"):
    """Samples of one cell for each noise, in so many blocks."""
    draw = np.random.default_rng(4)
    return [
        {
            "outcome": outcome,
            "cell": asdict(cell("spillway", rows=100 + place)),
            "throughput": {"rows_per_second": float(np.exp(draw.normal(0, noise)))},
        }
        for place, noise in enumerate(noises)
        for _ in range(blocks)
    ]


def rule(now, precision=0.02):
    options = Options(backends=("spillway",), samples=100, precision=precision, budget_minutes=10)
    return StoppingRule(options, lambda: now[0])


def test_a_run_goes_on_until_its_widest_cell_is_precise():
    ends = rule([0.0]).ends_here
    assert ends(taken([0.001, 0.05], 12)) is None
    assert ends(taken([0.001, 0.005], 12)) == "every cell is within 2.0%"
    assert ends(taken([0.001, 0.05], 100)) == "every cell is within 2.0%"


def test_blocks_that_are_to_be_taken_again_are_taken_before_the_rule_is_asked(tmp_path):
    options = Options(backends=("spillway",), samples=100, precision=0.02)
    slots = list(schedule([cell("spillway")], blocks=12, seed=options.seed))
    speed = {"throughput": {"rows_per_second": 1.0}, "outcome": "ok"}

    def record(slot):
        return {**speed, "block": slot.block, "position": slot.position, "cell": asdict(slot.cell)}

    for slot in slots:
        if slot.block != 2:
            records.append(tmp_path / SAMPLES, record(slot))
    taker, progress = Mock(), Mock()
    taker.take.side_effect = lambda slot, _: record(slot)
    with mock.patch("spillway.bench.run.SCHEMA"):
        _take_samples(tmp_path, taker, [cell("spillway")], options, progress)
    assert [call.args[0].block for call in taker.take.call_args_list] == [2]


@pytest.mark.parametrize("blocks", [7, 8])
def test_a_resumed_run_that_met_its_rule_takes_no_further_block(tmp_path, blocks):
    options = Options(backends=("spillway",), samples=100, precision=0.02)
    cells = [cell("spillway", rows=100 + place) for place in range(2)]
    for slot in schedule(cells, blocks=blocks, seed=options.seed):
        speed = {"throughput": {"rows_per_second": 1.0}, "outcome": "ok"}
        place = {"block": slot.block, "position": slot.position, "cell": asdict(slot.cell)}
        records.append(tmp_path / SAMPLES, {**speed, **place})
    taker, progress = Mock(), Mock()
    _take_samples(tmp_path, taker, cells, options, progress)
    progress.say.assert_called_once_with(f"{blocks} blocks taken: every cell is within 2.0%")
    taker.take.assert_not_called()


def test_fewer_samples_than_an_interval_takes_are_never_enough():
    assert rule([0.0]).ends_here(taken([0.0], 5)) is None
    assert rule([0.0]).ends_here(taken([0.0], 6)) is not None


def test_an_interval_that_reaches_further_to_one_side_is_not_precise():
    (template,) = taken([0.0], 1)
    skewed = [{**template, "throughput": {"rows_per_second": each}} for each in [1.0] * 4 + [1.03] * 3]
    assert len(imprecise_cells(skewed, 0.02)) == 1
    assert imprecise_cells(skewed, 0.04) == []


def test_a_run_in_which_every_cell_fails_ends_and_says_so():
    assert rule([0.0]).ends_here(taken([0.5], 3, outcome="oom_killed")) == "no cell ended well"


def test_a_run_ends_with_its_budget():
    now = [0.0]
    watched = rule(now)
    now[0] = 599.0
    assert watched.ends_here(taken([0.5], 6)) is None
    now[0] = 600.0
    assert watched.ends_here(taken([0.5], 6)) == "the budget of minutes is over"


def test_without_a_precision_all_samples_are_taken():
    now = [0.0]
    watched = rule(now, precision=None)
    now[0] = 1e9
    assert watched.ends_here(taken([0.0], 50)) is None


@given(st.floats(0.5, 2e6))
def test_the_rule_does_not_look_at_who_is_fast(factor):
    samples = taken([0.03, 0.01], 8)
    scaled = [
        {**each, "throughput": {"rows_per_second": factor * each["throughput"]["rows_per_second"]}}
        for each in samples
    ]
    assert imprecise_cells(samples, 0.015) == imprecise_cells(scaled, 0.015)


def test_a_cell_that_never_ended_well_is_not_waited_for():
    assert imprecise_cells(taken([0.5], 3, outcome="oom_killed"), 0.01) == []
    assert len(imprecise_cells(taken([0.5], 3), 0.01)) == 1


@pytest.mark.parametrize(
    ("change", "words"), [({"precision": 1.5}, "--precision"), ({"budget_minutes": 0}, "--budget")]
)
def test_a_rule_that_cannot_be_is_refused(change, words):
    from spillway.errors import OptionError  # noqa: PLC0415

    with pytest.raises(OptionError, match=words):
        Options(backends=("spillway",), **change)
