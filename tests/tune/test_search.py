"""The search finds what is planted, measures what it hands out, and keeps to its budget."""

from __future__ import annotations

import hashlib
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from spillway import datasets
from spillway.cli.app import app
from spillway.errors import SpillwayError
from spillway.tune import search
from spillway.tune.search import Candidate, Cost, choices_of, measure_columns, tune, verdict
from spillway.tune.writers import DICTIONARY, Choice, Codec, ColumnChoice

ROWS = 20_000
SNAPPY, ZSTD = Codec("snappy"), Codec("zstd", 1)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Rows of which defaults store one column badly: numbers that grow, and no two are the same."""
    draws = random.Random(1)  # noqa: S311 - rows, not secrets
    folder = tmp_path_factory.mktemp("tune")
    grown = [1_700_000_000_000 + 37 * n for n in range(ROWS)]
    table = pa.table({"id": grown, "name": [f"user {draws.randrange(50)}" for _ in range(ROWS)]})
    pq.write_table(table, folder / "rows.parquet")
    return datasets.prepare(folder / "rows.parquet", cache=folder)


@pytest.fixture
def few(monkeypatch):
    """A search with the fewest measurements."""
    monkeypatch.setattr(search, "_MOST_CANDIDATES", 4)
    monkeypatch.setattr(search, "_LEFT", 1)


def test_the_code_writes_exactly_the_file_that_was_measured(prepared, few, tmp_path, monkeypatch):  # noqa: ARG001 - it sets
    # A busy machine may make any of them slower than the defaults: here size alone decides.
    monkeypatch.setattr(Candidate, "time_over", lambda *_: None)
    found = tune("pyarrow", prepared, goal="both", minutes=0.001, progress=lambda *_: None)
    pasted = tmp_path / "pasted.parquet"
    code = compile(found.best.code, "<code>", "exec")
    with pa.memory_map(str(prepared.path)) as file:
        exec(code, {"table": pa.ipc.open_file(file).read_all(), "path": str(pasted)})  # noqa: S102 - as pasted
    assert hashlib.sha256(pasted.read_bytes()).hexdigest() == found.best.sha256
    assert pasted.stat().st_size == found.best.size < found.default.size / 4
    assert not [path for path in prepared.path.parent.iterdir() if path.name.startswith("spillway-tune-")]


def test_settings_of_files_are_the_best_of_their_columns():
    slow, small = ColumnChoice(ZSTD, DICTIONARY), ColumnChoice(ZSTD, "DELTA_BINARY_PACKED")
    usual = ColumnChoice(SNAPPY, DICTIONARY)
    costs = {
        "a": {usual: Cost(1.0, 100.0), slow: Cost(3.0, 99.0), small: Cost(0.9, 10.0)},
        "b": {usual: Cost(1.0, 100.0), slow: Cost(5.0, 20.0)},
    }
    choices = [dict(each.columns) for each in choices_of(costs, SNAPPY)]
    assert all(each["a"] == small for each in choices)
    assert {each["b"] for each in choices} == {usual, slow}


def measured(cpu, size):
    seconds = dict(enumerate(cpu))
    return Candidate("", "", None, seconds, dict(seconds), {0: 1.0}, size)


@pytest.mark.parametrize(
    ("cpu", "size", "is_better"),
    [
        ([1.0] * 9, 900, True),
        ([1.0] * 9, 999, False),
        ([0.9] * 9, 1000, True),
        ([0.9, 1.1] * 4 + [1.0], 1000, False),
    ],
    ids=["smaller", "a trifle smaller", "faster", "noise"],
)
def test_better_than_the_defaults_is_what_can_be_told(cpu, size, is_better):
    each = measured(cpu, size)
    assert search._better([each], measured([1.0] * 9, 1000)) == ([each] if is_better else [])


def test_of_several_finalists_each_has_to_be_told_with_the_others():
    default, noise = measured([1.0] * 6, 1000), measured([0.9, 1.1] * 3, 1000)
    faster = measured([0.9, 0.91, 0.92, 0.93, 0.94, 0.95], 1000)
    assert search._better([faster], default) == [faster]
    assert search._better([faster, noise], default) == []


class OfNoLibrary(search._Bench):
    """Measures nothing: a candidate that is refused fails, all others take a second."""

    def __init__(self, end=float("inf")):
        self._end, self._order, self._progress = end, random.Random(1), lambda *_: None  # noqa: S311 - no secret

    def measure(self, candidate, turn):
        if candidate.words == "refused":
            raise SpillwayError("refused")
        candidate.cpu_seconds[turn] = candidate.wall_seconds[turn] = candidate.peak_bytes[turn] = 1.0
        candidate.size = 1000


def test_a_candidate_that_is_refused_is_left_out_and_the_defaults_are_not():
    bench, default = OfNoLibrary(), Candidate("defaults", "", None)
    written, refused = (Candidate(words, "", Choice(ZSTD)) for words in ("written", "refused"))
    assert bench.race(default, [refused, written], "both", "settings") == [written]
    with pytest.raises(SpillwayError, match="refused"):
        bench.rounds([Candidate("refused", "", None)], 1, "settings")


def test_the_last_rounds_are_none_of_those_that_selected():
    default, best = measured([5.0] * 3, 1000), measured([0.1] * 3, 900)
    OfNoLibrary().last_rounds([default, best])
    assert set(best.cpu_seconds.values()) == set(default.cpu_seconds.values()) == {1.0}
    assert len(best.cpu_seconds) == len(default.cpu_seconds) == 9


def test_last_rounds_that_have_begun_are_measured_whole(monkeypatch):
    default, best = measured([5.0] * 3, 1000), measured([0.1] * 3, 900)
    monkeypatch.setattr(search.time, "monotonic", lambda: float(len(best.cpu_seconds)))
    OfNoLibrary(end=4.0).last_rounds([default, best])
    assert len(best.cpu_seconds) == 9


def test_without_time_left_the_rounds_that_selected_stay():
    best = measured([0.1] * 3, 900)
    OfNoLibrary(end=0.0).last_rounds([best])
    assert list(best.cpu_seconds.values()) == [0.1] * 3


def test_a_time_that_cannot_be_told_is_not_called_no_slower():
    default, best = measured([1.0] * 9, 1000), measured([0.9, 1.1] * 4 + [1.0], 900)
    said = verdict(search.Found(1000, default, best, [], 2), "pyarrow")
    assert said == "10.0% smaller than the defaults of pyarrow; no difference in time can be told."


def test_small_figures_are_not_rounded_away_and_each_time_says_its_clock():
    default, best = measured([1.0] * 9, 51_234), measured([0.5] * 9, 1_234)
    found = search.Found(1000, default, best, [], 2)
    (_, *first), (_, *second) = search.settings_table(found, "tuned").rows
    assert [line[4].text for line in (first, second)] == ["0.0512", "0.00123"]
    (said,) = search.legend(found)
    assert "time: processor time" in said
    assert "rows/s: by wall time" in said


def test_a_choice_that_the_library_refuses_is_left_out_of_a_column():
    class Writer:
        of_columns = (SNAPPY, ZSTD)

        def encodings(self, _type):
            return (DICTIONARY,)

        def code(self, _schema, choice):
            return "raise ValueError" if choice.codec == SNAPPY else "path.write(b'1')"

    costs = measure_columns(Writer(), pa.table({"a": [1]}), until=0.0, progress=lambda *_: None)
    assert list(costs["a"]) == [ColumnChoice(ZSTD, DICTIONARY)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either your rows with --input FILE"),
        (
            ["--dataset", "logs", "--for", "parquet-go"],
            "choose from pyarrow, polars, duckdb, arro3, spillway",
        ),
        (["--dataset", "logs", "--goal", "best"], "choose from both, smaller, faster"),
        (["--input", "absent.parquet"], "no such file"),
    ],
)
def test_what_cannot_be_searched_says_what_to_do(arguments, words, tmp_path, monkeypatch):
    monkeypatch.setenv("SPILLWAY_CACHE", str(tmp_path))
    result = CliRunner().invoke(app, ["tune", "--rows", "100", *arguments])
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
