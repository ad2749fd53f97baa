"""Values of every type come back from other engines, as rows, partitions and statistics."""

from __future__ import annotations

import datetime as dt
import json
import math
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import SchemaError

from ..counts import count
from .conftest import READERS, read_deltalake, rows

UTC = dt.UTC
CENTURIES = [dt.datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (1900, 2200)]
MOMENT = dt.datetime(2026, 11, 20, 12, 30, 0, 500, tzinfo=UTC)

EVERY_TYPE = pa.table(
    {
        "text": pa.array(["a", None, "é" * 40], pa.string()),
        "long": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
        "int": pa.array([1, None, -1], pa.int32()),
        "short": pa.array([1, None, -1], pa.int16()),
        "byte": pa.array([1, None, -1], pa.int8()),
        "float": pa.array([0.1, None, -0.0], pa.float32()),
        "double": pa.array([1e300, None, 0.0], pa.float64()),
        "flag": pa.array([True, None, False], pa.bool_()),
        "bytes": pa.array([b"\x00\xff", None, b""], pa.binary()),
        "date": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
        "moment": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
        "clock": pa.array([MOMENT.replace(tzinfo=None), None, None], pa.timestamp("us")),
        "small": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(5, 2)),
        "large": pa.array([Decimal(10) ** 37, None, Decimal(-1)], pa.decimal128(38, 0)),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "group": pa.array([{"x": 1, "y": "z"}, None, {"x": None, "y": "a"}]),
    }
)


def stats_of(table: spillway.delta.Table) -> Any:
    (file,) = table.files()
    return file.stats


@pytest.mark.parametrize("reader", READERS)
def test_every_type_is_read_by_others(tmp_path: Path, reader: str) -> None:
    spillway.delta.write(tmp_path / "t", EVERY_TYPE)
    assert rows(READERS[reader](tmp_path / "t")) == rows(EVERY_TYPE)


def test_statistics_are_what_the_protocol_says(tmp_path: Path) -> None:
    spillway.delta.write(tmp_path / "t", EVERY_TYPE)
    stats = stats_of(spillway.delta.open(tmp_path / "t"))
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {
        "text": "a", "long": -(2**63), "int": -1, "short": -1, "byte": -1,
        "float": pytest.approx(-0.0), "double": 0.0, "flag": False, "date": "0001-01-01",
        "moment": "2026-11-20T12:30:00.000Z", "clock": "2026-11-20T12:30:00.000",
        "small": -0.01, "large": -1, "group": {"x": 1, "y": "a"},
    }  # fmt: skip
    assert stats["maxValues"] == {
        "text": "é" * 31 + "ê", "long": 2**63 - 1, "int": 1, "short": 1, "byte": 1,
        "float": pytest.approx(0.1), "double": 1e300, "flag": True, "date": "9999-12-31",
        "moment": "2026-11-20T12:30:00.001Z", "clock": "2026-11-20T12:30:00.001",
        "small": 1.5, "large": 10**37, "group": {"x": 1, "y": "z"},
    }  # fmt: skip
    assert stats["nullCount"]["group"] == {"x": 2, "y": 1}
    assert {stats["nullCount"][name] for name in ("text", "flag", "bytes", "large")} == {1}
    assert not {"list", "map"} & stats["nullCount"].keys()
    body = (tmp_path / "t" / "_delta_log" / f"{1:020}.json").read_text()
    assert str(10**37) in body, "a decimal never goes through a double"


@pytest.mark.parametrize(
    "values",
    [
        [True, False],
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, dt.UTC)],
    ],
    ids=["boolean", "the end of time"],
)
def test_delta_rs_finds_each_row_by_its_value(tmp_path: Path, values: list[Any]) -> None:
    spillway.delta.write(tmp_path / "t", pa.table({"v": [*values, None]}))
    for value in values:
        rows = deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table(filters=[("v", "=", value)])
        assert rows["v"].to_pylist() == [value]


def test_a_column_with_nan_has_no_bounds(tmp_path: Path) -> None:
    data = pa.table({"x": [1.0, math.nan], "y": [math.inf, 1.0], "z": [math.nan] * 2, "fine": [1.0, 2.0]})
    spillway.delta.write(tmp_path / "t", data)
    stats = stats_of(spillway.delta.open(tmp_path / "t"))
    assert stats["minValues"] == {"y": 1.0, "fine": 1.0}
    assert stats["maxValues"] == {"fine": 2.0}
    assert stats["nullCount"] == dict.fromkeys(data.column_names, 0)


def test_nan_beneath_a_null_keeps_the_bounds(tmp_path: Path) -> None:
    hidden = pa.Array.from_buffers(
        pa.float64(), 3, [pa.py_buffer(b"\x05"), pa.array([1.0, math.nan, 2.0]).buffers()[1]]
    )
    group = pa.StructArray.from_arrays([hidden], ["x"])
    coded = pa.DictionaryArray.from_arrays(pa.array([1, None, 2]), pa.array([math.nan, 1.0, 2.0]))
    data = pa.table({"x": hidden, "group": group, "coded": coded, "sliced": [1.0, 2.0, math.nan]})
    sliced = pa.concat_tables([data, data]).slice(3, 2)
    spillway.delta.write(tmp_path / "t", sliced)
    stats = stats_of(spillway.delta.open(tmp_path / "t"))
    assert stats["minValues"] == {"x": 1.0, "group": {"x": 1.0}, "coded": 1.0, "sliced": 1.0}
    assert stats["maxValues"] == {"x": 1.0, "group": {"x": 1.0}, "coded": 1.0, "sliced": 2.0}


def test_the_first_32_leaf_columns_have_statistics(tmp_path: Path) -> None:
    wide = pa.table({f"c{n:02}": [n] for n in range(40)})
    spillway.delta.write(tmp_path / "t", wide)
    assert len(stats_of(spillway.delta.open(tmp_path / "t"))["minValues"]) == 32
    spillway.delta.write(tmp_path / "u", wide, properties={"delta.dataSkippingNumIndexedCols": "3"})
    assert sorted(stats_of(spillway.delta.open(tmp_path / "u"))["nullCount"]) == ["c00", "c01", "c02"]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=5),
    st.lists(st.floats(width=64), min_size=1, max_size=5),
    st.lists(st.datetimes(*CENTURIES), min_size=1, max_size=5),
)
def test_bounds_hold_every_value(texts: list[str], reals: list[float], times: list[dt.datetime]) -> None:
    count = max(map(len, (texts, reals, times)))
    columns = {"text": texts, "real": reals, "time": times}
    data = pa.table({name: (column * count)[:count] for name, column in columns.items()})
    with tempfile.TemporaryDirectory() as folder:
        spillway.delta.write(folder, data)
        stats = stats_of(spillway.delta.open(folder))
    low, high = stats["minValues"], stats["maxValues"]
    code_points = sorted(texts)
    assert low["text"] <= code_points[0]
    assert "text" not in high or high["text"] >= code_points[-1]
    numbers = [value for value in reals if not math.isnan(value)]
    assert "real" not in low or low["real"] <= min(numbers)
    assert "real" not in high or high["real"] >= max(numbers)
    assert dt.datetime.fromisoformat(low["time"]) <= min(times)
    assert dt.datetime.fromisoformat(high["time"]) >= max(times)


PARTITION_VALUES = {
    "text": (
        pa.string(),
        ["", None, " ", "a b", "50%", "a/b", "a%2Fb", "x=y", "ż🦀", "..", "'\"#?:", "a" * 300],
    ),
    "int": (pa.int32(), [0, -1, None, 2**31 - 1]),
    "flag": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [dt.date(2026, 11, 20), dt.date(1969, 12, 31), None]),
    "moment": (pa.timestamp("us", "UTC"), [MOMENT, dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), None]),
    "clock": (pa.timestamp("us"), [MOMENT.replace(tzinfo=None), CENTURIES[0], None]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal(0), None]),
    "double": (pa.float64(), [0.1, -1.5e300, 5e-324, 0.0, 1e7, math.nan, math.inf, -math.inf, None]),
    "float": (pa.float32(), [0.1, -1.5e30, 2.0**-149, 0.0, 1e7, math.nan, math.inf, -math.inf, None]),
}


def partitioned(kind: str) -> tuple[pa.Table, pa.Table]:
    """Rows with odd partition values, and what is read of them: an empty text is null."""
    data_type, values = PARTITION_VALUES[kind]
    column = pa.array(values, data_type)
    data = pa.table({"p": column, "id": list(range(len(values)))})
    if kind == "text":
        column = pc.if_else(pc.equal(column, ""), None, column)
    return data, data.set_column(0, "p", column)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_odd_partition_values_are_read_by_others(tmp_path: Path, kind: str, reader: str) -> None:
    data, expected = partitioned(kind)
    if (kind, reader) == ("decimal", "delta-rs"):
        # It makes "-1.-50" of a negative decimal on the way to pyarrow.
        data, expected = data.slice(1), expected.slice(1)
    if (kind, reader) == ("text", "polars"):
        # It wants every file in a Hive folder, and no folder can have so long a name.
        data, expected = data.slice(0, len(data) - 1), expected.slice(0, len(data) - 1)
    spillway.delta.write(tmp_path / "t", data, partition_by="p")
    assert rows(READERS[reader](tmp_path / "t")) == rows(expected)
    table = spillway.delta.open(tmp_path / "t")
    table.checkpoint()
    assert rows(READERS[reader](tmp_path / "t")) == rows(expected)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(st.none() | TEXTS, min_size=1))
@settings(max_examples=count(quick=8, ci=30, soak=5_000))
def test_any_text_is_a_partition_value(values: list[str | None]) -> None:
    data = pa.table({"p": pa.array(values, pa.string()), "id": list(range(len(values)))})
    with tempfile.TemporaryDirectory() as folder:
        spillway.delta.write(folder, data, partition_by="p")
        expected = data.set_column(0, "p", pa.array([value or None for value in values], pa.string()))
        assert rows(read_deltalake(Path(folder))) == rows(expected)
        table = spillway.delta.open(folder)
        table.delete_partition(p=values[0])
        left = [value or None for value in values if (value or None) != (values[0] or None)]
        found = deltalake.DeltaTable(folder).to_pyarrow_table()["p"].to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, left))


def is_equal(one: float | None, other: float | None) -> bool:
    nothing = one is None or other is None
    return one is other if nothing else one == other or (math.isnan(one) and math.isnan(other))


@given(st.lists(st.none() | st.floats(width=32) | st.floats(), min_size=1), st.sampled_from([32, 64]))
@settings(max_examples=count(quick=15, ci=40, soak=10_000))
def test_any_float_is_a_partition_value(values: list[float | None], width: int) -> None:
    kind = pa.float32() if width == 32 else pa.float64()
    column = pa.array(values, pa.float64()).cast(kind, safe=False)
    data = pa.table({"p": column, "id": list(range(len(values)))})
    with tempfile.TemporaryDirectory() as folder:
        spillway.delta.write(folder, data, partition_by="p")
        assert rows(read_deltalake(Path(folder))) == rows(data)
        table = spillway.delta.open(folder)
        chosen = column[0].as_py()
        table.delete_partition(p=chosen)
        # As in Spark: NaN is equal to itself, and the zeros to each other.
        kept = [value for value in column.to_pylist() if not is_equal(value, chosen)]
        found = deltalake.DeltaTable(folder).to_pyarrow_table()["p"].to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, kept))


@pytest.mark.parametrize("kind", ["int", "flag", "date", "moment", "clock", "double", "float"])
def test_partitions_of_every_type_are_deleted_by_value(tmp_path: Path, kind: str) -> None:
    data, _ = partitioned(kind)
    spillway.delta.write(tmp_path / "t", data, partition_by="p")
    table = spillway.delta.open(tmp_path / "t")
    for value in PARTITION_VALUES[kind][1]:
        before = len(table.files())
        table.delete_partition(p=value)
        assert len(table.files()) == before - 1
    assert table.files() == []


def test_narrow_numbers_widen_and_fine_times_must_not_lose(tmp_path: Path) -> None:
    schema = pa.schema({"n": pa.uint8(), "w": pa.uint32(), "t": pa.timestamp("ns", "Europe/Paris")})
    table = spillway.delta.create(tmp_path / "t", schema)
    assert pa.schema(table.schema).types == [pa.int16(), pa.int64(), pa.timestamp("us", "UTC")]
    data = pa.table({"n": [255], "w": [2**32 - 1], "t": pa.array([1_000], pa.int64())})
    with table.append() as append:
        append.write(data.cast(schema))
        with pytest.raises(SchemaError, match="nanoseconds"):
            append.write(data.set_column(2, "t", pa.array([1_001], pa.int64())).cast(schema))
    assert read_deltalake(tmp_path / "t")["n"].to_pylist() == [255]


def test_clocks_without_zone_name_their_feature(tmp_path: Path) -> None:
    spillway.delta.create(tmp_path / "t", pa.schema({"t": pa.timestamp("us")}))
    first = (tmp_path / "t" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    protocol = next(json.loads(line)["protocol"] for line in first if "protocol" in json.loads(line))
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert "timestampNtz" in protocol["readerFeatures"]
    assert "timestampNtz" in protocol["writerFeatures"]


def test_dates_lose_no_time_of_day(tmp_path: Path) -> None:
    day = 86_400_000
    table = spillway.delta.create(tmp_path / "t", pa.schema({"d": pa.date64()}))
    with table.append() as append:
        for odd in ([day, 1], [-1], [None, day + 1]):
            with pytest.raises(SchemaError, match="times of day"):
                append.write(pa.table({"d": pa.array(odd, pa.int64()).view(pa.date64())}))
        append.write(pa.table({"d": pa.array([day, -day, None], pa.int64()).view(pa.date64())}))
    assert read_deltalake(tmp_path / "t")["d"].cast(pa.int32()).to_pylist() == [1, -1, None]
