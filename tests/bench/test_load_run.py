"""A run as a frame: every sample, every field, the same columns whatever the run holds."""

from __future__ import annotations

import gzip

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import spillway
from spillway.bench.resume import read_begun
from spillway.bench.summary import read_run
from spillway.errors import OptionError

from .made_runs import ROOT, Writes, make_run, wrong

RESULTS = ROOT / "results"


def test_a_run_is_a_table_with_a_row_for_each_sample(tmp_path):
    make_run(tmp_path / "run", {"arro3": Writes([100.0, 101.0]), "polars": Writes([50.0, None])})
    run = spillway.load_run(tmp_path / "run")
    frame = pl.from_arrow(run)
    assert frame.select("backend", "block", "throughput_rows_per_second", "outcome").rows() == [
        ("arro3", 0, 100.0, "ok"),
        ("arro3", 1, 101.0, "ok"),
        ("polars", 0, 50.0, "ok"),
        ("polars", 1, None, "library_error"),
    ]
    assert len(run.to_pandas()) == 4
    assert duckdb.sql("SELECT count(*) FROM run WHERE output_bytes > 0").fetchall() == [(3,)]


def test_the_columns_do_not_depend_on_what_the_run_holds(tmp_path):
    make_run(tmp_path / "failed", {"polars": Writes([None])})
    assert spillway.load_run(tmp_path / "failed").schema == spillway.load_run(RESULTS / "reference").schema


def test_a_file_that_a_reader_found_wrong_has_that_outcome(tmp_path):
    content = "ab" * 32
    make_run(
        tmp_path / "run",
        {"arro3": Writes([1.0], content=content), "polars": Writes([1.0])},
        [wrong(content, 10)],
    )
    assert spillway.load_run(tmp_path / "run")["outcome"].to_pylist() == ["wrong_output", "ok"]


@pytest.mark.parametrize("kind", ["reference", "race", "targets/logs"])
def test_every_kind_of_run_is_loaded_and_has_each_column_once(kind):
    table = spillway.load_run(RESULTS / kind)
    assert table.num_rows > 0
    assert len(set(table.column_names)) == table.num_columns
    assert not any(pa.types.is_null(field.type) for field in table.schema)


def test_of_a_folder_of_runs_the_newest_is_loaded():
    newest = max(path.name for path in (RESULTS / "race").iterdir())
    assert set(spillway.load_run(RESULTS / "race")["run_id"].to_pylist()) == {newest}


def test_a_run_whose_records_were_compressed_is_read_as_it_was_and_not_resumed(tmp_path):
    content = "ab" * 32
    made = {"arro3": Writes([1.0, 2.0], content=content), "polars": Writes([3.0])}
    make_run(tmp_path / "run", made, [wrong(content, 10)])
    loaded, found = spillway.load_run(tmp_path), read_run(tmp_path / "run")
    for path in list((tmp_path / "run").glob("*.jsonl")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert spillway.load_run(tmp_path).equals(loaded)
    assert read_run(tmp_path / "run") == found
    with pytest.raises(OptionError, match="its records are compressed"):
        read_begun(tmp_path / "run")


def test_a_folder_without_runs_is_an_error(tmp_path):
    with pytest.raises(OptionError, match=r"no folder of runs: give the folder .* samples.jsonl"):
        spillway.load_run(tmp_path)
