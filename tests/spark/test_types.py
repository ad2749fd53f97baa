"""Every type of Spark that Arrow carries, at any depth, read back equal by Spark, Delta and pyarrow."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from .process import Worker

UTC = dt.UTC
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - both kinds are made of it
FOLDERS = itertools.count()


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    # By its digits: the context of decimals rounds to 28.
    return st.integers(-limit, limit).map(
        lambda n: Decimal((int(n < 0), tuple(int(digit) for digit in str(abs(n))), -scale))
    )


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
FLAT: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "byte": (pa.int8(), integers(8)),
    "short": (pa.int16(), integers(16)),
    "int": (pa.int32(), integers(32)),
    "long": (pa.int64(), integers(64)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "string": (pa.string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=12)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.datetimes(FIRST, LAST, timezones=st.just(UTC))
        | st.sampled_from([FIRST, LAST]).map(lambda moment: moment.replace(tzinfo=UTC)),
    ),
    "timestamp_ntz": (pa.timestamp("us"), st.datetimes(FIRST, LAST) | st.sampled_from([FIRST, LAST])),
    "decimal(5,2)": (pa.decimal128(5, 2), decimals(5, 2)),
    "decimal(18,0)": (pa.decimal128(18, 0), decimals(18, 0)),
    "decimal(38,38)": (pa.decimal128(38, 38), decimals(38, 38)),
    "decimal(38,10)": (pa.decimal128(38, 10), decimals(38, 10)),
}
Typed = tuple[pa.DataType, st.SearchStrategy[Any]]


def lists(inner: Typed) -> Typed:
    kind, values = inner
    return pa.list_(pa.field("element", kind)), st.lists(st.none() | values, max_size=3)


def maps(inner: Typed) -> Typed:
    kind, values = inner
    return pa.map_(pa.string(), kind), st.dictionaries(TEXT, st.none() | values, max_size=3).map(
        lambda found: list(found.items())
    )


def structs(inner: list[Typed]) -> Typed:
    fields = [pa.field(f"f{number}", kind) for number, (kind, _) in enumerate(inner)]
    values = {f"f{number}": st.none() | values for number, (_, values) in enumerate(inner)}
    return pa.struct(fields), st.fixed_dictionaries(values)


TYPED: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(list(FLAT.values())),
    lambda inner: inner.map(lists) | inner.map(maps) | st.lists(inner, min_size=1, max_size=3).map(structs),
    max_leaves=4,
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    columns = draw(st.lists(TYPED, min_size=1, max_size=5))
    rows = draw(st.integers(0, 8))
    arrays = [
        pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for kind, values in columns
    ]
    names = [f"c{number}" for number in range(len(arrays))]
    return pa.table([pa.array(range(rows), pa.int64()), *arrays], names=["i", *names])


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["i"])


def check_folder(spark: SparkSession, path: Path, table: pa.Table) -> None:
    # By itself, Spark takes a moment without a zone for one of the session's.
    frame = spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
    frame.write.format("spillway").mode("append").save(str(path))
    assert rows_of(spark.read.parquet(str(path)).toArrow()) == rows_of(table)
    assert rows_of(ds.dataset(path).to_table()) == rows_of(table)


def check_table(worker: Worker, path: Path, table: pa.Table, zone: str = "UTC") -> None:
    """Types and values are equal where Delta's own reader reads them."""
    path.mkdir(parents=True)
    rows, back = path / "rows.arrow", path / "back.arrow"
    with pa.ipc.new_file(rows, table.schema) as file:
        file.write(table)
    written, read = worker.ask("round_trip", rows=str(rows), to=str(path / "to"), back=str(back), zone=zone)
    assert read == written
    with pa.ipc.open_file(back) as file:
        found = file.read_all()
    assert found.schema.types == [in_utc(kind) for kind in table.schema.types]
    assert rows_of(found.cast(table.schema)) == rows_of(table)


def in_utc(kind: pa.DataType) -> pa.DataType:
    """A type as Spark hands it over: moments are in UTC, whatever the zone of the session."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", "UTC")
    if pa.types.is_map(kind):
        return pa.map_(in_utc(kind.key_type), in_utc(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(in_utc(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_utc(field.type)) for field in kind])
    return kind


@settings(max_examples=examples(0.08))
@given(table=tables())
def test_drawn_rows_are_read_back_equal(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, table: pa.Table
) -> None:
    check_folder(spark, tmp_path_factory.mktemp(f"drawn-{next(FOLDERS)}") / "to", table)


@settings(max_examples=examples(0.04))
@given(table=tables())
def test_drawn_types_and_rows_are_read_back_equal_by_delta(
    worker: Worker, tmp_path_factory: pytest.TempPathFactory, table: pa.Table
) -> None:
    check_table(worker, tmp_path_factory.mktemp(f"table-{next(FOLDERS)}") / "one", table)


def test_ends_of_every_type_are_read_back_equal(spark: SparkSession, worker: Worker, tmp_path: Path) -> None:
    ends: dict[str, list[Any]] = {
        "boolean": [True, False],
        "byte": [-(2**7), 2**7 - 1],
        "short": [-(2**15), 2**15 - 1],
        "int": [-(2**31), 2**31 - 1],
        "long": [-(2**63), 2**63 - 1],
        "float": [float("-inf"), 1.401298464324817e-45],
        "double": [float("inf"), 5e-324],
        "string": ["", "\U0010ffff"],
        "binary": [b"", b"\0\xff"],
        "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
        "timestamp": [FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC)],
        "timestamp_ntz": [FIRST, LAST],
        "decimal(5,2)": [Decimal("-999.99"), Decimal("999.99")],
        "decimal(18,0)": [Decimal(-(10**18) + 1), Decimal(10**18 - 1)],
        "decimal(38,38)": [Decimal("-0." + "9" * 38), Decimal("0." + "9" * 38)],
        "decimal(38,10)": [Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal("9" * 28 + "." + "9" * 10)],
    }
    assert ends.keys() == FLAT.keys()
    arrays = [pa.array([*values, None], FLAT[name][0]) for name, values in ends.items()]
    table = pa.table([pa.array(range(3), pa.int64()), *arrays], names=["i", *ends])
    # Names with parentheses are not for Delta.
    named = table.rename_columns([f"c{n}" if n else "i" for n in range(table.num_columns)])
    for zone in ("UTC", "America/St_Johns"):
        check_table(worker, tmp_path / zone / "table", named, zone)
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            check_folder(spark, tmp_path / zone / "plain", table)
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
