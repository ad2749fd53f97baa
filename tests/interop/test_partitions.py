"""Folders of partitions as pyarrow, polars, DuckDB and Spark read them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

KEYS: dict[str, pa.Array] = {
    "text": pa.array(
        [
            "plain",
            None,
            "",
            "two words",
            " edges ",
            "50%",
            "%41",
            "a/b",
            "a=b",
            "a:b",
            "żółć 🦀",
            "plus+plus",
            "q?x#y",
            "'quoted\"",
            "back\\slash",
            "{braces}[brackets]^",
            "star*",
            "a,b;c&d|e<f>g~h`i!@$()",
            "tab\tand\nline\x01",
            "..",
            "null",
        ]
    ),
    "number": pa.array([0, -1, None, 2**31 - 1, -(2**31)], pa.int32()),
    "long": pa.array([0, -1, None, 2**63 - 1, -(2**63)], pa.int64()),
    "flag": pa.array([True, None, False]),
    "day": pa.array([dt.date(1970, 1, 1), None, dt.date(2026, 12, 31), dt.date(1600, 2, 29)]),
    "moment": pa.array(
        [
            dt.datetime(2026, 1, 31, 12, 30, 5),  # noqa: DTZ001 - without a zone on purpose
            None,
            dt.datetime(2026, 1, 31, 12, 30, 5, 120_000),  # noqa: DTZ001 - likewise
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - likewise
        ],
        pa.timestamp("us"),
    ),
    "instant": pa.array(
        [dt.datetime(2026, 1, 31, 12, 30, 5, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")
    ),
    "price": pa.array([Decimal("1.50"), None, Decimal("-12345.00")], pa.decimal128(9, 2)),
}


def written(folder: Path, keys: pa.Array) -> tuple[Path, list[Any]]:
    """A dataset with two rows for each key, and the values a reader has to find, by row."""
    keys = pa.concat_arrays([keys, keys])
    table = pa.table({"k": keys, "n": pa.array(range(len(keys)), pa.int64())})
    spillway.write_dataset(table, folder / "data", partition_by="k")
    return folder / "data", [None if value == "" else value for value in keys.to_pylist()]


def by_row(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["k"] for row in sorted(rows, key=lambda row: row["n"])]


@pytest.mark.parametrize("name", KEYS)
def test_pyarrow_reads_every_value(tmp_path: Path, name: str) -> None:
    folder, values = written(tmp_path, KEYS[name])
    schema = pa.schema([("k", KEYS[name].type)])
    if name in {"instant", "price"}:
        # pyarrow makes neither of a folder's name.
        schema = pa.schema([("k", pa.string())])
        values = [None if value is None else folder_text(value) for value in values]
    found = ds.dataset(folder, format="parquet", partitioning=ds.partitioning(schema, flavor="hive"))
    assert by_row(found.to_table().to_pylist()) == values


@pytest.mark.parametrize("name", KEYS)
def test_polars_reads_every_value(tmp_path: Path, name: str) -> None:
    folder, values = written(tmp_path, KEYS[name])
    kind = pl.from_arrow(pa.table({"k": KEYS[name].slice(0, 0)})).schema["k"]
    text = name in {"price", "instant", "moment"}
    found = pl.scan_parquet(
        folder, hive_partitioning=True, hive_schema={"k": pl.String if text else kind}
    ).collect()
    if text:
        values = [None if value is None else folder_text(value) for value in values]
    assert by_row(found.to_dicts()) == values


@pytest.mark.parametrize("name", KEYS)
def test_duckdb_reads_every_value(tmp_path: Path, name: str) -> None:
    folder, values = written(tmp_path, KEYS[name])
    types = {
        "text": "VARCHAR",
        "number": "INTEGER",
        "long": "BIGINT",
        "flag": "BOOLEAN",
        "day": "DATE",
        "moment": "TIMESTAMP",
        "instant": "TIMESTAMPTZ",
        "price": "DECIMAL(9, 2)",
    }
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    files = f"read_parquet($files, hive_partitioning = true, hive_types = {{'k': '{types[name]}'}})"
    query = f"SELECT k, n FROM {files} ORDER BY n"  # noqa: S608 - of this test's own words
    found = connection.sql(query, params={"files": f"{folder}/*/*.parquet"}).to_arrow_table()
    assert [same_instant(value) for value in found.column("k").to_pylist()] == values


def folder_text(value: object) -> str:
    """A value as folders have it, before escaping."""
    if isinstance(value, dt.datetime):
        text = f"{value:%Y-%m-%d %H:%M:%S}"
        if value.microsecond:
            text += f".{value.microsecond:06}".rstrip("0")
        return text + ("Z" if value.tzinfo else "")
    return str(value)


def same_instant(value: object) -> object:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value


@given(values=st.lists(st.none() | st.text(max_size=30), min_size=1, max_size=12))
@settings(max_examples=examples(0.6))
def test_any_text_comes_back(values: list[str | None], tmp_path_factory: pytest.TempPathFactory) -> None:
    values = [value if value is None else value.encode("utf-8", "replace").decode() for value in values]
    values = [None if value == "__HIVE_DEFAULT_PARTITION__" else value for value in values]
    folder, expected = written(tmp_path_factory.mktemp("text"), pa.array(values, pa.string()))
    hive = ds.partitioning(pa.schema([("k", pa.string())]), flavor="hive")
    found = ds.dataset(folder, format="parquet", partitioning=hive).to_table().to_pylist()
    assert by_row(found) == expected


@pytest.mark.spark
@pytest.mark.parametrize("name", KEYS)
def test_spark_reads_every_value(tmp_path: Path, spark: SparkSession, name: str) -> None:
    folder, values = written(tmp_path, KEYS[name])
    types = {
        "text": "string",
        "number": "int",
        "long": "bigint",
        "flag": "boolean",
        "day": "date",
        "moment": "timestamp_ntz",
        "instant": "timestamp",
        "price": "decimal(9,2)",
    }
    frame = spark.read.schema(f"n bigint, k {types[name]}").parquet(str(folder))
    rows = [row.asDict() for row in frame.collect()]
    if name == "instant":
        rows = [row | {"k": None if row["k"] is None else row["k"].astimezone(dt.UTC)} for row in rows]
    assert by_row(rows) == values


@pytest.mark.spark
def test_folders_have_the_names_that_spark_gives_them(tmp_path: Path, spark: SparkSession) -> None:
    keys = KEYS["text"].filter(pa.compute.invert(pa.compute.equal(KEYS["text"], "").fill_null(False)))  # noqa: FBT003
    spillway.write_dataset(pa.table({"k": keys, "n": range(len(keys))}), tmp_path / "ours", partition_by="k")
    rows = list(zip(keys.to_pylist(), range(len(keys)), strict=True))
    frame = spark.createDataFrame(rows, "k string, n bigint")
    frame.write.partitionBy("k").parquet(str(tmp_path / "theirs"))
    ours = {entry.name for entry in (tmp_path / "ours").iterdir()}
    theirs = {entry.name for entry in (tmp_path / "theirs").iterdir() if entry.is_dir()}
    assert ours == theirs
