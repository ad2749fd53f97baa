"""`write` takes what `write_parquet` takes, and makes a table of it where there is none."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
import spillway.delta

from ..writer.test_inputs import COLUMNS, FORMS, INPUTS, TABLE

if TYPE_CHECKING:
    from pathlib import Path

ALL = {**FORMS, **INPUTS}


def read(folder: Path) -> list[dict[str, Any]]:
    return pa.table(spillway.delta.open(folder).scan()).to_pylist()


@pytest.mark.parametrize("form", ALL)
def test_any_form_of_rows_makes_a_table_and_is_appended_to_it(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    assert spillway.delta.write(folder, ALL[form]()) == 1
    assert spillway.delta.write(folder, ALL[form](), mode="append") == 2
    assert read(folder) == 2 * TABLE.to_pylist()
    assert spillway.delta.write(folder, ALL[form](), mode="overwrite") == 3
    assert read(folder) == TABLE.to_pylist()


@pytest.mark.parametrize("form", ALL)
def test_any_form_of_rows_makes_a_dataset(form: str, tmp_path: Path) -> None:
    assert spillway.write_dataset(ALL[form](), tmp_path / "d").rows == 3
    (file,) = (tmp_path / "d").glob("*.parquet")
    assert pq.read_table(file).to_pydict() == COLUMNS


def test_a_table_made_for_rows_has_the_types_that_they_ask_for(tmp_path: Path) -> None:
    row = {
        "whole": 1,
        "real": 0.5,
        "text": "x",
        "when": dt.datetime(2026, 11, 24, tzinfo=dt.UTC),
        "day": dt.date(2026, 11, 24),
        "tags": ["a"],
        "at": {"x": 1},
        "unknown": None,
    }
    spillway.delta.write(tmp_path / "t", [{}, row])
    schema = pa.schema(spillway.delta.open(tmp_path / "t").schema)
    assert {field.name: str(field.type) for field in schema} == {
        "whole": "int64",
        "real": "double",
        "text": "string",
        "when": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "tags": "list<element: string>",
        "at": "struct<x: int64>",
        "unknown": "string",
    }
    assert read(tmp_path / "t")[1] == row


def test_rows_and_columns_get_the_types_of_the_table(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int8()), ("day", pa.date32()), ("more", pa.string())])
    spillway.delta.create(tmp_path / "t", schema)
    spillway.delta.write(tmp_path / "t", [{"n": 1, "day": "2026-11-24"}], mode="append")
    spillway.delta.write(tmp_path / "t", {"n": [2], "day": [dt.date(2026, 11, 25)]}, mode="append")
    assert sorted((row["n"], row["day"].day) for row in read(tmp_path / "t")) == [(1, 24), (2, 25)]
    with pytest.raises(spillway.SchemaError, match="other"):
        spillway.delta.write(tmp_path / "t", {"n": [3], "other": ["x"]}, mode="append")
    wider = {"n": [3], "other": ["x"]}
    assert spillway.delta.write(tmp_path / "t", wider, mode="append", schema_mode="merge") == 3
    assert spillway.delta.open(tmp_path / "t").schema.names == ["n", "day", "more", "other"]


def test_columns_that_are_there_once_are_all_written(tmp_path: Path) -> None:
    for name in ("made", "made"):
        spillway.delta.write(tmp_path / name, {"id": (number for number in range(3))}, mode="append")
    assert sorted(row["id"] for row in read(tmp_path / "made")) == [0, 0, 1, 1, 2, 2]


def test_a_bad_row_leaves_the_table_that_was_made_for_it_empty(tmp_path: Path) -> None:
    bad: list[Any] = [{"id": 1}, 7]
    with pytest.raises(spillway.RowError, match="row 1"):
        spillway.delta.write(tmp_path / "t", bad)
    assert (spillway.delta.open(tmp_path / "t").version, read(tmp_path / "t")) == (0, [])


def test_dicts_bring_a_table_no_columns(tmp_path: Path) -> None:
    spillway.delta.write(tmp_path / "t", [{"id": 1}])
    with pytest.raises(spillway.RowError, match="more"):
        spillway.delta.write(tmp_path / "t", [{"id": 2, "more": 3}], mode="append", schema_mode="merge")


def test_a_bad_row_commits_nothing(tmp_path: Path) -> None:
    spillway.delta.write(tmp_path / "t", [{"id": 1}])
    with pytest.raises(spillway.RowError, match='row 1, field "id"'):
        spillway.delta.write(tmp_path / "t", [{"id": 2}, {"id": "x"}], mode="append")
    assert read(tmp_path / "t") == [{"id": 1}]


def test_nothing_makes_no_table(tmp_path: Path) -> None:
    with pytest.raises(spillway.SchemaError, match="no rows to infer a schema from"):
        spillway.delta.write(tmp_path / "t", [])
    assert not (tmp_path / "t").exists()
    spillway.delta.write(tmp_path / "t", pl.LazyFrame(COLUMNS).head(0), mode="append")
    assert spillway.delta.write(tmp_path / "t", [], mode="append") == 0
    assert read(tmp_path / "t") == []


@pytest.mark.parametrize(
    "data", [3, None, "rows", b"rows", [1, 2], object()], ids=lambda data: type(data).__name__
)
def test_what_has_no_rows_is_refused_and_makes_no_table(data: Any, tmp_path: Path) -> None:
    with pytest.raises(spillway.NotArrowError, match="has neither __arrow_c_stream__"):
        spillway.delta.write(tmp_path / "t", data)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("value", [dt.time(1), dt.timedelta(1)], ids=["time", "duration"])
def test_rows_that_a_table_cannot_hold_are_refused_by_name(tmp_path: Path, value: object) -> None:
    with pytest.raises(spillway.SchemaError, match="cannot hold") as caught:
        spillway.delta.write(tmp_path / "t", [{"x": value}])
    assert caught.value.column == "x"
    assert not (tmp_path / "t").exists()
