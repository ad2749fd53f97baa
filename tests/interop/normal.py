"""One normal form for the values of a column, whichever engine handed them over.

A normal value is made of `None`, `bool`, `int`, `str`, `bytes`, `Decimal` and tuples. Floats are their
bits (all NaNs are one), points in time and durations are nanoseconds, dates are days, structs are tuples,
lists and maps are tuples of their elements.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .fill import is_bytes, is_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_MILLISECONDS = 86_400_000


class Unlike(Exception):  # noqa: N818 - it is an answer: the engine returned another kind of thing
    """The engine's type cannot hold what was written."""


def values(array: pa.Array | pa.ChunkedArray, like: pa.DataType | None = None) -> list[Any]:
    """The normal values of `array`, which an engine returned for a column written as `like`."""
    if isinstance(array, pa.ChunkedArray):
        return [
            value for chunk in array.chunks for value in values(chunk, array.type if like is None else like)
        ]
    array = decoded(array)
    like = decoded_type(array.type if like is None else like)
    if array.null_count == len(array) or pa.types.is_null(array.type):
        return [None] * len(array)
    if pa.types.is_null(like):
        raise Unlike(f"{array.type} with values, where only nulls were written")
    if pa.types.is_nested(like):
        return _nested(array, like)
    return _leaf(array, like)


def decoded(array: pa.Array) -> pa.Array:
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = looked_up(array)
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def looked_up(array: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary array; pyarrow cannot gather views, so those are gathered as strings or
    binaries.
    """
    wanted = array.type.value_type
    for view, plain in ((pa.string_view(), pa.string()), (pa.binary_view(), pa.binary())):
        if array.type.value_type == view:
            array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(plain))
    return array.dictionary_decode().cast(wanted)


def decoded_type(data_type: pa.DataType) -> pa.DataType:
    while True:
        if isinstance(data_type, pa.BaseExtensionType):
            data_type = data_type.storage_type
        elif pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
            data_type = data_type.value_type
        else:
            return data_type


def _nested(array: pa.Array, like: pa.DataType) -> list[Any]:
    if pa.types.is_struct(like):
        if not pa.types.is_struct(array.type) or array.type.num_fields != like.num_fields:
            raise Unlike(f"{array.type} for {like}")
        columns = [values(child, field.type) for child, field in zip(array.flatten(), like, strict=True)]
        return _rows(array, [tuple(cells) for cells in zip(*columns, strict=True)])
    if not _is_list(array.type):
        raise Unlike(f"{array.type} for {like}")
    if pa.types.is_map(like):
        entry = pa.struct([like.key_field, like.item_field])
        return _maps(array, like) if pa.types.is_map(array.type) else _lists(array, entry)
    return _lists(array, like.value_type)


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    checks = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
        types.is_map,
    )
    return any(check(data_type) for check in checks)


def _maps(array: pa.MapArray, like: pa.MapType) -> list[Any]:
    entries = list(zip(values(array.keys, like.key_type), values(array.items, like.item_type), strict=True))
    ranges = pairwise(array.offsets.to_pylist())
    return _rows(array, [tuple(entries[start:end]) for start, end in ranges])


def _lists(array: pa.Array, element: pa.DataType) -> list[Any]:
    """Each list's elements, cut out by hand: pyarrow's flatten loses dictionaries of half floats."""
    elements = values(array.values, element)
    return _rows(array, [tuple(elements[start:end]) for start, end in _ranges(array)])


def _ranges(array: pa.Array) -> Iterable[tuple[int, int]]:
    types = pa.types
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return [((array.offset + row) * size, (array.offset + row + 1) * size) for row in range(len(array))]
    offsets = array.offsets.to_pylist()
    if types.is_list_view(array.type) or types.is_large_list_view(array.type):
        pairs = zip(offsets, array.sizes.to_pylist(), strict=True)
        return [(start, start + size) for start, size in pairs]
    return pairwise(offsets)


def _rows(array: pa.Array, cells: list[Any]) -> list[Any]:
    return [cell if valid else None for cell, valid in zip(cells, array.is_valid().to_pylist(), strict=True)]


def _leaf(array: pa.Array, like: pa.DataType) -> list[Any]:
    types = pa.types
    if types.is_floating(like):
        return _floats(array, like)
    if types.is_date(like):
        return _dates(array)
    if types.is_temporal(like):
        return _ticks(array, like)
    return _expect(array, _same_kind(array.type, like), like).to_pylist()


def _same_kind(found: pa.DataType, like: pa.DataType) -> bool:
    types = pa.types
    if types.is_boolean(like) or types.is_decimal(like):
        return all(check(found) == check(like) for check in (types.is_boolean, types.is_decimal))
    if is_text(like):
        return is_text(found)
    if types.is_integer(like):
        # Spark has no unsigned 64-bit integers, and answers decimals.
        return types.is_integer(found) or types.is_decimal(found)
    return is_bytes(found) or (types.is_fixed_size_binary(found) and not types.is_decimal(found))


def _expect(array: pa.Array, right: bool, like: pa.DataType) -> pa.Array:  # noqa: FBT001 - the check's result
    if not right:
        raise Unlike(f"{array.type} for {like}")
    return array


def _floats(array: pa.Array, like: pa.DataType) -> list[Any]:
    _expect(array, pa.types.is_floating(array.type), like)
    # Half floats have no cast everywhere, numpy does.
    width = like.bit_width // 8
    numbers = array.fill_null(pa.scalar(0, array.type)).to_numpy(zero_copy_only=False).astype(f"f{width}")
    bits = np.where(np.isnan(numbers), -1, numbers.view(f"i{width}").astype(np.int64))
    return _rows(array, [int(bit) for bit in bits])


def _integers(array: pa.Array) -> list[Any]:
    """The stored integers of a primitive array."""
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()


def _dates(array: pa.Array) -> list[Any]:
    days = _integers(array)
    if pa.types.is_date32(array.type):
        return days
    if pa.types.is_date64(array.type):
        return [None if day is None else day // _DAY_MILLISECONDS for day in days]
    raise Unlike(f"{array.type} for a date")


def _ticks(array: pa.Array, like: pa.DataType) -> list[Any]:
    types = pa.types
    if types.is_integer(array.type) and types.is_duration(like):
        unit = like.unit  # Parquet has no durations: engines without ARROW:schema see their integers
    elif any(
        check(array.type) and check(like) for check in (types.is_timestamp, types.is_time, types.is_duration)
    ):
        unit = array.type.unit
    else:
        raise Unlike(f"{array.type} for {like}")
    if types.is_timestamp(like) and (array.type.tz is None) != (like.tz is None):
        raise Unlike(f"{array.type} for {like}")
    return [None if tick is None else tick * _NANOSECONDS[unit] for tick in _integers(array)]


def to_microseconds(values: list[Any], data_type: pa.DataType) -> list[Any]:
    """Normal values as they are after `timestamps="us"`: nanosecond timestamps lose what is below,
    wherever nested.
    """
    data_type = decoded_type(data_type)
    if pa.types.is_struct(data_type):
        return _map_rows(values, [field.type for field in data_type])
    if pa.types.is_map(data_type):
        entry = [data_type.key_type, data_type.item_type]
        return [None if row is None else tuple(_map_rows(list(row), entry)) for row in values]
    if pa.types.is_nested(data_type):
        inner = data_type.value_type
        return [None if row is None else tuple(to_microseconds(list(row), inner)) for row in values]
    if pa.types.is_timestamp(data_type):
        return [None if value is None else value // 1000 * 1000 for value in values]
    return values


def _map_rows(rows: list[Any], types: list[pa.DataType]) -> list[Any]:
    live = [row for row in rows if row is not None]
    columns = [
        to_microseconds([row[index] for row in live], data_type) for index, data_type in enumerate(types)
    ]
    mapped = iter(zip(*columns, strict=True))
    return [None if row is None else next(mapped) for row in rows]
