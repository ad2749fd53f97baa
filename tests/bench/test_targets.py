"""The table of targets: an interval judges a bound by both ends, and every peer that does better is named."""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path

import pytest

from spillway.harness import records
from spillway.harness.statistics import estimate

from .made_runs import Writes, make_run

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "targets"


@pytest.fixture(scope="module")
def findings():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import findings  # noqa: PLC0415 - of a folder of programs

        yield findings
        del sys.modules["findings"]


@pytest.mark.parametrize(
    ("git", "now", "same"),
    [
        ({"commit": "a", "changed": False}, {"commit": "a", "changed": False}, True),
        ({"commit": "a", "changed": False}, {"commit": "b", "changed": False}, False),
        ({"commit": "a", "changed": True}, {"commit": "a", "changed": True}, False),
        (None, {"commit": "a", "changed": False}, False),
    ],
)
@pytest.mark.usefixtures("findings")
def test_a_job_of_another_commit_is_measured_again(tmp_path, monkeypatch, git, now, same):
    import targets  # noqa: PLC0415 - of a folder of programs, which the fixture has put on the path

    run = make_run(tmp_path / "run", {"spillway": Writes([1e6])})
    records.write_json(run.folder / records.ENVIRONMENT, {**run.environment, "git": git})
    monkeypatch.setattr(targets, "git_state", lambda: now)
    assert targets.is_of_this_commit(run.folder) == same
    assert not targets.is_of_this_commit(None)
    assert targets.FINDINGS.keys() == targets.JOBS.keys()


def lines_of_the_table():
    rows = [line.strip("| ").split(" | ") for line in (RESULTS / "table.md").read_text().splitlines()]
    return [row for row in rows if len(row) == 6][2:]


@pytest.mark.parametrize(
    ("samples", "bounds", "verdicts"),
    [
        ([2.0, 2.1, 2.2], (2, 3), ["met", "not met"]),
        ([1.9, 2.1, 2.2], (2, 3), ["cannot tell", "not met"]),
        ([1.9, 2.5, 3.1], (2, 3), ["cannot tell", "cannot tell"]),
        ([3.0, 3.1], (2, 3), ["met", "met"]),
        ([0.5, 0.6, 0.7], (0.7, 0.4), ["met", "not met"]),
        ([0.3, 0.6, 0.8], (0.7, 0.4), ["cannot tell", "cannot tell"]),
        ([0.92], (0.9, 0.8), ["not met", "not met"]),
    ],
)
def test_a_bound_is_judged_by_the_ends_of_the_interval(findings, samples, bounds, verdicts):
    found = findings.Finding("speed", estimate(samples), "peer", bounds)
    assert [found.verdict(bound) for bound in bounds] == verdicts


def test_every_peer_that_takes_less_memory_is_named():
    lines = [row for row in lines_of_the_table() if "peak RSS growth against" in row[0]]
    assert len(lines) == 8
    for what, *_, better in lines:
        job, mode = re.match(r"(\w+), 400K rows, (\w+):", what).groups()
        (samples,) = (RESULTS / job).glob("*/samples.jsonl")
        growths: dict[str, list[int]] = {}
        for sample in map(json.loads, samples.read_text().splitlines()):
            if (sample["cell"]["mode"], sample["cell"]["rows"]) == (mode, 400_000):
                growths.setdefault(sample["cell"]["backend"], []).append(sample["memory"]["growth_bytes"])
        medians = {backend: statistics.median(found) for backend, found in growths.items()}
        leaner = {backend for backend, found in medians.items() if found < medians["spillway"]}
        assert set(re.findall(r"([\w-]+) \(", better)) == leaner


def test_the_row_groups_of_a_line_are_those_on_record():
    line = next(row[0] for row in lines_of_the_table() if "4,000,000 rows" in row[0])
    (samples,) = (RESULTS / "memory").glob("*/samples.jsonl")
    found = {
        sample["output"]["row_groups"]
        for sample in map(json.loads, samples.read_text().splitlines())
        if (sample["cell"]["backend"], sample["cell"]["rows"]) == ("spillway-16mb", 4_000_000)
    }
    assert f"in {max(found)} row groups" in line
