"""The sums by which an audit knows rows: of Arrow arrays they are what Spark computes of their files."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

import spillway
from spillway.spark.row_sums import RowSums, sums_by, sums_of_batch, sums_of_frame
from spillway.spark.schema import _SIMPLE
from spillway.spark.settings import changed_settings

from ..counts import count
from . import drawn_types

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = count(quick=5, ci=15, soak=500)


def sums_of_table(table: pa.Table) -> RowSums:
    return sum(map(sums_of_batch, table.to_batches()), RowSums())


def check(spark: SparkSession, folder: Path, table: pa.Table) -> None:
    path = folder / "rows.parquet"
    spillway.write_parquet(table, path)
    assert sums_of_frame(spark.read.parquet(str(path))) == sums_of_table(table)


def test_sums_of_the_ends_of_every_type_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, drawn_types.ends_of_types())


def test_sums_of_every_simple_type_that_is_accepted_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    ends = drawn_types.ends_of_types()
    values = {ends.schema.field(name).type: ends[name].to_pylist() for name in ends.column_names}
    values[pa.time64("us")] = [dt.time.min, dt.time.max, None]
    kinds = {name: kind(pa) for name, kind in _SIMPLE.items()}
    columns = {name: pa.array(values[kind], kind) for name, kind in kinds.items()}
    with changed_settings(spark, {"spark.sql.timeType.enabled": "true"}):
        check(spark, tmp_path, pa.table(columns))


@given(data=st.data())
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_sums_of_drawn_types_are_sparks(spark: SparkSession, tmp_path: Path, data: st.DataObject) -> None:
    check(spark, tmp_path, data.draw(drawn_types.tables()))


def test_sums_of_more_columns_than_a_word_has_bits_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    columns = {f"c.{place}": pa.array([place, None, place % 7 or None]) for place in range(130)}
    check(spark, tmp_path, pa.table(columns))


def test_sums_add_up_by_a_key(spark: SparkSession) -> None:
    frame = spark.range(100).selectExpr("id", "cast(id % 3 as string) AS k", "if(id % 2 = 0, id, null) AS v")
    parts = sums_by(frame, "k")
    assert sorted(parts) == ["0", "1", "2"]
    assert sum(parts.values(), RowSums()) == sums_of_frame(frame.drop("k"))


def test_collated_text_is_hashed_by_its_bytes(spark: SparkSession) -> None:
    plain = spark.createDataFrame([("a", ["b"]), ("A", None)], "t string, l array<string>")
    collated = plain.selectExpr(
        "t COLLATE UTF8_LCASE AS t", "cast(l as array<string collate UTF8_LCASE>) AS l"
    )
    assert sums_of_frame(collated) == sums_of_frame(plain)
    assert sums_of_frame(plain.selectExpr("upper(t)", "l")) != sums_of_frame(plain)


def test_user_defined_types_are_hashed_as_what_they_are_made_of(spark: SparkSession) -> None:
    vectors = [(1, Vectors.dense(1.0, 2.0)), (2, Vectors.sparse(3, {0: 1.0})), (3, None)]
    whole = spark.createDataFrame(vectors, ["id", "v"])
    made_of = whole.select("id", F.unwrap_udt("v").alias("v"))
    for text in (
        "v",
        "array(array(v, null), null)",
        "map('k', v)",
        "if(id = 2, null, named_struct('v', v, 'n', id))",
        "array(named_struct('v', map(id, v)))",
    ):
        found, expected = (sums_of_frame(each.selectExpr("id", text)) for each in (whole, made_of))
        assert found == expected, text
