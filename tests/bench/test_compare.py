"""Runs and backends compared: changes are found, noise is not called, what cannot be compared is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from spillway.bench.compare import METRICS, compare_backends, compare_runs, comparison_tables
from spillway.bench.summary import read_run
from spillway.cli.app import app
from spillway.errors import OptionError
from spillway.harness import records

from .made_runs import Writes, make_run, wrong

SPEED, MEMORY, SIZE = (METRICS[name] for name in ("speed", "memory", "size"))
CODE = [{"backend": name, "code": "c"} for name in ("mine", "peer")]


def speeds(seed, middle=1000.0, n=12):
    noise = random.Random(seed)  # noqa: S311 - noise, not a secret
    return [middle * noise.lognormvariate(0, 0.01) for _ in range(n)]


@pytest.fixture
def make(tmp_path):
    """Make a run with a name, of backends and changes to its environment."""

    def make_one(name, backends, verdicts=(), **environment):
        run = make_run(tmp_path / name, backends, verdicts)
        described = {"worker": "w", "backends": CODE}
        changes = {"run_id": name, "benchmark": described, **environment}
        inputs = [{**each, "first_batch": "f"} for each in run.environment["inputs"]]
        records.write_json(run.folder / records.ENVIRONMENT, {**run.environment, "inputs": inputs, **changes})
        return read_run(run.folder)

    return make_one


def test_a_planted_loss_of_five_per_cent_is_told_and_its_interval_covers_it(make):
    old, new = make("old", {"mine": Writes(speeds(1))}), make("new", {"mine": Writes(speeds(2, 950))})
    (row,) = compare_runs(old, new, [SPEED]).rows
    assert row.is_told
    assert row.change.low < 0.95 < row.change.high
    assert row.loss == pytest.approx(0.05, abs=0.01)


def test_equal_runs_differ_in_nothing(make):
    runs = [
        make(f"run-{seed}", {"mine": Writes(speeds(seed)), "peer": Writes(speeds(-seed))}) for seed in (1, 2)
    ]
    found = compare_runs(*runs, [SPEED, MEMORY, SIZE])
    assert not [row for row in found.rows if row.is_told]
    assert len(found.rows) == 6
    assert not found.beyond(0)


def test_backends_of_a_run_are_compared_block_by_block(make):
    drift = [1000 * 1.3**block for block in range(12)]
    noise = speeds(4, 1.0)
    run = make(
        "run",
        {"peer": Writes(drift), "mine": Writes([a * b * 1.02 for a, b in zip(drift, noise, strict=True)])},
    )
    found = compare_backends(run, "peer", "mine", [SPEED])
    (row,) = found.rows
    assert found.is_paired
    assert row.is_told
    assert row.change.ratio == pytest.approx(1.02, abs=0.01)


def test_a_size_needs_no_samples_to_be_told(make):
    runs = [make(name, {"mine": Writes([1.0], size=size)}) for name, size in (("old", 1000), ("new", 1060))]
    (row,) = compare_runs(*runs, [SIZE]).rows
    assert row.is_told
    assert row.loss == pytest.approx(0.06)


def test_p_is_corrected_for_all_that_is_compared(make):
    names = {"mine": Writes(speeds(1)), "peer": Writes(speeds(2))}
    runs = [
        make("old", names),
        make("new", {name: replace(each, speeds=speeds(9, 900)) for name, each in names.items()}),
    ]
    one, two = compare_runs(*runs, [SPEED], ["mine"]), compare_runs(*runs, [SPEED])
    assert two.rows[0].p == pytest.approx(2 * one.rows[0].p)


def test_samples_too_few_to_tell_anything_are_said(make):
    runs = [make(name, {"mine": Writes(speeds(1, n=3))}) for name in ("old", "new")]
    found = compare_runs(*runs, [SPEED])
    assert found.is_blind
    assert [row.possible_loss for row in found.unclear(0.05)] == [1.0]


def test_a_writer_that_fails_now_is_beyond_any_gate(make):
    old, new = make("old", {"mine": Writes(speeds(1))}), make("new", {"mine": Writes([None] * 12)})
    found = compare_runs(old, new, [SPEED])
    assert found.beyond(0.99) == list(found.rows)
    assert not compare_runs(new, make("again", {"mine": Writes(speeds(1))}), [SPEED]).beyond(0)
    seldom = make("seldom", {"mine": Writes([*speeds(1)[:11], None])})
    assert compare_runs(seldom, new, [SPEED]).beyond(0.99)
    again = make("seldom-again", {"mine": Writes([*speeds(1)[:11], None])})
    assert not compare_runs(seldom, again, [SPEED]).beyond(0.99)


def test_a_writer_that_fails_told_more_often_is_beyond_any_gate(make):
    old = make("old", {"mine": Writes([*speeds(1)[:11], None])})
    once_more = make("once-more", {"mine": Writes([*speeds(1)[:10], None, None])})
    assert not compare_runs(old, once_more, [SPEED]).beyond(0.99)
    (row,) = compare_runs(
        old, make("often", {"mine": Writes([*speeds(1)[:6], *[None] * 6])}), [SPEED]
    ).beyond(0.99)
    assert row.has_failed
    assert row.loss_without_size is None


def test_the_fix_of_a_wrong_writer_is_within_any_gate_and_shows_what_was_wrong(make):
    broken, whole = (Writes(speeds(1), size=size, content=of * 64) for size, of in ((1000, "a"), (1490, "b")))
    old, new = make("old", {"mine": broken}, [wrong("a" * 64, 1000)]), make("new", {"mine": whole})
    found = compare_runs(old, new, [SPEED, MEMORY, SIZE])
    assert [row.change for row in found.rows] == [None] * 3
    assert not found.beyond(0)
    assert not found.unclear(0)
    assert {table.rows[0][1].text for table in comparison_tables(found)} == {"wrong output"}
    assert comparison_tables(found)[2].rows[0][2].text == "0.00149"
    assert compare_runs(new, old, [SIZE]).beyond(0.99)


def test_wrong_output_after_samples_that_failed_is_beyond_any_gate(make):
    failing = [*speeds(1)[:11], None]
    old = make("old", {"mine": Writes(failing)})
    wrong_once = [Writes(failing[1:]), Writes([], content="a" * 64)]
    wrong_once[1].speeds = failing[:1]
    new = make("new", {"mine": wrong_once}, [wrong("a" * 64, 1000)])
    (row,) = compare_runs(old, new, [SPEED]).beyond(0.99)
    assert not row.has_failed
    assert "wrong_output x1" in row.loss_without_size


def test_good_samples_beside_failed_ones_have_figures(make):
    runs = [make(name, {"mine": Writes([*speeds(1)[:11], None])}) for name in ("old", "new")]
    (row,) = compare_runs(*runs, [SPEED]).rows
    assert row.change.n == (11, 11)


def test_without_a_gate_a_writer_that_fails_is_shown_and_the_exit_status_is_0(make):
    old, new = make("old", {"mine": Writes(speeds(1))}), make("new", {"mine": Writes([None] * 12)})
    result = invoke(old.folder, new.folder)
    assert (result.exit_code, "library error" in result.output) == (0, True)
    assert "Exit status 1, with --gate alone" in invoke("--help").output


def test_memory_where_there_was_none_is_beyond_any_gate(make):
    old = make("old", {"mine": Writes(speeds(1), growth=0)})
    new = make("new", {"mine": Writes(speeds(1), growth=3e6)})
    (row,) = compare_runs(old, new, [MEMORY]).beyond(0.99)
    assert row.loss_without_size.endswith("was zero")
    assert not compare_runs(new, old, [MEMORY]).beyond(0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu_model": "Other"}, "not the same machine: processor"),
        ({"usable_cores": 64}, "usable cores"),
        ({"benchmark": {"worker": "x", "backends": CODE}}, "code that measures has changed"),
        ({"benchmark": {"worker": "w", "backends": [{"backend": "mine", "code": "d"}]}}, "calls the library"),
        ({"run_id": "old"}, "both are run old"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_reason(make, changes, words):
    old, new = (
        make(name, {"mine": Writes(speeds(1))}, **more) for name, more in (("old", {}), ("new", changes))
    )
    with pytest.raises(OptionError, match=words):
        compare_runs(old, new, [SPEED])


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"limit_kind": "rlimit-data"}, "limits are of other kinds"),
        ({"codec": "snappy", "level": None}, "no cell in common: codec zstd and snappy; level 1 and None"),
    ],
)
def test_other_cells_are_refused_with_what_differs(make, cell, words):
    old, new = (
        make(name, {"mine": Writes(speeds(1), cell=each)}) for name, each in (("old", {}), ("new", cell))
    )
    with pytest.raises(OptionError, match=words):
        compare_runs(old, new, [SPEED])


def test_what_no_machine_changes_compares_between_machines(make):
    old = make("old", {"mine": Writes(speeds(1))})
    new = make("new", {"mine": Writes(speeds(1), size=1_020_000)}, cpu_model="Other", usable_cores=64)
    size, allocated = compare_runs(old, new, [SIZE, METRICS["allocated"]]).rows
    assert size.loss == pytest.approx(0.02)
    assert allocated.change.ratio == 1
    assert invoke(old.folder, new.folder, "--metric", "size,allocated", "--gate", "1%").exit_code == 1
    assert invoke(old.folder, new.folder, "--metric", "size,allocated", "--gate", "3%").exit_code == 0
    with pytest.raises(OptionError, match="not the same machine"):
        compare_runs(old, new, [SIZE, SPEED])


def test_other_rows_are_refused(make):
    old, new = (make(name, {"mine": Writes(speeds(1))}) for name in ("old", "new"))
    (held,) = [each for each in new.environment["inputs"] if each["dataset"] == new.cells[0].cell.dataset]
    held["first_batch"] = held["all_rows"] = "g"
    with pytest.raises(OptionError, match="the rows of logs are not the same"):
        compare_runs(old, new, [SPEED])


def test_libraries_may_differ_and_are_named(make):
    versions = [[{"name": "polars", "version": text}] for text in ("1", "2")]
    runs = [make(f"{at}", {"mine": Writes(speeds(1))}, libraries=each) for at, each in enumerate(versions)]
    assert compare_runs(*runs, [SPEED]).differences == ["polars: 1 and 2"]


def test_versions_of_backends_that_are_not_compared_are_not_named(make):
    names = ("polars", "duckdb", "numpy", "pyarrow")
    versions = [[{"name": name, "version": text} for name in names] for text in ("1", "2")]
    codes = {"worker": "w", "backends": [{"backend": name, "code": "c"} for name in ("polars", "duckdb")]}
    runs = [
        make(f"{at}", dict.fromkeys(("polars", "duckdb"), Writes(speeds(1))), libraries=each, benchmark=codes)
        for at, each in enumerate(versions)
    ]
    named = [each.partition(":")[0] for each in compare_runs(*runs, [SPEED], ["polars"]).differences]
    assert named == ["polars", "numpy", "pyarrow"]
    assert len(compare_runs(*runs, [SPEED]).differences) == 4


@pytest.mark.parametrize(
    ("old", "new", "status", "words"),
    [
        ({"mine": speeds(1, n=3)}, {"mine": speeds(2, n=3)}, 2, "too few samples to tell a change"),
        (
            {"mine": speeds(1), "peer": speeds(3)},
            {"mine": speeds(2)},
            1,
            "rows: not measured any more gate of 2.0%: exceeded",
        ),
        (
            {"mine": speeds(1, n=6)},
            {"mine": speeds(2, 985, n=6)},
            0,
            "not exceeded, but there are too few samples to exclude it",
        ),
    ],
    ids=["blind", "gone", "unclear"],
)
def test_a_gate_that_nothing_was_told_for_is_not_kept(make, old, new, status, words):
    runs = [
        make(name, {backend: Writes(each) for backend, each in given.items()})
        for name, given in (("old", old), ("new", new))
    ]
    result = invoke(*(run.folder for run in runs), "--metric", "speed", "--gate", "2%")
    assert result.exit_code == status, result.output
    assert words in " ".join(result.output.split())
    assert "kept" not in result.output


def invoke(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


@pytest.mark.parametrize(("gate", "status"), [("5%", 1), ("20%", 0)])
def test_the_gate_is_an_exit_status(make, gate, status):
    old, new = make("old", {"mine": Writes(speeds(1))}), make("new", {"mine": Writes(speeds(2, 900))})
    result = invoke(old.folder, new.folder, "--gate", gate)
    assert result.exit_code == status, result.output
    assert f"gate of {float(gate[:-1]):.1f}%: {'exceeded' if status else 'kept'}" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gate", "5"], "give a percentage"),
        (["--metric", "joules"], "choose from speed, memory, size, cpu"),
        ([], "--backend OLD,NEW from mine, peer"),
        (["--backend", "mine,other"], "no backend 'other': it has mine and peer"),
    ],
)
def test_an_option_that_cannot_be_says_what_to_do(make, arguments, words):
    run = make("run", {"mine": Writes(speeds(1)), "peer": Writes(speeds(2))})
    result = invoke(run.folder, *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
