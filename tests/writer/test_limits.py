"""Values that Parquet cannot hold are refused before anything of their batch is taken."""

from __future__ import annotations

import io
import resource
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GIB = 1 << 30
MOST = 2**31 - 2**24
DAY = 86_400_000


def zeros(size: int) -> pa.Buffer:
    """Bytes that nobody ever writes or copies take no memory."""
    return pa.py_buffer(np.zeros(size, np.uint8))


def texts(lengths: list[int], data_type: pa.DataType, nulls: list[int] | None = None) -> pa.Array:
    """Values of such lengths; those of `nulls` are null, whatever lies under them."""
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    valid = None
    if nulls is not None:
        bits = [row not in nulls for row in range(len(lengths))]
        valid = pa.py_buffer(np.packbits(bits, bitorder="little").tobytes())
    buffers = [valid, pa.py_buffer(offsets.tobytes()), zeros(int(offsets[-1]))]
    return pa.Array.from_buffers(data_type, len(lengths), buffers)


def view(length: int) -> pa.Array:
    cell = np.array([3, 0, 0, 0, length, 0, 0, 0], np.int32).tobytes()
    return pa.Array.from_buffers(pa.binary_view(), 2, [None, pa.py_buffer(cell), zeros(length)])


def of_list(values: pa.Array, ends: list[int]) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, *ends], pa.int64()), values)


def dictionary(values: pa.Array, keys: list[int | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), values)


TOO_LARGE: dict[str, tuple[Callable[[], pa.Array], int, int]] = {
    "large binary": (lambda: texts([3, 4 * GIB + 10], pa.large_binary()), 1, 4 * GIB + 10),
    "large string": (lambda: texts([2 * GIB], pa.large_string()), 0, 2 * GIB),
    "the least": (lambda: texts([0, 0, MOST + 1], pa.large_string()), 2, MOST + 1),
    "view": (lambda: view(2**31 - 1), 1, 2**31 - 1),
    "dictionary": (
        lambda: dictionary(texts([1, 4 * GIB], pa.large_string()), [0, None, 1]),
        2,
        4 * GIB,
    ),
    "runs": (
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([3, 5]), texts([1, 3 * GIB], pa.large_string())),
        3,
        3 * GIB,
    ),
    "struct": (
        lambda: pa.StructArray.from_arrays([texts([1, 3 * GIB], pa.large_binary())], ["x"]),
        1,
        3 * GIB,
    ),
    "list": (lambda: of_list(texts([1, 1, 3 * GIB], pa.large_binary()), [0, 2, 3]), 2, 3 * GIB),
    "list of dictionaries": (
        lambda: of_list(dictionary(texts([1, 3 * GIB], pa.large_binary()), [0, 0, 1]), [2, 3]),
        1,
        3 * GIB,
    ),
}

TOO_MUCH: dict[str, tuple[Callable[[], pa.Array], int]] = {
    "list of large values": (lambda: of_list(texts([GIB] * 3, pa.large_binary()), [1, 1, 3]), 2),
    "list of numbers": (
        lambda: of_list(
            pa.Array.from_buffers(pa.int64(), 300 << 20, [None, zeros(300 << 23)]), [5, 300 << 20]
        ),
        1,
    ),
}


def refused(array: pa.Array, match: str, **options: Any) -> None:
    """Writes the array between two small ones: it is refused, they are written."""
    small = pa.table({"a": pa.nulls(2, array.type)})
    table = pa.table({"a": array})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file = io.BytesIO()
    with spillway.ParquetWriter(file, table.schema, **options) as writer:
        writer.write(small)
        with pytest.raises(spillway.SchemaError, match=match):
            writer.write(table)
        writer.write(small)
    assert writer.result.rows == 4
    assert pq.read_metadata(file).num_rows == 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10, "the bytes were copied"


@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.parametrize("options", [{}, {"encoding": "plain"}, {"memory_limit": "1MB"}], ids=str)
def test_values_of_two_gib_are_refused_by_their_place(name: str, options: dict[str, Any]) -> None:
    make, row, size = TOO_LARGE[name]
    place = rf'"a[.a-z]*" has a value of {size} bytes in row {row} of this batch, and {MOST} are the most'
    refused(make(), place, **options)


@pytest.mark.parametrize("name", TOO_MUCH)
def test_rows_that_no_page_holds_are_refused_by_their_place(name: str) -> None:
    make, row = TOO_MUCH[name]
    refused(make(), rf'"a.element" has more than {MOST} bytes in row {row} of this batch')


def test_what_nobody_reads_may_be_as_large_as_it_likes() -> None:
    """Under nulls, among the values of a dictionary, and in batches of many values."""
    lengths = [1] * 2500 + [3 * GIB, 1]
    under_null = texts(lengths, pa.large_binary(), nulls=[2500])
    unused = dictionary(texts([1, 3 * GIB], pa.large_binary()), [0] * 2502)
    for column in (under_null, unused, under_null.slice(2501)):
        file = io.BytesIO()
        spillway.write_parquet(pa.table({"a": column}), file)
        assert pq.read_metadata(file).num_rows == len(column)


def test_datasets_refuse_them_before_any_file_has_rows_of_the_batch(tmp_path: Path) -> None:
    table = pa.table({"part": [0, 1], "a": texts([1, 3 * GIB], pa.large_binary())})
    with spillway.DatasetWriter(tmp_path / "d", table.schema, partition_by=["part"]) as writer:
        writer.write(table.slice(0, 1))
        with pytest.raises(spillway.SchemaError, match="in row 1 of this batch"):
            writer.write(table)
        writer.write(table.slice(0, 1))
    assert sum(pq.read_metadata(file).num_rows for file in (tmp_path / "d").rglob("*.parquet")) == 2


def milliseconds(values: list[int], nulls: list[int] | None = None) -> pa.Array:
    mask = None if nulls is None else np.isin(np.arange(len(values)), nulls)
    return pa.array(np.array(values, np.int64), mask=mask).view(pa.date64())


FIRST, LAST = -(2**31) * DAY, (2**31 - 1) * DAY


def test_dates_that_are_no_days_of_32_bits_are_refused() -> None:
    for value in (FIRST - DAY, LAST + DAY, 2**63 - 1, -(2**63), -1, 1, DAY + 1):
        refused(milliseconds([0, value]), rf'"a" has the date64 {value} in row 1 of this batch')
    edges = milliseconds([FIRST, 0, LAST])
    file = io.BytesIO()
    spillway.write_parquet(pa.table({"a": edges}), file)
    days = pq.read_table(file)["a"].cast(pa.int32())
    assert days.to_pylist() == [-(2**31), 0, 2**31 - 1]


@pytest.mark.parametrize(
    ("kind", "ticks"),
    [
        (pa.time32("s"), 86_400),
        (pa.time32("ms"), 86_400_000),
        (pa.time64("us"), 86_400_000_000),
        (pa.time64("ns"), 86_400_000_000_000),
    ],
    ids=str,
)
def test_times_that_are_of_no_day_are_refused(kind: pa.DataType, ticks: int) -> None:
    def times(*values: int) -> pa.Array:
        return pa.array(values, f"int{kind.bit_width}").view(kind)

    for value in (-1, ticks, 2 ** (kind.bit_width - 1) - 1):
        said = rf'"a" has the .+ {value} in row 1 of this batch, which is not a time of day'
        refused(times(0, value), said)
        refused(of_list(times(0, 1, value), [1, 3]), said.replace('"a"', '"a.element"'))
    table = pa.table({"a": times(0, ticks - 1)})
    file = io.BytesIO()
    spillway.write_parquet(table, file)
    assert pq.read_table(file)["a"].cast(kind).equals(table["a"])
    hidden = pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\2"), times(-1, 1).buffers()[1]])
    spillway.write_parquet(pa.table({"a": hidden}), io.BytesIO())
    unused = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), times(1, ticks))
    spillway.write_parquet(pa.table({"a": unused}), io.BytesIO())


@st.composite
def decimal_columns(draw: st.DrawFn) -> tuple[pa.DataType, list[int], list[bool]]:
    """Unscaled numbers, of which some have more digits than their type, and which of them are null."""
    make, width, most = draw(
        st.sampled_from(
            (
                (pa.decimal32, 32, 9),
                (pa.decimal64, 64, 18),
                (pa.decimal128, 128, 38),
                (pa.decimal256, 256, 76),
            )
        )
    )
    precision = draw(st.integers(1, most))
    bound = 10**precision
    near = st.integers(-bound - 2, bound + 2)
    edges = st.sampled_from([bound - 1, 1 - bound, bound, -bound, 2 ** (width - 1) - 1])
    values = draw(st.lists(st.one_of(near, near, edges, st.integers(-9, 9)), min_size=1, max_size=30))
    lowest, highest = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    values = [min(max(value, lowest), highest) for value in values]
    nulls = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    return make(precision, draw(st.integers(0, precision))), values, nulls


def decimals(data_type: pa.DataType, values: list[int], nulls: list[bool]) -> pa.Array:
    data = b"".join(value.to_bytes(data_type.bit_width // 8, "little", signed=True) for value in values)
    valid = np.packbits([not null for null in nulls], bitorder="little").tobytes()
    return pa.Array.from_buffers(data_type, len(values), [pa.py_buffer(valid), pa.py_buffer(data)])


@given(decimal_columns(), st.sampled_from(["flat", "slice", "struct", "list", "dictionary"]))
def test_decimals_with_more_digits_than_their_type_are_refused(
    column: tuple[pa.DataType, list[int], list[bool]], form: str
) -> None:
    data_type, values, nulls = column
    array = decimals(data_type, values, nulls)
    wrong = [
        row
        for row, (value, null) in enumerate(zip(values, nulls, strict=True))
        if not null and abs(value) >= 10**data_type.precision
    ]
    if form == "slice":
        array = array.slice(1)
        wrong = [row - 1 for row in wrong if row > 0]
    elif form == "struct":
        array = pa.StructArray.from_arrays([array], ["x"])
    elif form == "list":
        ends = pa.array(range(len(values) + 1), pa.int32())
        array = pa.ListArray.from_arrays(ends, array)
    elif form == "dictionary":
        array = pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), array)
    file = io.BytesIO()
    with spillway.ParquetWriter(file, pa.schema([("a", array.type)])) as writer:
        if wrong:
            with localcontext() as context:
                context.prec = 80
                value = Decimal(values[wrong[0] + (form == "slice")]).scaleb(-data_type.scale)
                shown = f"{value:f}".replace(".", r"\.")
            match = rf"has {shown} in row {wrong[0]} of this batch, which has more digits"
            with pytest.raises(spillway.SchemaError, match=match):
                writer.write(pa.table({"a": array}))
        else:
            writer.write(pa.table({"a": array}))
    assert writer.result.rows == (0 if wrong else len(array))
    if not wrong and form == "flat":
        # pyarrow has decimals of 128 and 256 bits in files.
        read = pq.read_table(file)["a"].to_pylist()
        assert read == array.to_pylist()


def test_garbage_that_no_row_has_is_no_value() -> None:
    dates = milliseconds([2**62, 0, 2**62], nulls=[0])
    lists = pa.ListArray.from_arrays(pa.array([1, 2, 2], pa.int32()), milliseconds([2**62, 5 * DAY, 2**62]))
    structs = pa.StructArray.from_arrays([milliseconds([2**62, DAY])], ["x"], mask=pa.array([True, False]))
    table = pa.table({"d": dates.slice(0, 2), "l": lists, "s": structs})
    file = io.BytesIO()
    spillway.write_parquet(table, file)
    assert pq.read_table(file).num_rows == 2


def test_rows_with_dates_out_of_range_are_bad_rows() -> None:
    schema = pa.schema([("d", pa.date64())])
    with spillway.ParquetWriter(io.BytesIO(), schema) as writer:
        with pytest.raises(spillway.RowError, match='row 1, field "d"'):
            writer.write_rows([{"d": DAY}, {"d": LAST + DAY}])
        writer.write_rows([{"d": LAST}])
    assert writer.result.rows == 1


def nested(levels: int) -> pa.Table:
    """A row whose value lies in so many lists and structs, in turns."""
    kind: pa.DataType = pa.int64()
    value: Any = 1
    for level in range(levels):
        kind, value = (pa.struct({"x": kind}), {"x": value}) if level % 2 else (pa.list_(kind), [value])
    return pa.table({"x": pa.array([value, None], kind)})


@pytest.mark.parametrize("levels", [1, 30, 60])
def test_deep_columns_are_written_and_read_back(levels: int) -> None:
    file = io.BytesIO()
    spillway.write_parquet(nested(levels), file)
    assert pq.read_table(file).equals(nested(levels))


@pytest.mark.parametrize("of", [pa.list_, pa.large_list, lambda kind: pa.map_("string", kind)])
def test_lists_and_maps_are_as_deep_as_pyarrow_reads(of: Callable[[pa.DataType], pa.DataType]) -> None:
    kind: pa.DataType = pa.int64()
    for _ in range(49):
        kind = of(kind)
    file = io.BytesIO()
    with spillway.ParquetWriter(file, pa.schema({"x": kind}), store_schema=False) as writer:
        writer.write(pa.table({"x": pa.nulls(1, kind)}))
    assert pq.read_table(file).num_rows == 1
    with pytest.raises(spillway.SchemaError, match="nested in 100 groups of the Parquet schema"):
        spillway.ParquetWriter(io.BytesIO(), pa.schema({"x": of(kind)}), store_schema=False)


def test_a_column_too_deep_for_the_stored_schema_is_refused_before_its_rows() -> None:
    kind: pa.DataType = pa.int64()
    for _ in range(90):
        kind = pa.struct({"x": kind})
    table = pa.table({"x": pa.nulls(2, kind)})
    with pytest.raises(spillway.OptionError, match="nested 90 levels deep") as refused:
        spillway.ParquetWriter(io.BytesIO(), table.schema)
    assert refused.value.option == "store_schema"
    with spillway.ParquetWriter(io.BytesIO(), table.schema, store_schema=False) as writer:
        writer.write(table)
