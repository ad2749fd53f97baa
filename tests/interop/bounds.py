"""Statistics and page indexes against bounds computed anew from the values, for flat columns."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .anatomy import ASCENDING, DATA_PAGE_V2, DESCENDING, Anatomy, page_rows
from .fill import unscaled_decimal
from .normal import decoded, decoded_type

if TYPE_CHECKING:
    from .anatomy import Chunk

Bound = Any
INT32, INT64 = 1, 2
#: Bytes of a bound in statistics and indexes.
MOST_BOUND = 64


def check_bounds(anatomy: Anatomy, table: pa.Table) -> int:
    """Checks every flat column of `table`, as pyarrow read it from the file; returns how many bounds were
    compared.

    Raises:
        AssertionError: A bound excludes a value, is not tight where it has to be, or a null count is wrong.
    """
    compared = 0
    start = 0
    flat = {(name,): index for index, name in enumerate(table.schema.names)}
    for group in anatomy.row_groups:
        for chunk in group.chunks:
            index = flat.get(chunk.path)
            if index is not None and orderable(table.schema.types[index]):
                column = table.column(index).slice(start, group.rows)
                compared += _check_chunk(chunk, column, group.rows)
        start += group.rows
    return compared


def orderable(data_type: pa.DataType) -> bool:
    """Returns True if Parquet defines an order for this type, so that statistics of it mean something."""
    return (
        not pa.types.is_nested(data_type)
        and not pa.types.is_null(data_type)
        and not pa.types.is_interval(data_type)
    )


@dataclass(frozen=True)
class _Column:
    """The types that a column's bounds are decoded by, and its name in errors."""

    data_type: pa.DataType
    physical: int
    label: str

    def key(self, raw: bytes) -> Bound:
        return decode(raw, self.data_type, self.physical)

    @property
    def is_variable(self) -> bool:
        """True if bounds may be cut short."""
        types, data_type = pa.types, self.data_type
        if types.is_fixed_size_binary(data_type):
            return bool(data_type.byte_width > MOST_BOUND)
        return not (types.is_primitive(data_type) or types.is_decimal(data_type))


def _check_chunk(chunk: Chunk, values: pa.ChunkedArray, rows: int) -> int:
    data_type, keys = plain_keys(values)
    column = _Column(data_type, chunk.meta[1], f"{chunk.path} {data_type}")
    compared = _check_statistics(chunk.statistics, keys, column)
    index = chunk.column_index
    ranges = page_rows(chunk, rows)
    for number, ((start, end), page) in enumerate(zip(ranges, chunk.data_pages, strict=True)):
        part = keys[start:end]
        compared += _check_statistics(
            page.detail.get(8 if page.kind == DATA_PAGE_V2 else 5, {}), part, column
        )
        if page.kind == DATA_PAGE_V2:
            assert page.detail[2] == part.count(None), f"{column.label}: num_nulls of page {number}"
        if index is not None:
            compared += _check_index_page(index, number, part, column)
    if index is not None:
        _check_order(index, column)
    return compared


def _check_statistics(statistics: dict[int, Any], keys: list[Bound], column: _Column) -> int:
    if 3 in statistics:
        assert statistics[3] == keys.count(None), f"{column.label}: null_count"
    real = comparable(keys)
    nans = len(keys) - keys.count(None) - len(real)
    if 9 in statistics:
        assert statistics[9] == nans, f"{column.label}: nan_count"
    if not {1, 2, 5, 6} & statistics.keys():
        return 0
    assert real, f"{column.label}: bounds {statistics} of a range without comparable values"
    assert nans == 0, f"{column.label}: bounds {statistics} beside NaN, which engines sort above all numbers"
    _check_pair(statistics.get(6), statistics.get(5), real, column)
    lowest, highest = min(real), max(real)
    if statistics.get(8) and 6 in statistics:
        assert _close(column.key(statistics[6]), lowest), f"{column.label}: is_min_value_exact"
    if statistics.get(7) and 5 in statistics:
        assert _close(column.key(statistics[5]), highest), f"{column.label}: is_max_value_exact"
    return 1


def _check_index_page(index: dict[int, Any], number: int, keys: list[Bound], column: _Column) -> int:
    all_null = all(key is None for key in keys)
    assert index[1][number] == all_null, f"{column.label}: null_pages[{number}]"
    if 5 in index:
        assert index[5][number] == keys.count(None), f"{column.label}: null_counts[{number}]"
    real = comparable(keys)
    if all_null:
        return 0
    assert real, f"{column.label}: a column index over a page with nothing but NaN"
    assert len(real) == len(keys) - keys.count(None), f"{column.label}: a column index over a page with NaN"
    _check_pair(index[2][number], index[3][number], real, column)
    return 1


def _check_pair(low: bytes | None, high: bytes | None, real: list[Bound], column: _Column) -> None:
    variable = column.is_variable
    if low is not None:
        found, least = column.key(low), min(real)
        assert found <= least, f"{column.label}: minimum {found!r} is above {least!r}"
        assert variable or _close(found, least), (
            f"{column.label}: minimum {found!r} is not tight, {least!r} is"
        )
        assert found != (0.0, 1), f"{column.label}: a minimum of zero has to be -0.0"
    if high is not None:
        found, most = column.key(high), max(real)
        assert found >= most, f"{column.label}: maximum {found!r} is below {most!r}"
        assert variable or _close(found, most), f"{column.label}: maximum {found!r} is not tight, {most!r} is"
        assert found != (0.0, -1), f"{column.label}: a maximum of zero has to be +0.0"


def _close(left: Bound, right: Bound) -> bool:
    """Equal, signs of zero aside."""
    return bool(left[0] == right[0]) if isinstance(left, tuple) else bool(left == right)


def _check_order(index: dict[int, Any], column: _Column) -> None:
    live = [number for number, null in enumerate(index[1]) if not null]
    lows = [column.key(index[2][number]) for number in live]
    highs = [column.key(index[3][number]) for number in live]
    if index[4] == ASCENDING:
        assert lows == sorted(lows), f"{column.label}: minima are said to ascend"
        assert highs == sorted(highs), f"{column.label}: maxima are said to ascend"
    if index[4] == DESCENDING:
        assert lows == sorted(lows, reverse=True), f"{column.label}: minima are said to descend"
        assert highs == sorted(highs, reverse=True), f"{column.label}: maxima are said to descend"


def comparable(keys: list[Bound]) -> list[Bound]:
    """The keys that statistics are over: no nulls, no NaN."""
    return [key for key in keys if key is not None and not (isinstance(key, tuple) and math.isnan(key[0]))]


def plain_keys(column: pa.ChunkedArray) -> tuple[pa.DataType, list[Bound]]:
    """The column's stored type, and its values as what Parquet's order for the type compares."""
    data_type = decoded_type(column.type)
    keys = [key for chunk in column.chunks for key in _keys(decoded(chunk))]
    return data_type, keys


def _keys(array: pa.Array) -> list[Bound]:
    types = pa.types
    data_type = array.type
    if types.is_floating(data_type):
        return [None if value is None else _float_key(value) for value in array.to_pylist()]
    if types.is_decimal(data_type):
        return [
            None if value is None else unscaled_decimal(value, data_type.scale) for value in array.to_pylist()
        ]
    if types.is_temporal(data_type):
        return list(array.view(pa.int32() if data_type.bit_width == 32 else pa.int64()).to_pylist())
    if types.is_integer(data_type) or types.is_boolean(data_type):
        return list(array.to_pylist())
    return [value.encode() if isinstance(value, str) else value for value in array.to_pylist()]


def _float_key(value: float) -> tuple[float, int]:
    return value, -1 if math.copysign(1, value) < 0 else 1


def decode(raw: bytes, data_type: pa.DataType, physical: int) -> Bound:
    """A bound as the format stores it in the physical type, as a key."""
    types = pa.types
    if types.is_floating(data_type):
        return _float_key(struct.unpack({2: "<e", 4: "<f", 8: "<d"}[len(raw)], raw)[0])
    if types.is_decimal(data_type):
        return int.from_bytes(raw, "little" if physical in (INT32, INT64) else "big", signed=True)
    if types.is_boolean(data_type):
        return bool(raw[0])
    if types.is_integer(data_type) or types.is_temporal(data_type):
        return int.from_bytes(raw, "little", signed=not types.is_unsigned_integer(data_type))
    return raw
