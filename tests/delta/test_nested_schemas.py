"""Structs grow with ``schema_mode="merge"``; fields go by name, and those that rows lack are null."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import OptionError, SchemaError

from ..counts import examples
from .conftest import READERS, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAVES = [pa.int64(), pa.string(), pa.float64()]
NAMES = "abcd"


def struct_of(kinds: Sequence[pa.DataType]) -> pa.DataType:
    return pa.struct(list(zip(NAMES, kinds, strict=False)))


def wholes() -> st.SearchStrategy[pa.DataType]:
    """Types with structs of all fields."""
    inner = st.recursive(
        st.sampled_from(LEAVES),
        lambda below: st.one_of(
            st.lists(below, min_size=2, max_size=4).map(struct_of),
            below.map(pa.list_),
            below.map(lambda kind: pa.map_(pa.string(), kind)),
        ),
        max_leaves=5,
    )
    return st.lists(inner, min_size=2, max_size=4).map(struct_of)


@st.composite
def parts(draw: st.DrawFn, kind: pa.DataType) -> pa.DataType:
    """The type with some of the fields of its structs, in any order."""
    if pa.types.is_struct(kind):
        fields = draw(st.lists(st.sampled_from(list(kind)), min_size=1, unique_by=lambda field: field.name))
        return pa.struct([(field.name, draw(parts(field.type))) for field in fields])
    if pa.types.is_list(kind):
        return pa.list_(draw(parts(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), draw(parts(kind.item_type)))
    return kind


@st.composite
def values(draw: st.DrawFn, kind: pa.DataType) -> Any:
    if draw(st.integers(0, 4)) == 0:
        return None
    if pa.types.is_struct(kind):
        return {field.name: draw(values(field.type)) for field in kind}
    if pa.types.is_list(kind):
        return draw(st.lists(values(kind.value_type), max_size=2))
    if pa.types.is_map(kind):
        return [("k", draw(values(kind.item_type)))] * draw(st.integers(0, 1))
    return {pa.int64(): 7, pa.string(): "text", pa.float64(): 0.5}[kind]


def filled(value: Any, kind: pa.DataType) -> Any:
    """A value with null in the fields that it lacks, and its fields in their order."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: filled(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [filled(one, kind.value_type) for one in value]
    if pa.types.is_map(kind):
        return [(key, filled(one, kind.item_type)) for key, one in value]
    return value


def merged(known: pa.DataType, given: pa.DataType) -> pa.DataType:
    """The type that a table has after rows of another: its own fields, and then the new ones."""
    if pa.types.is_struct(known):
        fields = {field.name: field.type for field in known}
        for field in given:
            fields[field.name] = (
                merged(fields[field.name], field.type) if field.name in fields else field.type
            )
        return pa.struct(list(fields.items()))
    if pa.types.is_list(known):
        return pa.list_(merged(known.value_type, given.value_type))
    if pa.types.is_map(known):
        return pa.map_(pa.string(), merged(known.item_type, given.item_type))
    return known


def plain(kind: pa.DataType) -> pa.DataType:
    """The type with the names that pyarrow gives to what lists and maps hold."""
    return merged(kind, kind)


def table_of(kind: pa.DataType, data: Sequence[Any]) -> pa.Table:
    return pa.table({"n": pa.array(range(len(data))), "deep": pa.array(data, kind)})


@given(data=st.data())
@settings(max_examples=examples(0.2))
def test_rows_of_any_part_of_a_struct_come_together(data: st.DataObject) -> None:
    whole = data.draw(wholes())
    kinds = [data.draw(parts(whole)) for _ in range(3)]
    given_values = [data.draw(st.lists(values(kind), min_size=1, max_size=3)) for kind in kinds]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "t"
        schema = pa.schema({"n": pa.int64(), "deep": kinds[0]})
        table = spillway.delta.create(folder, schema)
        expected_kind = kinds[0]
        for kind, column in zip(kinds, given_values, strict=True):
            with table.append(schema_mode="merge") as append:
                append.write(table_of(kind, column))
            expected_kind = merged(expected_kind, kind)
        # Rows that lack fields need no merge.
        with table.append() as append:
            append.write(table_of(kinds[0], given_values[0]))
        found = pa.table(table.scan())
        kind = found.schema.field("deep").type
        everything = [*given_values, given_values[0]]
        expected = [
            {"n": n, "deep": filled(value, kind)} for column in everything for n, value in enumerate(column)
        ]
        assert plain(kind) == expected_kind
        assert rows(found) == rows(pa.Table.from_pylist(expected, found.schema))
        assert rows(READERS["delta-rs"](folder)) == rows(found)


def test_a_new_field_needs_the_merge(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"deep": pa.struct({"a": pa.int64()})}))
    given = pa.table({"deep": [{"a": 1, "b": "x"}]})
    with pytest.raises(SchemaError, match="schema_mode") as raised, table.append() as append:
        append.write(given)
    assert (raised.value.column, table.version) == ("deep", 0)
    with table.append(schema_mode="merge") as append:
        append.write(given)
    assert pa.table(table.scan()).equals(given)
    with duckdb.connect() as connection:
        files = [f"{table.path}/{file.path}" for file in table.files()]
        assert connection.read_parquet(files).fetchall() == [({"a": 1, "b": "x"},)]


@pytest.mark.parametrize("given", [{"a": "text"}, {"b": 1}, {"a": {"x": 1}}], ids=str)
def test_what_is_no_growth_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    kind = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    table = spillway.delta.create(tmp_path / "t", pa.schema({"deep": kind}))
    for mode in (None, "merge"):
        with pytest.raises(SchemaError), table.append(schema_mode=mode) as append:
            append.write(pa.table({"deep": [given]}))
    assert table.version == 0


def test_appends_that_add_different_fields_at_once_all_commit(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"deep": pa.struct({"a": pa.int64()})}))

    def one(number: int) -> None:
        with table.append(schema_mode="merge") as append:
            append.write(pa.table({"deep": [{f"field_{number}": number}]}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(16)))
    found = pa.table(table.scan())["deep"].to_pylist()
    names = ["a", *(f"field_{number}" for number in range(16))]
    assert sorted(found[0]) == sorted(names)
    assert sorted(value for row in found for value in row.values() if value is not None) == list(range(16))


def test_parts_of_an_append_may_have_different_fields(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"deep": pa.struct({"a": pa.int64()})}))
    detached = []
    for value in ({"a": 1}, {"b": 2, "a": 3}, {"c": 4}):
        append = table.append(schema_mode="merge")
        append.write(pa.table({"deep": [value]}))
        detached.append(append.detach())
    with table.append(schema_mode="merge") as append:
        for part in detached:
            append.attach(part)
    found = pa.table(table.scan())["deep"].to_pylist()
    assert sorted(found, key=str) == [
        {"a": 1, "b": None, "c": None},
        {"a": 3, "b": 2, "c": None},
        {"a": None, "b": None, "c": 4},
    ]
    assert rows(READERS["delta-rs"](tmp_path / "t")) == rows(pa.table(table.scan()))


@pytest.mark.parametrize("form", ["struct", "list", "deep"])
def test_changes_do_not_lose_fields_that_their_values_lack(tmp_path: Path, form: str) -> None:
    def wrapped(kind: pa.DataType) -> pa.DataType:
        return {"struct": kind, "list": pa.list_(kind), "deep": pa.struct([("in", kind)])}[form]

    def value(fields: dict[str, int]) -> Any:
        return {"struct": fields, "list": [fields], "deep": {"in": fields}}[form]

    def source(fields: dict[str, int]) -> pa.Table:
        kind = wrapped(pa.struct([(name, pa.int64()) for name in fields]))
        return pa.table({"id": [1], "s": pa.array([value(fields)], kind)})

    path = {"struct": "s.b", "list": "s.b", "deep": "s.in.b"}[form]
    spillway.delta.write(tmp_path / "t", source({"a": 1, "b": 2}))
    table = spillway.delta.open(tmp_path / "t")
    version = table.version
    with pytest.raises(SchemaError, match=path) as raised:
        table.merge(source({"a": 3}), "id")
    assert raised.value.column == path
    assert table.refresh() == version
    assert table.merge(source({"b": 4, "a": 3}), "id").updated == 1
    assert pa.table(table.scan())["s"].to_pylist() == [value({"a": 3, "b": 4})]


def test_expressions_have_all_fields_of_a_struct(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "s": [{"a": 1, "b": 2}]})
    spillway.delta.write(tmp_path / "t", rows)
    table = spillway.delta.open(tmp_path / "t")
    with pytest.raises(OptionError, match='"b"'):
        table.update("id = 1", {"s": pc.make_struct(pc.field("id"), field_names=["a"])})
    assert pa.table(table.scan()).equals(rows)
