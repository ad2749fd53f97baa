"""Dicts become what pyarrow makes of them, and a bad one is named."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import io
import json
import math
import re
import sys
import threading
import types
import uuid
import warnings
import zoneinfo
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import spillway

from ..faults.programs import run
from .conftest import write_rows
from .strategies import tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def name_of(value: object) -> str:
    """The name of a parameter, without an address: processes that share the tests must agree on it."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def naive(*parts: int) -> dt.datetime:
    year, month, day, *time = parts
    return dt.datetime(year, month, day, *time, tzinfo=dt.UTC).replace(tzinfo=None)


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def looked_up(table: pa.Table) -> pa.Table:
    """The table with values in place of dictionaries."""
    types = [field.type for field in table.schema]
    plain = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
    return table.cast(pa.schema(zip(table.schema.names, plain, strict=True)))


# Rows bring no dictionary, so its entries may be in any order: here "" comes first, as the more frequent one.
@example((pa.schema([("x", pa.dictionary(pa.int32(), pa.string()))]), [{"x": "0"}, {"x": ""}, {"x": ""}]))
@given(tables())
def test_rows_are_what_pyarrow_makes_of_them(given_table: tuple[pa.Schema, list[dict[str, Any]]]) -> None:
    schema, rows = given_table
    expected = io.BytesIO()
    spillway.write_parquet(pa.Table.from_pylist(rows, schema), expected)
    read = write_rows(rows, schema)
    assert read.schema == pq.read_schema(expected)
    assert looked_up(read).equals(looked_up(pq.read_table(expected)))


@given(tables())
def test_keys_that_are_other_objects_each_time_are_the_same_keys(
    given_table: tuple[pa.Schema, list[dict[str, Any]]],
) -> None:
    schema, rows = given_table
    fresh = [{"".join(list(key)): value for key, value in reversed(row.items())} for row in rows]
    assert write_rows(fresh, schema).equals(write_rows(rows, schema))


KEYS = ("a", "b", "ä", "a long name of a column")


def grown(row: dict[str, Any]) -> dict[str, Any]:
    """The dict after a time with many more keys."""
    more = {f"{place}": 0 for place in range(200)}
    row.update(more)
    for key in more:
        del row[key]
    return row


CHANGES = st.lists(
    st.one_of(
        st.builds(
            lambda key, value: lambda row: {**row, "".join(list(key)): value},
            st.sampled_from(KEYS),
            st.none() | st.integers(-9, 9),
        ),
        st.builds(lambda key: lambda row: (row.pop(key, None), row)[1], st.sampled_from(KEYS)),
        st.just(lambda row: (row.clear(), row)[1]),
        st.just(dict.copy),
        st.just(lambda row: vars(types.SimpleNamespace(**row))),
        st.just(grown),
    ),
    max_size=12,
)


def changed(changes: list[Callable[[dict[str, Any]], dict[str, Any]]]) -> dict[str, Any]:
    """A dict with a history: its items may lie in its memory in several ways."""
    row: dict[str, Any] = {}
    for change in changes:
        row = change(row)
    return row


@given(st.lists(CHANGES, min_size=3, max_size=6))
def test_a_row_is_what_its_dict_has_whatever_was_done_to_it_before(histories: list[Any]) -> None:
    schema = pa.schema([(key, pa.int64()) for key in KEYS])
    rows = [changed(history) for history in histories]
    assert write_rows(rows, schema).to_pylist() == [{key: row.get(key) for key in KEYS} for row in rows]


def one(kind: pa.DataType, value: Any) -> Any:
    return write_rows([{"x": value}], pa.schema([("x", kind)]))["x"][0].as_py()


def refusal(kind: pa.DataType, value: Any) -> spillway.RowError:
    with pytest.raises(spillway.RowError) as caught:
        one(kind, value)
    assert caught.value.field.partition("[")[0] == "x"
    return caught.value


class Color(enum.IntEnum):
    RED = 3


class Name(str):
    __slots__ = ()


class Long(dt.timedelta):
    """A duration whose parts mean something else, as those of pendulum's do: its days count towards zero."""

    days = property(lambda self: int(self.total_seconds() / 86_400))  # type: ignore[assignment]
    seconds = microseconds = property(lambda _: 0)  # type: ignore[assignment]


class Series:
    """A series of polars: it has an `item()` where it has one element, and no `ndim`."""

    dtype = "int"

    def item(self) -> int:
        return 5

    def __len__(self) -> int:
        return 1


class Asked(type):
    """The class of a class that raises when it is asked for a number's method."""

    @property
    def __float__(cls) -> None:
        raise RuntimeError("not today")


class Moody(metaclass=Asked):
    pass


class Shown(decimal.Decimal):
    def __str__(self) -> str:
        return f"{self:.2f}"


class ShownInteger(int):
    def __str__(self) -> str:
        return "many"

    __repr__ = __str__


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int8(), np.int64(-128), -128),
        (pa.int64(), np.array(5), 5),
        (pa.int64(), fractions.Fraction(2**53 + 1), 2**53 + 1),
        (pa.decimal128(38, 0), fractions.Fraction(2**70 + 1), decimal.Decimal(2**70 + 1)),
        (pa.float64(), fractions.Fraction(1, 4), 0.25),
        (pa.float64(), fractions.Fraction(2**54 + 1, 2), 2.0**53),
        (pa.duration("us"), Long(hours=-1, microseconds=7), dt.timedelta(hours=-1, microseconds=7)),
        (pa.duration("us"), Long(days=-40, seconds=5), dt.timedelta(days=-40, seconds=5)),
        (pa.float64(), np.ma.masked, None),
        (pa.int64(), np.ma.masked, None),
        (pa.timestamp("us"), np.ma.masked, None),
        (pa.list_(pa.int64()), np.ma.array([1, 2], mask=[False, True]), [1, None]),
        (pa.list_(pa.date32()), np.ma.array(["2026-11-30"], "datetime64[D]", mask=[True]), [None]),
        (pa.decimal128(10, 3), Shown("12.345"), decimal.Decimal("12.345")),
        (pa.decimal128(38, 0), ShownInteger(2**70), decimal.Decimal(2**70)),
        (pa.int64(), Color.RED, 3),
        (pa.int64(), 2.0, 2),
        (pa.float64(), 7, 7.0),
        (pa.int64(), "-6.6999677E+8", -669996770),
        (pa.int64(), decimal.Decimal("1E+3"), 1000),
        (pa.float64(), "0.5", 0.5),
        (pa.float64(), decimal.Decimal("0.5"), 0.5),
        (pa.float64(), 2**60, 2.0**60),
        (pa.decimal128(20, 2), "6.6999677E+8", decimal.Decimal("669996770.00")),
        (pa.float64(), np.float32(0.5), 0.5),
        (pa.float64(), math.inf, math.inf),
        (pa.bool_(), np.True_, True),
        (pa.string(), Name("n"), "n"),
        (pa.string(), uuid.UUID(int=10), str(uuid.UUID(int=10))),
        (pa.binary(), bytearray(b"ab"), b"ab"),
        (pa.binary(), memoryview(b"ab"), b"ab"),
        (pa.binary(), "é", "é".encode()),
        (pa.binary(16), uuid.UUID(int=10), uuid.UUID(int=10).bytes),
        (pa.binary(16), str(uuid.UUID(int=10)), uuid.UUID(int=10).bytes),
        (pa.date32(), "2024-02-29", dt.date(2024, 2, 29)),
        (pa.date32(), -1, dt.date(1969, 12, 31)),
        (pa.time64("us"), "13:05", dt.time(13, 5)),
        (pa.timestamp("us"), "1969-12-31T23:59:59.5", naive(1969, 12, 31, 23, 59, 59, 500_000)),
        (pa.timestamp("us"), dt.date(2024, 2, 29), naive(2024, 2, 29)),
        (
            pa.timestamp("ms"),
            naive(1969, 12, 31, 23, 59, 59, 999),
            naive(1969, 12, 31, 23, 59, 59),
        ),
        (pa.timestamp("us", "UTC"), "2026-01-01T01:00:00+01:00", dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
        (pa.timestamp("us", "UTC"), 5, dt.datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=dt.UTC)),
        (
            pa.timestamp("us", "UTC"),
            dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
            dt.datetime(2026, 10, 25, 1, 30, tzinfo=dt.UTC),
        ),
        (pa.duration("ms"), dt.timedelta(days=-1, microseconds=1), dt.timedelta(days=-1)),
        (pa.decimal128(5, 2), 3, decimal.Decimal("3.00")),
        (pa.decimal128(5, 2), "1.5", decimal.Decimal("1.50")),
        (pa.decimal128(5, 2), decimal.Decimal("1E+2"), decimal.Decimal("100.00")),
        (pa.list_(pa.int64()), (1, 2), [1, 2]),
        (pa.list_(pa.float64()), np.array([1.0, 2.0]), [1.0, 2.0]),
        (pa.list_(pa.int8(), 2), [1, None], [1, None]),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
        (pa.map_(pa.int64(), pa.int64()), [[1, 2]], [(1, 2)]),
        (pa.struct({"a": pa.int64()}), collections.OrderedDict(a=1), {"a": 1}),
        (pa.null(), None, None),
    ],
    ids=name_of,
)
def test_values_of_a_kindred_class_are_taken(kind: pa.DataType, value: Any, expected: Any) -> None:
    found = one(kind, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (pa.int8(), 128, "128 is out of range for int8: -128 to 127"),
        (pa.uint64(), -1, "out of range for uint64"),
        (pa.int64(), 2**63, "9223372036854775808 is out of range"),
        pytest.param(pa.int64(), 10**5000, "cannot be read", id="more digits than Python prints"),
        (pa.int64(), 10**60, "out of range|expected an integer"),
        (pa.int64(), 1.5, "expected an integer"),
        (pa.int64(), math.nan, "expected an integer"),
        (pa.int64(), True, "expected an integer"),
        (pa.int64(), fractions.Fraction(1, 2), "found a value of class Fraction"),
        (pa.int64(), fractions.Fraction(2**54 + 1, 2), "found a value of class Fraction"),
        (pa.float64(), fractions.Fraction(2**53 + 1), "not exact"),
        (pa.int64(), Series(), "expected an integer, found a value of class Series"),
        (pa.int64(), Moody(), "cannot be read: RuntimeError: not today"),
        (pa.duration("us"), dt.timedelta.max, "^a duration is out of range for microseconds$"),
        (pa.duration("s"), 2**63, "^the integer 9223372036854775808 is out of range for seconds$"),
        (pa.duration("s"), "1", "expected a duration, or seconds, found the text"),
        (pa.int64(), "one", "expected an integer.*found the text"),
        (pa.bool_(), 1, "expected true or false"),
        (pa.float64(), 2**53 + 1, "not exact"),
        (pa.float32(), 1e300, "out of range"),
        (pa.string(), 1, "expected text, found the integer 1"),
        (pa.string(), b"x", "expected text, found 1 bytes"),
        (pa.string(), "\ud800", "surrogate"),
        (pa.binary(3), b"ab", "exactly 3 bytes"),
        (pa.date32(), naive(2024, 1, 1), "expected a date"),
        (pa.date32(), "2023-02-29", "expected a date"),
        (pa.date64(), 1, "whole day"),
        (pa.time64("us"), dt.time(1, tzinfo=dt.UTC), "expected a time"),
        (pa.timestamp("us"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "without a zone"),
        (pa.timestamp("us", "UTC"), naive(2024, 1, 1), "with a zone"),
        (pa.timestamp("us", "UTC"), "2026-01-01T00:00:00", "with a zone"),
        (pa.timestamp("us", "UTC"), "yesterday", "yesterday"),
        (pa.timestamp("ns", "UTC"), dt.datetime(3000, 1, 1, tzinfo=dt.UTC), "out of range"),
        (pa.timestamp("ns"), np.datetime64(1, "ps"), "expected a date and time"),
        (pa.timestamp("us", "UTC"), np.datetime64(1, "ns"), "with a zone"),
        (pa.int64(), np.datetime64(1, "ns"), "expected an integer"),
        (pa.int64(), np.array([5]), "expected an integer"),
        (pa.int64(), np.timedelta64(1, "ns"), "expected an integer"),
        (pa.float64(), np.datetime64(1, "ps"), "expected a number"),
        (pa.timestamp("s"), 2**62, "out of range"),
        (pa.decimal128(5, 2), decimal.Decimal("1.005"), "decimals"),
        (pa.decimal128(5, 2), decimal.Decimal(1000), "too large"),
        (pa.decimal128(5, 2), decimal.Decimal("NaN"), "decimal number"),
        (pa.decimal128(5, 2), 0.5, "expected a decimal"),
        (pa.list_(pa.int64()), "12", "expected a list"),
        (pa.list_(pa.int64()), {1}, "expected a list"),
        (pa.list_(pa.int8(), 2), [1], "expected 2 elements, found 1"),
        (pa.struct({"a": pa.int64()}), [1], "expected an object"),
        (pa.map_(pa.string(), pa.int64()), [1], "expected a"),
        (pa.null(), 1, "expected null"),
        (pa.int64(), object(), "found a value of class object"),
    ],
    ids=name_of,
)
def test_values_that_would_lose_or_guess_are_refused(kind: pa.DataType, value: Any, message: str) -> None:
    assert re.search(message, refusal(kind, value).message)


def test_nanoseconds_of_pandas_are_kept() -> None:
    stamp = pd.Timestamp("2026-01-01T00:00:00.123456789Z")
    table = write_rows([{"x": stamp}], pa.schema([("x", pa.timestamp("ns", "UTC"))]))
    assert table["x"][0].value == stamp.value


@given(nanos=st.integers(-(2**62), 2**62))
def test_times_of_numpy_keep_their_unit(nanos: int) -> None:
    """`item()` of nanoseconds is an integer, which became a column of integers."""
    moment, length = np.datetime64(nanos, "ns"), np.timedelta64(nanos, "ns")
    schema = pa.schema([("t", pa.timestamp("ns")), ("d", pa.duration("ns"))])
    table = write_rows([{"t": moment, "d": length}], schema)
    assert [table["t"][0].value, table["d"][0].value] == [nanos, nanos]
    inferred = write_rows([{"t": moment, "d": length}])
    assert inferred.schema.types == [pa.timestamp("us"), pa.duration("us")]
    assert [inferred["t"][0].value, inferred["d"][0].value] == [nanos // 1000, nanos // 1000]


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
@pytest.mark.parametrize("letter", ["M", "m"])
def test_arrays_of_times_of_numpy_keep_their_unit(letter: str, unit: str) -> None:
    """`tolist()` of nanoseconds has integers, which were taken for the column's unit."""
    times = np.array([1_000, 2_000], f"{letter}8[{unit}]")
    kind = pa.timestamp("us") if letter == "M" else pa.duration("us")
    table = write_rows([{"t": times}, {"t": times[:1]}], pa.schema([("t", pa.list_(kind))]))
    lists = [times.astype(f"{letter}8[us]").tolist(), times[:1].astype(f"{letter}8[us]").tolist()]
    assert table["t"].to_pylist() == lists
    assert write_rows([{"t": times}, {"t": times[:1]}])["t"].to_pylist() == lists


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_series_of_times_are_lists(zone: str | None) -> None:
    times = pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02"])).dt.tz_localize(zone)
    table = write_rows([{"t": times}, {"t": times[:1]}])
    assert table["t"].type.value_type == pa.timestamp("us", zone)
    assert [len(each) for each in table["t"].to_pylist()] == [2, 1]


def missing_without_a_unit() -> list[Any]:
    with warnings.catch_warnings():
        # Some versions of NumPy warn of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        return [np.datetime64("NaT"), np.timedelta64("NaT")]


MISSING = [
    None,
    pd.NaT,
    pd.NA,
    np.datetime64("NaT", "ns"),
    np.timedelta64("NaT", "ns"),
    *missing_without_a_unit(),
]
KINDS = [
    *(pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.duration("us"), pa.timestamp("us")),
    *(pa.timestamp("ns", "UTC"), pa.decimal128(5, 2), pa.list_(pa.int64()), pa.struct({"a": pa.int64()})),
    *(pa.map_(pa.string(), pa.int64()), pa.null()),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("missing", MISSING[:3], ids=str)
def test_what_stands_for_a_missing_value_in_pandas_is_null(kind: pa.DataType, missing: Any) -> None:
    assert one(kind, missing) is None
    assert one(pa.list_(kind), [missing, None]) == [None, None]
    assert one(pa.struct({"a": kind}), {"a": missing}) == {"a": None}
    assert one(pa.map_(pa.string(), kind), {"a": missing}) == [("a", None)]
    refused = refusal(pa.map_(pa.string(), pa.int64()), {missing: 1})
    assert refused.message == "null as the key of a map"


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize("place", ["first", "last"])
def test_missing_values_say_nothing_of_an_inferred_type(missing: Any, place: str) -> None:
    stamp = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    values = [missing, stamp] if place == "first" else [stamp, missing]
    table = write_rows([{"t": value, "n": [missing, 1]} for value in values])
    assert table.schema.field("t").type == pa.timestamp("us", "UTC")
    assert table["t"].to_pylist() == [value if value is stamp else None for value in values]
    assert table["n"].to_pylist() == [[None, 1]] * 2


def test_records_of_a_data_frame_are_rows() -> None:
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None], "Int64"),
            "f": pd.array([None, 0.5], "Float64"),
            "b": pd.array([True, None], "boolean"),
            "s": pd.Series(["a", None], dtype=object),
            "naive": pd.to_datetime(["2026-01-01", None]),
            "zoned": pd.to_datetime([None, "2026-01-01T12:00:00Z"]),
            "span": pd.to_timedelta(["1s", None]),
        }
    )
    rows = frame.to_dict("records")
    assert any(row["zoned"] is pd.NaT for row in rows)
    schema = pa.schema(
        [
            *(("n", pa.int64()), ("f", pa.float64()), ("b", pa.bool_()), ("s", pa.string())),
            *(
                ("naive", pa.timestamp("us")),
                ("zoned", pa.timestamp("us", "UTC")),
                ("span", pa.duration("us")),
            ),
        ]
    )
    expected = pa.Table.from_pandas(frame, schema, preserve_index=False)
    assert write_rows(rows, schema).equals(expected)
    assert write_rows(rows).equals(expected)


def test_pandas_need_not_be_there_for_rows() -> None:
    found = run(
        """
        import io, json, sys
        import spillway
        sys.modules["pandas"] = None
        with spillway.ParquetWriter(io.BytesIO()) as writer:
            writer.write_rows([{"x": 1.5}, {"x": None}])
            try:
                writer.write_rows([{"x": set()}])
            except spillway.RowError as error:
                print(json.dumps(error.message))
        """
    )
    assert found == "expected a number, found a value of class set"


class Unreadable(dt.datetime):
    """A datetime that raises when it is asked for its zone."""

    def utcoffset(self) -> dt.timedelta:
        raise ValueError("no zone today")


@pytest.mark.parametrize("schema", [None, pa.schema([("a", pa.string()), ("b", pa.timestamp("us"))])])
def test_a_value_that_cannot_be_read_is_named(schema: pa.Schema | None) -> None:
    odd = Unreadable(2026, 1, 1)
    rows = [{"a": "x", "b": None}, {"a": "y", "b": odd}]
    with pytest.raises(spillway.RowError, match=r'row 1, field "b": .*ValueError: no zone today') as caught:
        write_rows(rows, schema)
    assert (caught.value.row, caught.value.field, caught.value.raw) == (1, "b", rows[1])
    assert write_rows(rows, schema, on_error="skip")["a"].to_pylist() == ["x"]


@pytest.mark.parametrize(
    ("row", "field"),
    [({"a": {1}}, "a"), ({"a": [None, {1}]}, "a[1]"), ({"a": {"b": [{"c": {1}}]}}, "a.b[0].c")],
    ids=str,
)
def test_a_value_of_no_known_class_is_named_when_types_are_inferred(row: dict[str, Any], field: str) -> None:
    with pytest.raises(spillway.RowError) as caught:
        write_rows([{"n": 1}, {"n": 2, **row}])
    assert (caught.value.row, caught.value.field) == (1, field)
    assert re.search("class set: the first rows do not say what the field is.*schema=", caught.value.message)
    assert write_rows([{"n": 1}, {"n": 2, **row}], on_error="skip").num_rows == 1


def test_a_field_that_was_null_for_long_says_why_it_is_text() -> None:
    with pytest.raises(spillway.RowError, match="found the integer 5: the first rows do not say"):
        write_rows([{"n": None}] * 1000 + [{"n": 5}])


SCHEMA = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.struct({"name": pa.string()})))])
GOOD = [{"id": i, "tags": [{"name": str(i)}]} for i in range(5)]
BAD = {"id": 9, "tags": [{"name": "a"}, {"name": 5}]}


def mixed() -> list[dict[str, Any]]:
    return [*GOOD[:3], BAD, *GOOD[3:]]


def test_a_bad_row_is_named_and_no_row_of_its_call_is_kept() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, SCHEMA) as writer:
        assert writer.write_rows(GOOD[:1]) == 1
        with pytest.raises(
            spillway.RowError, match=r'row 3, field "tags\[1\].name": expected text'
        ) as caught:
            writer.write_rows(mixed())
        assert writer.write_rows(GOOD[1:]) == 4
    error = caught.value
    assert (error.row, error.field, error.line, error.raw) == (3, "tags[1].name", None, BAD)
    assert isinstance(error, ValueError)
    assert pq.read_table(file).to_pylist() == GOOD


def test_no_row_is_kept_even_when_thousands_were_good() -> None:
    rows = [{"x": i} for i in range(50_000)] + [{"x": "bad"}]
    file = io.BytesIO()
    with spillway.ParquetWriter(file, pa.schema([("x", pa.int64())])) as writer:
        with pytest.raises(spillway.RowError, match="row 50000"):
            writer.write_rows(rows)
        assert writer.write_rows(rows[:7]) == 7
    assert pq.read_table(file).num_rows == 7


def test_skipping_keeps_exactly_the_good_rows() -> None:
    assert write_rows(mixed(), SCHEMA, on_error="skip").to_pylist() == GOOD


def test_a_callback_hears_of_every_bad_row() -> None:
    heard: list[spillway.RowError] = []
    rows = [{"no": 1}, *mixed(), 7]
    assert write_rows(rows, SCHEMA, on_error=heard.append).to_pylist() == GOOD
    assert [(error.row, error.field, error.raw) for error in heard] == [
        (0, "no", {"no": 1}),
        (4, "tags[1].name", BAD),
        (7, "", 7),
    ]


def test_what_a_callback_raises_ends_the_call_and_the_rows_before_are_kept() -> None:
    def give_up(error: spillway.RowError) -> None:
        raise LookupError(error.row)

    file = io.BytesIO()
    with spillway.ParquetWriter(file, SCHEMA) as writer, pytest.raises(LookupError, match="3"):
        writer.write_rows(mixed(), on_error=give_up)
    assert pq.read_table(file).to_pylist() == GOOD[:3]


def test_what_an_iterable_raises_comes_through() -> None:
    def rows() -> Any:
        yield GOOD[0]
        raise OSError("the source ran dry")

    for on_error in ("raise", "skip"):
        file = io.BytesIO()
        with spillway.ParquetWriter(file, SCHEMA) as writer, pytest.raises(OSError, match="ran dry"):
            writer.write_rows(rows(), on_error=on_error)  # type: ignore[arg-type]
        assert pq.read_table(file).num_rows == 1


def test_an_interrupt_is_no_bad_value() -> None:
    class Interrupting:
        def __index__(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows([{"x": Interrupting()}], pa.schema([("x", pa.int64())]), on_error="skip")


def test_extra_keys_are_refused_or_passed_over() -> None:
    row = {"id": 1, "more": object(), "tags": [{"name": "a", "less": 2}]}
    with pytest.raises(spillway.RowError, match='field "more": the schema has no such key'):
        write_rows([row], SCHEMA)
    assert write_rows([row], SCHEMA, extra="ignore").to_pylist() == [{"id": 1, "tags": [{"name": "a"}]}]


def test_a_field_that_is_not_nullable_must_be_there() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    for row, message in (({}, "missing"), ({"x": None}, "not nullable")):
        with pytest.raises(spillway.RowError, match=message) as caught:
            write_rows([row], schema)
        assert caught.value.field == "x"


@pytest.mark.parametrize("data", [{"x": 1}, "rows", b"rows", 5, None], ids=repr)
def test_what_is_no_iterable_of_rows_is_a_type_error(data: Any) -> None:
    with pytest.raises(TypeError, match="iterable of dicts"):
        write_rows(data, SCHEMA)


@pytest.mark.parametrize("data", [tuple, iter, collections.deque, lambda rows: (row for row in rows)])
@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_any_iterable_of_dicts_is_taken(data: Any, schema: pa.Schema | None) -> None:
    assert write_rows(data(GOOD), schema).to_pylist() == GOOD


@pytest.mark.parametrize(("option", "value"), [("on_error", "ignore"), ("on_error", 5), ("extra", "raise")])
def test_a_word_that_is_not_accepted_lists_those_that_are(option: str, value: Any) -> None:
    with pytest.raises(spillway.OptionError, match=f"{option}=.* is not accepted: choose"):
        write_rows([], SCHEMA, **{option: value})


def test_keys_that_are_no_text_make_a_row_bad() -> None:
    with pytest.raises(spillway.RowError, match="a key is not a str"):
        write_rows([{1: 2}], SCHEMA)


NO_NAMES = {
    "a key": ({"x": "text", 1: 2}, ""),
    "half of a pair": ({"x": "text", "\ud800": 2}, ""),
    "a key in a dict": ({"x": "text", "y": {1: 2}}, "y"),
    "a key in a list": ({"x": "text", "y": {"z": [{"a": 1}, {2: 3}]}}, "y.z[1]"),
}


@pytest.mark.parametrize("kind", NO_NAMES)
def test_a_row_with_a_key_that_is_no_text_says_nothing_of_the_schema(kind: str) -> None:
    row, field = NO_NAMES[kind]
    table = write_rows([row, {"x": 1}], on_error="skip")
    assert table.schema.remove_metadata() == pa.schema([("x", pa.int64())])
    assert table.to_pylist() == [{"x": 1}]
    with pytest.raises(spillway.RowError, match=r"a key is not a str|half of a surrogate pair") as caught:
        write_rows([row])
    assert (caught.value.row, caught.value.field) == (0, field)


def test_fractions_are_floats_where_types_are_inferred() -> None:
    fractions_of = [fractions.Fraction(1), fractions.Fraction(1, 2)]
    assert write_rows([{"x": each} for each in fractions_of])["x"].to_pylist() == [1.0, 0.5]
    with pytest.raises(spillway.RowError, match="not exact"):
        write_rows([{"x": fractions.Fraction(2**53 + 1)}])


def test_a_schema_is_inferred_from_the_rows() -> None:
    noon = dt.datetime(2026, 1, 1, 12, tzinfo=BERLIN)
    rows = [
        {"none": None, "n": 1, "f": 1, "s": "2026-01-01", "t": noon, "l": [], "d": decimal.Decimal("1.5")},
        {"f": 0.5, "b": True, "l": [{"x": 1}], "naive": noon.replace(tzinfo=None), "d": decimal.Decimal(100)},
        {
            "raw": b"x",
            "day": noon.date(),
            "time": dt.time(1),
            "span": dt.timedelta(1),
            "id": uuid.UUID(int=1),
        },
    ]
    assert write_rows(rows).schema.remove_metadata() == pa.schema(
        {
            "none": pa.string(),
            "n": pa.int64(),
            "f": pa.float64(),
            "s": pa.string(),
            "t": pa.timestamp("us", "UTC"),
            "l": pa.list_(pa.field("element", pa.struct({"x": pa.int64()}))),
            "d": pa.decimal128(4, 1),
            "b": pa.bool_(),
            "naive": pa.timestamp("us"),
            "raw": pa.binary(),
            "day": pa.date32(),
            "time": pa.time64("us"),
            "span": pa.duration("us"),
            "id": pa.binary(16),
        }
    )


def test_rows_that_no_schema_holds_are_named() -> None:
    with pytest.raises(spillway.SchemaError, match=r'row 1, field "a.b": .*it is text, and was an integer'):
        write_rows([{"a": {"b": 1}}, {"a": {"b": "x"}}])


ANOTHER_KIND: dict[str, tuple[Any, Any]] = {
    "integer, text": (1, "007"),
    "float, text": (1.5, "0012.50"),
    "list, text": ([1], ["007"]),
    "struct, text": ({"b": 1}, {"b": "7"}),
    "bytes, text": (b"x", "y"),
    "decimal, text": (decimal.Decimal("1.5"), "2.5"),
    "timestamp, integer": (dt.datetime(2026, 1, 1), 1_577_836_800),  # noqa: DTZ001 - without a zone
    "date, integer": (dt.date(2026, 1, 1), 5),
}


@pytest.mark.parametrize("kinds", ANOTHER_KIND)
@pytest.mark.parametrize("call", ["same", "next"])
def test_later_rows_are_not_converted_to_types_that_the_first_ones_gave(kinds: str, call: str) -> None:
    first, later = ({"a": value} for value in ANOTHER_KIND[kinds])
    file = io.BytesIO()
    with spillway.ParquetWriter(file) as writer:
        if call == "next":
            writer.write_rows([first])
        with pytest.raises(spillway.RowError, match="the type was inferred from the first rows"):
            writer.write_rows([*[first] * 1_000, later] if call == "same" else [later])
        writer.write_rows([first])
    schema = pq.read_schema(file)
    with spillway.ParquetWriter(io.BytesIO(), schema) as writer:
        writer.write_rows([first, later])


@pytest.mark.parametrize("lines", [b'{"a": "007"}\n', b'{"a": ["7"]}\n'])
def test_lines_are_not_converted_to_types_that_the_first_ones_gave(lines: bytes) -> None:
    first = lines.replace(b'"007"', b"1").replace(b'"7"', b"1")
    with spillway.ParquetWriter(io.BytesIO()) as writer:
        writer.write_ndjson(first)
        with pytest.raises(spillway.RowError, match="the type was inferred from the first rows"):
            writer.write_ndjson(lines)


@pytest.mark.parametrize(
    ("first", "line"),
    [
        (dt.datetime(2026, 1, 1), b'"2026-01-02T00:00:00"'),  # noqa: DTZ001 - without a zone
        (dt.date(2026, 1, 1), b'"2026-01-02"'),
        (uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000002"'),
    ],
    ids=["timestamp", "date", "UUID"],
)
def test_lines_have_times_and_uuids_as_text_whatever_gave_the_type(first: Any, line: bytes) -> None:
    with spillway.ParquetWriter(io.BytesIO()) as writer:
        writer.write_rows([{"a": first}])
        assert writer.write_ndjson(b'{"a": %s}\n' % line) == 1


def test_types_that_no_row_gave_are_not_inferred() -> None:
    with spillway.ParquetWriter(io.BytesIO()) as writer:
        with pytest.raises(spillway.RowError):
            writer.write_ndjson(b"oops\n")
        writer.write(pa.table({"a": [1]}))
        assert writer.write_ndjson(b'{"a": "007"}\n') == 1


def test_a_dataset_that_may_widen_has_no_text_in_a_column_of_integers(tmp_path: Path) -> None:
    with spillway.DatasetWriter(tmp_path / "d", on_schema_change="widen") as writer:
        writer.write_rows([{"a": 1}])
        writer.write_rows([{"a": 2, "b": 1.5}])
        with pytest.raises(spillway.RowError, match="expected an integer, found the text"):
            writer.write_rows([{"a": "007"}])


def test_a_new_table_has_no_text_in_a_column_of_integers(tmp_path: Path) -> None:
    rows = [*[{"a": 1}] * 1_000, {"a": "007"}]
    with pytest.raises(spillway.RowError, match="the type was inferred from the first rows"):
        spillway.delta.write(tmp_path / "t", rows)


def test_the_schema_of_a_first_batch_is_that_of_the_rows() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file) as writer:
        writer.write(pa.table({"x": pa.array([1], pa.int8())}))
        with pytest.raises(spillway.RowError, match="int8"):
            writer.write_rows([{"x": 1000}])
        writer.write_rows([{"x": 2}])
    assert pq.read_table(file)["x"].to_pylist() == [1, 2]


def test_no_rows_are_no_file_without_a_schema() -> None:
    with spillway.ParquetWriter(io.BytesIO()) as writer:
        assert writer.write_rows([]) == 0
        writer.abort()
    assert write_rows([], SCHEMA).num_rows == 0


def test_a_closed_writer_takes_no_rows() -> None:
    writer = spillway.ParquetWriter(io.BytesIO(), SCHEMA)
    writer.close()
    for write in (lambda: writer.write_rows([]), lambda: writer.write_ndjson(b"")):
        with pytest.raises(spillway.ClosedError):
            write()


def test_a_writer_is_not_given_rows_from_inside_its_own_call() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, SCHEMA) as writer:

        def again(_error: spillway.RowError) -> None:
            writer.write_rows(GOOD)

        with pytest.raises(RuntimeError, match="from inside one of its own calls"):
            writer.write_rows([{"id": "x"}], on_error=again)


def test_rows_may_change_while_they_are_read() -> None:
    """Nothing is read that is gone, and what is read is somebody's value."""
    rows: list[dict[str, Any]] = []

    class Meddling:
        def __init__(self, row: dict[str, Any]) -> None:
            self.row = row

        def __index__(self) -> int:
            self.row.clear()
            self.row.update({"y": "y" * 100, "z": 1})
            del rows[2:]
            return 5

    for _ in range(1000):
        row: dict[str, Any] = {}
        row |= {"x": Meddling(row), "y": "before" * 20, "z": 2}
        rows.append(row)
    schema = pa.schema([("x", pa.int64()), ("y", pa.string()), ("z", pa.int64())])
    table = write_rows(rows, schema, on_error="skip")
    assert table.num_rows <= 2


def test_rows_of_several_threads_are_all_there() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, pa.schema([("x", pa.int64())])) as writer:
        parts = [[{"x": i} for i in range(start, start + 500)] for start in range(0, 5000, 500)]
        threads = [threading.Thread(target=writer.write_rows, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(pq.read_table(file)["x"].to_pylist()) == list(range(5000))


def test_rows_fresh_from_json_are_taken() -> None:
    rows = [json.loads(json.dumps(row)) for row in GOOD]
    assert write_rows(rows).to_pylist() == GOOD


def test_no_reference_to_the_rows_is_kept() -> None:
    key, value = "a key of its own".title(), "a value of its own".title()
    row = {key: value}
    before = [sys.getrefcount(it) for it in (key, value, row)]
    with spillway.ParquetWriter(io.BytesIO()) as writer:
        writer.write_rows([row])
        assert [sys.getrefcount(it) for it in (key, value, row)] == before


def test_a_mapping_that_is_no_dict_is_refused_by_name() -> None:
    with pytest.raises(spillway.RowError, match="expected a dict, found a value of class mappingproxy"):
        write_rows([types.MappingProxyType({"id": 1})], SCHEMA)
