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
from spillway.tune import search
from spillway.tune.choice import DICTIONARY, Codec, ColumnChoice
from spillway.tune.columns import Cost, choices_of
from spillway.tune.search import Candidate, tune

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


def test_the_code_writes_exactly_the_file_that_was_measured(prepared, few, tmp_path):  # noqa: ARG001 - it sets
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
    assert search._is_better(measured(cpu, size), measured([1.0] * 9, 1000)) is is_better


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give your rows by --input FILE"),
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
