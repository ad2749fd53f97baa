"""A value of a built-in class is read as the same value of a subclass, which is read in another way."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples
from .strategies import LEAVES

#: Subclasses, of the same name for the sake of messages.
OTHERS = {kind: type(kind.__name__, (kind,), {}) for kind in (str, int, float, bytes, list, dict)}


def disguised(value: Any) -> Any:
    """The value, with all that is in it of subclasses of the built-in classes."""
    if type(value) is list:
        return OTHERS[list](map(disguised, value))
    if type(value) is dict:
        return OTHERS[dict]({key: disguised(each) for key, each in value.items()})
    return OTHERS[type(value)](value) if type(value) in OTHERS else value


TEXTS = st.one_of(
    st.datetimes().map(str),
    st.datetimes().map(lambda time: time.isoformat() + "Z"),
    st.datetimes().map(lambda time: time.isoformat(timespec="milliseconds") + "-09:30"),
    st.dates().map(str),
    st.times().map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.floats().map(repr),
    st.uuids().map(str),
    st.text(max_size=40),
    st.text(st.characters(categories=["Cs"]), min_size=1, max_size=2),
)
#: The bounds of digits in memory, of types, and of what is exact as a float.
BOUNDS = [
    sign * (2**bits + more)
    for bits in (0, 7, 15, 30, 31, 53, 60, 63)
    for more in (-1, 0, 1)
    for sign in (-1, 1)
]
INTEGERS = st.integers() | st.integers(-(2**64), 2**64) | st.sampled_from(BOUNDS)
SCALARS = st.none() | st.booleans() | TEXTS | INTEGERS | st.floats() | st.binary(max_size=6)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from(["x", "y", "1", "2"]), SCALARS, max_size=3),
)
SCALAR_TYPES = [kind for kind, _ in LEAVES] + [pa.float16(), pa.timestamp("s"), pa.null()]
TYPES = st.sampled_from(SCALAR_TYPES).flatmap(
    lambda kind: st.sampled_from(
        [
            kind,
            kind,
            pa.list_(kind),
            pa.struct([("x", kind), ("y", pa.int64())]),
            pa.map_(pa.string(), kind),
            pa.map_(pa.int64(), kind),
            pa.list_(pa.struct([("x", pa.list_(kind))])),
        ]
    )
)


def found(rows: list[dict[str, Any]], schema: pa.Schema) -> tuple[bytes, list[tuple[int, str, str]]]:
    """The file of the rows that are good, and the reports of the others."""
    file, bad = io.BytesIO(), list[spillway.RowError]()
    with spillway.ParquetWriter(file, schema) as writer:
        writer.write_rows(rows, on_error=bad.append)
    return file.getvalue(), [(error.row, error.field, error.message) for error in bad]


@settings(max_examples=examples(2))
@given(TYPES, st.lists(VALUES, min_size=1, max_size=12))
def test_a_value_and_its_error_are_those_of_the_same_value_of_a_subclass(
    kind: pa.DataType, values: list[Any]
) -> None:
    schema = pa.schema([("n", pa.int64()), ("v", kind)])
    rows = [{"n": number, "v": value} for number, value in enumerate(values)]
    plain, plain_bad = found(rows, schema)
    other, other_bad = found([{**row, "v": disguised(row["v"])} for row in rows], schema)
    assert plain_bad == other_bad
    assert plain == other
