"""Appends, deletes, updates and merges in any order do to a table what they do to rows of plain Python."""

from __future__ import annotations

import operator
import tempfile
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import (
    when_matched_delete,
    when_matched_update,
    when_not_matched_by_source_delete,
    when_not_matched_by_source_update,
    when_not_matched_insert,
)
from spillway.errors import OptionError

from ..counts import examples
from .conftest import rows
from .test_deletes import MARKS
from .test_scans import satisfies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


@dataclass(frozen=True, eq=False)
class Choice:
    """An argument of a clause, and what it is for a row of the table and one of the source.

    Attributes:
        given: The argument, which may be an expression.
        model: Its value for the two rows.
    """

    given: Any
    model: Callable[[Row, Row], Any]

    def __repr__(self) -> str:
        return str(self.given)


def compared(one: Any, other: Any, compare: Callable[[Any, Any], bool]) -> bool | None:
    return None if one is None or other is None else compare(one, other)


GONE = Choice(pc.field("source.gone"), lambda _, source: source["gone"])
OF_SOURCE = [
    GONE,
    Choice(pc.field("source.number") >= 0, lambda _, s: compared(s["number"], 0, operator.ge)),
    Choice(pc.field("source.text").is_null(), lambda _, s: s["text"] is None),
]
OF_TARGET = [
    Choice(pc.field("target.number") < 7, lambda t, _: compared(t["number"], 7, operator.lt)),
    Choice(pc.field("target.part") == "a", lambda t, _: compared(t["part"], "a", operator.eq)),
]
OF_BOTH = [
    Choice(
        pc.field("source.number") > pc.field("target.number"),
        lambda t, s: compared(s["number"], t["number"], operator.gt),
    ),
    *OF_SOURCE,
    *OF_TARGET,
]
ALL = Choice(None, lambda _, source: {name: source[name] for name in SCHEMA.names})
#: Values that rows of the source give, and those that need a row of the table.
INSERTED = [
    ALL,
    Choice(
        ["part", "key", "text"],
        lambda _, s: {"part": s["part"], "key": s["key"], "text": s["text"], "number": None},
    ),
    Choice(
        {"part": "b", "key": pc.field("source.key"), "text": "new", "number": pc.field("source.number") + 1},
        lambda _, s: {"part": "b", "key": s["key"], "text": "new", "number": increased(s["number"])},
    ),
]
MATCHED = [
    ALL,
    Choice(["number"], lambda _, s: {"number": s["number"]}),
    Choice({"text": None, "number": 5}, lambda _, __: {"text": None, "number": 5}),
    Choice(
        {"number": pc.coalesce(pc.field("source.number"), pc.field("target.number")), "key": 9},
        lambda t, s: {"number": t["number"] if s["number"] is None else s["number"], "key": 9},
    ),
]
BY_SOURCE = [
    Choice({"part": "b"}, lambda _, __: {"part": "b"}),
    Choice({"number": pc.field("target.number") + 1}, lambda t, _: {"number": increased(t["number"])}),
]


def increased(number: int | None) -> int | None:
    return None if number is None else number + 1


@dataclass(frozen=True, eq=False)
class Clause:
    """A clause: its function, and the choices that are its values and its condition, if it has them."""

    make: Callable[..., spillway.delta.MergeClause]
    values: Choice | None
    where: Choice | None

    def given(self) -> spillway.delta.MergeClause:
        where = self.where and self.where.given
        return self.make(where=where) if self.values is None else self.make(self.values.given, where=where)

    def applies(self, target: Row, source: Row) -> bool:
        return self.where is None or self.where.model(target, source) is True


def clauses_of(
    values: dict[Any, list[Choice | None]], conditions: list[Choice]
) -> st.SearchStrategy[list[Clause]]:
    """Clauses of a kind, of which the last may lack a condition."""
    made = st.sampled_from([(make, value) for make, some in values.items() for value in some])
    guarded = st.builds(lambda made, where: Clause(*made, where), made, st.sampled_from(conditions))
    last = st.lists(st.builds(lambda made: Clause(*made, None), made), max_size=1)
    return st.builds(operator.add, st.lists(guarded, max_size=2), last)


CLAUSES = {
    "matched": clauses_of({when_matched_update: [*MATCHED], when_matched_delete: [None]}, OF_BOTH),
    "not_matched": clauses_of({when_not_matched_insert: [*INSERTED]}, OF_SOURCE),
    "by_source": clauses_of(
        {when_not_matched_by_source_update: [*BY_SOURCE], when_not_matched_by_source_delete: [None]},
        OF_TARGET,
    ),
}
#: A merge without clauses.
UPSERT = {
    "matched": [Clause(when_matched_update, ALL, None)],
    "not_matched": [Clause(when_not_matched_insert, ALL, None)],
    "by_source": [],
}


def merge() -> st.SearchStrategy[dict[str, Any]]:
    source = st.fixed_dictionaries(
        {
            **{name: st.sampled_from(values) for name, values in VALUES.items()},
            "gone": st.sampled_from([None, True, False]),
        }
    )
    options = {
        "source": st.lists(source, max_size=8),
        "once": st.sampled_from([True, True, False]),
        "on": st.sampled_from([["key"], ["part", "key"], ["key", "text"]]),
        "columns": st.sampled_from([[*SCHEMA.names, "gone"], ["gone", "part", "key", "text", "number"]]),
        "matched": CLAUSES["matched"],
        "not_matched": CLAUSES["not_matched"],
        "by_source": st.one_of(st.just([]), CLAUSES["by_source"]),
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
        # What a change data feed has, by its own names of columns.
        self.feed: list[Row] = []

    def note(self, table: spillway.delta.Table, change: str, rows: Sequence[Row]) -> None:
        version = table.version
        self.feed += [row | {"_change_type": change, "_commit_version": version} for row in rows]

    def append(self, table: spillway.delta.Table, rows: list[Row]) -> None:
        with table.append(row_group_rows=4) as append:
            append.write(pa.Table.from_pylist(rows, SCHEMA))
        self.note(table, "insert", rows)
        self.rows += rows

    def delete(self, table: spillway.delta.Table, conditions: list[Any]) -> None:
        chosen = [all(satisfies(row, one) for one in conditions) for row in self.rows]
        version = table.version
        assert table.delete(conditions) == spillway.delta.Deletion(version + any(chosen), sum(chosen))
        self.note(table, "delete", [row for row, yes in zip(self.rows, chosen, strict=True) if yes])
        self.rows = [row for row, yes in zip(self.rows, chosen, strict=True) if not yes]

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
        before = [row for row, yes in zip(self.rows, chosen, strict=True) if yes]
        self.note(table, "update_preimage", before)
        self.note(table, "update_postimage", [new(row) for row in before])
        self.rows = [new(row) if yes else row for row, yes in zip(self.rows, chosen, strict=True)]

    def merge(self, table: spillway.delta.Table, options: dict[str, Any]) -> None:
        on = options["on"]
        source = only_once(options["source"], on) if options["once"] else options["source"]
        clauses = [clause for kind in CLAUSES for clause in options[kind]]
        fields = [
            pa.field("gone", pa.bool_()) if name == "gone" else SCHEMA.field(name)
            for name in options["columns"]
            # A column that the table lacks is there for a condition.
            if name != "gone" or any(clause.where is GONE for clause in clauses)
        ]
        rows = [{field.name: row[field.name] for field in fields} for row in source]
        given = pa.Table.from_pylist(rows, pa.schema(fields))
        merge = partial(table.merge, given, on, *(clause.given() for clause in clauses))
        version = table.version
        try:
            after = merged(self.rows, source, on, options if clauses else UPSERT)
        except Ambiguous:
            with pytest.raises(OptionError, match="rows of the source have the key"):
                merge()
            assert table.version == version
            return
        counts = tuple(len(rows) for rows in (after.inserted, after.updated, after.deleted))
        assert merge() == spillway.delta.Merge(version + any(counts), *counts)
        self.note(table, "insert", after.inserted)
        self.note(table, "delete", after.deleted)
        self.note(table, "update_preimage", [before for before, _ in after.updated])
        self.note(table, "update_postimage", [new for _, new in after.updated])
        self.rows = after.kept + after.inserted


class Ambiguous(Exception):  # noqa: N818 - no fault
    """Several source rows would change one row."""


@dataclass
class Merged:
    """The rows after a merge: those that were there, and new ones."""

    kept: list[Row] = field(default_factory=list)
    inserted: list[Row] = field(default_factory=list)
    # Rows before and after.
    updated: list[tuple[Row, Row]] = field(default_factory=list)
    deleted: list[Row] = field(default_factory=list)

    def change(self, row: Row, clause: Clause | None, source: Row) -> None:
        if clause is None:
            self.kept.append(row)
        elif clause.values is None:
            self.deleted.append(row)
        else:
            new = row | clause.values.model(row, source)
            self.kept.append(new)
            self.updated.append((row, new))


def merged(rows: list[Row], source: list[Row], on: Sequence[str], clauses: dict[str, list[Clause]]) -> Merged:
    matched, not_matched, by_source = (clauses[kind] for kind in CLAUSES)
    after = Merged()
    for row in rows:
        same = [each for each in source if None not in key(row, on) and key(each, on) == key(row, on)]
        if not same:
            after.change(row, first(by_source, row, {}), {})
            continue
        found = [(clause, each) for each in same if (clause := first(matched, row, each))]
        only_deletes = matched and matched[0].values is None and matched[0].where is None
        if len(found) > 1 and not only_deletes:
            raise Ambiguous
        after.change(row, *(found[0] if found else (None, {})))
    keys = {key(row, on) for row in rows if None not in key(row, on)}
    for each in source:
        clause = first(not_matched, {}, each)
        if key(each, on) not in keys and clause and clause.values:
            after.inserted.append(clause.values.model({}, each))
    return after


def first(clauses: list[Clause], target: Row, source: Row) -> Clause | None:
    return next((clause for clause in clauses if clause.applies(target, source)), None)


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
