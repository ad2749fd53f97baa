"""Charts of races have a finding, name who is missing, and join no two points into a trend."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillway.harness.plots import drawn
from spillway.race.record import read_run
from spillway.race.report import charts

from ..bench.test_figures import assert_texts_can_be_read

RACES = Path(__file__).parents[2] / "results" / "race"
RUNS = sorted(RACES.iterdir())


@pytest.fixture(scope="module")
def by_name():
    """The charts of the run with 2,000 writers, by name."""
    run = read_run(RACES / "20261126T163105Z-a865")
    return {each.name: each for each in charts(run)}


def lines_of(chart):
    (axes,) = drawn(chart, is_narrow=False).axes
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


def test_the_title_compares_libraries_at_the_most_writers_that_both_have(by_name):
    speeds = by_name["appends-append-only-10rows-1x-own-threads-of-one-process"]
    assert speeds.title == "spillway commits 783 appends a second with 100 writers, delta-rs-retry 3.9"
    assert "delta-rs-retry raced with at most 100 writers." in speeds.below
    waits = by_name["waits-append-only-10rows-1x-own-threads-of-one-process"]
    assert waits.title == "With 100 writers the longest wait is 0.094 s for spillway, 25 s for delta-rs-retry"
    assert "with their interval" in waits.below


def test_waits_are_the_longest_and_the_median(by_name):
    found = lines_of(by_name["waits-append-only-10rows-1x-own-threads-of-one-process"])
    assert found.keys() == {
        f"{name}, {kind}" for name in ("spillway", "delta-rs-retry") for kind in ("longest", "median")
    }
    assert found["spillway, longest"].get_marker() != found["spillway, median"].get_marker()


def test_two_numbers_of_writers_are_no_trend(by_name):
    found = lines_of(by_name["appends-merge-10rows-1x-own-threads-of-one-process"])
    assert {line.get_linestyle() for line in found.values()} == {"None"}
    found = lines_of(by_name["appends-append-only-10rows-1x-own-threads-of-one-process"])
    assert found["spillway"].get_linestyle() == "-"


@pytest.mark.parametrize("is_narrow", [False, True], ids=["wide", "narrow"])
def test_no_text_covers_another_or_leaves_its_chart(is_narrow):
    found = [chart for run in RUNS for chart in charts(read_run(run))]
    assert len(found) >= 5
    for chart in found:
        assert_texts_can_be_read(drawn(chart, is_narrow=is_narrow))


def test_the_kept_figures_of_races_are_those_that_are_drawn():
    for run in RUNS:
        found = charts(read_run(run))
        assert {f"{each.name}.svg" for each in found} == {path.name for path in (run / "figures").iterdir()}
        report = (run / "report.md").read_text()
        assert all(f"![{each.title}](figures/{each.name}.svg)" in report for each in found)
