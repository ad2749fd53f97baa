"""A number fits a column in `write_rows` exactly where it does in `write_ndjson`, with the same value."""

from __future__ import annotations

import io
import json
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import spillway

FLOATS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}
INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
DECIMALS = [
    *(pa.decimal32(9, 2), pa.decimal64(18, 0), pa.decimal128(20, 2), pa.decimal128(38, 38)),
    *(pa.decimal256(76, 10), pa.decimal256(40, 0)),
]
TICKS = [
    *(pa.duration("s"), pa.duration("ns"), pa.timestamp("s"), pa.timestamp("us", "UTC")),
    *(pa.timestamp("ns"), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns")),
]
NUMBERS = [*FLOATS, *INTEGERS, *DECIMALS]
EDGES = [2**power + step for power in (11, 24, 53, 63, 64, 127) for step in (-1, 0, 1)]
BIG = 2**53 + 1

DIGITS = st.integers(0, 10**80) | st.sampled_from(EDGES) | st.integers(0, 70_000)
EXPONENTS = st.integers(-30, 40) | st.sampled_from([-10_000, -400, -76, 0, 308, 309, 400, 10**12])


@st.composite
def numerals(draw: st.DrawFn) -> str:
    """A number of JSON, in any of its forms."""
    text = draw(st.sampled_from(["", "-"])) + str(draw(DIGITS))
    if draw(st.booleans()):
        text += "." + draw(st.sampled_from(["0", "5", "10", "000"]) | st.text("0123456789", min_size=1))
    if draw(st.booleans()):
        text += draw(st.sampled_from("eE")) + str(draw(EXPONENTS))
    return text


def of_python(numeral: str) -> Any:
    """The int or the decimal that a number of JSON is."""
    return int(numeral) if numeral.lstrip("-").isdigit() else Decimal(numeral)


#: A column of numbers: its type, its cell around a number, and the JSON of that.
SHAPES = {
    "plain": (lambda kind: kind, lambda cell: cell, "{}"),
    "list": (pa.list_, lambda cell: [None, cell], "[null, {}]"),
    "struct": (lambda kind: pa.struct({"n": kind}), lambda cell: {"n": cell}, '{{"n": {}}}'),
    "map value": (lambda kind: pa.map_(pa.string(), kind), lambda cell: {"k": cell}, '{{"k": {}}}'),
    "map key": (lambda kind: pa.map_(kind, pa.int8()), lambda cell: [(cell, 1)], "[[{}, 1]]"),
    "text": (lambda kind: kind, str, '"{}"'),
    "text key": (lambda kind: pa.map_(kind, pa.int8()), lambda cell: {str(cell): 1}, '{{"{}": 1}}'),
    "dictionary": (lambda kind: pa.dictionary(pa.int32(), kind), lambda cell: cell, "{}"),
}


def written(way: str, data: Any, schema: pa.Schema | None) -> tuple[pa.Table, list[tuple[int, str]]]:
    """The rows that were taken, and the place and field of those that were refused."""
    file = io.BytesIO()
    bad: list[spillway.RowError] = []
    with spillway.ParquetWriter(file, schema) as writer:
        getattr(writer, way)(data, on_error=bad.append)
    assert {type(error) for error in bad} <= {spillway.RowError}
    return pq.read_table(file), [(error.row, re.split(r"[.\[]", error.field)[0]) for error in bad]


def both(cells: list[Any], texts: list[str], schema: pa.Schema | None) -> tuple[pa.Table, list[int]]:
    """The numbers that both writers took, and the places of those that both refused."""
    rows, refused = written("write_rows", [{"x": cell} for cell in cells], schema)
    lines = "".join(f'{{"x": {text}}}\n' for text in texts)
    found, also_refused = written("write_ndjson", lines.encode(), schema)
    assert also_refused == refused
    assert found.equals(rows)
    return rows, [row for row, _ in refused]


#: Numbers at which types end, or round.
BORDERS: list[tuple[pa.DataType, list[str]]] = [
    (pa.float64(), [str(BIG), f"{BIG}.0", f"{BIG}e0", f"{BIG}.0e1", str(2**60), "1e23", "1e400", "-0"]),
    (pa.float32(), ["16777217", "16777217.0", str(2**100), "1e39", "0.1"]),
    (pa.float16(), ["2049", "65504", "65520", "1e5"]),
    (pa.int64(), ["1e3", "1.50e1", "1.5", "-0.0", str(2**63), "9.223372036854775807e18"]),
    (pa.uint64(), [str(2**64 - 1), str(2**64), "18446744073709551615.0", "-1", "-0"]),
    (pa.decimal128(20, 2), ["0.5", "0.125", "0.10e1", "1e17", "1e18", "1e-400"]),
]


def check_numbers(shape: str, kind: pa.DataType, given_numerals: list[str]) -> None:
    typed, cell, text = SHAPES[shape]
    schema = pa.schema([("x", typed(kind))])
    cells = [cell(of_python(numeral)) for numeral in given_numerals]
    both(cells, [text.format(numeral) for numeral in given_numerals], schema)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_and_ndjson_agree_where_types_end(shape: str) -> None:
    for kind, given_numerals in BORDERS:
        check_numbers(shape, kind, given_numerals)


@given(
    shape=st.sampled_from(list(SHAPES)),
    kind=st.sampled_from(NUMBERS),
    given_numerals=st.lists(numerals(), min_size=1, max_size=8),
)
def test_rows_and_ndjson_take_and_refuse_the_same_numbers(
    shape: str, kind: pa.DataType, given_numerals: list[str]
) -> None:
    check_numbers(shape, kind, given_numerals)


@given(kind=st.sampled_from(TICKS), given_numerals=st.lists(numerals(), min_size=1, max_size=8))
def test_rows_and_ndjson_take_the_same_numbers_for_times(
    kind: pa.DataType, given_numerals: list[str]
) -> None:
    both([of_python(numeral) for numeral in given_numerals], given_numerals, pa.schema([("x", kind)]))


@given(kind=st.sampled_from([*INTEGERS, *DECIMALS]), numeral=numerals())
def test_a_number_that_is_taken_is_exact(kind: pa.DataType, numeral: str) -> None:
    table, refused = both([of_python(numeral)], [numeral], pa.schema([("x", kind)]))
    assert refused or Decimal(table["x"][0].as_py()) == Decimal(numeral)


@given(st.integers(0, 2**30), st.integers(-3, 3), st.integers(-40, 40))
@example(2**23 + 1, -1, -23)
def test_a_number_is_the_nearest_single_of_its_decimals(middle: int, off: int, exponent: int) -> None:
    """Beside the middle of two singles, a double would be the middle."""
    exact = Fraction(2 * middle + 1) * Fraction(2) ** exponent + Fraction(off, 10**40)
    with localcontext(prec=200):
        numeral = f"{Decimal(exact.numerator) / Decimal(exact.denominator):.90f}"
    file = io.BytesIO()
    spillway.write_parquet([{"x": Decimal(numeral)}], file, schema=pa.schema([("x", pa.float32())]))
    found = pq.read_table(file)["x"][0].as_py()
    candidates = [np.nextafter(np.float32(found), np.float32(to)) for to in (-np.inf, np.inf)]
    assert all(abs(Fraction(found) - exact) <= abs(Fraction(float(each)) - exact) for each in candidates)


@given(kind=st.sampled_from(list(FLOATS)), number=DIGITS, negative=st.booleans())
def test_an_integer_fits_a_float_that_is_equal(kind: pa.DataType, number: int, negative: bool) -> None:  # noqa: FBT001
    number = -number if negative else number
    table, refused = both([number], [str(number)], pa.schema([("x", kind)]))
    most = {pa.float16(): 65504, pa.float32(): (2**24 - 1) * 2**104}.get(kind, 2**1024)
    digits = abs(number) // (abs(number) & -abs(number) or 1)
    fits = digits < 2 ** FLOATS[kind] and abs(number) <= most
    assert bool(refused) != fits
    assert refused or table["x"][0].as_py() == number


@given(st.lists(st.integers(-(10**20), 10**20) | st.sampled_from(EDGES) | st.floats(-1e30, 1e30), max_size=6))
@example([BIG, 0.5])
@example([0.5, BIG])
@example([0.5, 2**60, 2**64, 10**30])
@example([2**63])
@example([2**63, -1])
@example([BIG, -BIG])
@pytest.mark.parametrize("nested", [False, True])
def test_integers_that_floats_cannot_hold_are_refused_beside_floats(
    nested: bool,  # noqa: FBT001
    numbers: list[float],
) -> None:
    # A row that is good in any case, so that there is a file.
    cells = [*([number] if nested else number for number in numbers), None]
    table, refused = both(cells, [json.dumps(cell) for cell in cells], None)
    kept = [cell for place, cell in enumerate(cells) if place not in refused]
    assert table["x"].to_pylist() == kept
    if all(isinstance(number, float) or abs(number) <= 2**53 for number in numbers):
        assert not refused


@pytest.mark.parametrize("text", ["", " 1", "1 ", "0x10", "1_000", "one", "nan", "inf", "Infinity", "\u0663"])
@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_text_that_is_no_number_is_refused(kind: pa.DataType, text: str) -> None:
    _, refused = both([text], [json.dumps(text)], pa.schema([("x", kind)]))
    assert refused == [0]


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_a_bool_is_no_number(kind: pa.DataType, flag: bool) -> None:  # noqa: FBT001
    _, refused = both([flag], [json.dumps(flag)], pa.schema([("x", kind)]))
    assert refused == [0]
