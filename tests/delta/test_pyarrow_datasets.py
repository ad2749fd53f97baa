"""`Table.to_pyarrow_dataset` has the rows of the table, and leaves out files by what the log says of them."""

from __future__ import annotations

import datetime as dt
import operator
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import UnsupportedTableError

from ..counts import examples
from .conftest import rows
from .logs import add_of, make_log, metadata_of, needs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .logs import Line

START = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    {
        "part": pa.string(),
        "id": pa.int32(),
        "word": pa.string(),
        "day": pa.date32(),
        "time": pa.timestamp("us", "UTC"),
        "clock": pa.timestamp("us"),
        "real": pa.float64(),
        "price": pa.decimal128(20, 3),
        "flag": pa.bool_(),
        "raw": pa.binary(),
        "deep": pa.struct({"x": pa.int64()}),
    }
)
REALS = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf")]


@st.composite
def batches(draw: st.DrawFn) -> pa.Table:
    """Rows of a file, which are near each other."""
    base = draw(st.integers(0, 6))

    def row() -> dict[str, Any]:
        number = base + draw(st.integers(0, 2))
        micros = draw(st.integers(0, 1500))
        time = START + dt.timedelta(hours=number, microseconds=micros)
        whole = {
            "part": draw(st.sampled_from(["a", "b/c", "d e%"])),
            "id": number,
            "word": "wörd" * draw(st.integers(0, 12)) + str(number),
            "day": (START + dt.timedelta(days=number)).date(),
            "time": time,
            "clock": time.replace(tzinfo=None),
            "real": draw(st.sampled_from(REALS)) + number,
            "price": number,
            "flag": bool(number % 2),
            "raw": bytes([number]),
            "deep": {"x": number},
        }
        absent = draw(st.sets(st.sampled_from(SCHEMA.names), max_size=2))
        return {name: None if name in absent else value for name, value in whole.items()}

    return pa.Table.from_pylist([row() for _ in range(draw(st.integers(1, 4)))], SCHEMA)


COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@st.composite
def filters(draw: st.DrawFn, whole: pa.Table) -> pc.Expression:
    name = draw(st.sampled_from([name for name in SCHEMA.names if name != "deep"]))
    field = pc.field(name)
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([field.is_null(), field.is_valid()]))
    value = draw(st.sampled_from(whole[name].to_pylist()))
    compare = COMPARE[draw(st.sampled_from(sorted(COMPARE)))]
    return compare(field, pa.scalar(value, SCHEMA.field(name).type))


@given(files=st.lists(batches(), min_size=1, max_size=4), data=st.data())
@settings(max_examples=examples(0.2))
def test_filters_find_the_rows_that_they_find_in_the_whole_table(
    files: list[pa.Table], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        table = spillway.delta.create(Path(name) / "t", SCHEMA, partition_by="part")
        for file in files:
            with table.append() as append:
                append.write(file)
        dataset = table.to_pyarrow_dataset()
        whole = pa.table(table.scan())
        assert dataset.schema == pa.schema(table.schema)
        assert rows(dataset.to_table()) == rows(whole)
        for _ in range(8):
            asked = data.draw(filters(whole))
            if data.draw(st.booleans()):
                asked = asked & data.draw(filters(whole))
            assert rows(dataset.to_table(filter=asked)) == rows(whole.filter(asked))


@pytest.mark.parametrize(
    "value",
    [
        pa.scalar(None, pa.int64()),
        pa.scalar(-7, pa.int64()),
        pa.scalar("", pa.string()),
        pa.scalar("a b/%25", pa.string()),
        pa.scalar(dt.date(1, 1, 1)),
        pa.scalar(dt.date(9999, 12, 31)),
        pa.scalar(dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
        pa.scalar(START.replace(tzinfo=None), pa.timestamp("us")),
        pa.scalar(True),  # noqa: FBT003 - a value
        pa.scalar(2.5),
        pa.scalar(-0.001, pa.float32()),
        pa.scalar(1234, pa.decimal128(12, 2)),
    ],
    ids=str,
)
def test_partition_values_have_their_types(tmp_path: Path, value: pa.Scalar[Any]) -> None:
    data = pa.table({"part": pa.array([value.as_py()] * 2, value.type), "n": [1, 2]})
    spillway.delta.write(tmp_path / "t", data, partition_by="part")
    table = spillway.delta.open(tmp_path / "t")
    assert table.to_pyarrow_dataset().to_table().equals(pa.table(table.scan()))


def test_a_partition_of_bytes_has_those_of_its_text(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"n": [1, 2]}), folder / "part.parquet")
    kinds = {"part": "binary", "n": "long"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    protocol: Line = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    added = add_of(folder / "part.parquet", part="abc")
    table = make_log(folder, [protocol, metadata_of(fields, ["part"]), added])
    found = table.to_pyarrow_dataset().to_table()
    assert found["part"].to_pylist() == [b"abc", b"abc"]
    assert found.equals(pa.table(table.scan()))


@pytest.fixture(scope="module")
def table() -> Iterator[spillway.delta.Table]:
    """Four files, of two partitions and two ranges of numbers."""
    with tempfile.TemporaryDirectory() as name:
        schema = pa.schema({"part": pa.string(), "n": pa.int64()})
        made = spillway.delta.create(Path(name) / "t", schema, partition_by="part")
        for first in (0, 100):
            made.append_rows([{"part": part, "n": first + n} for part in "ab" for n in range(10)])
        yield made


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (ds.field("part") == "a", 2),
        (ds.field("n") < 50, 2),
        ((ds.field("n") >= 100) & (ds.field("part") == "b"), 1),
        (ds.field("part") == "c", 0),
        (ds.field("n").is_null(), 0),
    ],
    ids=str,
)
def test_files_are_left_out_by_partitions_and_statistics(
    table: spillway.delta.Table, asked: pc.Expression, count: int
) -> None:
    assert len(list(table.to_pyarrow_dataset().get_fragments(asked))) == count


def test_files_with_nulls_are_left_out_by_their_bounds(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"n": pa.int64()}))
    for first in (0, 100):
        table.append_rows([{"n": first}, {"n": None}, {"n": first + 9}])
    dataset = table.to_pyarrow_dataset()
    field = ds.field("n")
    counts = [
        len(list(dataset.get_fragments(asked)))
        for asked in (field < 50, field > 109, (field > 9) & (field < 100), field.is_null())
    ]
    assert counts == [1, 0, 0, 2]


def of_another_writer(folder: Path, kind: str, rows: pa.Table, **entry: Any) -> spillway.delta.Table:
    """A table with one file, whose columns have one type in the log."""
    folder.mkdir()
    pq.write_table(rows, folder / "part.parquet")
    partition = [name for name in entry if name != "stats"]
    names = [*partition, *rows.column_names]
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name in names]
    protocol: Line = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    return make_log(
        folder, [protocol, metadata_of(fields, partition), add_of(folder / "part.parquet", **entry)]
    )


@given(
    moment=st.integers(0, 170 * 365 * 86_400).map(lambda seconds: START - dt.timedelta(seconds=seconds)),
    offset=st.integers(-14 * 3600, 14 * 3600),
)
@settings(max_examples=examples(0.2))
def test_bounds_may_have_lost_the_seconds_of_their_offset(moment: dt.datetime, offset: int) -> None:
    local = (moment + dt.timedelta(seconds=offset)).replace(tzinfo=None).isoformat(timespec="milliseconds")
    hours, minutes = divmod(abs(offset) // 60, 60)
    text = f"{local}{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"
    stats = {"numRecords": 1, "minValues": {"t": text}, "maxValues": {"t": text}, "nullCount": {"t": 0}}
    with tempfile.TemporaryDirectory() as name:
        column = pa.array([moment], pa.timestamp("us", "UTC"))
        table = of_another_writer(Path(name) / "t", "timestamp", pa.table({"t": column}), stats=stats)
        dataset = table.to_pyarrow_dataset()
        assert dataset.count_rows(filter=ds.field("t") == column[0]) == 1
        far = pa.scalar(moment - dt.timedelta(minutes=3), column.type)
        assert not list(dataset.get_fragments(ds.field("t") < far))


@pytest.mark.parametrize(
    ("kind", "text"),
    [("date", "+10000-01-01"), ("date", "abc"), ("timestamp", "+10000-01-01 00:00:00"), ("integer", "x")],
)
def test_a_partition_value_that_pyarrow_does_not_have_is_refused(
    tmp_path: Path, kind: str, text: str
) -> None:
    table = of_another_writer(tmp_path / "t", kind, pa.table({"n": [1]}), region=text)
    with pytest.raises(UnsupportedTableError, match=r"part\.parquet.*'region'"):
        table.to_pyarrow_dataset()


def test_duckdb_and_delta_rs_have_the_same_rows(table: spillway.delta.Table) -> None:
    dataset = table.to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("dataset", dataset)
        found = connection.sql("SELECT * FROM dataset WHERE part = 'b' AND n > 104").to_arrow_table()
    assert sorted(found["n"].to_pylist()) == [105, 106, 107, 108, 109]
    assert rows(dataset.to_table()) == rows(deltalake.DeltaTable(table.path).to_pyarrow_dataset().to_table())


def test_an_older_version_has_its_own_files(table: spillway.delta.Table) -> None:
    assert table.to_pyarrow_dataset(version=1).count_rows() == 20
    assert table.to_pyarrow_dataset(version=0).count_rows() == 0


def test_a_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"n": pa.int64()}))
    table.append_rows([{"n": 1}])
    with table.append(schema_mode="merge") as append:
        append.write(pa.table({"n": [2], "more": ["x"]}))
    dataset = table.to_pyarrow_dataset()
    assert rows(dataset.to_table()) == rows(pa.table(table.scan()))
    assert dataset.to_table(filter=ds.field("more").is_null())["n"].to_pylist() == [1]


def test_deleted_rows_are_refused_until_they_are_purged(tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path / "t", pa.schema({"n": pa.int64()}), properties=properties)
    table.append_rows([{"n": n} for n in range(10)])
    assert table.to_pyarrow_dataset().count_rows() == 10
    table.delete("n = 3")
    with pytest.raises(UnsupportedTableError, match="scan"):
        table.to_pyarrow_dataset()
    assert table.to_pyarrow_dataset(version=1).count_rows() == 10
    table.purge()
    assert table.to_pyarrow_dataset().count_rows() == 9


def test_mapped_columns_are_refused(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "stored"}
    fields = [{"name": "n", "type": "long", "nullable": True, "metadata": mapped}]
    metadata = metadata_of(fields, **{"delta.columnMapping.mode": "name"})
    table = make_log(tmp_path / "t", [needs("columnMapping", reader=("columnMapping",)), metadata])
    with pytest.raises(UnsupportedTableError, match="scan"):
        table.to_pyarrow_dataset()


def test_a_file_system_has_the_table_as_its_root(table: spillway.delta.Table) -> None:
    local = pyarrow.fs.SubTreeFileSystem(table.path, pyarrow.fs.LocalFileSystem())
    assert table.to_pyarrow_dataset(filesystem=local).count_rows() == 40
