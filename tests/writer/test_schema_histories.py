"""Any history of schemas: the rows that come back, unified by name, are those that were written."""

from __future__ import annotations

import json
import tempfile
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import count

HISTORIES = count(quick=10, ci=30, soak=1000)
SMALL = st.integers(0, 100)
QUARTERS = st.integers(0, 100).map(lambda number: number / 4)
POINT = pa.struct([("x", pa.int16())])
WIDER_POINT = pa.struct([("y", pa.string()), ("x", pa.int64())])


def point(kind: pa.StructType) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: values(field.type) for field in kind})


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values that every wider type holds, too."""
    if pa.types.is_null(kind):
        return st.none()
    if pa.types.is_integer(kind):
        some: st.SearchStrategy[Any] = SMALL
    elif pa.types.is_floating(kind):
        some = QUARTERS
    elif pa.types.is_decimal(kind):
        some = QUARTERS.map(Decimal)
    elif pa.types.is_struct(kind):
        some = point(kind)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        some = st.lists(values(kind.value_type), max_size=2)
    else:
        some = st.sampled_from(["", "a", "bc"])
    return st.none() | some


#: Types of one column, in any order of which a type holds the values of all.
LADDERS = {
    "int": [pa.int8(), pa.uint8(), pa.int32(), pa.int64()],
    "float": [pa.int16(), pa.float32(), pa.int32(), pa.float64()],
    "decimal": [pa.int32(), pa.decimal128(5, 2), pa.decimal128(20, 4)],
    "text": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()],
    "struct": [POINT, WIDER_POINT],
    "list": [pa.list_(pa.int32()), pa.list_(pa.int64()), pa.large_list(pa.int8())],
    "structs": [pa.list_(POINT), pa.list_(WIDER_POINT)],
}


@st.composite
def batches(draw: st.DrawFn) -> list[pa.Table]:
    """Batches with columns that come, go, widen, narrow and are null."""
    found = []
    for _ in range(draw(st.integers(1, 6))):
        rows = draw(st.integers(0, 12))
        names = draw(st.lists(st.sampled_from(sorted(LADDERS)), unique=True, max_size=4))
        columns = {"part": pa.array(draw(st.lists(st.sampled_from("ab"), min_size=rows, max_size=rows)))}
        if rows == 0:
            columns["part"] = columns["part"].cast(pa.string())
        for name in names:
            kind = draw(st.sampled_from([pa.null(), *LADDERS[name]]))
            plain = kind.value_type if pa.types.is_dictionary(kind) else kind
            cells = draw(st.lists(values(plain), min_size=rows, max_size=rows))
            columns[name] = pa.array(cells, plain).cast(kind)
        found.append(pa.table(columns))
    return found


OPTIONS = st.fixed_dictionaries(
    {
        "on_schema_change": st.sampled_from(["widen", "rotate"]),
        "partition_by": st.sampled_from([(), "part"]),
        "row_group_rows": st.sampled_from([1, 5, 20, 1000]),
        "max_file_rows": st.none() | st.integers(1, 20),
        "max_open_files": st.sampled_from([1, 64]),
    }
)


def without_nulls(value: Any) -> Any:
    """A row by what it says: a key that is missing and one that is null say the same."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in sorted(value.items()) if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def by_number(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [without_nulls(row) for row in sorted(rows, key=lambda row: row["number"])]


def by_pyarrow(files: list[spillway.DatasetFile]) -> list[dict[str, Any]]:
    tables = []
    for file in files:
        table = pq.read_table(file.path, partitioning=None)
        for name, value in file.partition.items():
            table = table.append_column(name, pa.array([value] * table.num_rows, pa.string()))
        tables.append(table)
    return pa.concat_tables(tables, promote_options="permissive").to_pylist()


def by_duckdb(files: list[spillway.DatasetFile]) -> list[dict[str, Any]]:
    paths = [str(file.path) for file in files]
    is_partitioned = bool(files[0].partition)
    read = f"read_parquet({paths}, union_by_name = true, hive_partitioning = {is_partitioned})"
    return duckdb.sql(f"FROM {read}").to_arrow_table().to_pylist()


def check(result: spillway.DatasetResult, expected: list[dict[str, Any]]) -> None:
    """Compare the files, each by one schema of all, with the rows that were written."""
    if not expected:
        assert result.rows == 0
        return
    files = list(result.files)
    assert by_number(by_pyarrow(files)) == by_number(expected)
    assert by_number(by_duckdb(files)) == by_number(expected)


@settings(max_examples=HISTORIES)
@given(history=batches(), options=OPTIONS, bad=st.none() | st.integers(0, 5))
def test_batches_of_any_schemas_come_back(
    history: list[pa.Table], options: dict[str, Any], bad: int | None
) -> None:
    expected: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        with spillway.DatasetWriter(folder, **options) as writer:
            for place, batch in enumerate(history):
                numbers = pa.array(range(len(expected), len(expected) + batch.num_rows), pa.int64())
                table = batch.append_column("number", numbers)
                if place == bad and place > 0:
                    with pytest.raises(spillway.SchemaError):
                        writer.write(pa.table({"number": ["x"], "new": [1]}))
                writer.write(table)
                expected += table.to_pylist()
        check(writer.result, expected)


JSON = {
    "int": SMALL,
    "float": QUARTERS,
    "text": st.sampled_from(["", "a"]),
    "bool": st.booleans(),
    # The elements of a list that begins empty are text.
    "list": st.lists(SMALL, min_size=1, max_size=2),
    "struct": st.fixed_dictionaries({"x": st.none() | SMALL}, optional={"y": st.none() | st.just("b")}),
}


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of a call, with keys that come and go."""
    row = st.fixed_dictionaries(
        {"part": st.sampled_from("ab")},
        optional={name: st.none() | cells for name, cells in JSON.items()},
    )
    return draw(st.lists(row, min_size=1, max_size=6))


@settings(max_examples=HISTORIES)
@given(
    history=st.lists(rows(), min_size=1, max_size=5),
    options=OPTIONS,
    form=st.sampled_from(["dicts", "ndjson"]),
)
def test_rows_of_any_keys_come_back(
    history: list[list[dict[str, Any]]], options: dict[str, Any], form: str
) -> None:
    expected: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        with spillway.DatasetWriter(folder, **options) as writer:
            for call in history:
                numbered = [{"number": len(expected) + place, **row} for place, row in enumerate(call)]
                if form == "ndjson":
                    lines = "".join(json.dumps(row) + "\n" for row in numbered)
                    assert writer.write_ndjson(lines.encode()) == len(call)
                else:
                    assert writer.write_rows(numbered) == len(call)
                expected += numbered
        check(writer.result, expected)
