"""Arrow arrays with every freedom that Arrow's layout leaves a producer.

Buffers are put together by hand, so that slots of nulls and of children under null parents hold garbage,
validity bitmaps start anywhere, offsets do not start at zero, and null counts are unknown to the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from decimal import Decimal

Nulls = Literal["none", "few", "half", "all"]
Values = Literal["constant", "few", "unique", "sorted", "extreme"]

_WORDS = ("", "a", "ERROR", "warning", "łódź", "日本語", "a\x00b", "🦀" * 3)
_EXTREME_TEXT = (
    "",
    "\x00",
    "\U0010ffff",
    "z\uffff",
    "p" * 63 + "\U0010ffff",
    "p" * 64 + "\U0010ffff",
    "\U0010ffff" * 40,
    "long " * 900,
    "q" * 300 + "a",
    "q" * 300 + "b",
    "\ud7ff\ue000",
)
_EXTREME_BYTES = (
    b"",
    b"\x00",
    b"\xff",
    b"\xff" * 80,
    b"\x80\x7f",
    b"\xff" * 64 + b"\x00",
    b"x" * 5000,
    b"\x00" * 70,
)
_SECONDS_SAFE = 9_000_000_000_000  # seconds that still fit int64 as microseconds


@dataclass(frozen=True)
class Look:
    """The kinds of nulls and values in one column."""

    nulls: Nulls
    values: Values

    @property
    def without_nulls(self) -> Look:
        return Look("none", self.values)


NO_NULLS = Look("none", "few")


def fill(
    rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look, *, nullable: bool = True
) -> pa.Array:
    """An array of `rows` values of `data_type`, at times a slice out of the middle of a longer one."""
    if not nullable:
        look = look.without_nulls
    if rng.random() < 0.3:
        before, after = (int(count) for count in rng.integers(0, 12, 2))
        return _fill(rng, data_type, before + rows + after, look).slice(before, rows)
    return _fill(rng, data_type, rows, look)


def _fill(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> pa.Array:
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, _fill(rng, data_type.storage_type, rows, look))
    if pa.types.is_null(data_type):
        return pa.nulls(rows)
    if pa.types.is_dictionary(data_type):
        return _dictionary(rng, data_type, rows, look)
    if pa.types.is_nested(data_type):
        return _nested(rng, data_type, rows, look)
    if is_text(data_type) or is_bytes(data_type):
        return _variable(rng, data_type, rows, look)
    return _assemble(rng, data_type, rows, look, [_fixed(rng, data_type, rows, look)])


def _nested(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> pa.Array:
    types = pa.types
    if types.is_list_view(data_type) or types.is_large_list_view(data_type):
        return _list_view(rng, data_type, rows, look)
    if types.is_struct(data_type):
        children = [fill(rng, field.type, rows, look, nullable=field.nullable) for field in data_type]
    elif types.is_fixed_size_list(data_type):
        element, slots = data_type.value_field, rows * data_type.list_size
        children = [fill(rng, element.type, slots, look, nullable=element.nullable)]
    else:
        return _list(rng, data_type, rows, look)
    return _assemble(rng, data_type, rows, look, [], children)


def is_text(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )


def is_bytes(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_binary_view(data_type)
    )


def _bitmap(bits: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(bits, bitorder="little").tobytes() + b"\xaa")


def _validity(rng: np.random.Generator, rows: int, nulls: Nulls) -> pa.Buffer | None:
    if nulls == "none":
        # A bitmap without a null in it is as good as none.
        return _bitmap(np.ones(rows, bool)) if rng.random() < 0.3 else None
    share = {"few": 0.05, "half": 0.5, "all": 1.0}[nulls]
    return _bitmap(rng.random(rows) >= share)


def _assemble(  # noqa: PLR0913, PLR0917 - an array has as many parts
    rng: np.random.Generator,
    data_type: pa.DataType,
    rows: int,
    look: Look,
    buffers: list[pa.Buffer | None],
    children: list[pa.Array] | None = None,
) -> pa.Array:
    validity = _validity(rng, rows, look.nulls)
    array = pa.Array.from_buffers(data_type, rows, [validity, *buffers], children=children)
    array.validate(full=True)
    return array


def _choose(rng: np.random.Generator, pool: np.ndarray, rows: int, look: Look) -> np.ndarray:
    if look.values == "constant":
        return np.repeat(pool[rng.integers(0, len(pool), 1)], rows)
    picked = pool[rng.integers(0, len(pool), rows)]
    return np.sort(picked) if look.values == "sorted" else picked


def _lengths(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Lengths of lists; a tenth of the columns has a long one."""
    lengths = rng.integers(0, 4, rows)
    if rows and rng.random() < 0.1:
        lengths[rng.integers(0, rows)] = 40
    return lengths


def _list(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> pa.Array:
    lengths = _lengths(rng, rows)
    lead = int(rng.integers(0, 3))
    width = np.int64 if pa.types.is_large_list(data_type) else np.int32
    offsets = np.concatenate([[lead], lead + np.cumsum(lengths)]).astype(width)
    total = int(offsets[-1]) + int(rng.integers(0, 3))
    if pa.types.is_map(data_type):
        # Keys of one map differ as far as their type allows: readers disagree on repeated ones.
        keys = _fill(rng, data_type.key_type, total, Look("none", "unique"))
        items = fill(rng, data_type.item_type, total, look, nullable=data_type.item_field.nullable)
        child = pa.StructArray.from_arrays([keys, items], fields=[data_type.key_field, data_type.item_field])
    else:
        child = fill(rng, data_type.value_type, total, look, nullable=data_type.value_field.nullable)
    return _assemble(rng, data_type, rows, look, [pa.py_buffer(offsets.tobytes())], [child])


def _list_view(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> pa.Array:
    """Views in no order, which overlap and leave gaps."""
    width = np.int64 if pa.types.is_large_list_view(data_type) else np.int32
    sizes = _lengths(rng, rows)
    total = int(sizes.sum()) // 2 + 41
    offsets = rng.integers(0, total - sizes + 1) if rows else sizes
    child = fill(rng, data_type.value_type, total, look, nullable=data_type.value_field.nullable)
    buffers = [pa.py_buffer(part.astype(width).tobytes()) for part in (offsets, sizes)]
    return _assemble(rng, data_type, rows, look, buffers, [child])


def _dictionary(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> pa.Array:
    """Keys into values that may repeat, be null, or not be used."""
    entries = int(rng.integers(1, 20))
    values = fill(
        rng, data_type.value_type, entries, Look("few" if look.nulls != "none" else "none", look.values)
    )
    keys = rng.integers(0, entries, rows).astype(data_type.index_type.to_pandas_dtype())
    indices = _assemble(rng, data_type.index_type, rows, look, [pa.py_buffer(keys.tobytes())])
    return pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered)


def _variable(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> pa.Array:
    cells = _texts(rng, rows, look) if is_text(data_type) else _blobs(rng, rows, look)
    wide = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
    lead = b"lead"[: int(rng.integers(0, 5))]
    offsets = np.cumsum([len(lead), *map(len, cells)]).astype(np.int64 if wide else np.int32)
    buffers = [pa.py_buffer(offsets.tobytes()), pa.py_buffer(lead + b"".join(cells))]
    if pa.types.is_string_view(data_type):
        return _assemble(rng, pa.string(), rows, look, buffers).cast(data_type)
    if pa.types.is_binary_view(data_type):
        return _assemble(rng, pa.binary(), rows, look, buffers).cast(data_type)
    return _assemble(rng, data_type, rows, look, buffers)


def _texts(rng: np.random.Generator, rows: int, look: Look) -> list[bytes]:
    if look.values == "sorted":
        return [f"key-{number:06}".encode() for number in range(rows)]
    if look.values == "unique":
        return [f"{word}é{rng.integers(0, 10**9)}".encode() for word in rng.choice(_WORDS, rows)]
    pool = _EXTREME_TEXT if look.values == "extreme" else _WORDS
    picked = _choose(rng, np.arange(len(pool)), rows, look)
    return [pool[index].encode() for index in picked]


def _blobs(rng: np.random.Generator, rows: int, look: Look) -> list[bytes]:
    if look.values == "sorted":
        return [number.to_bytes(4, "big") for number in range(rows)]
    if look.values == "unique":
        return [rng.bytes(int(size)) for size in rng.integers(0, 30, rows)]
    picked = _choose(rng, np.arange(len(_EXTREME_BYTES)), rows, look)
    return [_EXTREME_BYTES[index] for index in picked]


def _fixed(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> pa.Buffer:
    types = pa.types
    if types.is_boolean(data_type):
        return _bitmap(_choose(rng, np.array([False, True]), rows, look))
    if types.is_decimal(data_type):
        return pa.py_buffer(_decimals(rng, data_type, rows, look))
    if types.is_fixed_size_binary(data_type):
        return pa.py_buffer(_fixed_binary(rng, data_type.byte_width, rows, look))
    if types.is_floating(data_type):
        return pa.py_buffer(_floats(rng, np.dtype(f"f{data_type.bit_width // 8}"), rows, look))
    return pa.py_buffer(_numbers(rng, data_type, rows, look))


def _numbers(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> bytes:
    """Integers, and what is stored as integers: dates, times, durations."""
    sign = "u" if pa.types.is_unsigned_integer(data_type) else "i"
    lowest, highest = integer_range(data_type)
    step = 86_400_000 if pa.types.is_date64(data_type) else 1
    numbers = _integers(rng, lowest // step, highest // step, rows, look) * step
    return numbers.astype(f"{sign}{data_type.bit_width // 8}").tobytes()


def integer_range(data_type: pa.DataType) -> tuple[int, int]:
    """The lowest and the highest stored integer that means something in every unit the writer may turn it
    into.
    """
    types = pa.types
    if types.is_time(data_type):
        return 0, 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[data_type.unit] - 1
    if types.is_timestamp(data_type) and data_type.unit in ("s", "ms"):
        limit = _SECONDS_SAFE * (1000 if data_type.unit == "ms" else 1)
        return -limit, limit
    if types.is_date64(data_type):
        return -(2**31) * 86_400_000, (2**31 - 1) * 86_400_000
    bits = data_type.bit_width
    return (
        (0, 2**bits - 1)
        if types.is_unsigned_integer(data_type)
        else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def _integers(rng: np.random.Generator, lowest: int, highest: int, rows: int, look: Look) -> np.ndarray:
    """Whole numbers of the range, as Python objects, so that nothing wraps."""
    if look.values == "unique":
        return np.array([lowest + int(part * (highest - lowest)) for part in rng.random(rows)], dtype=object)
    if look.values == "sorted":
        step = max(1, min(1000, (highest - lowest) // max(rows, 1)))
        start = max(lowest, min(0, highest - rows * step))
        return np.array([min(highest, start + row * step) for row in range(rows)], dtype=object)
    extremes = {lowest, highest, lowest + 1, highest - 1, 0}
    pool = (
        extremes
        if look.values == "extreme"
        else {min(highest, max(lowest, small)) for small in (-1, 0, 1, 7)}
    )
    return _choose(rng, np.array(sorted(pool), dtype=object), rows, look)


def _floats(rng: np.random.Generator, dtype: np.dtype, rows: int, look: Look) -> bytes:
    limits = np.finfo(dtype)
    if look.values in ("unique", "sorted"):
        values = (rng.standard_normal(rows) * 100).astype(dtype)
        return (np.sort(values) if look.values == "sorted" else values).tobytes()
    if look.values == "extreme":
        named = [
            np.nan,
            np.inf,
            -np.inf,
            -0.0,
            0.0,
            limits.max,
            limits.min,
            limits.tiny,
            limits.smallest_subnormal,
        ]
        bits = np.dtype(f"u{dtype.itemsize}")
        payload = (
            np.array([np.nan], dtype).view(bits)
            | bits.type(1)
            | (bits.type(1) << bits.type(dtype.itemsize * 8 - 1))
        )
        pool = np.concatenate([np.array(named, dtype), payload.view(dtype)])
    else:
        pool = np.array([0.5, 1.25, -3.75, 12.5], dtype)
    return _choose(rng, pool, rows, look).tobytes()


def _fixed_binary(rng: np.random.Generator, width: int, rows: int, look: Look) -> bytes:
    if look.values == "unique":
        return rng.bytes(rows * width)
    if look.values == "sorted":
        return b"".join((row % 256**width).to_bytes(width, "big") for row in range(rows))
    pool = (
        b"\x00" * width,
        b"\xff" * width,
        b"\x7f" + b"\xff" * (width - 1),
        b"\x80" + b"\x00" * (width - 1),
    )
    return b"".join(pool[index] for index in _choose(rng, np.arange(len(pool)), rows, look))


def _decimals(rng: np.random.Generator, data_type: pa.DataType, rows: int, look: Look) -> bytes:
    highest = 10**data_type.precision - 1
    if look.values == "unique":
        digits = [int("".join(map(str, rng.integers(0, 10, data_type.precision)))) for _ in range(rows)]
        unscaled = [-number if rng.random() < 0.5 else number for number in digits]
    else:
        unscaled = list(_integers(rng, -highest, highest, rows, look))
    return b"".join(int(number).to_bytes(data_type.byte_width, "little", signed=True) for number in unscaled)


def unscaled_decimal(value: Decimal, scale: int) -> int:
    """The integer that a decimal of this scale is stored as."""
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return -number if sign else number
