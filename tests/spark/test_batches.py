"""Spark cuts the Arrow batches of a write by rows alone where rows are narrow, and only there."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from spillway.spark import write
from spillway.spark.run import answers_of
from spillway.spark.settings import without_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
UNCUT = str(2**31 - 1)
ROWS = 12_000


def frame(spark: SparkSession, *more: str, columns: int = 8) -> DataFrame:
    return spark.range(0, ROWS, 1, 1).selectExpr(
        *(f"cast(id as string) s{each}" for each in range(columns)), *more
    )


def seen(rows: DataFrame) -> tuple[str | None, list[int]]:
    """The limit of bytes that a task of a write has, and the rows of its batches."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        sizes = [batch.num_rows for batch in batches]
        context = TaskContext.get()
        assert context is not None
        yield context.getLocalProperty(BYTES), sizes

    (found,) = answers_of(rows, task)
    return found  # type: ignore[no-any-return]  # that of the task


@contextlib.contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def test_narrow_rows_are_cut_by_rows_alone(spark: SparkSession) -> None:
    assert seen(frame(spark)) == (UNCUT, [5_000, 5_000, 2_000])
    assert seen(frame(spark).cache()) == (UNCUT, [5_000, 5_000, 2_000])


@pytest.mark.parametrize("change", ["few columns", "binary", "nested binary", "python"])
def test_rows_that_may_be_wide_are_cut_by_bytes_too(spark: SparkSession, change: str) -> None:
    rows = {
        "few columns": lambda: frame(spark, columns=7),
        "binary": lambda: frame(spark, "cast(s0 as binary) b"),
        "nested binary": lambda: frame(spark, "array(named_struct('b', cast(s0 as binary))) b"),
        "python": lambda: frame(spark).mapInArrow(lambda batches: batches, frame(spark).schema),
    }
    assert seen(rows[change]()) == (None, [10_000, 2_000])


def test_rows_that_are_read_back_are_cut_by_rows_alone(spark: SparkSession) -> None:
    """Also by `toLocalIterator`, whose jobs another thread of the JVM begins."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        context = TaskContext.get()
        yield pa.record_batch({"limit": [context and context.getLocalProperty(BYTES)]})

    rows = frame(spark, columns=1).mapInArrow(task, "limit string")
    with without_limit(spark):
        assert [row.limit for row in rows.toLocalIterator()] == [UNCUT]
    assert [row.limit for row in rows.toLocalIterator()] == [None]


def test_a_limit_that_the_session_sets_applies(spark: SparkSession) -> None:
    with setting(spark, BYTES, "1"):
        assert seen(frame(spark).limit(3)) == ("1", [1, 1, 1])
    with setting(spark, RECORDS, "4000"):
        assert seen(frame(spark)) == (UNCUT, [4_000] * 3)
    with setting(spark, RECORDS, "20000"):
        assert seen(frame(spark)) == (None, [ROWS])


def test_no_other_job_has_the_limits_of_a_write(spark: SparkSession, tmp_path: Path) -> None:
    def state() -> list[Any]:
        context = spark.sparkContext
        settings = [spark.conf.get(name) for name in (BYTES, RECORDS)]
        return [*settings, *(context.getLocalProperty(name) for name in (BYTES, RECORDS))]

    before = state()
    assert write(frame(spark), str(tmp_path / "to")).rows == ROWS
    assert state() == before
    failing = frame(spark, "cast(raise_error('wrong') as int) e")
    with pytest.raises(Exception, match="wrong"):
        write(failing, str(tmp_path / "other"))
    assert state() == before
