"""Scans give exactly the rows that satisfy the conditions, and read no more than they must."""

from __future__ import annotations

import datetime as dt
import math
import operator
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import OptionError, SchemaError, UnsupportedTableError, VersionNotFoundError

from ..conditions import COMPARE
from ..counts import examples
from .conftest import rows
from .logs import read_version, write_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SCHEMA = pa.schema(
    {
        "part": pa.string(),
        "whole": pa.int32(),
        "real": pa.float64(),
        "single": pa.float32(),
        "text": pa.string(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "time": pa.timestamp("us", tz="UTC"),
    }
)
DAY, TIME = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
# Few values, so that conditions often hold; and those at which engines differ.
VALUES: Mapping[str, list[Any]] = {
    "part": ["a", "b c", "d/e"],
    "whole": [-(2**31), -1, 0, 7, 2**31 - 1],
    "real": [-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf, math.nan],
    "single": [-1.5, -0.0, 0.0, 2.5, math.inf, math.nan],
    "text": ["", "a", "ab", "é", "\U0010ffff" * 40, "p" * 63 + "ü"],
    "flag": [False, True],
    "day": [dt.date(1, 1, 1), DAY, dt.date(9999, 12, 31)],
    "time": [TIME, TIME + dt.timedelta(microseconds=1), TIME + dt.timedelta(milliseconds=1)],
}


def row() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from([None, *values]) for name, values in VALUES.items()})


def condition() -> st.SearchStrategy[tuple[str, str, Any]]:
    def of(name: str) -> st.SearchStrategy[tuple[str, str, Any]]:
        values = st.sampled_from(VALUES[name])
        compared = st.tuples(st.just(name), st.sampled_from(sorted(COMPARE)), values)
        null = st.tuples(st.just(name), st.sampled_from(["=", "!="]), st.none())
        among = st.tuples(st.just(name), st.just("in"), st.lists(values, max_size=3))
        return st.one_of(compared, null, among)

    return st.sampled_from(sorted(VALUES)).flatmap(of)


def key(value: Any) -> Any:
    """A value in an order in which NaN equals itself and is above all numbers."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def satisfies(row: Mapping[str, Any], condition: tuple[str, str, Any]) -> bool:
    name, sign, asked = condition
    found = row[name]
    if asked is None:
        return (found is None) == (sign == "=")
    if found is None:
        return False
    if sign == "in":
        return key(found) in [key(each) for each in asked]
    return COMPARE[sign](key(found), key(asked))


def append(table: spillway.delta.Table, rows: list[dict[str, Any]], **options: Any) -> None:
    with table.append(**options) as append:
        append.write(pa.Table.from_pylist(rows, SCHEMA))


@settings(max_examples=examples(0.6))
@given(
    st.lists(st.lists(row(), min_size=1, max_size=12), max_size=4),
    st.lists(condition(), max_size=3),
    st.sampled_from([None, "part"]),
    st.permutations(SCHEMA.names).flatmap(lambda names: st.sampled_from([names[:n] for n in (1, 3, 8)])),
)
def test_a_scan_gives_the_rows_that_satisfy_its_conditions(
    appends: list[list[dict[str, Any]]],
    conditions: list[tuple[str, str, Any]],
    partition_by: str | None,
    columns: list[str],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(folder, SCHEMA, partition_by=partition_by or [])
        for each in appends:
            append(table, each, row_group_rows=5)
        scan = table.scan(columns, where=conditions)
        found = pa.table(scan)
    expected = [row for each in appends for row in each if all(satisfies(row, one) for one in conditions)]
    assert found.schema.names == columns
    assert rows(found) == rows(pa.Table.from_pylist(expected, SCHEMA).select(columns))
    assert len(scan.files) + scan.skipped_files == len(table_files(appends, partition_by))


def table_files(appends: list[list[dict[str, Any]]], partition_by: str | None) -> set[tuple[int, Any]]:
    """The files that the appends make: one for each partition."""
    return {
        (place, row[partition_by] if partition_by else None)
        for place, each in enumerate(appends)
        for row in each
    }


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    """Two partitions, two files each, with rows in order."""
    table = spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="part")
    for start in (0, 100):
        rows = [{"part": part, "whole": start + n} for part in "ab" for n in range(100)]
        append(table, rows, row_group_rows=10)
    return table


def test_files_are_chosen_by_partition_and_statistics(table: spillway.delta.Table) -> None:
    by_both = table.scan(where=[("part", "=", "a"), ("whole", "<", 50)])
    assert (len(by_both.files), by_both.skipped_files) == (1, 3)
    assert pa.table(by_both)["whole"].to_pylist() == list(range(50))
    assert repr(by_both) == "<spillway.delta.Scan of version 2: 1 of 4 files>"
    assert not table.scan(where=[("whole", ">", 1000)]).files


def test_row_groups_that_hold_no_such_row_are_not_read(table: spillway.delta.Table) -> None:
    [file] = table.scan(where=[("part", "=", "a"), ("whole", "<", 50)]).files
    path = Path(table.path) / file.path
    group = pq.ParquetFile(path).metadata.row_group(9)
    last = [group.column(n) for n in range(group.num_columns)]
    begin = min(column.dictionary_page_offset or column.data_page_offset for column in last)
    length = sum(column.total_compressed_size for column in last)
    body = bytearray(path.read_bytes())
    body[begin : begin + length] = b"\xff" * length
    path.write_bytes(body)
    where = [("part", "=", "a"), ("whole", "<", 90)]
    assert pa.table(table.scan(where=where))["whole"].to_pylist() == list(range(90))
    with pytest.raises(Exception, match=file.path):
        pa.table(table.scan(where=[("part", "=", "a"), ("whole", "<", 95)]))


PLACED = SCHEMA.append(pa.field("place", pa.int64()))


def runs(drawn: Sequence[tuple[dict[str, Any], int]]) -> list[dict[str, Any]]:
    """Rows that are there many times, one after the other, each with its place."""
    rows = [row for row, count in drawn for _ in range(count)]
    return [{**row, "place": place} for place, row in enumerate(rows)]


def places(table: spillway.delta.Table, where: list[tuple[str, str, Any]]) -> list[int]:
    found: list[int] = pa.table(table.scan(["place"], where=where))["place"].to_pylist()
    return found


@settings(max_examples=examples(0.3))
@given(
    st.lists(st.tuples(row(), st.integers(1, 1_500)), min_size=2, max_size=8),
    st.lists(condition(), min_size=1, max_size=2),
    st.lists(condition(), min_size=1, max_size=2),
    st.sampled_from([600, 1_100, None]),
    st.booleans(),
)
def test_pages_that_are_passed_over_hold_no_such_row(
    drawn: list[tuple[dict[str, Any], int]],
    first: list[tuple[str, str, Any]],
    second: list[tuple[str, str, Any]],
    page_rows: int | None,
    updates: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    """By pages of our own and of pyarrow, which end in each column at other rows."""
    given = runs(drawn)
    with tempfile.TemporaryDirectory() as folder:
        properties = {"delta.enableDeletionVectors": "true"}
        table = spillway.delta.create(folder, PLACED, properties=properties)
        data = pa.Table.from_pylist(given, PLACED)
        if page_rows is None:
            pages: Any = {"data_page_size": 3_000, "write_batch_size": 100, "write_page_index": True}
            path = Path(folder) / "other.parquet"
            pq.write_table(data, path, use_dictionary=["text"], row_group_size=4_000, **pages)
            table.commit(adds=[spillway.delta.AddFile(path.name, path.stat().st_size)])
        else:
            with table.append(page_rows=page_rows, row_group_rows=4_000) as append:
                append.write(data)

        def chosen(rows: list[dict[str, Any]], conditions: list[tuple[str, str, Any]]) -> list[int]:
            held = [row for row in rows if all(satisfies(row, one) for one in conditions)]
            return [row["place"] for row in held]

        assert places(table, first) == chosen(given, first)
        gone = set(chosen(given, first))
        if updates:
            assert table.update(first, {"part": "new"}).rows == len(gone)
            given = [{**row, "part": "new"} if row["place"] in gone else row for row in given]
        else:
            assert table.delete(first).rows == len(gone)
            given = [row for row in given if row["place"] not in gone]
        assert sorted(places(table, second)) == chosen(given, second)
        assert sorted(places(table, [])) == [row["place"] for row in given]


def test_pages_that_hold_no_such_row_are_not_read(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    properties = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path / "table", schema, properties=properties)
    with table.append(page_rows=1_000, compression="uncompressed", encoding="plain") as append:
        append.write(pa.table({"id": range(100_000), "text": [f"row {n}" for n in range(100_000)]}, schema))
    [file] = table.files()
    path = Path(table.path) / file.path
    body = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(0)
    for number in range(group.num_columns):
        column = group.column(number)
        # All pages but some of the first.
        end = column.data_page_offset + column.total_compressed_size
        begin = column.data_page_offset + column.total_compressed_size // 10
        body[begin:end] = b"\xff" * (end - begin)
    path.write_bytes(body)
    where = [("id", ">=", 2_000), ("id", "<", 2_010)]
    assert pa.table(table.scan(where=where))["text"].to_pylist() == [f"row {n}" for n in range(2_000, 2_010)]
    assert table.delete([("id", "=", 2_003)]).rows == 1
    assert table.update([("id", "=", 2_004)], {"text": "new"}).rows == 1
    found = pa.table(table.scan(where=where)).to_pylist()
    assert len(found) == 9
    assert {"id": 2_004, "text": "new"} in found
    with pytest.raises(Exception, match=file.path):
        pa.table(table.scan(where=[("id", ">=", 50_000)]))


def test_a_file_whose_page_indexes_are_damaged_is_read_whole(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"id": pa.int64()}))
    with table.append(page_rows=1_000) as append:
        append.write(pa.table({"id": range(100_000)}))
    [file] = table.files()
    path = Path(table.path) / file.path
    body = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert column.has_column_index
    end = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    footer = int.from_bytes(body[-8:-4], "little") + 8
    body[end : len(body) - footer] = b"\xff" * (len(body) - footer - end)
    path.write_bytes(body)
    assert pa.table(table.scan(where=[("id", "=", 70_000)]))["id"].to_pylist() == [70_000]


def varint(value: int) -> bytes:
    """A number as thrift has it, that of a file's bytes or rows."""
    value *= 2
    low = bytearray()
    while value >= 0x80:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(low) + bytes([value])


# Of the struct of a page: where it begins, its bytes, and its first row, each after its header.
OFFSET, SIZE, ROW, END = b"\x16", b"\x15", b"\x16", b"\x00"


@pytest.mark.parametrize(
    "fault", ["another page's place", "rows in another order", "rows that are not there"]
)
def test_a_file_whose_page_indexes_are_wrong_is_read_whole(tmp_path: Path, fault: str) -> None:
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    properties = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path / "table", schema, properties=properties)
    with table.append(page_rows=1_000, compression="uncompressed", encoding="plain") as append:
        append.write(
            pa.table({"id": range(100_000), "text": [f"row {n:05}" for n in range(100_000)]}, schema)
        )
    [file] = table.files()
    path = Path(table.path) / file.path
    body = path.read_bytes()
    # Pages of texts of one length have one size. The index of the ids, which conditions are about, is sound.
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    size, left = divmod(column.total_compressed_size, 100)
    assert left == 0

    def page(number: int, row: int) -> bytes:
        offset = column.data_page_offset + size * number
        return OFFSET + varint(offset) + SIZE + varint(size) + ROW + varint(row) + END

    wrong = {
        "another page's place": page(51, 50_000),
        "rows in another order": page(50, 48_500),
        "rows that are not there": page(50, 100_500),
    }[fault]
    assert body.count(page(50, 50_000)) == 1
    assert len(wrong) == len(page(50, 50_000))
    path.write_bytes(body.replace(page(50, 50_000), wrong))
    for first in [49_500, 50_500, 51_500]:
        found = pa.table(table.scan(where=[("id", ">=", first), ("id", "<", first + 2)])).to_pylist()
        assert found == [{"id": n, "text": f"row {n:05}"} for n in [first, first + 1]]
    assert table.update([("id", "=", 50_600)], {"id": -1}).rows == 1
    assert pa.table(table.scan(where=[("id", "=", -1)])).to_pylist() == [{"id": -1, "text": "row 50600"}]


def test_a_scan_can_be_read_more_than_once_and_by_any_library(table: spillway.delta.Table) -> None:
    scan = table.scan(["whole"], where=[("part", "=", "b")])
    assert pa.schema(scan) == pa.schema({"whole": pa.int32()})
    assert pl.DataFrame(scan)["whole"].to_list() == pa.table(scan)["whole"].to_pylist()
    assert sorted(pa.table(scan)["whole"].to_pylist()) == list(range(200))
    assert duckdb.sql("select sum(whole) from scan").fetchall() == [(sum(range(200)),)]


def test_columns_may_be_those_of_partitions_alone_or_none(table: spillway.delta.Table) -> None:
    reader = pa.RecordBatchReader.from_stream(table.scan([], where=[("part", "=", "a")]))
    assert sum(batch.num_rows for batch in reader) == 200
    assert pa.table(table.scan(["part"]))["part"].value_counts().to_pylist() == [
        {"values": "a", "counts": 200},
        {"values": "b", "counts": 200},
    ]


def test_an_older_version_has_its_own_rows(table: spillway.delta.Table) -> None:
    assert pa.table(table.scan(version=1)).num_rows == 200
    assert table.scan(version=0).files == []
    with pytest.raises(VersionNotFoundError, match="99"):
        table.scan(version=99)


def test_an_empty_text_is_no_null_but_in_a_partition(tmp_path: Path) -> None:
    schema = pa.schema({"part": pa.string(), "text": pa.string()})
    table = spillway.delta.create(tmp_path / "table", schema, partition_by="part")
    with table.append() as append:
        append.write(pa.table({"part": ["", None, "x"], "text": ["", None, "y"]}, schema))
    assert pa.table(table.scan(where=[("text", "=", "")])).to_pylist() == [{"part": None, "text": ""}]
    assert pa.table(table.scan(where=[("part", "=", "")]))["text"].to_pylist() == ["", None]


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    inner = pa.struct({"x": pa.int64()})
    old = pa.table({"id": pa.array([1, 2], pa.int32()), "s": pa.array([{"x": 1}, None], inner)})
    table = spillway.delta.create(tmp_path / "table", old.schema)
    with table.append() as append:
        append.write(old)
    deltalake.write_deltalake(
        tmp_path / "table",
        pa.table({"id": pa.array([3], pa.int32()), "s": pa.array([{"x": 2, "y": "new"}]), "more": [1.5]}),
        mode="append",
        schema_mode="merge",
    )
    found = pa.table(table.scan())
    assert sorted(found.to_pylist(), key=operator.itemgetter("id")) == [
        {"id": 1, "s": {"x": 1, "y": None}, "more": None},
        {"id": 2, "s": None, "more": None},
        {"id": 3, "s": {"x": 2, "y": "new"}, "more": 1.5},
    ]
    assert pa.table(table.scan(["id"], where=[("more", "=", None)])).num_rows == 2
    assert pa.table(table.scan(["id"], where=[("more", "!=", 0.0)]))["id"].to_pylist() == [3]


def add_file(table: spillway.delta.Table, data: pa.Table, **values: str) -> None:
    """A file of another writer, without statistics."""
    path = Path(table.path) / "other.parquet"
    pq.write_table(data, path)
    table.commit(adds=[spillway.delta.AddFile(path.name, path.stat().st_size, partition_values=values)])


def test_a_file_may_hold_partition_columns_too(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "day": pa.string(), "text": pa.string()})
    table = spillway.delta.create(tmp_path / "table", schema, partition_by="day")
    add_file(table, pa.table({"id": [1], "day": ["in the file"], "text": ["a"]}), day="in the log")
    expected = [{"id": 1, "day": "in the log", "text": "a"}]
    assert pa.table(table.scan()).to_pylist() == expected
    assert (
        pa.table(table.scan(where=[("day", "=", "in the log"), ("text", "=", "a")])).to_pylist() == expected
    )


@pytest.mark.parametrize(
    ("stored", "kind", "above"),
    [
        (pa.array([1, 4_000_000_000], pa.uint32()), pa.int64(), 100),
        (pa.array([0, 86_400_000], pa.timestamp("ms")), pa.timestamp("us"), "1970-01-01T12:00:00"),
        (
            pa.array([0, 86_400_000_000], pa.timestamp("us")),
            pa.timestamp("us", "UTC"),
            "1970-01-01T12:00:00Z",
        ),
        (pa.array([1, 500], pa.int16()), pa.int32(), 100),
    ],
    ids=["unsigned", "milliseconds", "no zone", "narrower"],
)
def test_bounds_of_another_type_rule_nothing_out(
    tmp_path: Path, stored: pa.Array, kind: pa.DataType, above: Any
) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"x": kind}))
    add_file(table, pa.table({"x": stored}))
    found = pa.table(table.scan(where=[("x", ">", above)]))
    assert found.equals(pa.table({"x": stored[1:].cast(kind)}))


@settings(max_examples=examples(0.3))
@given(st.floats(0, 100), st.sampled_from(["=", "<=", ">="]))
def test_a_file_is_found_by_its_least_and_greatest_double(value: float, sign: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = pa.table({"x": [value]})
        table = spillway.delta.create(folder, data.schema)
        with table.append() as append:
            append.write(data)
        assert pa.table(table.scan(where=[("x", sign, value)])).num_rows == 1


def test_nested_rows_of_another_writer_are_equal(tmp_path: Path) -> None:
    data = pa.table(
        {
            "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
            "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "deep": pa.array([[{"x": [1]}], None, [None]], pa.list_(pa.struct({"x": pa.list_(pa.int32())}))),
            "exact": pa.array(["1.50", None, "-0.01"]).cast(pa.decimal128(20, 2)),
            "bytes": pa.array([b"\xff", None, b""]),
        }
    )
    deltalake.write_deltalake(tmp_path / "table", data)
    assert pa.table(spillway.delta.open(tmp_path / "table").scan()).to_pylist() == data.to_pylist()


def test_a_mapping_that_the_protocol_does_not_name_is_refused(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", SCHEMA)
    lines = read_version(table, 0)
    for line in lines:
        line.get("metaData", {}).get("configuration", {}).update({"delta.columnMapping.mode": "name"})
    write_version(table, 0, lines)
    del table
    with pytest.raises(UnsupportedTableError, match="columnMapping"):
        spillway.delta.open(tmp_path / "table").scan()


@pytest.mark.parametrize(
    ("where", "error", "match"),
    [
        ([("none", "=", 1)], OptionError, "does not have"),
        ([("text", "like", "a")], OptionError, "operator"),
        ([("whole", "=", "a")], OptionError, "no value of its type"),
        ([("whole", "<", None)], OptionError, "None goes with"),
        ([("single", "<", 1e300)], OptionError, "no value of its type"),
        ([("part", "in", ["", "a"])], OptionError, "empty text"),
        ("whole = ", OptionError, "ends too early"),
    ],
)
def test_a_condition_that_fits_nothing_is_refused(
    table: spillway.delta.Table, where: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        table.scan(where=where)


def test_a_column_that_is_not_there_is_refused_by_name(table: spillway.delta.Table) -> None:
    with pytest.raises(SchemaError, match=r'"wole".*whole') as caught:
        table.scan(["wole"])
    assert caught.value.column == "wole"


@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
def test_a_file_that_cannot_be_read_is_named(table: spillway.delta.Table, damage: str) -> None:
    file = table.scan().files[-1]
    path = Path(table.path) / file.path
    body = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(body[:-10] if damage == "cut" else b"x" * len(body))
    scan = pa.RecordBatchReader.from_stream(table.scan())
    with pytest.raises(Exception, match=file.path.rpartition("/")[2]):
        scan.read_all()


TEXTS = [None, "a", "b", "", "é"]
ASKED: Mapping[str, Callable[[str | None], bool]] = {
    "text = 'a'": lambda text: text == "a",
    "text <> 'a'": lambda text: text not in {None, "a"},
    "text >= 'b'": lambda text: text is not None and text >= "b",
    "text IN ('', 'é')": lambda text: text in {"", "é"},
    "text IS NULL": lambda text: text is None,
    "NOT (text = 'a') OR text IS NULL": lambda text: text != "a",
    "text = 'a' OR part = 'b c'": lambda text: text == "a",
}


@settings(max_examples=examples(0.3))
@given(
    st.lists(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=40), min_size=1, max_size=3),
    st.sampled_from(sorted(ASKED)),
    st.sampled_from(["dictionary", "plain"]),
)
def test_texts_are_found_with_a_dictionary_and_without(
    groups: list[list[str | None]], where: str, encoding: str
) -> None:
    """Row groups of 20 rows have dictionaries of their own."""
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(folder, SCHEMA, partition_by="part")
        for group in groups:
            lines = [{"part": "a", "text": text, "whole": number} for number, text in enumerate(group)]
            append(table, lines, row_group_rows=20, encoding={"text": encoding})
        found = pa.table(table.scan(["text", "whole"], where=where)).to_pylist()
    expected = [(text, number) for group in groups for number, text in enumerate(group) if ASKED[where](text)]
    assert Counter((row["text"], row["whole"]) for row in found) == Counter(expected)
