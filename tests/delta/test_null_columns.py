"""Columns of Arrow's type null, as an all-None column of pandas is, have the types that the table knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import SchemaError

from ..counts import examples
from .conftest import READERS, read_spillway, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEAVES: list[pa.DataType] = [
    pa.int64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.float32(),
    pa.bool_(),
    pa.decimal128(9, 2),
    pa.timestamp("us", "UTC"),
]


def of_struct(kinds: list[pa.DataType]) -> pa.DataType:
    return pa.struct([pa.field(f"f{number}", kind) for number, kind in enumerate(kinds)])


TYPES: st.SearchStrategy[pa.DataType] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.lists(inner, min_size=1, max_size=3).map(of_struct),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=4,
)


@st.composite
def emptied(draw: st.DrawFn, kind: pa.DataType) -> pa.DataType:
    """The type with null in the place of some part of it."""
    if draw(st.booleans()):
        return pa.null()
    if pa.types.is_list(kind):
        return draw(st.sampled_from([pa.list_, pa.large_list]))(draw(emptied(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(draw(emptied(field.type))) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, draw(emptied(kind.item_type)))
    return kind


def append(table: spillway.delta.Table, data: pa.Table, **options: Any) -> None:
    with table.append(**options) as append:
        append.write(data)


def attach(table: spillway.delta.Table, data: pa.Table) -> None:
    elsewhere = table.append()
    elsewhere.write(data)
    with table.append() as append:
        append.attach(elsewhere.detach())


def merge(table: spillway.delta.Table, data: pa.Table) -> None:
    table.merge(data, "id")


def write(table: spillway.delta.Table, data: pa.Table) -> None:
    spillway.delta.write(table.path, data, mode="append")
    table.refresh()


WAYS: dict[str, Callable[[spillway.delta.Table, pa.Table], None]] = {
    "append": append,
    "merged schema": lambda table, data: append(table, data, schema_mode="merge"),
    "coalesced": lambda table, data: append(table, data, coalesce=True),
    "attached": attach,
    "merge": merge,
    "write": write,
}


@settings(max_examples=examples(0.3))
@given(TYPES, st.data(), st.sampled_from([*WAYS]))
def test_nulls_are_taken_at_any_depth(
    tmp_path_factory: pytest.TempPathFactory, kind: pa.DataType, data: st.DataObject, way: str
) -> None:
    folder = tmp_path_factory.mktemp("t") / "t"
    schema = pa.schema({"id": pa.int64(), "x": kind})
    table = spillway.delta.create(folder, schema)
    given = data.draw(st.one_of(emptied(kind), st.just(pa.dictionary(pa.int8(), pa.null()))))
    if pa.types.is_dictionary(given):
        nulls = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.nulls(0))
    else:
        nulls = pa.array([None, None], given)
    WAYS[way](table, pa.table({"id": [1, 2], "x": nulls}))
    expected = pa.table({"id": [1, 2], "x": [None, None]}, schema)
    assert rows(read_spillway(folder)) == rows(expected)


def test_every_reader_finds_the_nulls_and_values_of_other_batches(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "x": pa.string(), "p": pa.int32()})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="p")
    with table.append() as append:
        append.write(pa.table({"id": [1], "x": pa.nulls(1), "p": pa.nulls(1)}))
        append.write(pa.table({"id": [2], "x": ["a"], "p": pa.array([7], pa.int32())}))
    expected = pa.table({"id": [1, 2], "x": [None, "a"], "p": [None, 7]}, schema)
    for read in READERS.values():
        assert rows(read(tmp_path / "t")) == rows(expected)


def test_nulls_stay_out_of_columns_that_have_none_or_no_type(tmp_path: Path) -> None:
    required = pa.schema([pa.field("id", pa.int64()), pa.field("x", pa.int64(), nullable=False)])
    table = spillway.delta.create(tmp_path / "t", required)
    nulls = pa.table({"id": [1], "x": pa.nulls(1)})
    for put in WAYS.values():
        with pytest.raises(SchemaError, match='"x" is not nullable'):
            put(table, nulls)
    with pytest.raises(SchemaError, match="give the column a type"):
        spillway.delta.create(tmp_path / "u", nulls.schema)
    typed = pa.table({"id": [1], "x": [1], "new": pa.nulls(1)}, pa.schema([*required, ("new", pa.null())]))
    with pytest.raises(SchemaError, match="give the column a type"):
        append(table, typed, schema_mode="merge")
    assert table.version == 0
