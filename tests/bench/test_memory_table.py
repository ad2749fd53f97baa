"""The table of memory shows each measure beside the others, and names the least by each."""

from __future__ import annotations

import pytest

from spillway.bench.record import ALLOCATIONS
from spillway.bench.side_tables import _faults, memory_table, written
from spillway.bench.summary import read_run
from spillway.harness import records

from .made_runs import Writes, make_run


@pytest.fixture
def table(tmp_path):
    """A run in which another backend is leanest by each measure."""
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([2e6] * 6, growth=20e6, cgroup=90e6),
            "arro3": Writes([1e6] * 6, growth=60e6, cgroup=40e6),
            "polars": Writes([1e6] * 6, growth=70e6, cgroup=80e6),
        },
    )
    for backend, peak in (("spillway", 50e6), ("arro3", 30e6), ("polars", None)):
        curve = None if peak is None else {"seconds": [0.0], "allocated_bytes": [peak], "peak_bytes": peak}
        cell = next(each.cell for each in run.cells if each.cell.backend == backend)
        same = {name: getattr(cell, name) for name in ("backend", "mode", "dataset", "codec", "rows")}
        records.append(run.folder / ALLOCATIONS, {**same, "reason": None, "curve": curve})
    run = read_run(run.folder)
    return memory_table(run, run.settings[0])


def column(table, name):
    place = table.header.index(name)
    return {row[0].text: (row[place].text, row[place].best) for row in table.rows}


def test_three_kinds_of_least_memory_have_their_own_winners(table):
    assert column(table, "RSS") == {
        "spillway": ("20.0", True),
        "arro3": ("60.0", False),
        "polars": ("70.0", False),
    }
    assert column(table, "cgroup")["arro3"] == ("40.0", True)
    assert table.notes == ["Least: by RSS, spillway; by cgroup memory, arro3; by allocations, arro3."]


def test_allocations_that_no_tracer_sees_have_no_number(table):
    assert {name: text for name, (text, _) in column(table, "allocated").items()} == {
        "spillway": "50.0",
        "arro3": "30.0",
        "polars": "n/a",
    }


def test_a_program_has_no_counters_that_it_does_not_say():
    sample = {"use": {"bytes_written": 0, "minor_faults": 0, "major_faults": 0}}
    assert (written({**sample, "program": None}), _faults({**sample, "program": None})) == (0, 0)
    assert (written({**sample, "program": []}), _faults({**sample, "program": []})) == (None, None)


def test_faults_are_never_best(table):
    assert not any(is_best for _, is_best in column(table, "faults").values())


def test_a_run_from_before_groups_were_read_has_a_dash(tmp_path):
    run = make_run(tmp_path / "run", {"spillway": Writes([2e6] * 2), "arro3": Writes([1e6] * 2)})
    for each in run.cells:
        for sample in each.samples:
            del sample["group"], sample["memory"]["rollup_after"]["huge"]
    found = memory_table(run, run.settings[0])
    for name in ("cgroup", "whole cgroup", "huge", "allocated"):
        assert {text for text, _ in column(found, name).values()} == {"-"}
