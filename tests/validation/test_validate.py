"""Promises of the validator besides finding faults."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.errors import OptionError
from spillway.validation import Mismatch, Source, Validator, Verdict, digest_source, summary, validate


def write(path: Path, table: pa.Table) -> Path:
    pq.write_table(table, path)
    return path


def table_of(**columns: list[object]) -> pa.Table:
    return pa.table(columns)


def test_only_the_first_rows_of_the_source_count(tmp_path: Path) -> None:
    source = write(tmp_path / "source.parquet", table_of(a=list(range(100))))
    prefix = write(tmp_path / "prefix.parquet", table_of(a=list(range(40))))
    (verdict,) = validate([prefix], Source(source, 40), ["pyarrow"])
    assert verdict.ok
    (verdict,) = validate([prefix], Source(source, 41), ["pyarrow"])
    assert verdict.mismatch is not None
    assert (verdict.mismatch.kind, verdict.mismatch.row) == ("row_count", 40)
    assert (verdict.mismatch.expected, verdict.mismatch.actual) == ("40", "no row")


def test_a_source_with_too_few_rows_is_an_error(tmp_path: Path) -> None:
    source = write(tmp_path / "source.parquet", table_of(a=[1, 2]))
    with pytest.raises(OptionError, match="holds 2 rows, and 3 were asked for"):
        validate([source], Source(source, 3), ["pyarrow"])


def test_no_rows_are_rows_too(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.parquet", pa.table({"a": pa.array([], pa.int32())}))
    verdicts = validate([empty], Source(empty), ["pyarrow", "polars", "duckdb"])
    assert all(verdict.ok for verdict in verdicts), verdicts


def test_unknown_engines_are_refused_with_the_list() -> None:
    with pytest.raises(
        OptionError, match=r"unknown engine 'hive'; accepted are spark, pyarrow, polars, duckdb"
    ):
        Validator(["pyarrow", "hive"])


def test_missing_files_are_errors_of_the_system(tmp_path: Path) -> None:
    there = write(tmp_path / "there.parquet", table_of(a=[1]))
    with pytest.raises(FileNotFoundError, match="missing"):
        validate([tmp_path / "missing.parquet"], Source(there), ["pyarrow"])
    with pytest.raises(FileNotFoundError, match="missing"):
        validate([there], Source(tmp_path / "missing.arrow"), ["pyarrow"])


def test_a_source_has_to_be_arrow_or_parquet(tmp_path: Path) -> None:
    text = tmp_path / "rows.csv"
    text.write_text("a\n1\n")
    with pytest.raises(OptionError, match="neither an Arrow IPC file nor a Parquet file"):
        digest_source(text)


def test_equal_contents_are_read_once(tmp_path: Path) -> None:
    first = write(tmp_path / "first.parquet", table_of(a=[1, 2, 3]))
    second = tmp_path / "second.parquet"
    second.write_bytes(first.read_bytes())
    told: list[tuple[int, int]] = []
    verdicts = validate(
        [first, second], Source(first), ["polars"], progress=lambda done, total, _: told.append((done, total))
    )
    assert [(verdict.file, verdict.ok) for verdict in verdicts] == [(first, True), (second, True)]
    assert told[-1] == (1, 1)


def test_one_content_may_be_held_against_several_sources(tmp_path: Path) -> None:
    good = write(tmp_path / "good.parquet", table_of(a=[1, 2, 3]))
    other = write(tmp_path / "other.parquet", table_of(a=[1, 2, 4]))
    with Validator(["pyarrow"]) as validator:
        verdicts = validator.validate([(good, Source(good)), (good, Source(other))])
        again = validator.validate([(good, Source(other))])
    assert [verdict.ok for verdict in verdicts] == [True, False]
    assert again == verdicts[1:]


def test_names_that_readers_would_interpret_are_only_names(tmp_path: Path) -> None:
    table = table_of(a=[1, 2, 3])
    names = ["_hidden.parquet", "a=1.parquet", "star*[0-9]?.parquet", "no suffix", "with space%20.parquet"]
    files = [write(tmp_path / name, table) for name in names]
    verdicts = validate(files, Source(files[0]), ["pyarrow", "polars", "duckdb"])
    assert all(verdict.ok for verdict in verdicts), verdicts


def test_a_type_that_a_reader_cannot_know_is_excused_only_where_pyarrow_fares_alike(tmp_path: Path) -> None:
    wide = pa.array([1, 2, 3], pa.decimal256(60, 2))  # DuckDB reads decimals wider than 38 digits as doubles
    source = write(tmp_path / "source.parquet", pa.table({"wide": wide, "b": [1, 2, 3]}))
    (verdict,) = validate([source], Source(source), ["duckdb"])
    assert not verdict.ok
    assert verdict.excused
    assert not verdict.failed
    assert verdict.mismatch is not None
    assert (verdict.mismatch.kind, verdict.mismatch.column) == ("schema", "wide")
    assert summary([verdict]) == ["validated by duckdb: 0 of 1 (1 excused)"]


def test_an_excused_column_does_not_hide_a_fault_in_another(tmp_path: Path) -> None:
    wide = pa.array([1, 2, 3], pa.decimal256(60, 2))
    source = write(tmp_path / "source.parquet", pa.table({"wide": wide, "b": [1, 2, 3]}))
    swapped = write(tmp_path / "swapped.parquet", pa.table({"wide": wide, "b": [1, 3, 2]}))
    (verdict,) = validate([swapped], Source(source), ["duckdb"])
    assert verdict.failed
    assert verdict.mismatch is not None
    assert (verdict.mismatch.column, verdict.mismatch.row) == ("b", 1)


def test_columns_that_share_a_name_are_excused_where_a_reader_renames_them(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1, 4]), pa.array([2, 5]), pa.array([3, 6])], ["a", "a", "b"])
    source = tmp_path / "source.arrow"
    with pa.ipc.new_file(source, table.schema) as writer:
        writer.write_table(table)
    file = write(tmp_path / "file.parquet", table)
    by_pyarrow, by_duckdb = validate([file], Source(source), ["pyarrow", "duckdb"])
    assert by_pyarrow.ok
    assert by_duckdb.excused
    assert not by_duckdb.failed


def test_a_value_that_the_sources_type_cannot_hold_is_named(tmp_path: Path) -> None:
    source = write(tmp_path / "source.parquet", pa.table({"at": pa.array([1, 2, 3], pa.timestamp("ms"))}))
    finer = pa.array([1000, 2001, 3000], pa.timestamp("us"))
    file = write(tmp_path / "finer.parquet", pa.table({"at": finer}))
    for verdict in validate([file], Source(source), ["pyarrow", "polars", "duckdb"]):
        assert verdict.mismatch is not None, verdict
        assert (verdict.mismatch.kind, verdict.mismatch.column, verdict.mismatch.row) == ("values", "at", 1)
        assert verdict.mismatch.expected == "1970-01-01 00:00:00.002"
        assert verdict.mismatch.actual == "1970-01-01 00:00:00.002001, which timestamp[ms] cannot hold"


def test_long_values_are_shown_where_they_begin_to_differ(tmp_path: Path) -> None:
    source = write(tmp_path / "source.parquet", table_of(a=["x" * 5000 + "left"]))
    file = write(tmp_path / "file.parquet", table_of(a=["x" * 5000 + "right"]))
    (verdict,) = validate([file], Source(source), ["pyarrow"])
    assert verdict.mismatch is not None
    assert verdict.mismatch.expected is not None
    assert verdict.mismatch.expected.endswith("xleft'")
    assert len(verdict.mismatch.expected) < 200


def test_the_summary_counts_files_and_not_readers() -> None:
    fault = Mismatch("values", "a", 0, "1", "2", "differs")

    def verdict(file: str, engine: str, *, ok: bool = True, excused: bool = False) -> Verdict:
        return Verdict(Path(file), engine, ok, excused, None if ok else fault, 0.1)

    verdicts = [
        verdict("a", "spark-vectorized"),
        verdict("a", "spark-row", ok=False),
        verdict("b", "spark-vectorized", ok=False, excused=True),
        verdict("b", "spark-row"),
        verdict("c", "spark-vectorized"),
        verdict("c", "spark-row"),
        verdict("a", "polars"),
    ]
    assert summary(verdicts) == [
        "validated by spark: 1 of 3 (1 failed, 1 excused)",
        "validated by polars: 1 of 1",
    ]


def test_a_type_that_a_reader_cannot_know_does_not_excuse_a_file_that_is_none(tmp_path: Path) -> None:
    kind = pa.decimal256(50, 2)
    source = write(tmp_path / "source.parquet", pa.table({"a": pa.array([1, 2], kind), "b": [1, 2]}))
    (right,) = validate([source], Source(source, 2), ["polars"])
    text = tmp_path / "text.parquet"
    text.write_text("hello")
    (wrong,) = validate([text], Source(source, 2), ["polars"])
    assert (wrong.ok, wrong.excused) == (False, False)
    assert right.excused
