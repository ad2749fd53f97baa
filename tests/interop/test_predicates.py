"""A predicate finds the same rows in a file with statistics and indexes as in one without any."""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, functions

import spillway.delta

from .anatomy import Anatomy
from .writing import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = 3_000
PYTHON = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<>": operator.ne,
}
COMPARISONS = tuple(PYTHON)


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


# Values at which engines differ. NaN is in some pages and row groups alone.
SPECIAL = (-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan)
FLOATS = {"double": pa.float64(), "single": pa.float32()}
BLOCK = 100


@functools.cache
def specials() -> pa.Table:
    """Floats of which each block of rows has one to three values of `SPECIAL`, and nulls. Every other row
    group has no NaN.
    """
    rng = np.random.default_rng(0)
    among = [SPECIAL if block // 5 % 2 else SPECIAL[:-1] for block in range(ROWS // BLOCK)]
    blocks = [rng.choice(values, rng.integers(1, 4), replace=False) for values in among]
    columns = {}
    for name, data_type in FLOATS.items():
        values = np.concatenate([rng.choice(block, BLOCK) for block in blocks])
        columns[name] = pa.array(values.astype(data_type.to_pandas_dtype()), mask=rng.random(ROWS) < 0.1)
    return pa.table({"id": np.arange(ROWS), **columns})


def asked_specials() -> list[tuple[str, str, float]]:
    return [(name, sign, value) for name in FLOATS for sign in COMPARISONS for value in SPECIAL]


def order(value: float) -> tuple[bool, float]:
    """A key by which NaN equals itself and is above all numbers, as in Spark and in databases."""
    is_nan = math.isnan(value)
    return (is_nan, 0.0 if is_nan else value)


def special_ids(
    table: pa.Table, name: str, sign: str, value: float, *, nan_is_greatest: bool = True
) -> list[int]:
    """The rows that satisfy a comparison, by NaN's place among the numbers or by IEEE 754."""
    compare = PYTHON[sign]
    return [
        number
        for number, cell in zip(table["id"].to_pylist(), table[name].to_pylist(), strict=True)
        if cell is not None
        and (compare(order(cell), order(value)) if nan_is_greatest else compare(cell, value))
    ]


def duckdb_ids(path: Path, name: str, sign: str, value: float) -> list[int]:
    query = f"SELECT id FROM read_parquet(?) WHERE {name} {sign} ? ORDER BY id"  # noqa: S608
    with duckdb.connect() as connection:
        return [number for (number,) in connection.execute(query, [str(path), value]).fetchall()]


def polars_ids(path: Path, name: str, sign: str, value: float) -> list[int]:
    frame = pl.scan_parquet(path).filter(PYTHON[sign](pl.col(name), value))
    return frame.select("id").collect()["id"].to_list()


def pyarrow_ids(path: Path, name: str, sign: str, value: float) -> list[int]:
    field = ds.field(name)
    limit = pa.scalar(value, FLOATS[name])
    return ds.dataset(path).to_table(columns=["id"], filter=PYTHON[sign](field, limit))["id"].to_pylist()


def special_file(folder: Path) -> Path:
    """A file with row groups and pages that have NaN, and others that have bounds."""
    path = folder / "a.parquet"
    write(specials(), path, row_group_rows=5 * BLOCK, page_rows=BLOCK)
    bounded = [chunk.column_index is not None for chunk in Anatomy(path).row_groups[0].chunks]
    assert all(bounded)
    return path


@pytest.mark.parametrize("engine", [duckdb_ids, polars_ids, pyarrow_ids], ids=["duckdb", "polars", "pyarrow"])
def test_engines_find_nan_zeros_and_infinities(
    tmp_path: Path, engine: Callable[[Path, str, str, float], list[int]]
) -> None:
    path = special_file(tmp_path)
    for name, sign, value in asked_specials():
        expected = special_ids(specials(), name, sign, value, nan_is_greatest=engine is not pyarrow_ids)
        assert engine(path, name, sign, value) == expected, (name, sign, value)


def test_engines_know_the_greatest_float_and_count_nan(tmp_path: Path) -> None:
    path = special_file(tmp_path)
    cells = specials()["double"].drop_null().to_pylist()
    nans = sum(map(math.isnan, cells))
    with duckdb.connect() as connection:
        query = "SELECT max(double), max(single), count(*) FILTER (isnan(double)) FROM read_parquet(?)"
        greatest = connection.execute(query, [str(path)]).fetchall()[0]
    assert math.isnan(greatest[0])
    assert math.isnan(greatest[1])
    assert greatest[2] == nans
    assert pl.scan_parquet(path).filter(pl.col("double").is_nan()).collect().height == nans
    assert ds.dataset(path).count_rows(filter=pc.is_nan(ds.field("double"))) == nans


@pytest.mark.parametrize("writer", ["spillway", "delta-rs"])
def test_scans_of_tables_find_nan_zeros_and_infinities(tmp_path: Path, writer: str) -> None:
    table = specials()
    for start in range(0, ROWS, ROWS // 3):
        rows = table.slice(start, ROWS // 3)
        if writer == "spillway":
            spillway.delta.write(
                tmp_path / "t", rows, mode="append", row_group_rows=5 * BLOCK, page_rows=BLOCK
            )
        else:
            deltalake.write_deltalake(tmp_path / "t", rows, mode="append")
    opened = spillway.delta.open(tmp_path / "t")
    for name, sign, value in asked_specials():
        expected = special_ids(table, name, sign, value)
        found = pa.table(opened.scan(["id"], where=[(name, "!=" if sign == "<>" else sign, value)]))
        assert sorted(found["id"].to_pylist()) == expected, (name, sign, value)
        if math.isfinite(value):
            found = pa.table(opened.scan(["id"], where=f"{name} {sign} {value!r}"))
            assert sorted(found["id"].to_pylist()) == expected, (name, sign, value)
        if writer == "spillway":
            condition = PYTHON[sign](pl.col(name), value)
            frame = pl.scan_delta(str(tmp_path / "t")).filter(condition).select("id").collect()
            assert sorted(frame["id"].to_list()) == expected, (name, sign, value)


@pytest.mark.spark
def test_spark_finds_nan_zeros_and_infinities(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(str(special_file(tmp_path)))
    # Spark's filter by dictionaries takes -0.0 and 0.0 for two values, in files of every writer.
    asked = [
        (name, sign, value)
        for (name, sign, value) in asked_specials()
        if sign in {"=", "<", ">="} and (value, sign) != (0.0, "=")
    ]
    parts = []
    for number, (name, sign, value) in enumerate(asked):
        column, limit = frame[name], functions.lit(value).cast(frame.schema[name].dataType)
        found = frame.where(PYTHON[sign](column, limit)).select("id")
        parts.append(found.withColumn("asked", functions.lit(number)))
    found = functools.reduce(DataFrame.unionAll, parts).toArrow()
    for number, (name, sign, value) in enumerate(asked):
        ids = sorted(found.filter(pc.equal(found["asked"], number))["id"].to_pylist())
        assert ids == special_ids(specials(), name, sign, value), (name, sign, value)
    greatest = frame.agg(functions.max("double"), functions.max("single")).first()
    assert greatest is not None
    assert all(map(math.isnan, greatest))
