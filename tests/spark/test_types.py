"""Every type of Spark that Arrow carries, at any depth, read back equal by Spark and pyarrow."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
from hypothesis import given, settings
from pyspark.sql.pandas.types import from_arrow_schema

from ..counts import examples
from .drawn_types import ZONES, ends_of_types, rows_of, tables

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

FOLDERS = itertools.count()


def check_folder(spark: SparkSession, path: Path, table: pa.Table) -> None:
    # By itself, Spark takes a moment without a zone for one of the session's.
    frame = spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
    frame.write.format("spillway").mode("append").save(str(path))
    assert rows_of(spark.read.parquet(str(path)).toArrow()) == rows_of(table)
    assert rows_of(ds.dataset(path).to_table()) == rows_of(table)


@settings(max_examples=examples(0.08))
@given(table=tables())
def test_drawn_rows_are_read_back_equal(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, table: pa.Table
) -> None:
    check_folder(spark, tmp_path_factory.mktemp(f"drawn-{next(FOLDERS)}") / "to", table)


def test_ends_of_every_type_are_read_back_equal(spark: SparkSession, tmp_path: Path) -> None:
    for zone in ZONES:
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            check_folder(spark, tmp_path / zone.replace("/", "-"), ends_of_types())
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_not_a_number_is_read_back(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT double('NaN') d, float('NaN') f, double('-0.0') z")
    frame.write.format("spillway").mode("append").save(str(tmp_path / "to"))
    row = spark.read.parquet(str(tmp_path / "to")).selectExpr("isnan(d)", "isnan(f)", "string(z)").first()
    assert row is not None
    assert tuple(row) == (True, True, "-0.0")


def test_text_with_a_length_and_a_collation_is_text(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 'x' COLLATE UTF8_LCASE t, cast('y' AS varchar(3)) v, cast('z' AS char(2)) c")
    frame.write.format("spillway").mode("append").save(str(tmp_path / "to"))
    assert ds.dataset(tmp_path / "to").to_table().to_pylist() == [{"t": "x", "v": "y", "c": "z"}]
