"""CHECK constraints hold for every row that is written here, and mean what they mean elsewhere."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import shutil
import tempfile
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import AddFile
from spillway.errors import (
    CommitConflict,
    ConstraintError,
    MetadataChanged,
    OptionError,
    ProtocolChanged,
    UnsupportedTableError,
)

from ..counts import examples
from .conftest import read_deltalake
from .logs import line_of, read_version, set_as_another, write_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

NUMBERS = pa.schema({"id": pa.int64(), "part": pa.string()})


def rows(*ids: int | None, part: str | None = "a") -> pa.Table:
    return pa.table({"id": [*ids], "part": [part] * len(ids)}, NUMBERS)


def append(table: spillway.delta.Table, *ids: int | None, **options: Any) -> int:
    with table.append(**options) as append:
        append.write(rows(*ids))
    assert append.version is not None
    return append.version


def ids(table: spillway.delta.Table) -> list[int | None]:
    return sorted(pa.table(table.scan(["id"]))["id"].to_pylist(), key=lambda value: (value is None, value))


def positive(folder: Path, **options: Any) -> spillway.delta.Table:
    """A table with rows and a constraint."""
    table = spillway.delta.create(folder, NUMBERS, **options)
    append(table, 1, 2)
    assert table.add_constraint("Positive", "id > 0") == 2
    return table


def test_a_constraint_is_kept_as_delta_has_it(tmp_path: Path) -> None:
    table = positive(tmp_path / "t")
    assert table.constraints == {"positive": "id > 0"}
    assert table.properties == {"delta.constraints.positive": "id > 0"}
    assert line_of(table, "protocol", 2) == {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["appendOnly", "invariants", "checkConstraints"],
    }
    [entry] = table.history(1)
    assert (entry.operation, entry.info["operationParameters"]) == (
        "ADD CONSTRAINT",
        {"name": "positive", "expr": "id > 0"},
    )
    table.checkpoint()
    assert spillway.delta.open(table.path).constraints == {"positive": "id > 0"}
    assert table.drop_constraint("POSITIVE") == 3
    assert table.history(1)[0].operation == "DROP CONSTRAINT"
    assert (table.constraints, append(table, -1)) == ({}, 4)


def test_a_row_that_breaks_a_constraint_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    table = positive(tmp_path / "t")
    with table.append() as late:
        late.write(rows(3))
        with pytest.raises(ConstraintError) as refused:
            late.write(rows(4, 5, -6, -7))
        late.write(rows(8))
    assert "row 2 of a batch has id = -6" in str(refused.value)
    assert "positive CHECK (id > 0)" in str(refused.value)
    assert (refused.value.constraint, refused.value.expression) == ("positive", "id > 0")
    assert ids(table) == [1, 2, 3, 8]
    for value, shown in ((0, "id = 0"), (None, "id = NULL")):
        with pytest.raises(ConstraintError, match=shown):
            append(table, value)
    assert (table.version, len(table.files())) == (3, len([*(tmp_path / "t").glob("*.parquet")]))


WRITES: dict[str, Callable[[spillway.delta.Table], Any]] = {
    "append": lambda table: append(table, 3, -1),
    "coalesce": lambda table: append(table, 3, -1, coalesce=True),
    "overwrite": lambda table: spillway.delta.write(table.path, rows(-1), mode="overwrite"),
    "update": lambda table: table.update([("id", "=", 1)], {"id": -1}),
    "computed": lambda table: table.update([("id", "=", 1)], {"id": pc.field("id") - 1}),
    "insert": lambda table: table.merge(rows(-1), "id"),
    "merge": lambda table: table.merge(
        rows(1), "id", spillway.delta.when_matched_update({"id": pc.field("source.id") - 2})
    ),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("marks", ["true", "false"])
def test_no_write_breaks_a_constraint(tmp_path: Path, write: str, marks: str) -> None:
    table = positive(tmp_path / "t", properties={"delta.enableDeletionVectors": marks})
    before = sorted(path for path in (tmp_path / "t").rglob("*.parquet") if path.parent.name != "_delta_log")
    with pytest.raises(ConstraintError, match="positive"):
        WRITES[write](table)
    after = sorted(path for path in (tmp_path / "t").rglob("*.parquet") if path.parent.name != "_delta_log")
    assert (table.version, ids(table), after) == (2, [1, 2], before)
    table.update([("id", "=", 1)], {"id": 5})
    table.merge(rows(7), "id")
    assert ids(table) == [2, 5, 7]
    table.optimize()
    assert ids(table) == [2, 5, 7]


def test_files_of_the_caller_are_compared_too(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part")
    table.add_constraint("range", "id BETWEEN 1 AND 9 AND part <> 'x'")

    def add(name: str, value: int, part: str, **options: Any) -> int:
        pq.write_table(rows(value).drop_columns("part"), tmp_path / "t" / name)
        size = (tmp_path / "t" / name).stat().st_size
        return table.commit(adds=[AddFile(name, size, partition_values={"part": part}, **options)])

    assert add("good.parquet", 5, "a") == 2
    with pytest.raises(ConstraintError, match=r"row 0 of many\.parquet has id = 10, part = 'a'"):
        add("many.parquet", 10, "a")
    with pytest.raises(ConstraintError, match=r"moved\.parquet"):
        add("moved.parquet", 10, "a", data_change=False)
    with pytest.raises(ConstraintError, match="part = 'x'"):
        add("part.parquet", 5, "x")
    assert (table.version, ids(table)) == (2, [5])


@pytest.mark.parametrize("stats", [None, {"numRecords": 3, "nullCount": {"id": 1, "of": {"n": 0}}}])
def test_a_file_of_the_caller_with_null_in_a_column_that_allows_none_is_refused(
    tmp_path: Path, stats: dict[str, Any] | None
) -> None:
    inner = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("of", inner)])
    table = spillway.delta.create(tmp_path / "t", schema)
    loose = pa.schema([pa.field("id", pa.int64()), pa.field("of", pa.struct({"n": pa.int64()}))])

    def add(ids: list[int | None], of: list[dict[str, int | None] | None]) -> int:
        path = tmp_path / "t" / f"{len(list((tmp_path / 't').iterdir()))}.parquet"
        pq.write_table(pa.table({"id": ids, "of": of}, schema=loose), path)
        return table.commit(adds=[AddFile(path.name, path.stat().st_size, stats=stats)])

    assert add([1, 2, 3], [{"n": 1}, None, {"n": 3}]) == 1
    with pytest.raises(OptionError, match=r'row 1 of .*\.parquet has null in "id"'):
        add([1, None, 3], [{"n": 1}, None, {"n": 3}])
    if stats is None:  # which say of the field that it has no null
        with pytest.raises(OptionError, match=r'row 2 of .*\.parquet has null in "of\.n"'):
            add([1, 2, 3], [{"n": 1}, None, {"n": None}])
    assert (table.version, ids(table)) == (1, [1, 2, 3])


def test_a_row_of_a_file_has_its_number_in_the_file(tmp_path: Path) -> None:
    table = positive(tmp_path / "t")
    path = tmp_path / "t" / "long.parquet"
    pq.write_table(rows(*[1] * 150_000, -1), path, row_group_size=50_000)
    with pytest.raises(ConstraintError, match=r"row 150000 of long\.parquet"):
        table.commit(adds=[AddFile(path.name, path.stat().st_size)])


def test_rows_of_batches_before_the_broken_one_are_counted(tmp_path: Path) -> None:
    table = positive(tmp_path / "t")
    batches = [rows(3, 4), rows(5), rows(6, -7), rows(8)]
    stream = pa.RecordBatchReader.from_batches(NUMBERS, (some.to_batches()[0] for some in batches))
    for data in (pa.concat_tables(batches), stream):
        with table.append() as late:
            with pytest.raises(ConstraintError, match=r"row 1 of a batch .*the first 3 of the data"):
                late.write(data)
            late.write(rows(9))
    assert ids(table) == [1, 2, *[3] * 2, *[4] * 2, *[5] * 2, *[9] * 2]
    with pytest.raises(ConstraintError, match=r"^a changed or inserted row has id = -1"):
        table.update([("id", "=", 1)], {"id": -1})


def test_values_that_cannot_be_shown_close_no_append(tmp_path: Path) -> None:
    moment = pa.timestamp("us", "UTC")
    schema = pa.schema({"at": moment, "nest": pa.struct({"at": moment})})
    table = spillway.delta.create(tmp_path / "t", schema)
    table.add_constraint("none", "at IS NULL AND nest IS NULL")
    late = pa.array([9 * 10**18], pa.int64()).cast(moment)
    nest = pa.StructArray.from_arrays([pa.array([0], pa.int64()).cast(moment)], ["at"])
    empty = pa.table({"at": [None], "nest": [None]}, schema)
    with table.append() as append:
        for data in (empty.set_column(0, schema.field(0), late), empty.set_column(1, schema.field(1), nest)):
            with pytest.raises(ConstraintError, match="none CHECK"):
                append.write(data)
        append.write(empty)
    assert pa.table(table.scan()).num_rows == 1


def test_rows_of_now_are_compared_before_a_constraint_comes(tmp_path: Path) -> None:
    table = spillway.delta.create(
        tmp_path / "t", NUMBERS, properties={"delta.enableDeletionVectors": "true"}, partition_by="part"
    )
    append(table, -1, 2, None, 4, 5)
    append(table, -6)
    with pytest.raises(ConstraintError, match=r"3 in all, such as one with id = (-1|-6)"):
        table.add_constraint("positive", "id > 0")
    assert (table.version, table.constraints) == (2, {})
    table.delete([("id", "<", 0)])
    with pytest.raises(ConstraintError, match=r"1 in all, such as one with id = NULL"):
        table.add_constraint("positive", "id > 0")
    assert table.add_constraint("positive", "id > 0 or id is null") == 4
    append(table, None, 7)
    with pytest.raises(OptionError, match="has a constraint positive already") as refused:
        table.add_constraint("POSITIVE", "id > 1")
    assert refused.value.option == "name"
    with pytest.raises(OptionError, match=r"no constraint .negative.: it has positive"):
        table.drop_constraint("negative")


def test_rows_that_another_writer_let_in_may_move_and_not_come_back(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    append(table, -1, 2, 3)
    set_as_another(table, {"delta.constraints.positive": "id > 0"})
    assert table.delete([("id", "=", 2)]).rows == 1
    append(table, 4)
    assert table.optimize().added_files == 1
    assert ids(table) == [-1, 3, 4]
    with pytest.raises(ConstraintError, match="id = -1"):
        table.update([("id", "=", -1)], {"part": "b"})


def test_an_empty_text_of_a_partition_column_is_the_null_that_it_becomes(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part")
    table.add_constraint("parts", "part is not null and part <> 'x'")
    for part in ("", None, "x"):
        with pytest.raises(ConstraintError), table.append() as late:
            late.write(rows(1, part=part))
    with table.append() as late:
        late.write(rows(1, part="y"))
    assert ids(table) == [1]


def test_rows_under_way_are_not_let_past_a_constraint_that_comes(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    late, merging = table.append(), table.append(schema_mode="merge")
    elsewhere = table.append()
    elsewhere.write(rows(-1))
    part = elsewhere.detach()
    late.write(rows(-1))
    merging.write(pa.table({"id": [-1], "more": [1]}))
    table.add_constraint("positive", "id > 0")
    for one, conflict in ((late, ProtocolChanged), (merging, CommitConflict)):
        with pytest.raises(conflict):
            one.commit()
    for options in ({}, {"schema_mode": "merge"}):
        with pytest.raises(CommitConflict), table.append(**options) as taking:  # type: ignore[arg-type]
            taking.attach(part)
    late = table.append()
    late.write(rows(50))
    table.add_constraint("small", "id < 10")
    with pytest.raises(MetadataChanged):
        late.commit()
    late = table.append()
    late.write(rows(5))
    table.drop_constraint("small")
    assert late.commit() == 4
    assert ids(table) == [5]


def test_a_column_that_rows_lack_is_null(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    table.add_constraint("named", "part is not null")
    with pytest.raises(ConstraintError, match="part = NULL"), table.append() as late:
        late.write(pa.table({"id": [1]}))
    assert table.version == 1


def test_older_versions_and_new_tables_have_their_own_constraints(tmp_path: Path) -> None:
    table = positive(tmp_path / "t")
    table.restore(1)
    assert append(table, -1) == 4
    table.restore(2)
    with pytest.raises(ConstraintError):
        append(table, -1)
    again = spillway.delta.create(table.path, NUMBERS, mode="overwrite")
    assert (again.constraints, append(again, -1)) == ({}, 7)


REFUSED = {
    "id in (1, 2e0)": "compared as doubles",
    "length(part) > 1": 'at character 1, "length.*the function length is not known',
    "id + 1 > 0": "'\\+' is not known",
    "part like 'a%'": "patterns are not supported",
    'part = "a"': "double quotes",
    "part = 'it''s'": "engines read differently",
    "id > 0 and ids > 0": r'at character 12, "ids > 0": there is no column ids: did you mean id\?',
    "ID > 0": "the column ID is named id here, and case matters: write id$",
    "part > 1": "the column part cannot be compared with a literal of this type",
    "id < 9223372036854775808": "a number beyond the longs",
    "id = 'x'": "the column id cannot be compared with",
    "id = part": "the columns id and part have types",
    "id": "no boolean",
    "id < 1e999": "beyond the doubles",
    "id = 9007199254740992.0": "a fraction of more than 15 digits",
    "order = 1": "SQL reserves the word order",
    "(id > 0) between true and false": "BETWEEN goes with a column",
    "1 = 1": "not of a column",
    "": "ends too early",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_expressions_that_are_not_understood_are_refused(tmp_path: Path, expression: str) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    with pytest.raises(OptionError, match=REFUSED[expression]) as refused:
        table.add_constraint("c", expression)
    assert refused.value.option == "expression"
    assert table.version == 0


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ü"])
def test_names_of_constraints_are_plain(tmp_path: Path, name: str) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    with pytest.raises(OptionError, match="letters, digits and underscores"):
        table.add_constraint(name, "id > 0")


def test_a_foreign_constraint_that_is_not_understood_keeps_writers_out_until_it_goes(tmp_path: Path) -> None:
    table = positive(tmp_path / "t")
    lines = [line for line in read_version(table, 2) if "commitInfo" not in line]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.constraints.long"] = "length(part) > 0"
    write_version(table, 3, lines)
    for change in (lambda: append(table, 3), lambda: table.add_constraint("c", "id < 9")):
        with pytest.raises(UnsupportedTableError, match=r"delta\.constraints\.long=.*function length.*drop_"):
            change()
    # What writes no rows asks nothing of them.
    assert table.checkpoint() == 3
    table.vacuum()
    assert sorted(read_deltalake(tmp_path / "t")["id"].to_pylist()) == ids(table)
    assert table.set_properties({"owner": "web"}) == 4
    assert table.drop_constraint("long") == 5
    assert append(table, 3) == 6


def invariant(expression: str) -> dict[str, str]:
    """The metadata of a column."""
    return {"delta.invariants": json.dumps({"expression": {"expression": expression}})}


def stating(table: spillway.delta.Table, notes: dict[str, dict[str, str]], version: int = 0) -> int:
    """Give columns of the table metadata, as another writer does; a field of a struct is ``group.x``."""
    metadata = line_of(table, "metaData", version)
    schema = json.loads(metadata["schemaString"])
    for path, note in notes.items():
        fields, field = schema["fields"], {}
        for name in path.split("."):
            [field] = [each for each in fields if each["name"] == name]
            fields = field["type"]["fields"] if isinstance(field["type"], dict) else []
        field["metadata"] = note
    before = table.version
    write_version(table, before + 1, [{"metaData": metadata | {"schemaString": json.dumps(schema)}}])
    assert table.version == before + 1
    return before + 1


@pytest.mark.parametrize("write", WRITES)
def test_no_write_breaks_an_invariant_of_a_column(tmp_path: Path, write: str) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    append(table, 1, 2)
    version = stating(table, {"id": invariant("id > 0")})
    files = sorted((tmp_path / "t").glob("*.parquet"))
    with pytest.raises(ConstraintError, match=r"invariant of the column id, id > 0, is not true") as refused:
        WRITES[write](table)
    assert (refused.value.constraint, refused.value.expression) == ("id", "id > 0")
    assert "drop the constraint" not in str(refused.value)
    assert (table.version, ids(table)) == (version, [1, 2])
    assert sorted((tmp_path / "t").glob("*.parquet")) == files
    table.update([("id", "=", 1)], {"id": 5})
    with table.append(schema_mode="merge") as wider:
        wider.write(pa.table({"id": [3], "more": [1]}))
    with pytest.raises(ConstraintError, match="id = NULL"):
        append(table, None)
    assert ids(table) == [2, 3, 5]


def test_an_invariant_is_over_all_columns_and_nested_ones_have_their_own(tmp_path: Path) -> None:
    schema = pa.schema({"low": pa.int64(), "group": pa.struct({"x": pa.int64()})})
    table = spillway.delta.create(tmp_path / "t", schema)
    stating(table, {"low": invariant("low < group.x"), "group.x": invariant("group.x <= 9")})
    for low, x, broken in [(1, 2, None), (2, 2, "low"), (2, 10, r"group\.x"), (2, None, "low")]:
        data = pa.table({"low": [low], "group": [{"x": x}]}, schema)
        if broken is None:
            spillway.delta.write(table.path, data, mode="append")
            continue
        with pytest.raises(ConstraintError, match=f"invariant of the column {broken},"):
            spillway.delta.write(table.path, data, mode="append")
    table.refresh()
    assert pa.table(table.scan()).num_rows == 1


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (invariant("length(part) > 1")["delta.invariants"], "function length is not known"),
        (invariant("ids > 0")["delta.invariants"], "no column ids"),
        ("{}", "holds no expression"),
        ("id > 0", "holds no expression"),
        (7, "holds no expression"),
    ],
)
def test_an_invariant_that_is_not_understood_keeps_rows_out(tmp_path: Path, rule: Any, why: str) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    version = stating(table, {"id": {"delta.invariants": rule}})
    with pytest.raises(UnsupportedTableError, match=rf"column id has delta\.invariants=.*{why}.*with Spark"):
        append(table, 1)
    assert table.set_properties({"owner": "web"}) == version + 1
    assert pa.table(table.scan()).num_rows == 0


def test_rows_under_way_are_not_let_past_an_invariant_that_comes(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    late, merging = table.append(), table.append(schema_mode="merge")
    elsewhere = table.append(schema_mode="merge")
    elsewhere.write(rows(-1))
    part = elsewhere.detach()
    late.write(rows(-1))
    merging.write(pa.table({"id": [-1], "more": [1]}))
    version = stating(table, {"id": invariant("id > 0")})
    for one in (late, merging):
        with pytest.raises(CommitConflict):
            one.commit()
    with pytest.raises(CommitConflict), table.append(schema_mode="merge") as taking:
        taking.attach(part)
    assert table.version == version


@settings(max_examples=examples(0.1))
@given(value=st.integers(-2, 2), other=st.integers(-2, 2), sign=st.sampled_from(["<", "<=", "=", "<>", ">"]))
def test_an_invariant_refuses_the_rows_that_delta_rs_refuses(value: int, other: int, sign: str) -> None:
    data = pa.table({"id": [value], "part": ["a"]}, NUMBERS)
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(folder, NUMBERS)
        stating(table, {"id": invariant(f"id {sign} {other}")})
        kept = []
        for write in (
            lambda: deltalake.write_deltalake(folder, data, mode="append"),
            lambda: spillway.delta.write(folder, data, mode="append"),
        ):
            try:
                write()
                kept.append(True)
            except (ConstraintError, deltalake.exceptions.DeltaError):
                kept.append(False)
        assert kept[0] == kept[1]


def test_delta_rs_and_spillway_keep_the_constraints_of_each_other(tmp_path: Path) -> None:
    table = positive(tmp_path / "ours")
    with pytest.raises(deltalake.exceptions.DeltaError, match="1 rows failed validation check"):
        deltalake.write_deltalake(table.path, rows(-1), mode="append")
    deltalake.write_deltalake(table.path, rows(3), mode="append")
    assert sorted(read_deltalake(tmp_path / "ours")["id"].to_pylist()) == [1, 2, 3]
    deltalake.write_deltalake(tmp_path / "theirs", rows(1))
    theirs = deltalake.DeltaTable(tmp_path / "theirs")
    theirs.alter.add_constraint({"in_range": "id > 0 AND (id < 10 OR part = 'z')"})
    table = spillway.delta.open(tmp_path / "theirs")
    assert append(table, 9) == 2
    with pytest.raises(ConstraintError, match="in_range"):
        append(table, 10)
    assert table.add_constraint("odd", "id <> 2") == 3
    table.checkpoint()
    deltalake.write_deltalake(table.path, rows(8), mode="append")
    table.refresh()
    assert ids(table) == [1, 8, 9]


FORMS = [
    "`whole` == 7 or whole != -1",
    "exact BETWEEN 0 AND 7.25",
    "exact > 7.2400 and whole < 1e16 and small > 6.99",
    "single > -0.25e0 and nest.whole >= 0",
    "name not in ('B') AND NOT (name < '')",
    "born >= DATE '2026-01-31' and clock < '2026-01-31 12:00:00'",
    "flag",
]


@pytest.mark.parametrize("expression", FORMS)
def test_delta_rs_understands_what_a_condition_may_be(tmp_path: Path, expression: str) -> None:
    """And gives it the same truth, for a row of nulls, too."""
    table = spillway.delta.create(tmp_path / "t", ROWS)
    table.add_constraint("c", expression)
    good = {name: values[-1] for name, values in VALUES.items()}
    good |= {"nest": {"whole": 7}, "clock": VALUES["clock"][0], "ratio": 7.0, "single": 7.0, "flag": True}
    bad = {name: values[0] for name, values in VALUES.items()}
    bad |= {"whole": -1, "nest": {"whole": -1}, "name": "B", "flag": False}
    deltalake.write_deltalake(table.path, pa.Table.from_pylist([good], ROWS), mode="append")
    for wrong in (bad, dict.fromkeys(good)):
        rows = pa.Table.from_pylist([wrong], ROWS)
        with pytest.raises(deltalake.exceptions.DeltaError, match="1 rows failed validation check"):
            deltalake.write_deltalake(table.path, rows, mode="append")
        with pytest.raises(ConstraintError):
            spillway.delta.write(table.path, rows, mode="append")
    spillway.delta.write(table.path, pa.Table.from_pylist([good], ROWS), mode="append")


# Few values, so that comparisons often hold; and those at which engines differ.
VALUES: dict[str, list[Any]] = {
    "whole": [-(2**40), -1, 0, 7, 2**53],
    "small": [-5, 0, 7],
    "exact": [Decimal("-0.50"), Decimal("0.00"), Decimal("7.00"), Decimal("7.25")],
    "fine": [Decimal("0.0001"), Decimal("7.2500")],
    "ratio": [-math.inf, -1.5, -0.0, 0.1, 7.0, math.nan],
    "single": [-1.5, 0.1, 7.0, math.nan],
    "name": ["", "a", "ab", "B", "é"],
    "born": [dt.date(1969, 12, 31), dt.date(2026, 1, 31)],
    "clock": [dt.datetime(2026, 1, 31), dt.datetime(2026, 1, 31, 12, 0, 0, 1)],  # noqa: DTZ001 - no zone
    "flag": [True, False],
    "nest": [{"whole": None}, {"whole": 7}, {"whole": -1}],
}
ROWS = pa.schema(
    {
        "whole": pa.int64(),
        "small": pa.int16(),
        "exact": pa.decimal128(9, 2),
        "fine": pa.decimal128(20, 4),
        "ratio": pa.float64(),
        "single": pa.float32(),
        "name": pa.string(),
        "born": pa.date32(),
        "clock": pa.timestamp("us"),
        "flag": pa.bool_(),
        "nest": pa.struct({"whole": pa.int64()}),
    }
)
LITERALS: dict[str, list[str]] = {
    "whole": ["0", "-1", "7", "0.5", "9007199254740993", "9223372036854775807"],
    "small": ["0", "7", "6.99", "-5.0"],
    "exact": ["0", "7", "7.25", "-0.5", "7.250"],
    "fine": ["0.0001", "7.25", "1"],
    "ratio": ["0", "0.1", "7", "-1.5"],
    "name": ["''", "'a'", "'B'", "'é'"],
    "born": ["DATE '2026-01-31'", "'1969-12-31'"],
    "clock": ["'2026-01-31 00:00:00'", "'2026-01-31 12:00:00.000001'"],
    "flag": ["true", "FALSE"],
    "nest.whole": ["-1", "7.0"],
}
PAIRS = ["whole {} small", "exact {} fine", "small {} exact", "small {} ratio", "nest.whole {} whole"]
OTHERS = ["flag", "NOT flag", "nest is null", "TRUE", "null", "whole < 1e1", "ratio = 1e-1", "name = null"]
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
NOT = st.sampled_from(["", "not "])


def sampled(seed: int, count: int) -> pa.Table:
    """Rows with some value or null in each column."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    some = [{name: draw.choice([None, *VALUES[name]]) for name in VALUES} for _ in range(count)]
    return pa.Table.from_pylist(some, ROWS)


def condition(
    literals: Mapping[str, Sequence[str]] = LITERALS, others: Sequence[str] = ()
) -> st.SearchStrategy[str]:
    """Conditions in SQL, each true for some rows and null for others."""

    def of(name: str) -> st.SearchStrategy[str]:
        names, values = st.just(name), st.sampled_from(literals[name])
        some = st.lists(values | st.just("null"), min_size=1, max_size=3).map(", ".join)
        kinds = [
            st.tuples(names, SIGNS, values).map(" ".join),
            st.tuples(values, SIGNS, names).map(" ".join),
            st.builds("{} {}BETWEEN {} AND {}".format, names, NOT, values, values),
            st.builds("{} is {}null".format, names, NOT),
        ]
        if name not in {"clock", "moment"}:
            kinds.append(st.builds("{} {}in ({})".format, names, NOT, some))
        return st.one_of(kinds)

    leaf = st.one_of(
        st.sampled_from(sorted(literals)).flatmap(of),
        st.sampled_from([*OTHERS, *others]),
        st.builds(str.format, st.sampled_from(PAIRS), SIGNS),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("not ({})".format, inner),
            st.builds("({} AND {} or {})".format, inner, inner, inner),
        ),
        max_leaves=6,
    )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[spillway.delta.Table, Any]:
    """A table with two files of rows, and another engine with the same ones."""
    table = spillway.delta.create(tmp_path_factory.mktemp("constraints") / "t", ROWS)
    for seed in (1, 2):
        with table.append() as append:
            append.write(sampled(seed, 120))
    engine = duckdb.connect()
    engine.register("given", pa.table(table.scan()))
    # From its own table: it has pyarrow filter others, which orders NaN differently.
    engine.execute("create table every as select * from given")
    return table, engine


def broken(table: spillway.delta.Table, expression: str) -> int:
    """The number of rows that break a constraint."""
    before = table.version
    try:
        table.add_constraint("c", expression)
    except ConstraintError as error:
        assert table.version == before
        return int(str(error).partition(" in all")[0].rpartition(" ")[2])
    table.drop_constraint("c")
    return 0


@settings(max_examples=examples(0.6))
@given(expression=condition())
def test_a_condition_is_true_where_it_is_in_another_engine(
    mixed: tuple[spillway.delta.Table, Any], expression: str
) -> None:
    table, engine = mixed
    query = f"select count(*) from every where ({expression}) is not true"  # noqa: S608 - a condition of this test
    assert broken(table, expression) == engine.execute(query).fetchone()[0], expression


def test_rows_are_compared_in_any_layout(tmp_path: Path) -> None:
    """Dictionaries, views and small integers are converted as the table stores them."""
    schema = pa.schema({"name": pa.string(), "size": pa.int64(), "of": pa.struct({"n": pa.string()})})
    table = spillway.delta.create(tmp_path / "t", schema)
    table.add_constraint("names", "name in ('a', 'b') and size < 200 and `of`.n = 'x'")
    layouts = [pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.large_string(), pa.string()]
    for layout in layouts:
        nested = pa.StructArray.from_arrays([pa.array(["x", "x", "x"], layout)], ["n"])
        sizes = pa.array([1, 2, 3], pa.uint8())
        data = pa.table({"name": pa.array(["a", "b", "c"], layout), "size": sizes, "of": nested})
        with table.append() as append:
            append.write(data.slice(0, 2))
            append.write(data.slice(1, 1))
            with pytest.raises(ConstraintError, match=r"row 1 of a batch has name = 'c', .*of\.n = 'x',"):
                append.write(data.slice(1))
    assert pa.table(table.scan()).num_rows == 3 * len(layouts)


def test_columns_that_spark_pads_are_not_compared(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    metadata = line_of(table, "metaData")
    fields = json.loads(metadata["schemaString"])
    fields["fields"][1]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    write_version(table, 1, [{"metaData": metadata | {"schemaString": json.dumps(fields)}}])
    with pytest.raises(OptionError, match="type char or varchar"):
        table.add_constraint("c", "part = 'a'")
    with pytest.raises(OptionError, match='"part", which has the type char'):
        table.merge(rows(1), on="part")


def test_lists_of_times_say_how_they_are_written(tmp_path: Path) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "clock": pa.timestamp("us")})
    table = spillway.delta.create(tmp_path / "t", schema)
    with pytest.raises(OptionError, match="compare with each, joined by OR"):
        table.add_constraint("c", "clock IN ('2026-01-31 12:00:00')")
    with pytest.raises(OptionError, match="write TIMESTAMP before it"):
        table.add_constraint("c", "at IN ('2026-01-31 12:00:00Z')")
    table.add_constraint("c", "at IN (TIMESTAMP '2026-01-31 12:00:00Z') OR clock = '2026-01-31 12:00:00'")


def test_moments_are_compared_with_a_zone_and_others_refused(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"at": pa.timestamp("us", "UTC")}))
    with pytest.raises(OptionError, match="no time with a zone"):
        table.add_constraint("late", "at >= '2026-01-31 12:00:00'")
    table.add_constraint("late", "at >= TIMESTAMP '2026-01-31 13:00:00+01:00'")
    noon = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    for at, kept in ((noon, True), (noon - dt.timedelta(microseconds=1), False)):
        data = pa.table({"at": [at]}, schema=pa.schema({"at": pa.timestamp("us", "UTC")}))
        if kept:
            spillway.delta.write(table.path, data, mode="append")
        else:
            with pytest.raises(ConstraintError, match="2026-01-31T11:59:59"):
                spillway.delta.write(table.path, data, mode="append")


def test_a_copy_of_a_table_keeps_its_constraints(tmp_path: Path) -> None:
    table = positive(tmp_path / "t")
    table.checkpoint()
    for path in (tmp_path / "t" / "_delta_log").glob("*0[01].json"):
        path.unlink()
    again = spillway.delta.open(shutil.copytree(tmp_path / "t", tmp_path / "u"))
    with pytest.raises(ConstraintError):
        append(again, -1)
