"""A predicate finds the same rows in a file with statistics and indexes as in one without any."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, functions

from .writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 3_000
COMPARISONS = ("=", "<", "<=", ">", ">=", "<>")


@functools.cache
def rows(seed: int) -> pa.Table:
    """Columns that are sorted, random, skewed, long, rare and at the ends of their types, with nulls."""
    rng = np.random.default_rng(seed)
    absent = rng.random(ROWS) < 0.2
    long = [f"{'same start ' * 8}{number}\U0010ffff" for number in rng.integers(0, 40, ROWS)]
    return pa.table(
        {
            "sorted": np.arange(ROWS) // 3,
            "random": pa.array(rng.integers(-500, 500, ROWS), mask=absent),
            "extreme": pa.array(rng.choice([-(2**63), 2**63 - 1, 0, -1], ROWS), mask=absent),
            "real": pa.array(np.round(rng.standard_normal(ROWS), 1), mask=absent),
            "zero": rng.choice([0.0, -0.0, 1.0], ROWS),
            "word": [f"k{number:04}" for number in rng.integers(0, 300, ROWS)],
            "long": pa.array(long, mask=absent),
            "money": pa.array(rng.integers(-(10**9), 10**9, ROWS)).cast(pa.decimal128(20, 0)),
            "day": pa.array(np.sort(rng.integers(0, 20_000, ROWS)).astype(np.int32)).cast(pa.date32()),
        }
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[pa.Table, str, str, Any]:
    """A table, and a comparison of a column with one of its values."""
    table = rows(draw(st.integers(0, 20)))
    name = draw(st.sampled_from(table.column_names))
    value = table.column(name)[draw(st.integers(0, ROWS - 1))].as_py()
    return table, name, draw(st.sampled_from(COMPARISONS)), value


@given(question=questions(), page_bytes=st.sampled_from((64, 500, 4096)), v1=st.booleans())
def test_duckdb_finds_the_same_rows_as_without_statistics(
    tmp_path_factory: pytest.TempPathFactory,
    question: tuple[pa.Table, str, str, Any],
    page_bytes: int,
    v1: bool,  # noqa: FBT001 - hypothesis gives it by name
) -> None:
    table, name, comparison, value = question
    folder = tmp_path_factory.mktemp("predicates", numbered=True)
    options = {"compatibility": "v1"} if v1 else {}
    write(table, folder / "with.parquet", row_group_rows=700, page_bytes=page_bytes, **options)
    pq.write_table(table, folder / "without.parquet", row_group_size=700, write_statistics=False)
    query = f"SELECT * FROM read_parquet(?) WHERE {name} {comparison} ? ORDER BY ALL"  # noqa: S608
    with duckdb.connect() as connection:
        found = [
            connection.sql(query, params=[str(folder / file), value]).to_arrow_table()
            for file in ("with.parquet", "without.parquet")
        ]
    assert found[0].equals(found[1])


@pytest.mark.spark
@pytest.mark.parametrize("reader", ["true", "false"], ids=["vectorized", "row"])
def test_spark_finds_the_rows_that_there_are(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    table = rows(3)
    write(table, tmp_path / "with.parquet", row_group_rows=700, page_bytes=500)
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", reader)
    frame = spark.read.parquet(str(tmp_path / "with.parquet"))
    asked, parts = [], []
    for name in table.column_names:
        value = table.column(name)[ROWS // 2].as_py() or table.column(name).drop_null()[0].as_py()
        limit = pa.scalar(value, table.schema.field(name).type)
        for condition, compare in (("__eq__", pc.equal), ("__lt__", pc.less), ("__ge__", pc.greater_equal)):
            expected = table.filter(compare(table.column(name), limit))
            rows_found = frame.where(getattr(frame[name], condition)(value))
            parts.append(rows_found.withColumn("asked", functions.lit(len(asked))))
            asked.append((f"{name} {condition} {value}", expected))
    # Each has a scan of its own, and all are of one job: a job takes longer than they do.
    found = functools.reduce(DataFrame.unionAll, parts).toArrow()
    for number, (question, expected) in enumerate(asked):
        of_question = found.filter(pc.equal(found["asked"], number)).drop_columns(["asked"])
        assert of_question.cast(table.schema).equals(expected), question
