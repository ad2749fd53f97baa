"""A run is quoted in prose only if it has twelve samples a cell, of a quiet host."""

from __future__ import annotations

import dataclasses

from spillway.bench.conclusion import why_not_quoted

from .made_runs import Writes, make_run


def recorded(folder, blocks, **environment):
    run = make_run(folder, {"spillway": Writes([1e6] * blocks), "arro3": Writes([1e6] * blocks)})
    return dataclasses.replace(run, environment={**run.environment, **environment})


def test_twelve_samples_of_a_quiet_host_are_quoted(tmp_path):
    assert why_not_quoted(recorded(tmp_path / "run", 12)) == []


def test_fewer_samples_and_a_busy_host_are_not(tmp_path):
    (few,) = why_not_quoted(recorded(tmp_path / "few", 11))
    assert few == "2 cells with fewer than 12 samples"
    (busy,) = why_not_quoted(recorded(tmp_path / "busy", 12, load_before=7.0))
    assert "the host was busy before the run: load 7.0" in busy


def test_processes_that_ran_beside_the_samples_count_as_noise(tmp_path):
    run = recorded(tmp_path / "run", 12)
    for each in run.cells:
        for sample in each.samples:
            sample["host"] |= {"wall_seconds": 2.0, "others_seconds": 1.0}
    (beside,) = why_not_quoted(run)
    assert beside == "other processes took over 5% of the processor time during 24 of 24 samples"


def test_a_tick_beside_a_short_sample_is_no_noise_and_ticks_beside_all_of_them_are(tmp_path):
    quiet, busy = (recorded(tmp_path / name, 12) for name in ("quiet", "busy"))
    for run, every in ((quiet, 4), (busy, 1)):
        for each in run.cells:
            for number, sample in enumerate(each.samples):
                ticks = 0.01 if number % every == 0 else 0.0
                sample["host"] |= {"wall_seconds": 0.04, "others_seconds": ticks}
    assert why_not_quoted(quiet) == []
    (beside,) = why_not_quoted(busy)
    assert beside.startswith("other processes took ")
    assert beside.endswith(" of the processor time during all samples together")
