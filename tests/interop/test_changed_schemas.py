"""Files of a dataset whose schema changed midway, unified by name by pyarrow, polars, DuckDB and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import spillway

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

BEFORE = pa.table(
    {"id": pa.array([1, 2], pa.int32()), "note": pa.nulls(2), "ratio": pa.array([0.5, 1], "f4")}
)
AFTER = pa.table({"id": pa.array([2**40]), "name": ["c"], "note": [True], "ratio": [0.1]})
ROWS = [
    {"id": 1, "ratio": 0.5, "name": None, "note": None},
    {"id": 2, "ratio": 1.0, "name": None, "note": None},
    {"id": 2**40, "ratio": 0.1, "name": "c", "note": True},
]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """One file with the schema before the change, and one with that after it."""
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change="rotate", row_group_rows=2) as writer:
        writer.write(BEFORE)
        writer.write(AFTER)
    return [str(file.path) for file in writer.result.files]


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def test_pyarrow_unifies_the_schemas(files: list[str]) -> None:
    schemas = [ds.dataset(path).schema for path in files]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    assert by_id(ds.dataset(files, schema=schema).to_table().to_pylist()) == ROWS


def test_duckdb_unifies_by_name(files: list[str]) -> None:
    found = duckdb.sql(f"FROM read_parquet({files}, union_by_name = true)")
    assert by_id(found.to_arrow_table().to_pylist()) == ROWS


def test_polars_casts_to_the_newest_schema(files: list[str]) -> None:
    frame = pl.scan_parquet(
        files,
        schema=pl.read_parquet_schema(files[-1]),
        missing_columns="insert",
        cast_options=pl.ScanCastOptions(integer_cast="upcast", float_cast="upcast"),
    )
    assert by_id(frame.collect().to_dicts()) == ROWS


@pytest.mark.spark
def test_spark_merges_new_columns_and_casts_to_a_schema_that_is_given(
    files: list[str], tmp_path: Path, spark: SparkSession
) -> None:
    schema = "id bigint, ratio double, name string, note boolean"
    frame = spark.read.schema(schema).parquet(*files)
    assert by_id([row.asDict() for row in frame.collect()]) == ROWS
    with spillway.DatasetWriter(tmp_path / "new", on_schema_change="rotate") as writer:
        writer.write(BEFORE.select(["ratio"]))
        writer.write(BEFORE.select(["ratio", "id"]))
    frame = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "new"))
    assert sorted(row["id"] or 0 for row in frame.collect()) == [0, 0, 1, 2]
