"""The table of targets: an interval judges a bound by both ends, and every peer that does better is named."""

from __future__ import annotations

import re
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


@pytest.mark.usefixtures("findings")
def test_every_job_has_lines_and_every_line_has_its_jobs():
    import targets  # noqa: PLC0415 - of a folder of programs, which the fixture has put on the path

    # The README quotes the job "front" itself.
    assert {job for jobs in targets.FINDINGS for job in jobs} == targets.JOBS.keys() - {"front"}


@pytest.mark.usefixtures("findings")
def test_real_tables_are_those_of_the_corpus(findings):
    import corpus  # noqa: PLC0415 - of a folder of programs, which the fixture has put on the path

    assert {*findings.REAL, *findings.UNTUNED} == corpus.TABLES.keys() - {"doubles"}
    assert (*findings.UNSEEN, *findings.UNTUNED) == corpus.HELD_OUT


@pytest.mark.usefixtures("findings")
def test_a_table_names_the_jobs_without_a_record(tmp_path):
    import targets  # noqa: PLC0415 - of a folder of programs, which the fixture has put on the path

    text = targets.table(tmp_path)
    (missing,) = re.findall(r"lines are missing: (.*)\.", text)
    assert missing.split(", ") == [job for job in targets.JOBS if job not in targets.ON_REQUEST]
    assert ": met" not in text


@pytest.mark.usefixtures("findings")
@pytest.mark.parametrize(
    ("wanted", "is_measured"), [([], False), (["nested"], True)], ids=["all", "where it is named"]
)
def test_a_job_that_no_target_needs_runs_where_it_is_named(tmp_path, monkeypatch, wanted, is_measured):
    import targets  # noqa: PLC0415 - of a folder of programs, which the fixture has put on the path

    ran = []
    monkeypatch.setattr(targets.corpus, "stored_at", lambda name: tmp_path / name)
    monkeypatch.setattr(
        targets.subprocess,
        "run",
        lambda command, **_: ran.append(Path(command[-1].removeprefix("--out=")).name),
    )
    targets.measure(tmp_path, wanted)
    assert ("nested" in ran) == is_measured
    assert set(ran) == set(wanted or targets.JOBS.keys() - set(targets.ON_REQUEST))


def lines_of_the_table():
    rows = [line.strip("| ").split(" | ") for line in (RESULTS / "table.md").read_text().splitlines()]
    return [row for row in rows if len(row) == 6][2:]


@pytest.mark.parametrize(
    ("samples", "less", "bounds", "verdicts"),
    [
        ([2.0, 2.1, 2.2], False, (2, 3), ["2: met", "3: not met"]),
        ([1.9, 2.1, 2.2], False, (2, 3), ["2: cannot tell", "3: not met"]),
        ([1.9, 2.5, 3.1], False, (2, 3), ["2: cannot tell", "3: cannot tell"]),
        ([3.0, 3.1], False, (2, 3), ["2: met", "3: met"]),
        ([2.0, 2.1], False, (2, None), ["2: met", "-"]),
        ([0.5, 0.6, 0.7], True, (0.7, 0.4), ["0.7: met", "0.4: not met"]),
        ([0.3, 0.6, 0.8], True, (0.7, 0.4), ["0.7: cannot tell", "0.4: cannot tell"]),
        ([0.92], True, (0.9, 0.8), ["0.9: not met", "0.8: not met"]),
        ([0.92], True, (1, None), ["1: met", "-"]),
        ([0.92], True, None, ["-", "-"]),
        (None, True, (1, None), ["1: not measured", "-"]),
    ],
)
def test_a_bound_is_judged_by_the_ends_of_the_interval(findings, samples, less, bounds, verdicts):
    found = None if samples is None else estimate(samples)
    line = findings.Finding("what", found, "peer", bounds, less=less).entries()
    assert [each.text for each in line[3:5]] == verdicts


def test_every_peer_that_takes_less_memory_is_named_and_the_leanest_held_against(tmp_path, findings):
    writes = {
        "spillway": (30e6, 40e6, 1),
        "arro3": (60e6, 70e6, 1),
        "pyarrow-streaming-tuned": (24e6, 50e6, 1),
        "polars": (10e6, 20e6, 4),
    }
    run = make_run(
        tmp_path / "run",
        {
            backend: [
                Writes([1e6] * 6, growth, charge, row_groups=groups, cell={"dataset": dataset})
                for dataset in ("logs", "lineitem")
            ]
            for backend, (growth, charge, groups) in writes.items()
        },
    )
    lines = [[each.text for each in line.entries()] for line in findings.peaks(run)]
    assert [line[2:4] for line in lines] == [
        ["pyarrow-streaming-tuned", "1: not met"],
        ["pyarrow-streaming-tuned", "1: met"],
    ] * 2
    assert [set(re.findall(r"([\w-]+) \(", line[5])) for line in lines] == [
        {"pyarrow-streaming-tuned", "polars"},
        {"polars"},
    ] * 2


def real_run(folder, speeds, sizes):
    """A run of a real table in both modes: the peers' speeds, and the sizes of all files."""
    return make_run(
        folder,
        {
            backend: [
                Writes([speed] * 6, size=size, cell={"mode": mode, "dataset": "file"})
                for mode in ("table", "batches")
            ]
            for (backend, speed), size in zip(speeds.items(), sizes, strict=True)
        },
    )


def test_the_mean_of_the_unseen_tables_is_of_each_ones_fastest_peer(tmp_path, findings):
    speeds = [
        {"spillway": 4e6, "arro3": 1e6, "polars": 5e5},
        {"spillway": 1e6, "arro3": 2e5, "polars": 1e6},
        {"spillway": 4e6, "arro3": 1e6, "polars": 1e6},
        {"spillway": 1e6, "arro3": 1e6, "polars": 1.25e6},
    ]
    runs = [real_run(tmp_path / str(at), each, (9, 9, 9)) for at, each in enumerate(speeds)]
    mean, least, *_ = findings.of_tables("unseen", findings.UNSEEN, *runs)
    assert mean.found.median == pytest.approx((4 * 1 * 4 * 0.8) ** (1 / 4))
    assert [each.text for each in mean.entries()][3:5] == ["1.6: met", "2: not met"]
    assert (least.found.median, least.against) == (pytest.approx(0.8), "characters: polars")
    assert [each.split(" (")[0] for each in mean.better] == ["characters: polars"]
    assert least.verdict(1.2) == "not met"


def test_a_table_that_samples_cannot_tell_from_the_bound_leaves_the_least_open(tmp_path, findings):
    runs = [
        make_run(
            tmp_path / name,
            {
                backend: [
                    Writes(speeds, cell={"mode": mode, "dataset": "file"}) for mode in ("table", "batches")
                ]
                for backend, speeds in (("spillway", own), ("arro3", [1e6] * 6))
            },
        )
        for name, own in (
            *((name, [1.25e6] * 6) for name in ("planes", "operations", "files")),
            ("characters", [1e6, *[1.4e6] * 5]),
        )
    ]
    _, least, *_ = findings.of_tables("unseen", findings.UNSEEN, *runs)
    assert least.against == "characters: arro3"
    assert least.verdict(1.2) == "cannot tell"


@pytest.mark.parametrize(("largest", "verdict"), [(1_000_000, "met"), (1_004_000, "not met")])
def test_one_larger_file_among_the_real_tables_misses_the_bound(tmp_path, findings, largest, verdict):
    speeds = dict.fromkeys(("spillway", "arro3", "polars"), 1e6)
    runs = [
        real_run(tmp_path / name, speeds, (largest if name == "files" else 900_000, 1_000_000, 1_100_000))
        for name in findings.REAL
    ]
    (line,) = findings.sizes(*runs)
    assert line.against == "files: arro3"
    assert line.verdict(1) == verdict
    assert [each.split(" (")[0] for each in line.better] == (["files: arro3"] if verdict == "not met" else [])


def test_a_limit_is_shown_with_what_it_costs(tmp_path, findings):
    cell = {"arm": "cold"}
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([2e6] * 6, cell=cell),
            "spillway-16mb": Writes([1e6] * 6, growth=21e6, cell=cell),
        },
    )
    grown, time, _ = findings.memory(run)
    assert "first write of a process" in grown.what
    assert grown.verdict(20) == "not met"
    assert time.found.median == pytest.approx(2)


def test_the_row_groups_of_a_line_are_those_on_record():
    line = next(row[0] for row in lines_of_the_table() if "4,000,000 rows" in row[0])
    (run,) = (RESULTS / "memory").iterdir()
    found = {
        sample["output"]["row_groups"]
        for sample in records.read_lines(run / "samples.jsonl")
        if (sample["cell"]["backend"], sample["cell"]["rows"]) == ("spillway-16mb", 4_000_000)
    }
    assert f"in {max(found)} row groups" in line
