"""Arrow types, and Python values that pyarrow puts into them."""

from __future__ import annotations

import datetime as dt
import decimal
import zoneinfo
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
ZONES = st.sampled_from(
    [dt.UTC, zoneinfo.ZoneInfo("Europe/Berlin"), dt.timezone(dt.timedelta(hours=-9, minutes=-30))]
)
MICROSECONDS_FIT = {"min_value": dt.datetime(1700, 1, 1), "max_value": dt.datetime(2250, 1, 1)}  # noqa: DTZ001


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    most = 10**precision - 1
    with decimal.localcontext(prec=80):
        unit = decimal.Decimal(1).scaleb(-scale)

    def scaled(number: int) -> decimal.Decimal:
        with decimal.localcontext(prec=80):
            return number * unit

    return st.integers(-most, most).map(scaled)


def integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    *((getattr(pa, f"int{bits}")(), integers(bits, signed=True)) for bits in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{bits}")(), integers(bits, signed=False)) for bits in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.dictionary(pa.int32(), pa.string()), TEXT),
    (pa.binary(), st.binary(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.time32("ms"), st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))),
    (pa.time64("us"), st.times()),
    (pa.time64("ns"), st.times()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ms"), st.datetimes().map(lambda time: time.replace(microsecond=0))),
    (pa.timestamp("us", "UTC"), st.datetimes(**MICROSECONDS_FIT, timezones=ZONES)),
    (pa.timestamp("ns", "Europe/Berlin"), st.datetimes(**MICROSECONDS_FIT, timezones=ZONES)),
    (pa.duration("us"), st.timedeltas(dt.timedelta(days=-100_000), dt.timedelta(days=100_000))),
    (pa.decimal128(9, 2), decimals(9, 2)),
    (pa.decimal128(38, 10), decimals(38, 10)),
    (pa.decimal256(60, 0), decimals(60, 0)),
]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def lists(leaf: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    return pa.list_(pa.field("element", leaf[0])), st.lists(optional(leaf[1]), max_size=4)


def structs(leaf: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    return pa.struct({"x": leaf[0], "y": pa.int64()}), st.fixed_dictionaries(
        {"x": optional(leaf[1]), "y": optional(integers(64, signed=True))}
    )


def maps(leaf: tuple[pa.DataType, st.SearchStrategy[Any]]) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    pairs = st.lists(st.tuples(TEXT, optional(leaf[1])), max_size=4, unique_by=lambda pair: pair[0])
    return pa.map_(pa.string(), leaf[0]), pairs


def columns() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    top = st.sampled_from(LEAVES)
    # pyarrow makes dictionaries inside of structs whose keys point nowhere under null parents.
    leaf = st.sampled_from([each for each in LEAVES if not pa.types.is_dictionary(each[0])])
    return top | leaf.map(lists) | leaf.map(structs) | leaf.map(maps) | leaf.map(structs).map(lists)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """A schema, and rows that pyarrow makes a table of."""
    kinds = draw(
        st.dictionaries(st.text("abcdef_", min_size=1, max_size=12), columns(), min_size=1, max_size=6)
    )
    schema = pa.schema([(name, kind) for name, (kind, _) in kinds.items()])
    row = st.fixed_dictionaries({}, optional={name: optional(values) for name, (_, values) in kinds.items()})
    return schema, draw(st.lists(row, max_size=20))
