"""Spark, with its vectorized and its row reader, reads what was written.

Spark pays for each job, so the tables of one schema are read together. Types that Spark cannot read from
anyone are left out, and a test of their own shows for each that pyarrow's file of it fails too.
"""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ..counts import count
from . import normal, strategies
from .fill import Look
from .readers import EXCUSES, Truth, write_reference
from .writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMAS, TABLES = count(quick=4, ci=6, soak=50), count(quick=5, ci=5, soak=10)
READERS = {"vectorized": "true", "row": "false"}
UNREADABLE = (
    pa.float16(),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
    pa.time64("ns"),
    pa.decimal256(60, 2),
    pa.uuid(),
)
# Spark reads these, but cannot hand them to Python, or not as what they were.
NOT_COMPARED = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.null())


def spark_leaves() -> st.SearchStrategy[pa.DataType]:
    left_out = {str(data_type) for data_type in (*UNREADABLE, *NOT_COMPARED)}

    def fits(data_type: pa.DataType) -> bool:
        while pa.types.is_dictionary(data_type):
            data_type = data_type.value_type
        return str(data_type) not in left_out and not str(data_type).startswith("timestamp[ns")

    flat = st.one_of(
        strategies.plain_types(), strategies.decimals(most=38), st.integers(1, 40).map(pa.binary)
    )
    return st.one_of(
        flat, strategies.dictionary_types(flat), st.sampled_from((pa.json_(), pa.bool8()))
    ).filter(fits)


@st.composite
def groups(draw: st.DrawFn) -> list[tuple[strategies.Recipe, dict[str, Any]]]:
    """Recipes that share a schema, each with its own rows and options, but no Brotli."""
    leaves = spark_leaves()
    keys = leaves.filter(lambda data_type: not pa.types.is_dictionary(data_type))
    first = draw(strategies.recipes(types=strategies.any_types(leaves, keys), max_columns=8))
    group = []
    for _ in range(TABLES):
        looks = tuple(draw(strategies.looks()) for _ in first.looks)
        parts = tuple(draw(st.lists(st.integers(1, 400), min_size=1, max_size=2)))
        recipe = strategies.Recipe(first.schema, looks, parts, draw(st.integers(0, 2**32 - 1)))
        options = draw(strategies.options(first.schema, split=False))
        match options.get("compression"):
            case "brotli":
                options |= {"compression": "zstd", "compression_level": None}
            case {**codecs}:
                named = {path: "zstd" if codec == "brotli" else codec for path, codec in codecs.items()}
                options |= {"compression": named}
        group.append((recipe, options))
    return group


def read_folder(spark: SparkSession, folder: Path, reader: str) -> dict[str, pa.Table]:
    """Every file's rows in the file's order, by one job."""
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", READERS[reader])
    frame = spark.read.parquet(str(folder))
    everything = frame.select("*", "_metadata.file_name", "_metadata.row_index").toArrow()
    files = everything.column("file_name").to_pylist()
    order = everything.column("row_index").to_numpy()
    rows = everything.drop_columns(["file_name", "row_index"])
    return {
        name: rows.take(sorted(np.flatnonzero(np.array(files) == name), key=lambda row: order[row]))
        for name in set(files)
    }


def compare(spark: SparkSession, folder: Path, truths: dict[str, Truth]) -> str | None:
    """The first difference between a reader and the truth, or the reader's error."""
    try:
        return difference(spark, folder, truths)
    except (PySparkException, Py4JError) as error:
        causes = [line for line in str(error).splitlines() if line.startswith("Caused by")]
        return causes[-1] if causes else str(error)[:300]
    except normal.Unlike as error:
        return str(error)


def difference(spark: SparkSession, folder: Path, truths: dict[str, Truth]) -> str | None:
    for reader in READERS:
        found = read_folder(spark, folder, reader)
        for name, truth in truths.items():
            if not truth.columns[0]:
                continue
            where = truth.difference(found[name])
            if where is not None:
                return f"the {reader} reader, {name}: {where}"
    return None


@settings(max_examples=SCHEMAS, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(group=groups())
def test_spark_reads_back_what_was_written(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    group: list[tuple[strategies.Recipe, dict[str, Any]]],
) -> None:
    folder = tmp_path_factory.mktemp("spark")
    truths = {}
    for number, (recipe, options) in enumerate(group):
        table = recipe.table()
        write(table, folder / f"{number}.parquet", **options)
        truths[f"{number}.parquet"] = Truth.of(table, microseconds=options.get("timestamps") == "us")
    problem = compare(spark, folder, truths)
    if problem is not None:
        excuse_or_fail(spark, tmp_path_factory.mktemp("reference"), group, problem)
    shutil.rmtree(folder)


def excuse_or_fail(
    spark: SparkSession, folder: Path, group: list[tuple[strategies.Recipe, dict[str, Any]]], problem: str
) -> None:
    truths = {}
    for number, (recipe, _) in enumerate(group):
        write_reference(recipe.table(), folder / f"{number}.parquet")
        truths[f"{number}.parquet"] = Truth.of(recipe.table())
    assert compare(spark, folder, truths) is not None, problem
    EXCUSES["spark cannot read pyarrow's file of a whole schema"] += 1


@pytest.mark.parametrize("data_type", UNREADABLE, ids=str)
def test_a_type_that_is_left_out_is_one_that_spark_cannot_read(
    spark: SparkSession, tmp_path: Path, data_type: pa.DataType
) -> None:
    table = strategies.Recipe(pa.schema([("c", data_type)]), (Look("few", "unique"),), (20,), 0).table()
    write_reference(table, tmp_path / "0.parquet")
    problem = compare(spark, tmp_path, {"0.parquet": Truth.of(table)})
    assert problem is not None, "Spark reads this by now: leave it in"


def test_brotli_is_left_out_because_spark_comes_without_it(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"c": ["some text"] * 100})
    pq.write_table(table, tmp_path / "0.parquet", compression="brotli")
    problem = compare(spark, tmp_path, {"0.parquet": Truth.of(table)})
    assert problem is not None, "Spark reads Brotli by now: leave it in"
    assert "Brotli" in problem


@pytest.mark.parametrize("compatibility", ["modern", "v1"])
def test_spark_reads_the_files_that_broke_other_writers(
    spark: SparkSession, tmp_path: Path, compatibility: str
) -> None:
    """Tails of bit-packed runs, dictionaries of one entry, pages without values, records at the ends of
    pages.
    """
    truths = {}
    for rows in [*range(1, 20), 31, 33, 127, 129, 1001]:
        rng = np.random.default_rng(rows)
        table = pa.table(
            {
                "one": ["the only value"] * rows,
                "one_or_null": pa.array(["x"] * rows, mask=np.arange(rows) % 3 == 1),
                "three": rng.choice(["a", "b", "c"], rows),
                "flag": pa.array(rng.random(rows) < 0.5, mask=rng.random(rows) < 0.4),
                "nulls": pa.array([None] * rows, pa.string()),
                "real": rng.standard_normal(rows),
                "short": pa.array(rng.standard_normal(rows).astype(np.float32), mask=rng.random(rows) < 0.3),
                "unique": [
                    f"request {number} took {row} ms" for row, number in enumerate(rng.permutation(rows))
                ],
                "time": pa.array(np.cumsum(rng.integers(0, 10**6, rows)), pa.timestamp("us", "UTC")),
                "small": pa.array(rng.integers(-128, 128, rows), pa.int8()),
                "unsigned": pa.array(rng.integers(2**31, 2**32, rows), pa.uint32()),
                "money": pa.array(rng.integers(-(10**9), 10**9, rows)).cast(pa.decimal128(20, 0)),
                "bytes": pa.array([rng.bytes(16) for _ in range(rows)], pa.binary(16)),
                "jumps": rng.choice([-(2**63), 2**63 - 1, 0], rows),
                "list": pa.array(
                    [list(range(row % 50)) if row % 7 else None for row in range(rows)], pa.list_(pa.int64())
                ),
                "empty": pa.array([[]] * rows, pa.list_(pa.struct([("a", pa.string())]))),
                "map": pa.array(
                    [[(str(row), None)] for row in range(rows)], pa.map_(pa.string(), pa.float64())
                ),
            }
        )
        for page_bytes in (1, 100, 256 << 10):
            name = f"{rows}-{page_bytes}.parquet"
            write(
                table, tmp_path / name, compatibility=compatibility, page_bytes=page_bytes, row_group_rows=500
            )
            truths[name] = Truth.of(table)
    assert compare(spark, tmp_path, truths) is None


def test_spark_finds_by_page_index_all_that_is_there(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    table = pa.table(
        {
            "sorted": np.arange(20_000) // 3,
            "random": pa.array(rng.integers(-500, 500, 20_000), mask=rng.random(20_000) < 0.2),
            "real": np.round(rng.standard_normal(20_000), 1),
            "word": [f"k{number:04}" for number in rng.integers(0, 3000, 20_000)],
        }
    )
    write(table, tmp_path / "a.parquet", row_group_rows=7000, page_bytes=512)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    wanted = {
        "sorted": [0, 3333, 6666],
        "random": [-500, 0, 499],
        "real": [0.0, -1.5],
        "word": ["k0000", "k2999"],
    }
    for reader in READERS.values():
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", reader)
        frame = spark.read.parquet(str(tmp_path / "a.parquet"))
        for name, values in wanted.items():
            for value in values:
                assert count(frame, name, value) == columns[name].count(value), (name, value)


def count(frame: DataFrame, name: str, value: object) -> int:
    return len(frame.filter(frame[name] == value).select(name).collect())


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        ("{}", "geometry(0)"),
        ('{"crs": "OGC:CRS84"}', "geometry(4326)"),
        ('{"crs": "EPSG:3857"}', "geometry(3857)"),
    ],
)
def test_geometries_have_their_type(
    spark: SparkSession, tmp_path: Path, reader: str, metadata: str, kind: str
) -> None:
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", READERS[reader])
    pairs = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": metadata}
    point = struct.pack("<bidd", 1, 1, 1, 2)
    schema = pa.schema([pa.field("g", pa.binary(), metadata=pairs)])
    write(pa.table([[point, None]], schema=schema), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert frame.schema["g"].dataType.simpleString() == kind
    found = [row["g"] for row in frame.collect()]
    assert (bytes(found[0].getBytes()), found[1]) == (point, None)
    rows = spark.read.schema("g binary").parquet(str(tmp_path)).collect()
    assert [row["g"] for row in rows] == [point, None]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("typed", [{}, {"typed_value": pa.int64()}])
def test_variants_have_their_type(
    spark: SparkSession, tmp_path: Path, reader: str, typed: dict[str, pa.DataType]
) -> None:
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", READERS[reader])
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary(), **typed})
    rows: list[Any] = [
        {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"},
        None,
        {"metadata": b"\x01\x00\x00", "value": b"\x0dabc"},
    ]
    if typed:
        rows[0] = {**rows[0], "value": None, "typed_value": 5}
    field = pa.field("v", kind, metadata={"ARROW:extension:name": "arrow.parquet.variant"})
    write(pa.Table.from_arrays([pa.array(rows, kind)], schema=pa.schema([field])), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert frame.schema["v"].dataType.simpleString() == "variant"
    assert [row[0] for row in frame.selectExpr("to_json(v)").collect()] == ["5", None, '"abc"']
