"""Every type of Spark that Arrow carries, at any depth: drawn tables, and one of the ends of each type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["ZONES", "ends_of_types", "rows_of", "tables"]

UTC = dt.UTC
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - both kinds are made of it
ZONES = ("UTC", "America/St_Johns")


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


def ends_of_types() -> pa.Table:
    """A column of each flat type, with the first and the last of its values, and a null."""
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
    return pa.table([pa.array(range(3), pa.int64()), *arrays], names=["i", *ends])
