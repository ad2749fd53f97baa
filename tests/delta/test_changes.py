"""Appends, deletes, updates and merges in any order do to a table what they do to rows of plain Python."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta

from ..counts import examples
from .conftest import rows
from .test_deletes import MARKS
from .test_scans import satisfies

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]

SCHEMA = pa.schema({"part": pa.string(), "key": pa.int64(), "number": pa.int32(), "text": pa.string()})
# Few values, so that keys and conditions meet. polars passes over deletion vectors of files whose path is
# URL-encoded, so no part has a space.
VALUES: dict[str, list[Any]] = {
    "part": [None, "a", "b"],
    "key": [None, *range(6)],
    "number": [None, -1, 0, 7],
    "text": [None, "", "x"],
}


def row() -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


def condition() -> st.SearchStrategy[tuple[str, str, Any]]:
    def of(name: str) -> st.SearchStrategy[tuple[str, str, Any]]:
        values = st.sampled_from([value for value in VALUES[name] if value is not None])
        compared = st.tuples(st.just(name), st.sampled_from(["=", "!=", "<", ">="]), values)
        null = st.tuples(st.just(name), st.sampled_from(["=", "!="]), st.none())
        return st.one_of(compared, null)

    return st.sampled_from(sorted(VALUES)).flatmap(of)


def new_values() -> st.SearchStrategy[Row]:
    value = st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(VALUES[name]))
    )
    return st.lists(value, min_size=1, max_size=2).map(dict)


def merge() -> st.SearchStrategy[dict[str, Any]]:
    source = st.fixed_dictionaries(
        {
            **{name: st.sampled_from(values) for name, values in VALUES.items()},
            "gone": st.sampled_from([None, True]),
        }
    )
    options = {
        "source": st.lists(source, max_size=8),
        "on": st.sampled_from([["key"], ["part", "key"], ["key", "text"]]),
        "columns": st.sampled_from([[*SCHEMA.names, "gone"], ["part", "key", "text", "number", "gone"]]),
        "update": st.sampled_from([True, False, ["number"]]),
        "delete": st.sampled_from([False, True, "gone"]),
        "insert": st.booleans(),
    }
    return st.fixed_dictionaries(options)


STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(row(), min_size=1, max_size=10)),
    st.tuples(st.just("delete"), st.lists(condition(), min_size=1, max_size=2)),
    st.tuples(st.just("update"), st.tuples(st.lists(condition(), max_size=2), new_values())),
    st.tuples(st.just("compute"), st.lists(condition(), max_size=2)),
    st.tuples(st.just("merge"), merge()),
)


class Model:
    """A table's rows, and what is done to them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def append(self, table: spillway.delta.Table, rows: list[Row]) -> None:
        with table.append(row_group_rows=4) as append:
            append.write(pa.Table.from_pylist(rows, SCHEMA))
        self.rows += rows

    def delete(self, table: spillway.delta.Table, conditions: list[Any]) -> None:
        kept = [row for row in self.rows if not all(satisfies(row, one) for one in conditions)]
        version = table.version
        gone = len(self.rows) - len(kept)
        assert table.delete(conditions) == spillway.delta.Deletion(version + bool(gone), gone)
        self.rows = kept

    def update(self, table: spillway.delta.Table, change: tuple[list[Any], Row]) -> None:
        conditions, values = change
        self.updated(table, conditions, values, lambda row: row | values)

    def compute(self, table: spillway.delta.Table, conditions: list[Any]) -> None:
        number, text = pc.field("number"), pc.field("text")
        values = {"number": number * 2 - 1, "text": pc.if_else(pc.is_null(number), text, "n"), "key": 3}

        def new(row: Row) -> Row:
            found = row["number"]
            return row | {
                "number": None if found is None else found * 2 - 1,
                "text": row["text"] if found is None else "n",
                "key": 3,
            }

        self.updated(table, conditions, values, new)

    def updated(self, table: spillway.delta.Table, conditions: list[Any], values: Any, new: Any) -> None:
        chosen = [all(satisfies(row, one) for one in conditions) for row in self.rows]
        version = table.version
        update = table.update(conditions, values)
        assert update == spillway.delta.Update(version + any(chosen), sum(chosen))
        self.rows = [new(row) if yes else row for row, yes in zip(self.rows, chosen, strict=True)]

    def merge(self, table: spillway.delta.Table, options: dict[str, Any]) -> None:
        on, update, delete = options["on"], options["update"], options["delete"]
        insert = options["insert"] or not (update or delete)
        source = only_once(options["source"], on)
        by_key = {key(row, on): row for row in source if None not in key(row, on)}
        matched = set[tuple[Any, ...]]()
        kept, updated, deleted = list[Row](), 0, 0
        for row in self.rows:
            other = by_key.get(key(row, on))
            if other is None:
                kept.append(row)
                continue
            matched.add(key(row, on))
            if delete is True or (delete == "gone" and other["gone"]):
                deleted += 1
            elif update:
                names = SCHEMA.names if update is True else update
                kept.append(row | {name: other[name] for name in names})
                updated += 1
            else:
                kept.append(row)
        inserted = [
            {name: row[name] for name in SCHEMA.names}
            for row in source
            if insert and key(row, on) not in matched and not (delete == "gone" and row["gone"])
        ]
        version = table.version
        fields = [
            pa.field("gone", pa.bool_()) if name == "gone" else SCHEMA.field(name)
            for name in options["columns"]
        ]
        given = pa.Table.from_pylist(source, pa.schema(fields))
        if delete != "gone":
            given = given.drop_columns("gone")
        done = table.merge(given, on, update=update, delete=delete, insert=insert)
        changes = bool(inserted or updated or deleted)
        assert done == spillway.delta.Merge(version + changes, len(inserted), updated, deleted)
        self.rows = kept + inserted


def key(row: Row, on: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in on)


def only_once(source: list[Row], on: Sequence[str]) -> list[Row]:
    """The rows without those that have the key of one before; keys with a null equal none."""
    seen = set[tuple[Any, ...]]()
    kept = []
    for row in source:
        if None in key(row, on) or key(row, on) not in seen:
            kept.append(row)
        seen.add(key(row, on))
    return kept


def engines(path: str) -> dict[str, pa.Table]:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return {
        "polars": pl.scan_delta(path).collect().to_arrow(),
        "delta-rs": pa.table(query.execute("select * from t")),
        "spillway": pa.table(spillway.delta.open(path).scan()),
    }


@settings(max_examples=examples(0.6))
@given(
    st.lists(row(), min_size=1, max_size=20),
    st.lists(STEPS, min_size=1, max_size=6),
    st.sampled_from([[], ["part"], ["part", "text"]]),
    st.booleans(),
)
def test_changes_do_to_a_table_what_they_do_to_rows(
    first: list[Row],
    steps: list[tuple[str, Any]],
    partition_by: list[str],
    marks: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    if "text" in partition_by:
        # The log has an empty text and null of a partition column alike.
        first = [row | {"text": row["text"] or None} for row in first]
        steps = [(name, without_empty(change)) for name, change in steps]
    with tempfile.TemporaryDirectory() as folder:
        properties = MARKS if marks else {}
        table = spillway.delta.create(folder, SCHEMA, partition_by=partition_by, properties=properties)
        model = Model()
        model.append(table, first)
        for name, change in steps:
            getattr(model, name)(table, change)
            assert rows(pa.table(table.scan())) == rows(pa.Table.from_pylist(model.rows, SCHEMA))
            assert all(file.deleted_rows == 0 for file in table.files()) or marks
        expected = rows(pa.Table.from_pylist(model.rows, SCHEMA))
        for engine, found in engines(folder).items():
            assert rows(found) == expected, engine


def without_empty(change: Any) -> Any:
    """The change with "y" in the place of empty texts."""
    match change:
        case "":
            return "y"
        case dict():
            return {name: without_empty(each) for name, each in change.items()}
        case list() | tuple():
            return type(change)(without_empty(each) for each in change)
    return change
