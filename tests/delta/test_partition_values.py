"""Partitions are told apart by their values: null, empty texts, and the name of the folder for null."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import CommitConflict, OptionError, SchemaError

from ..counts import count, examples
from .conftest import READERS, rows
from .logs import Line, add_of, make_log, metadata_of, read_version
from .test_v2_checkpoints import read_delta_rs

MARKER = "__HIVE_DEFAULT_PARTITION__"
SCHEMA = pa.schema({"p": pa.string(), "n": pa.int64()})
PROTOCOL: Line = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def numbered(values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table(
        {"p": pa.array(values, kind or pa.string()), "n": pa.array(range(len(values)), pa.int64())}
    )


def found(table: spillway.delta.Table, where: Any = ()) -> list[tuple[Any, int]]:
    scanned = pa.table(table.scan(where=where)).to_pylist()
    return sorted(((row["p"], row["n"]) for row in scanned), key=lambda row: row[1])


# polars goes by the names of folders.
@pytest.mark.parametrize("reader", ["spillway", "delta-rs"])
@pytest.mark.parametrize("values", [[MARKER, None], [None, MARKER], [MARKER, "", "a"], [MARKER]])
def test_the_name_of_the_null_folder_is_a_value(tmp_path: Path, values: list[Any], reader: str) -> None:
    data = numbered(values)
    spillway.delta.write(tmp_path / "t", data, partition_by="p")
    expected = numbered([value or None for value in values])
    assert rows(READERS[reader](tmp_path / "t")) == rows(expected)


LONG = "x" * 300
TEXTS = st.none() | st.sampled_from(
    [
        "",
        MARKER,
        MARKER.lower(),
        f"{MARKER} ",
        "%",
        "%25",
        "a%2Fb",
        "a/b",
        "A",
        "a",
        "e\u0301",
        "\u00e9",
        " ",
        LONG,
    ]
)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12))
@settings(max_examples=count(quick=5, ci=20, soak=2_000))
def test_partitions_of_two_texts_are_told_apart(pairs: list[tuple[str | None, str | None]]) -> None:
    def made(pairs: list[tuple[str | None, str | None]]) -> pa.Table:
        firsts, seconds = zip(*pairs, strict=True)
        return pa.table(
            {"p": pa.array(firsts, pa.string()), "q": pa.array(seconds, pa.string()), "n": range(len(pairs))}
        )

    with tempfile.TemporaryDirectory() as folder:
        spillway.delta.write(folder, made(pairs), partition_by=["p", "q"])
        stored = [(first or None, second or None) for first, second in pairs]
        # polars goes by the names of folders.
        by_folder = not {MARKER, LONG} & {text for pair in pairs for text in pair}
        for reader in READERS if by_folder else ("spillway", "delta-rs"):
            assert rows(READERS[reader](Path(folder))) == rows(made(stored)), reader
        table = spillway.delta.open(folder)
        assert len(table.files()) == len(set(stored))
        table.optimize()
        table.update([("n", "=", 0)], {"n": -1})
        table.delete_partition(p=stored[0][0], q=stored[0][1])
        left = [n for n, pair in enumerate(stored) if pair != stored[0]]
        assert sorted(pa.table(table.scan(["n"]))["n"].to_pylist()) == left


VALUES = {
    "date": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "clock": (pa.timestamp("us"), st.datetimes()),
    "decimal": (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    "double": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.0])),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "flag": (pa.bool_(), st.booleans()),
}


@given(st.data(), st.sampled_from(sorted(VALUES)))
@settings(max_examples=examples(0.3))
def test_partitions_of_other_types_are_told_apart(data: st.DataObject, name: str) -> None:
    kind, values = VALUES[name]
    given_rows = numbered(data.draw(st.lists(st.none() | values, min_size=1, max_size=8)), kind)
    with tempfile.TemporaryDirectory() as folder:
        spillway.delta.write(folder, given_rows, partition_by="p")
        for found in (READERS["spillway"](Path(folder)), read_delta_rs(Path(folder))):
            assert rows(found.cast(given_rows.schema)) == rows(given_rows)
        table = spillway.delta.open(folder)
        table.checkpoint()
        assert len(table.files()) == len({repr(value) for value in given_rows["p"].to_pylist()})
        if name != "decimal":
            first = given_rows["p"][0].as_py()
            ours = pa.table(table.scan(where=[("p", "=", first)]))["n"].to_pylist()
            assert 0 in ours
            table.delete_partition(p=first)
            assert len(pa.table(table.scan())) == len(given_rows) - len(ours)


def foreign(
    folder: Path, kind: str, values: list[str | None], *, nullable: bool = True
) -> spillway.delta.Table:
    """The table of a writer that writes empty texts as they are, with a row in each partition."""
    fields = [
        {"name": "p", "type": kind, "nullable": nullable, "metadata": {}},
        {"name": "n", "type": "long", "nullable": True, "metadata": {}},
    ]
    folder.mkdir()
    adds = []
    for number, value in enumerate(values):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"n": pa.array([number], pa.int64())}), path)
        adds.append(add_of(path, {"numRecords": 1}, p=value))
    return make_log(folder, [PROTOCOL, metadata_of(fields, ["p"])], adds)


@pytest.mark.parametrize("nullable", [False, True])
def test_an_empty_text_of_another_writer_is_a_text(tmp_path: Path, *, nullable: bool) -> None:
    values = ["", "x", *([None] if nullable else [])]
    table = foreign(tmp_path / "t", "string", values, nullable=nullable)
    expected = list(zip(values, range(3), strict=False))
    assert found(table) == expected
    if nullable:
        # delta-rs has null in the other table.
        assert rows(read_delta_rs(tmp_path / "t")) == rows(pa.table(table.scan()))
    assert found(table, "p = ''") == [("", 0)]
    assert found(table, "p IS NULL") == [row for row in expected if row[0] is None]
    assert found(table, "p <> 'x'") == [("", 0)]
    assert found(table, [("p", "=", None)]) == [row for row in expected if row[0] is None]
    assert found(table, [("p", "!=", None)]) == [("", 0), ("x", 1)]
    # What this writer writes for an empty text, and what others do.
    assert found(table, [("p", "=", "")]) == [row for row in expected if not row[0]]
    assert found(table, [("p", "!=", "")]) == [("x", 1)]


@pytest.mark.parametrize("kind", ["integer", "date", "boolean", "double", "timestamp"])
def test_an_empty_text_is_null_in_columns_of_other_types(tmp_path: Path, kind: str) -> None:
    table = foreign(tmp_path / "t", kind, ["", None])
    for _ in range(2):
        assert found(table) == [(None, 0), (None, 1)]
        assert found(table, "p IS NULL") == [(None, 0), (None, 1)]
        assert found(table, "p IS NOT NULL") == []
        table.set_properties({"delta.checkpoint.writeStatsAsStruct": "true"})
        table.checkpoint()
        table = spillway.delta.open(tmp_path / "t")
    table.delete_partition(p=None)
    assert found(table) == []


@pytest.mark.parametrize("nullable", [False, True])
def test_rewritten_rows_keep_the_empty_text(tmp_path: Path, *, nullable: bool) -> None:
    table = foreign(tmp_path / "t", "string", ["", "", "x", ""], nullable=nullable)
    table.set_properties({"delta.checkpoint.writeStatsAsStruct": "true"})
    table.checkpoint()
    assert found(spillway.delta.open(tmp_path / "t")) == [("", 0), ("", 1), ("x", 2), ("", 3)]
    table.optimize()
    table.update("n = 0", {"n": 10})
    table.delete("n = 1")
    source = pa.table({"n": pa.array([3], pa.int64())})
    table.merge(source, "n", spillway.delta.when_matched_update({"n": 13}))
    assert found(table) == [("x", 2), ("", 10), ("", 13)]
    if nullable:
        assert rows(read_delta_rs(tmp_path / "t")) == rows(pa.table(table.scan()))
    assert {file.partition_values["p"] for file in table.files()} == {"", "x"}


def test_partitions_of_null_and_of_the_empty_text_are_deleted_apart(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t", "string", ["", None, "x"])
    table.delete_partition(p=None)
    assert found(table) == [("", 0), ("x", 2)]
    table.delete("p = ''")
    assert found(table) == [("x", 2)]


def test_the_log_has_null_for_empty_texts(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, partition_by="p")
    with table.append() as append:
        append.write(numbered(["", None]))
    path = tmp_path / "t" / "more.parquet"
    pq.write_table(pa.table({"n": pa.array([2], pa.int64())}), path)
    table.commit(
        adds=[spillway.delta.AddFile("more.parquet", path.stat().st_size, partition_values={"p": ""})]
    )
    adds = [line["add"] for version in (1, 2) for line in read_version(table, version) if "add" in line]
    assert [add["partitionValues"] for add in adds] == [{"p": None}, {"p": None}]


def test_a_file_with_null_in_a_column_without_nulls_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("p", pa.string(), nullable=False), pa.field("n", pa.int64())])
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="p")
    for value in ("", None):
        with pytest.raises(OptionError) as raised:
            table.commit(adds=[spillway.delta.AddFile("more.parquet", 100, partition_values={"p": value})])
        assert raised.value.option == "adds"
    assert table.version == 0


def test_a_folder_cannot_stand_for_the_name_of_the_null_folder(tmp_path: Path) -> None:
    data = numbered(["a", MARKER, None])
    with pytest.raises(SchemaError) as raised:
        spillway.write_dataset(data, tmp_path / "d", partition_by="p")
    assert raised.value.column == "p"
    assert not list(tmp_path.rglob("*.parquet"))
    with spillway.DatasetWriter(tmp_path / "e", partition_by="p") as writer:
        writer.write(numbered(["b"]))
        with pytest.raises(SchemaError):
            writer.write(data)
    assert [path.parent.name for path in (tmp_path / "e").rglob("*.parquet")] == ["p=b"]


def test_a_folder_loses_no_time_of_day(tmp_path: Path) -> None:
    day = 86_400_000
    odd = pa.array([day, day + 1], pa.int64()).view(pa.date64())
    with pytest.raises(SchemaError) as raised:
        spillway.write_dataset(pa.table({"p": odd, "n": [1, 2]}), tmp_path / "d", partition_by="p")
    assert raised.value.column == "p"
    assert not list(tmp_path.rglob("*.parquet"))


def test_conflicts_are_found_in_the_partition_of_the_empty_text(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t", "string", ["x"])
    reading = spillway.delta.ReadSet(where=[("p", "=", "")], version=table.version)
    path = tmp_path / "t" / "late.parquet"
    pq.write_table(pa.table({"n": pa.array([9], pa.int64())}), path)
    late = tmp_path / "t" / "_delta_log" / f"{2:020}.json"
    late.write_text(json.dumps(add_of(path, {"numRecords": 1}, p="")) + "\n")
    table.set_properties({"delta.isolationLevel": "Serializable"})
    with pytest.raises(CommitConflict):
        table.commit(read=reading, removes=["0.parquet"])
