"""Values of expressions in updates and merges arrive as they are, or are refused."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import when_matched_update
from spillway.errors import OptionError, SpillwayError

from ..counts import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UTC = dt.UTC
NOON = dt.datetime(2020, 5, 5, 13, 30)  # noqa: DTZ001 - a clock without a zone

#: The types of columns of tables.
TARGETS = {
    "byte": pa.int8(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "decimal": pa.decimal128(5, 2),
    "whole": pa.decimal128(20, 0), "flag": pa.bool_(), "text": pa.string(), "bytes": pa.binary(),
    "day": pa.date32(), "clock": pa.timestamp("us"), "moment": pa.timestamp("us", "UTC"),
    "group": pa.struct([("x", pa.int16()), ("y", pa.string())]), "list": pa.list_(pa.int16()),
    "map": pa.map_(pa.string(), pa.float32()),
}  # fmt: skip
SCHEMA = pa.schema({"id": pa.int64()} | TARGETS)

WHOLE = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 127, 128, 2**24 + 1, 2**53 + 1, 2**63 - 1])
REAL = st.floats() | st.sampled_from([0.0, -0.0, 0.5, 1e300, 2.0**63, 2.0**53, 128.0, math.nan, math.inf])
CLOCK = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)) | st.just(NOON)  # noqa: DTZ001


def nanos(clock: dt.datetime, more: int) -> int:
    return (clock - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000 + more  # noqa: DTZ001


#: Arrays of one value, of types that sources have.
SOURCES = st.one_of(
    WHOLE.map(lambda value: pa.array([value], pa.int64())),
    st.integers(-(2**15), 2**15 - 1).map(lambda value: pa.array([value], pa.int16())),
    st.integers(0, 2**64 - 1).map(lambda value: pa.array([value], pa.uint64())),
    REAL.map(lambda value: pa.array([value], pa.float64())),
    st.floats(width=32).map(lambda value: pa.array([value], pa.float32())),
    st.decimals(-(10**9), 10**9, places=3).map(lambda value: pa.array([value], pa.decimal128(20, 3))),
    st.integers(-(10**30), 10**30).map(lambda value: pa.array([Decimal(value)], pa.decimal128(38, 0))),
    st.booleans().map(lambda value: pa.array([value])),
    st.sampled_from(["", "1", "2020-01-01", "true"]).map(lambda value: pa.array([value])),
    st.sampled_from([b"", b"1", b"\xff"]).map(lambda value: pa.array([value])),
    st.dates().map(lambda value: pa.array([value], pa.date32())),
    CLOCK.map(lambda value: pa.array([value], pa.timestamp("us"))),
    CLOCK.map(lambda value: pa.array([value.replace(microsecond=0)], pa.timestamp("s", "UTC"))),
    st.tuples(CLOCK, st.sampled_from([0, 1])).map(lambda pair: pa.array([nanos(*pair)], pa.timestamp("ns"))),
    st.integers(-(2**20), 2**20).map(lambda x: pa.array([{"x": x, "y": "a"}])),
    st.integers(-(2**20), 2**20).map(lambda x: pa.array([{"x": x, "z": "a"}])),
    st.lists(st.none() | st.integers(-(2**20), 2**20)).map(
        lambda value: pa.array([value], pa.list_(pa.int64()))
    ),
    st.dictionaries(st.sampled_from("ab"), REAL).map(
        lambda value: pa.array([list(value.items())], pa.map_(pa.string(), pa.float64()))
    ),
    st.none().map(lambda value: pa.array([value], pa.int64())),
    st.none().map(lambda value: pa.array([value], pa.null())),
)  # fmt: skip


def plain(value: pa.Scalar[Any]) -> Any:
    """The value in Python, with nanoseconds as a number."""
    kind = value.type
    if pa.types.is_timestamp(kind) and value.is_valid and kind.unit == "ns":
        count = value.value
        return count if count % 1000 else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=count // 1000)  # noqa: DTZ001
    return value.as_py()


# From here on, the nearest single is infinite.
MOST_SINGLE = float(2**128 - 2**103)


def is_same(found: Any, given: Any, kind: pa.DataType) -> bool:
    """True if a column of a type has the value that it was given."""
    if given is None or found is None:
        return found is given
    if pa.types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        return set(given) == set(found) and all(
            is_same(found[name], given[name], fields[name]) for name in fields
        )
    if pa.types.is_map(kind):
        return is_same([x[1] for x in found], [x[1] for x in given], pa.list_(kind.item_type))
    if pa.types.is_list(kind):
        return len(found) == len(given) and all(map(is_same, found, given, [kind.value_type] * len(found)))
    return ALIKE.get(type(found), is_alike)(found, given, kind)


def is_alike(found: Any, given: Any, _: pa.DataType) -> bool:
    is_number = {type(found), type(given)} <= {int, float, Decimal}
    return bool((is_number or type(found) is type(given)) and found == given)


def is_nearest(found: float, given: Any, kind: pa.DataType) -> bool:
    """True if the number is the nearest one of the column's precision, and as finite."""
    if type(given) is int:
        return found == given
    wanted = float(given)
    if kind == pa.float32() and abs(wanted) < MOST_SINGLE:
        wanted = float(np.float32(given))
    return type(given) in (float, Decimal) and (found == wanted or (math.isnan(found) and math.isnan(wanted)))


def is_moment(found: dt.datetime, given: Any, _: pa.DataType) -> bool:
    if type(given) is dt.date:
        given = dt.datetime(given.year, given.month, given.day)  # noqa: DTZ001
    is_like = type(given) is dt.datetime and (given.tzinfo is None) == (found.tzinfo is None)
    return is_like and bool(found == given)


ALIKE: dict[type, Callable[[Any, Any, pa.DataType], bool]] = {float: is_nearest, dt.datetime: is_moment}


@given(SOURCES, st.sampled_from(sorted(TARGETS)))
@example(pa.array([3.4e38]), "float")
@example(pa.array([float(2**128 - 2**103)]), "float")
@settings(max_examples=examples(1))
def test_values_arrive_as_they_are_or_are_refused(value: pa.Array, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(folder, SCHEMA)
        with table.append() as append:
            append.write(pa.Table.from_pylist([{"id": 1}], SCHEMA))
        source = pa.table({"id": pa.array([1], pa.int64()), "v": value})
        try:
            table.merge(source, "id", when_matched_update({target: pc.field("source.v")}))
        except SpillwayError:
            assert pa.table(table.scan([target]))[target].to_pylist() == [None]
            return
        found = pa.table(table.scan([target]))[target][0].as_py()
        assert is_same(found, plain(value[0]), TARGETS[target]), (found, value)


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    made = spillway.delta.create(tmp_path / "t", SCHEMA)
    row = {
        "id": 2**53 + 1, "byte": 1, "short": 1, "int": 2**24 + 1, "float": 1.5, "double": 1e300, "flag": True,
        "decimal": Decimal("1.50"), "day": NOON.date(), "clock": NOON, "moment": NOON.replace(tzinfo=UTC),
        "text": "x",
    }  # fmt: skip
    with made.append() as append:
        append.write(pa.Table.from_pylist([row], SCHEMA))
    return made


@pytest.mark.parametrize(
    ("target", "expression", "value"),
    [
        ("float", pc.field("double"), "e300"),
        ("float", pc.field("int"), "16777217"),
        ("double", pc.field("id"), "9007199254740993"),
        ("int", pc.field("float"), "1.5"),
        ("int", pc.field("id"), "9007199254740993"),
        ("byte", pc.field("int"), "16777217"),
        ("decimal", pc.field("int"), "16777217"),
        ("whole", pc.field("decimal"), "1.50"),
        ("decimal", pc.field("double"), "Float64 is no Decimal"),
        ("flag", pc.field("byte"), "Int8 is no Boolean"),
        ("byte", pc.field("flag"), "Boolean is no Int8"),
        ("day", pc.field("clock"), "is no Date32"),
        ("moment", pc.field("clock"), "is no Timestamp"),
        ("clock", pc.field("moment"), "is no Timestamp"),
        ("text", pc.field("id"), "Int64 is no Utf8"),
        ("id", pc.field("text"), "Utf8 is no Int64"),
    ],
)
def test_what_does_not_fit_is_refused(
    table: spillway.delta.Table, target: str, expression: pc.Expression, value: str
) -> None:
    before = pa.table(table.scan())
    for where in ("id > 0", [("id", ">", 0)]):
        with pytest.raises(OptionError) as refused:
            table.update(where, {target: expression})
        assert refused.value.option == "set"
        assert f"'{target}'" in str(refused.value)
        assert value in str(refused.value)
    assert table.version == 1
    assert pa.table(table.scan()).equals(before)


@pytest.mark.parametrize(
    ("target", "expression", "expected"),
    [
        ("byte", pc.field("short") + pc.scalar(pa.scalar(1, pa.int64())), 2),
        ("int", pc.field("float") * 2, 3),
        ("float", pc.field("float") * 1.1, float(np.float32(1.5 * 1.1))),
        ("double", pc.field("decimal"), 1.5),
        ("decimal", pc.field("short"), Decimal("1.00")),
        ("clock", pc.field("day"), dt.datetime(2020, 5, 5)),  # noqa: DTZ001
        ("day", pc.field("clock").cast(pa.date32(), safe=False), NOON.date()),
    ],
)
def test_what_fits_arrives(
    table: spillway.delta.Table, target: str, expression: pc.Expression, expected: Any
) -> None:
    table.update([], {target: expression})
    assert pa.table(table.scan([target]))[target].to_pylist() == [expected]


def test_values_below_null_are_not_looked_at(tmp_path: Path) -> None:
    target = pa.struct([("x", pa.int8())])
    made = spillway.delta.create(
        tmp_path / "t", pa.schema({"id": pa.int64(), "g": target, "l": pa.list_(pa.int8())})
    )
    with made.append() as append:
        append.write(pa.table({"id": [1, 2]}))
    wide = pa.array([1000, 2], pa.int64())
    mask = pa.array([True, False])
    source = pa.table({
        "id": [1, 2],
        "g": pa.StructArray.from_arrays([wide], ["x"], mask=mask),
        "l": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), wide, mask=mask),
    })  # fmt: skip
    set_both = {"g": pc.field("source.g"), "l": pc.field("source.l")}
    made.merge(source, "id", when_matched_update(set_both))
    found = {row["id"]: (row["g"], row["l"]) for row in pa.table(made.scan()).to_pylist()}
    assert found == {1: (None, None), 2: ({"x": 2}, [2])}
