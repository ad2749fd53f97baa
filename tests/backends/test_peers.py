"""The writers of the extra `peers` write what they are given, or say which column they cannot."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway import backends, datasets
from spillway.backends import Settings
from spillway.errors import OptionError

PEERS = ("fastparquet", "datafusion", "pandas")
UTC = dt.UTC
# What fastparquet has types for, with a null and the values that a float or a guess would lose.
FLAT = pa.table(
    {
        "int64": pa.array([1, None, 2**60 + 1]),
        "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
        "int8": pa.array([1, None, -3], pa.int8()),
        "double": pa.array([1.5, None, -0.25]),
        "float": pa.array([1.5, None, -0.25], pa.float32()),
        "bool": pa.array([True, None, False]),
        "text": pa.array(["é", None, ""]),
        "no text": pa.array([None] * 3, pa.string()),
        "bytes": pa.array([b"a", None, b"\xff"]),
        "local": pa.array([dt.datetime(1969, 1, 1), None, dt.datetime(2030, 1, 1)]),  # noqa: DTZ001
        "zoned": pa.array(
            [dt.datetime(1969, 1, 1, tzinfo=UTC), None, dt.datetime(2030, 1, 1, tzinfo=UTC)],
            pa.timestamp("ms", "UTC"),
        ),
    }
)
OTHERS = {
    "decimal": pa.array([Decimal("1.23"), None, Decimal("99999999999999999999.99")], pa.decimal128(30, 2)),
    "date": pa.array([dt.date(1969, 1, 1), None, dt.date(9999, 12, 31)]),
    "time": pa.array([1, None, 3], pa.time64("us")),
    "list": pa.array([[1, None], None, []]),
    "struct": pa.array([{"x": 1}, None, {"x": None}]),
}
WHOLE = pa.table(dict(zip(FLAT.column_names, FLAT.columns, strict=True)) | OTHERS)


def settings(**changes):
    return Settings(**{"codec": "zstd", "level": 1, "row_group_rows": 1 << 20, "threads": 1, **changes})


def write(name, path, data, **changes):
    chunks = [data] if isinstance(data, pa.Table) else data
    sink = backends.load(name).open(path, chunks[0].schema, settings(**changes))
    for chunk in chunks:
        sink.write(chunk)
    sink.close()
    return path


def assert_holds(path, table):
    found = pq.read_table(path)
    assert found.schema.types == table.schema.types
    assert found.cast(table.schema).equals(table)
    assert pl.read_parquet(path).equals(pl.from_arrow(table))


@pytest.fixture(scope="module", params=["logs", "logs-nested"])
def batches(request):
    return list(datasets.batches(request.param, 1, 6_000))


def test_they_are_measured_only_where_they_are_named():
    assert set(PEERS) <= set(backends.names())
    assert not set(PEERS) & set(backends.with_modes(["batches", "table"]))
    assert [backends.missing(name) for name in PEERS] == [None] * 3
    assert all(backends.load(name).modes == backends.modes(name) for name in PEERS)


@pytest.mark.parametrize("name", PEERS)
def test_an_absent_peer_is_named_with_its_extra(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"spillway.backends.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"{name} is needed .* pip install 'spillway\[peers\]'"):
        backends.load(name)


@pytest.mark.parametrize("name", PEERS)
def test_batches_and_a_table_are_what_is_read(tmp_path, batches, name):
    table = pa.Table.from_batches(batches)
    if name == "fastparquet" and "tags" in table.column_names:
        with pytest.raises(OptionError, match="cannot write column 'tags'"):
            write(name, tmp_path / "file.parquet", batches)
        return
    assert_holds(write(name, tmp_path / "batches.parquet", batches), table)
    assert_holds(write(name, tmp_path / "table.parquet", table, threads=2, row_group_rows=2_500), table)
    metadata = pq.read_metadata(tmp_path / "table.parquet")
    assert [metadata.row_group(group).num_rows for group in range(3)] == [2_500, 2_500, 1_000]


@pytest.mark.parametrize(
    ("name", "table"), [("fastparquet", FLAT), ("datafusion", WHOLE), ("pandas", WHOLE)], ids=PEERS
)
def test_nulls_decimals_and_dates_are_what_is_read(tmp_path, name, table):
    assert_holds(write(name, tmp_path / "file.parquet", table), table)


@pytest.mark.parametrize("name", PEERS)
def test_no_rows_make_a_file_without_rows(tmp_path, name):
    path = write(name, tmp_path / "file.parquet", FLAT.schema.empty_table())
    assert pq.read_table(path).num_rows == 0
    assert pq.read_schema(path).names == FLAT.column_names


@pytest.mark.parametrize("column", sorted(OTHERS))
def test_fastparquet_refuses_a_column_that_it_would_change(tmp_path, column):
    table = FLAT.append_column(column, OTHERS[column])
    with pytest.raises(OptionError, match=f"cannot write column '{column}'"):
        write("fastparquet", tmp_path / "file.parquet", table)
    assert not (tmp_path / "file.parquet").exists()


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s"), pa.float16(), pa.null(), pa.dictionary(pa.int8(), pa.string())]
)
def test_fastparquet_refuses_other_types_that_it_does_not_keep(tmp_path, kind):
    with pytest.raises(OptionError, match="cannot write column 'x'"):
        write("fastparquet", tmp_path / "file.parquet", pa.schema([("x", kind)]).empty_table())


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize(
    ("codec", "level", "said"),
    [
        ("snappy", None, "SNAPPY"),
        ("zstd", 3, "ZSTD"),
        ("gzip", 6, "GZIP"),
        ("brotli", 1, "BROTLI"),
        ("lz4", None, "LZ4"),
        ("uncompressed", None, "UNCOMPRESSED"),
    ],
)
def test_a_peer_writes_the_codec_of_the_cell(tmp_path, name, codec, level, said):
    path = write(name, tmp_path / "file.parquet", FLAT, codec=codec, level=level)
    group = pq.read_metadata(path).row_group(0)
    assert {group.column(index).compression for index in range(group.num_columns)} == {said}
    assert_holds(path, FLAT)


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_keeps_no_view_of_a_batch(tmp_path, name):
    memory = bytearray(pa.array(range(1000)).buffers()[1].to_pybytes())
    array = pa.Array.from_buffers(pa.int64(), 1000, [None, pa.py_buffer(memory)])
    sink = backends.load(name).open(tmp_path / "file.parquet", pa.schema([("x", pa.int64())]), settings())
    sink.write(pa.record_batch({"x": array}))
    memory[:] = bytes(len(memory))
    sink.close()
    assert pq.read_table(tmp_path / "file.parquet").column("x").to_pylist() == list(range(1000))
