"""The least memory is found within a step, proved on both sides, and read from the writes alone."""

from __future__ import annotations

import random
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from spillway.bench.conclusion import why_limits_not_quoted
from spillway.bench.passes import (
    STEP,
    bounds_of,
    find_least_memory,
    largest_limit,
    refuse_other_search,
    search,
)
from spillway.bench.progress import Progress
from spillway.bench.record import LEAST_MEMORY, LIMIT_TRIAL_SCHEMA
from spillway.bench.report import html_report, run_tables
from spillway.bench.sample import outcome_of
from spillway.bench.summary import read_run
from spillway.errors import OptionError
from spillway.harness import records
from spillway.harness.limits import choose_limiter
from spillway.harness.limits.cgroup import _least
from spillway.harness.processes import ProcessResult

from .conftest import cell
from .made_runs import Writes, make_run

MOST = 4_000_000_000
MB = 1_000_000


def tried(survives, writes, most=MOST):
    """The writes of a search, as records."""
    trials = []

    def survives_and_tells(limit):
        trials.append(trial("ok" if survives(limit) else "oom_killed", limit))
        return trials[-1]["outcome"] == "ok"

    search(survives_and_tells, writes=writes, most=most)
    return trials


def trial(outcome, limit, backend="arro3", **fields):
    of_cell = cell(backend, memory_bytes=limit, limit_kind="cgroup-v1", **fields)
    return {
        "schema_version": 2,
        "run_id": "test",
        "cell": asdict(of_cell),
        "outcome": outcome,
        "died_in": None if outcome == "ok" else "write",
        "wall_seconds": 0.5 if outcome == "ok" else None,
    }


@given(st.integers(2 * MB, MOST), st.integers(1, 4))
def test_a_sharp_limit_is_found_within_a_step_and_proved_on_both_sides(least, writes):
    found = bounds_of(tried(lambda limit: limit >= least, writes))
    assert found.dies_at < least <= found.survives_from
    assert found.survives_from <= max(STEP * found.dies_at, found.dies_at + MB // 10) + MB // 10
    assert min(found.died, found.survived) >= writes


@given(st.integers(20 * MB, 1_000 * MB), st.floats(0.01, 0.2), st.integers(0, 99))
def test_a_limit_that_is_survived_at_times_lies_between_the_sides(least, width, seed):
    drawn = random.Random(seed)  # noqa: S311 - chance, not a secret

    def survives(limit):
        """Always from `least` on, never below a share of it, and between them by chance."""
        return limit >= least or (limit > least * (1 - width) and drawn.random() < 0.5)

    trials = tried(survives, 3)
    found = bounds_of(trials)
    assert found.dies_at < found.survives_from
    assert min(found.died, found.survived) >= 3
    assert found.dies_at < least
    assert found.survives_from > least * (1 - width)
    for each in trials:
        limit = each["cell"]["memory_bytes"]
        assert limit < found.survives_from or each["outcome"] == "ok"
        assert limit > found.dies_at or each["outcome"] != "ok"


def test_what_survives_no_limit_is_said_to():
    found = bounds_of(tried(lambda _: False, 2))
    assert found.survives_from is None
    assert found.dies_at == MOST


@given(st.sampled_from(["timeout", "wrong_output", "library_error"]), st.integers(2, 9))
def test_a_write_that_says_nothing_of_memory_proves_neither_side(outcome, place):
    """The limits 1 to 10: below the place all die, above it all survive, at it a write ends otherwise."""
    ends = {limit: "ok" if limit > place else "oom_killed" for limit in range(1, 11)} | {place: outcome}
    found = bounds_of([trial(end, limit) for limit, end in ends.items()])
    assert (found.dies_at, found.survives_from) == (place - 1, place + 1)


@pytest.mark.parametrize(
    ("kills", "outcome"), [(1, "oom_killed"), (0, "library_error"), (None, "library_error")]
)
def test_a_writer_whose_jvm_was_killed_at_the_limit_died_of_it(kills, outcome):
    failure = {"kind": "library_error", "type": "Py4JError", "message": "the connection was lost"}
    ended = ProcessResult(status=0, oom_kills=kills, messages=[{"failure": failure}])
    assert outcome_of(ended) == outcome


def test_a_limit_of_a_group_around_this_process_is_read(tmp_path):
    texts = ("max\n", "9223372036854771712\n", "4000000000\n", "5000000000\n")
    files = [tmp_path / str(place) for place in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    assert _least([*files, tmp_path / "absent"]) == 4_000_000_000
    assert _least(files[:1]) is None


def test_the_largest_limit_leaves_memory_to_the_machine():
    assert 0 < largest_limit() < 2**50


@pytest.mark.usefixtures("misbehaving")
def test_a_writer_of_200_mib_survives_in_no_less_and_a_resumed_search_writes_nothing_again(
    taker, disk_folder
):
    of_limit = cell("takes-200-MiB", memory_bytes=10**9, limit_kind=choose_limiter(None).kind)
    progress = Progress(Console(quiet=True))
    find_least_memory(disk_folder, taker, [of_limit], 1, progress, step=2)
    trials = records.read_lines(disk_folder / LEAST_MEMORY)
    for each in trials:
        LIMIT_TRIAL_SCHEMA.check(each)
    found = bounds_of(trials)
    assert 200 << 20 < found.survives_from <= 1 << 30
    assert 100 << 20 < found.dies_at < found.survives_from
    assert {each["outcome"] for each in trials} & {"oom_killed", "memory_error"}
    whole = (disk_folder / LEAST_MEMORY).read_bytes()
    find_least_memory(disk_folder, taker, [of_limit], 1, progress, step=2)
    assert (disk_folder / LEAST_MEMORY).read_bytes() == whole


@pytest.mark.usefixtures("misbehaving")
def test_a_resumed_search_keeps_its_largest_limit_and_stays_ended_by_what_is_no_death(taker, disk_folder):
    of_limit = cell("takes-200-MiB")
    known = [
        trial(outcome, limit, of_limit.backend) | {"most_bytes": 100 * MB}
        for outcome, limit in (("oom_killed", 64 * MB), ("timeout", 100 * MB))
    ]
    for each in known:
        LIMIT_TRIAL_SCHEMA.check(each)
        records.append(disk_folder / LEAST_MEMORY, each)
    find_least_memory(disk_folder, taker, [of_limit], 2, Progress(Console(quiet=True)))
    assert records.read_lines(disk_folder / LEAST_MEMORY) == known


def test_a_table_names_what_ended_a_search_before_its_end(tmp_path):
    run = make_run(tmp_path / "run", {"arro3": Writes([1e6] * 3)})
    fields = {
        name: value
        for name, value in asdict(run.cells[0].cell).items()
        if name not in {"backend", "memory_bytes", "limit_kind"}
    }
    ends = (("oom_killed", 64 * MB), ("timeout", 128 * MB))
    run = replace(run, limit_trials=[trial(outcome, limit, **fields) for outcome, limit in ends])
    (table,) = (each for each in run_tables(run) if each.title.startswith("Least memory survived"))
    ((_, survives, dies, _, below),) = ([entry.text for entry in row] for row in table.rows)
    assert (survives, dies) == ("-", "64.0 (1)")
    assert below == "oom killed in write and search ended by timeout in write at 128 MB"


@pytest.fixture
def searched(tmp_path):
    """A run of two backends with what was found of each; the third never survived."""
    folder = tmp_path / "run"
    run = make_run(folder, {name: Writes([1e6] * 3) for name in ("arro3", "polars", "duckdb")})
    fields = {
        name: value
        for name, value in asdict(run.cells[0].cell).items()
        if name not in {"backend", "memory_bytes", "limit_kind"}
    }
    for backend, least in {"arro3": 90 * MB, "polars": 300 * MB, "duckdb": 2 * MOST}.items():
        for each in tried(lambda limit, least=least: limit >= least, 2):
            limit = each["cell"]["memory_bytes"]
            records.append(folder / LEAST_MEMORY, trial(each["outcome"], limit, backend, **fields))
    return read_run(folder)


def test_both_reports_show_the_least_memory_with_its_proof(searched):
    (table,) = (each for each in run_tables(searched) if each.title.startswith("Least memory survived"))
    texts = {row[0].text: [entry.text for entry in row[1:]] for row in table.rows}
    assert list(texts) == ["arro3", "polars", "duckdb"]
    assert texts["duckdb"][0] == "never"
    assert texts["arro3"][3] == "oom killed in write"
    survives, dies = (text.partition(" ") for text in texts["arro3"][:2])
    assert float(dies[0]) < 90 <= float(survives[0]) < 93
    assert survives[2] == dies[2] == "(3)"
    page = html_report(searched)
    assert texts["polars"][0] in page
    assert "arro3 survives in 9" in page


def test_least_memory_is_quoted_where_five_writes_prove_each_side(searched):
    """The search of the fixture takes two at each side, beside the one that found it."""
    lacking = why_limits_not_quoted(searched)
    assert lacking[0] == "a side of arro3 is proved by 3 writes, not 5"
    more = [each for each in searched.limit_trials for _ in range(2)]
    assert why_limits_not_quoted(replace(searched, limit_trials=more)) == [
        "a side of duckdb is proved by 2 writes, not 5"
    ]
    assert why_limits_not_quoted(replace(searched, limit_trials=[])) == ["no least memory was looked for"]


def test_a_search_is_not_continued_with_another_kind_of_limit(taker, disk_folder):
    found = trial("ok", 10**9)
    found["cell"]["limit_kind"] = "rlimit-data"
    records.append(disk_folder / LEAST_MEMORY, found)
    with pytest.raises(OptionError, match="began with rlimit-data"):
        refuse_other_search(disk_folder, taker.limiter)


def test_a_search_belongs_to_one_of_the_settings_that_differ_in_their_limit(searched, tmp_path):
    limits = [{"memory_bytes": limit, "limit_kind": "cgroup-v1"} for limit in (10**9, 2 * 10**9)]
    writes = {name: [Writes([1e6] * 3, cell=each) for each in limits] for name in ("arro3", "polars")}
    run = make_run(tmp_path / "several", writes)
    run = replace(run, limit_trials=searched.limit_trials)
    assert sum(table.title.startswith("Least memory") for table in run_tables(run)) == 1
