"""A text in the `where` of a clause of a merge holds for the pairs of rows for which it is true in SQL."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from typing import TYPE_CHECKING, Any

import duckdb
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
from spillway.errors import OptionError, SchemaError

from ..counts import examples
from .test_constraints import VALUES, condition
from .test_deletes import MARKS
from .test_where import LISTS, SCHEMA, TEXTS, row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TABLE = SCHEMA.append(pa.field("hit", pa.int64()))
#: The same values in other types, as sources of other libraries have them.
GIVEN = (
    SCHEMA.set(SCHEMA.get_field_index("small"), pa.field("small", pa.int8()))
    .set(SCHEMA.get_field_index("exact"), pa.field("exact", pa.decimal128(12, 3)))
    .set(SCHEMA.get_field_index("name"), pa.field("name", pa.dictionary(pa.int32(), pa.string())))
    .set(SCHEMA.get_field_index("born"), pa.field("born", pa.date32()))
)
NAMES = re.compile(rf"(?<![.\w'])({'|'.join([*VALUES, 'moment'])})\b")


def texts() -> st.SearchStrategy[str]:
    return condition(TEXTS, LISTS)


@st.composite
def of_pairs(draw: Callable[..., Any]) -> str:
    """A condition that names columns of both sides."""
    sides = itertools.cycle(draw(st.lists(st.sampled_from(["source", "Target"]), min_size=1, max_size=4)))
    return NAMES.sub(lambda found: f"{next(sides)}.{found[0]}", draw(texts()))


def ids(engine: duckdb.DuckDBPyConnection, rows: str, *conditions: str) -> set[int]:
    where = " and ".join(f"({condition})" for condition in conditions)
    query = f"select id from {rows} where {where}"  # noqa: S608 - conditions of this test
    return {number for (number,) in engine.execute(query).fetchall()}


@settings(max_examples=examples(0.3))
@given(
    st.lists(row(), min_size=1, max_size=12),
    st.lists(row(), min_size=1, max_size=12),
    st.sampled_from([None, "name", "born", "flag"]),
    st.tuples(of_pairs(), of_pairs(), texts(), texts(), texts()),
    st.booleans(),
)
def test_a_clause_applies_to_the_rows_for_which_another_engine_has_its_text_true(
    old: list[dict[str, Any]],
    new: list[dict[str, Any]],
    partition_by: str | None,
    where: tuple[str, str, str, str, str],
    marks: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    deletes, updates, inserts, misses, leaves = where
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(
            folder, TABLE, partition_by=partition_by or [], properties=MARKS if marks else {}
        )
        with table.append() as append:
            numbered = [row | {"id": n, "hit": 0} for n, row in enumerate(old)]
            append.write(pa.Table.from_pylist(numbered, TABLE))
        # Half of the keys are those of the table.
        first = len(old) // 2
        source = pa.Table.from_pylist([row | {"id": first + n} for n, row in enumerate(new)], GIVEN)
        engine = duckdb.connect()
        engine.register("rows_of_table", pa.table(table.scan()))
        engine.register("rows_of_source", source)
        # Tables of its own: it has pyarrow filter others, which orders NaN differently.
        engine.execute("create table target as select * from rows_of_table")
        engine.execute("create table source as select * from rows_of_source")
        inserted: dict[str, Any] = {"id": pc.field("source.id"), "hit": 2}
        if partition_by is not None:
            inserted[partition_by] = pc.field(f"source.{partition_by}")
        done = table.merge(
            source,
            "id",
            when_matched_delete(where=deletes),
            when_matched_update({"hit": 1}, where=updates),
            when_not_matched_insert(inserted, where=inserts),
            when_not_matched_by_source_update({"hit": 3}, where=misses),
            when_not_matched_by_source_delete(where=leaves),
        )
        pairs = "target join source using (id)"
        gone = ids(engine, pairs, deletes)
        hit = ids(engine, pairs, updates) - gone
        alone = "id not in (select id from source)"
        came = ids(engine, "source", "id not in (select id from target)", inserts)
        missed = ids(engine, "target", alone, misses)
        left = ids(engine, "target", alone, leaves) - missed
        expected = dict.fromkeys(range(len(old)), 0) | dict.fromkeys(hit, 1) | dict.fromkeys(came, 2)
        expected |= dict.fromkeys(missed, 3)
        expected = {n: value for n, value in expected.items() if n not in gone | left}
        found = pa.table(table.scan(["id", "hit"])).to_pylist()
        assert {each["id"]: each["hit"] for each in found} == expected
        assert len(found) == len(expected)
        assert (done.inserted, done.updated, done.deleted) == (
            len(came),
            len(hit | missed),
            len(gone | left),
        )


PLAIN = pa.schema(
    {"part": pa.string(), "id": pa.int64(), "n": pa.int64(), "of": pa.struct({"n": pa.int64()})}
)


def made(folder: Path, rows: Sequence[tuple[Any, ...]]) -> spillway.delta.Table:
    table = spillway.delta.create(folder, PLAIN, partition_by="part", properties=MARKS)
    with table.append() as append:
        append.write(
            pa.Table.from_pylist([dict(zip(PLAIN.names, each, strict=True)) for each in rows], PLAIN)
        )
    return table


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    return made(tmp_path / "t", [("a", n, n, {"n": n}) for n in range(10)])


def test_texts_and_expressions_go_together_and_the_history_has_both(table: spillway.delta.Table) -> None:
    source = pa.table({"id": range(5, 15), "left": [0, 1] * 5, "op": ["D", "U"] * 5})
    done = table.merge(
        source,
        "id",
        when_matched_delete(where="op = 'D' AND target.n > 7"),
        when_matched_update({"n": pc.field("source.left")}, where=pc.field("source.op") == "U"),
        when_not_matched_insert({"id": pc.field("source.id"), "part": "b"}, where="source.op <> 'D'"),
        when_not_matched_by_source_delete(where="of.n = 0 OR target.of.n IN (2, 3)"),
    )
    assert done == spillway.delta.Merge(2, inserted=3, updated=2, deleted=4)
    found = {each["id"]: each["n"] for each in pa.table(table.scan()).to_pylist()}
    assert found == {1: 1, 4: 4, 5: 5, 6: 1, 7: 7, 8: 1} | dict.fromkeys((10, 12, 14))
    parameters = table.history(1)[0].info["operationParameters"]
    assert json.loads(parameters["matchedPredicates"]) == [
        {"predicate": "(op = 'D' AND target.n > 7)", "actionType": "delete"},
        {"predicate": '(source.op == "U")', "actionType": "update"},
    ]


def test_a_text_that_is_null_is_not_true(table: spillway.delta.Table) -> None:
    source = pa.table({"id": [1, 2, 3], "flag": [None, True, False]})
    assert table.merge(source, "id", when_matched_delete(where="flag")).deleted == 1
    assert table.merge(source, "id", when_matched_delete(where="NULL")).deleted == 0
    assert table.merge(source, "id", when_matched_delete(where="NOT flag OR flag IS NULL")).deleted == 2


def test_a_text_without_a_column_holds_for_all_rows_or_none(table: spillway.delta.Table) -> None:
    source = pa.table({"id": range(20)})
    assert table.merge(source, "id", when_matched_delete(where="FALSE")).deleted == 0
    assert table.merge(source, "id", when_matched_delete(where="TRUE")).deleted == 10


def test_columns_that_are_taken_have_the_types_of_the_table(table: spillway.delta.Table) -> None:
    source = pa.table({"id": pa.array([1], pa.uint8()), "n": pa.array([5], pa.uint16())})
    assert table.merge(source, "id", when_matched_update(where="source.n > target.id")).updated == 1
    # One that no clause takes has its own, in which no conditions may be built.
    halves = pa.table({"id": [1], "n": pa.array([5], pa.float16())})
    with pytest.raises(
        OptionError, match=r'"source\.n > 1": the column "n" has the type .*cast it to float32'
    ):
        table.merge(halves, "id", when_matched_delete(where="source.n > 1"))
    assert table.merge(halves, "id", when_matched_delete(where="target.n > 4")).deleted == 1


def test_nanoseconds_are_not_compared_as_microseconds(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us")})
    table = spillway.delta.create(tmp_path / "t", schema)
    source = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))})
    later = "source.at > TIMESTAMP '1970-01-01 00:00:00'"
    with pytest.raises(OptionError, match="nanoseconds that microseconds would lose"):
        table.merge(source, "id", when_not_matched_insert(["id"], where=later))
    with pytest.raises(SchemaError, match="nanoseconds that microseconds would lose"):
        table.merge(source, "id", when_not_matched_insert(where=later))


def test_a_name_without_a_side_is_that_of_the_side_that_has_it(tmp_path: Path) -> None:
    """As in Spark: a side's name comes first, also where a column has it."""
    schema = pa.schema({"id": pa.int64(), "source": pa.struct({"id": pa.int64()})})
    table = spillway.delta.create(tmp_path / "t", schema)
    with table.append() as append:
        append.write(pa.table({"id": [1, 2], "source": [{"id": 7}, {"id": 8}]}, schema))
    given = pa.table({"id": [1, 2]})
    assert table.merge(given, "id", when_matched_delete(where="source.id = 7")).deleted == 0
    assert table.merge(given, "id", when_matched_delete(where="TARGET.source.id = 7")).deleted == 1
    assert table.merge(given[:0], "id", when_not_matched_by_source_delete(where="source.id = 8")).deleted == 1


MATCHED = {
    "source.txt = 'x'": r"at character 1, .* no column source\.txt: did you mean source\.text\?",
    "target.nn > 5": r"no column target\.nn: did you mean target\.n\?",
    "textt = 'x'": r"no column textt: did you mean source\.text\?",
    "amount > 5": r"no column amount: columns of this clause are target\.NAME and source\.NAME",
    "source.id = 1 AND id = 5": r"character 19.*both sides have a column id: write target\.id or source\.id",
    "source = 1": r"source is a side: name a column of it, source\.NAME",
    "source.of.m = 1": r"no column source\.of\.m: there are source\.id, source\.text",
    "target.of.m = 1": r"no column target\.of\.m: did you mean target\.of\.n\?",
    "target.N = 1": r"the column N is named n here",
    "source.text = 5": "the column source.text cannot be compared with",
    "source.text": "no boolean",
    "source.text > target.n": r"the columns source\.text and target\.n have types that cannot be compared",
}
ONE = pa.table({"id": [1], "text": ["x"]})


@pytest.mark.parametrize("where", MATCHED)
def test_a_text_that_fits_no_column_is_refused_at_its_place(table: spillway.delta.Table, where: str) -> None:
    refuses(table, when_matched_delete(where=where), MATCHED[where])


@pytest.mark.parametrize(
    ("clause", "match"),
    [
        (when_not_matched_insert(["id"], where="target.n = 1"), r"no column target: columns .* source\.NAME"),
        (when_not_matched_insert(["id"], where="n = 1"), "no column n: "),
        (when_not_matched_by_source_delete(where="text = 'x'"), "no column text: "),
        (when_not_matched_by_source_delete(where="source.text = 'x'"), r"no column source: .* target\.NAME"),
    ],
)
def test_a_clause_is_about_its_own_sides(
    table: spillway.delta.Table, clause: spillway.delta.MergeClause, match: str
) -> None:
    refuses(table, clause, match)


def refuses(table: spillway.delta.Table, clause: spillway.delta.MergeClause, match: str) -> None:
    with pytest.raises(OptionError, match=match) as refused:
        table.merge(ONE, "id", clause)
    assert refused.value.option == "where"
    assert table.version == 1


@pytest.mark.parametrize(
    ("where", "match"),
    [
        ("source.n + 1 = 2", r"'\+' is not known"),
        ("length(source.text) > 1", "the function length is not known"),
        ("", "it ends too early"),
        ("source.text = '\ud800'", "not valid Unicode text"),
        (5, "not a condition: give one in SQL"),
    ],
)
def test_a_text_that_is_no_condition_makes_no_clause(where: Any, match: str) -> None:
    for clause in (when_matched_delete, when_not_matched_by_source_delete, when_not_matched_insert):
        with pytest.raises(OptionError, match=match) as refused:
            clause(where=where)
        assert refused.value.option == "where"
