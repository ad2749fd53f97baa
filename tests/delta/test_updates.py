"""Updates set columns of the rows that a scan by the same conditions finds, and of no others."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import spillway.delta
from spillway.delta import _expressions
from spillway.errors import AppendOnlyError, OptionError, SchemaError

from .logs import line_of, read_version, write_version
from .test_deletes import MARKS, NUMBERS, made, numbers

if TYPE_CHECKING:
    from pathlib import Path


def pairs(table: spillway.delta.Table) -> list[tuple[Any, Any]]:
    found = pa.table(table.scan(["part", "id"])).to_pylist()
    return sorted((row["part"], row["id"]) for row in found)


def metrics(table: spillway.delta.Table) -> dict[str, int]:
    [entry] = table.history(1)
    assert entry.operation == "UPDATE"
    return {name: int(value) for name, value in entry.info["operationMetrics"].items() if "Ms" not in name}


def listing(table: spillway.delta.Table, folder: Path) -> list[str]:
    """The data files and vectors in a table's folder."""
    assert table.version >= 0
    return sorted(str(path) for path in folder.rglob("*") if "_delta_log" not in path.parts)


def test_few_rows_are_marked_and_written_anew(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    [before] = table.files()
    update = table.update([("id", "<", 3)], {"id": -1}, user_metadata="why", compression="snappy")
    assert update == spillway.delta.Update(2, 3)
    [new, old] = sorted(table.files(), key=lambda file: file.size)
    assert (old.path, old.deleted_rows) == (before.path, 3)
    assert (new.partition_values, new.deleted_rows) == ({"part": "a"}, 0)
    assert new.stats is not None
    assert (new.stats["numRecords"], new.stats["minValues"], new.stats["maxValues"]) == (
        3,
        {"id": -1},
        {"id": -1},
    )
    assert metrics(table) == {
        "numRemovedFiles": 0,
        "numRemovedBytes": 0,
        "numAddedFiles": 1,
        "numAddedBytes": new.size,
        "numCopiedRows": 0,
        "numUpdatedRows": 3,
        "numDeletionVectorsAdded": 1,
        "numDeletionVectorsUpdated": 0,
        "numDeletionVectorsRemoved": 0,
        "numAddedChangeFiles": 0,
    }
    [entry] = table.history(1)
    assert entry.info["userMetadata"] == "why"
    assert entry.info["operationParameters"]["predicate"] == '["(id < 3)"]'
    assert pairs(table) == [("a", -1)] * 3 + [("a", n) for n in range(3, 1000)]


def test_without_the_feature_the_file_is_written_again_whole(tmp_path: Path) -> None:
    table = made(tmp_path / "t", properties={})
    assert table.update([("id", "=", 7)], {"id": 5000}).rows == 1
    [file] = table.files()
    assert file.stats is not None
    assert (file.stats["numRecords"], file.deleted_rows) == (1000, 0)
    assert (metrics(table)["numCopiedRows"], metrics(table)["numUpdatedRows"]) == (999, 1)
    expected = sorted([*range(7), *range(8, 1000), 5000])
    for engine in (deltalake.DeltaTable(table.path).to_pyarrow_table(), pl.read_delta(table.path).to_arrow()):
        assert sorted(engine["id"].to_pylist()) == expected


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
def test_rows_move_to_the_partition_that_they_are_given(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", 100, properties=properties)
    assert table.update([("id", ">=", 90)], {"part": "z"}).rows == 10
    assert (
        table.update([("id", "in", [1, 95])], {"part": pc.if_else(pc.field("id") > 50, None, "b")}).rows == 2
    )
    found = pa.table(table.scan()).to_pylist()
    parts = {row["id"]: row["part"] for row in found}
    assert parts == {n: "z" if n >= 90 else "a" for n in range(100)} | {1: "b", 95: None}
    assert {file.partition_values["part"] for file in table.files()} == {"a", "b", "z", None}


def test_files_of_updated_rows_keep_the_text_of_their_partition_values(tmp_path: Path) -> None:
    """Spark reads a timestamp without a zone in the zone of its session."""
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "id": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="at")
    with table.append() as append:
        append.write(pa.table({"at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 9, "id": range(9)}, schema))
    text = {"at": "2026-01-01 00:00:00"}
    lines = read_version(table, 1)
    lines = [{"add": line["add"] | {"partitionValues": text}} if "add" in line else line for line in lines]
    write_version(table, 1, lines)
    # A version that changes below an open table is another table's.
    table = spillway.delta.open(shutil.copytree(tmp_path / "t", tmp_path / "copy"))
    assert table.update([("id", "=", 3)], {"id": 30}).rows == 1
    assert line_of(table, "add", 2)["partitionValues"] == text


ALL = pa.schema(
    {
        "id": pa.int64(),
        "flag": pa.bool_(),
        "tiny": pa.int8(),
        "single": pa.float32(),
        "amount": pa.decimal128(9, 2),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "time": pa.timestamp("us", tz="UTC"),
        "clock": pa.timestamp("us"),
        "list": pa.list_(pa.int32()),
        "struct": pa.struct({"a": pa.int64(), "b": pa.string()}),
        "map": pa.map_(pa.string(), pa.int64()),
    }
)


def test_values_of_every_type_are_set(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", ALL, properties=MARKS)
    with table.append() as append:
        append.write(pa.Table.from_pylist([{"id": number} for number in range(3)], ALL))
    values = {
        "flag": True,
        "tiny": -128,
        "single": 0.5,
        "amount": Decimal("1234567.89"),
        "bytes": b"\x00\xff",
        "day": dt.date(2026, 2, 28),
        "time": dt.datetime(2026, 2, 28, 12, tzinfo=dt.UTC),
        "clock": dt.datetime(2026, 2, 28, 12),  # noqa: DTZ001 - a clock without a zone
        "list": [1, None, 3],
        "struct": {"a": 1, "b": None},
        "map": [("k", 1)],
    }
    assert table.update([("id", "=", 1)], values).rows == 1
    empty = dict.fromkeys(values)
    expected = [{"id": 0} | empty, {"id": 1} | values, {"id": 2} | empty]
    assert sorted(pa.table(table.scan()).to_pylist(), key=lambda row: row["id"]) == expected
    assert table.update([("id", "=", 1)], empty).rows == 1
    assert pa.table(table.scan(where=[("id", "=", 1)])).to_pylist() == [{"id": 1} | empty]


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"tiny": 128}, "tiny.*128"),
        ({"tiny": "many"}, "tiny.*many"),
        ({"day": "yesterday"}, "day.*yesterday"),
        ({"amount": Decimal("0.001")}, "amount"),
        ({"id": None}, "id.*null"),
        ({"idd": 1}, r'no column "idd": did you mean id\?'),
        ({"idd": pc.field("id")}, r'no column "idd": did you mean id\?'),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, values: dict[str, Any], match: str) -> None:
    schema = ALL.set(0, pa.field("id", pa.int64(), nullable=False))
    table = spillway.delta.create(tmp_path / "t", schema)
    with table.append() as append:
        append.write(pa.Table.from_pylist([{"id": 1}], schema))
    before = listing(table, tmp_path)
    with pytest.raises(SchemaError, match=match):
        table.update([("id", "=", 1)], values)
    assert (table.version, listing(table, tmp_path)) == (1, before)


def test_a_struct_that_lacks_a_field_is_refused_and_none_clears_it(tmp_path: Path) -> None:
    code = pa.struct({"code": pa.int64(), "of": pa.string()})
    inner = pa.struct({"city": pa.string(), "zip": pa.list_(code), "by": pa.map_(pa.string(), code)})
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64(), "address": inner}))
    table.append_rows([{"id": 1, "address": {"city": "Kyiv", "zip": [{"code": 1001, "of": "centre"}]}}])
    for address, path in (
        ({"city": "Lviv", "by": None}, "address.zip"),
        ({"city": "Lviv", "zip": [{"code": 79000}], "by": None}, "address.zip.of"),
        ({"city": "Lviv", "zip": ({"code": 79000},), "by": None}, "address.zip.of"),
        ({"city": "Lviv", "zip": None, "by": {"a": {"of": "centre"}}}, "address.by.code"),
        ({"city": "Lviv", "zip": None, "by": [("a", {"of": "centre"})]}, "address.by.code"),
    ):
        with pytest.raises(
            SchemaError, match=f"without the field .{path}., which would become null"
        ) as refused:
            table.update("id = 1", {"address": address})
        assert refused.value.column == path
    whole = {"city": "Lviv", "zip": [{"code": 79000, "of": None}], "by": None}
    assert table.update("id = 1", {"address": whole}).rows == 1
    assert pa.table(table.scan()).to_pylist() == [{"id": 1, "address": whole}]


def test_expressions_see_the_values_before(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "a": pa.int16(), "b": pa.int16()})
    table = spillway.delta.create(tmp_path / "t", schema, properties=MARKS)
    with table.append(row_group_rows=100) as append:
        append.write(pa.table({"id": range(30_000), "a": [1] * 30_000, "b": [2] * 30_000}, schema))
    number = pc.field("id")
    swapped = {"a": pc.field("b"), "b": pc.field("a") + number - number / 7 * 7}
    assert table.update([("id", ">=", 10_000)], swapped).rows == 20_000
    found = {row["id"]: (row["a"], row["b"]) for row in pa.table(table.scan()).to_pylist()}
    assert found == {n: (2, 1 + n % 7) if n >= 10_000 else (1, 2) for n in range(30_000)}


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
@pytest.mark.parametrize(
    ("expression", "match"),
    [
        (pc.field("id") + 1_000_000_000, "'tiny'.*1000000"),
        (pc.field("nobody"), "'tiny'.*nobody"),
        (pc.field("part") + 1, "'tiny'"),
    ],
)
def test_expressions_that_cannot_be_evaluated_leave_no_file(
    tmp_path: Path, properties: dict[str, str], expression: pc.Expression, match: str
) -> None:
    schema = NUMBERS.append(pa.field("tiny", pa.int8()))
    table = spillway.delta.create(tmp_path / "t", schema, properties=properties)
    with table.append() as append:
        append.write(numbers(10).append_column("tiny", pa.array([1] * 10, pa.int8())))
    before = listing(table, tmp_path)
    with pytest.raises(OptionError, match=match):
        table.update([("id", "<", 4)], {"tiny": expression})
    assert (table.version, listing(table, tmp_path)) == (1, before)


def test_an_interrupt_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema({"id": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema)
    for first in (0, 100_000):
        with table.append() as append:
            append.write(pa.table({"id": range(first, first + 100_000)}, schema))
    before = listing(table, tmp_path)
    calls = []
    column = _expressions.Expressions._column

    def interrupt(self: _expressions.Expressions, name: str, rows: pa.Table) -> pa.ChunkedArray:
        calls.append(name)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return column(self, name, rows)

    monkeypatch.setattr(_expressions.Expressions, "_column", interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.update([], {"id": pc.field("id") + 1})
    assert (table.version, listing(table, tmp_path)) == (2, before)
    monkeypatch.undo()
    assert table.update([], {"id": pc.field("id") + 1}).rows == 200_000
    assert sorted(pa.table(table.scan())["id"].to_pylist()) == list(range(1, 200_001))


def test_an_update_of_nothing_is_no_version(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    assert table.update([], {"id": 1}) == spillway.delta.Update(0, 0)
    with table.append() as append:
        append.write(numbers(10))
    assert table.update([("id", ">", 10)], {"id": 1}) == spillway.delta.Update(1, 0)
    with pytest.raises(OptionError, match="names no column"):
        table.update([("id", ">", 1)], {})
    with pytest.raises(OptionError, match="no value of its type"):
        table.update([("id", "=", "seven")], {"id": 1})


def test_tables_that_updates_would_break_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t", properties={"delta.appendOnly": "true"} | MARKS)
    before = listing(table, tmp_path)
    with pytest.raises(AppendOnlyError, match=r"update\(\)"):
        table.update([("id", "=", 7)], {"id": 8})
    assert (table.version, listing(table, tmp_path)) == (1, before)
