"""Conversions between types that keep every value, or refuse it."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import SchemaError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    import pyarrow.parquet as pq

# Floats of these widths have all integers up to these bounds.
_WHOLE = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}
_INTEGER = r"^[ \t]*[+-]?[0-9]+[ \t]*$"
_LONGEST = 40
# Types of Parquet that Arrow has as extension types alone. An interval is not even one of those.
_BYTES_ALONE = frozenset({"Geometry", "Geography", "Interval", "Variant"})
_VARIANT = re.compile(r"\s*\w+ group field_id=\S+ (.*) \(Variant[^()]*(?:\([^()]*\))?\) \{")


class ExactFloats:
    """Converts text columns of a CSV file to floats. Arrow would round integers without an error.

    Args:
        path: The file, for messages.
        schema: The schema of its rows.
        names: The columns of floats, which come as texts.
        skipped: Numbers of the rows that were left out, which Arrow adds.
    """

    def __init__(self, path: Path, schema: pa.Schema, names: Collection[str], skipped: deque[int]) -> None:
        self._path = path
        self._schema = schema
        self._floats = [place for place, each in enumerate(schema) if each.name in names]
        self._skipped = skipped
        self._before = 1  # the line with the names

    def of_texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The next rows.

        Raises:
            SchemaError: A text is an integer that its column's type cannot hold, or would become infinite.
            ArrowInvalid: A text is no number.
        """
        columns: list[pa.Array[Any]] = list(batch.columns)
        for place in self._floats:
            columns[place] = self._floats_of(columns[place], place)
        self._before = self._number(batch.num_rows - 1)
        while self._skipped and self._skipped[0] <= self._before:
            self._skipped.popleft()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _number(self, index: int) -> int:
        """The number of a row of this batch, among all rows of the file."""
        number = self._before + index + 1
        for skipped in tuple(self._skipped):
            if skipped > number:
                break
            number += 1
        return number

    def _floats_of(self, texts: pa.Array[Any], place: int) -> pa.Array[Any]:
        kind = self._schema.field(place).type
        texts = pc.replace_with_mask(texts, pc.equal(texts, pa.scalar("")), pa.scalar(None, pa.string()))
        try:
            floats = texts.cast(kind)
        except pa.ArrowInvalid:
            # Blanks around a number, which the reader of CSV leaves out, or no number.
            floats = self._trimmed(texts, place)
        if _are_large(floats):
            self._refuse_rounded(texts, floats, place)
        return floats

    def _trimmed(self, texts: pa.Array[Any], place: int) -> pa.Array[Any]:
        kind = self._schema.field(place).type
        trimmed = pc.utf8_trim(texts, " \t")
        try:
            return trimmed.cast(kind)
        except pa.ArrowInvalid:
            index = next(index for index, text in enumerate(trimmed) if not _is_number(text, kind))
            # In the words of the reader of CSV, which gives no text of another column.
            raise pa.ArrowInvalid(
                f"In CSV column #{place}: Row #{self._number(index)}: CSV conversion error to {kind}: "
                f"invalid value '{texts[index].as_py()}'"
            ) from None

    def _refuse_rounded(self, texts: pa.Array[Any], floats: pa.Array[Any], place: int) -> None:
        field = self._schema.field(place)
        is_infinite = pc.and_(pc.is_inf(_with_kernels(floats)), pc.match_substring_regex(texts, "[0-9]"))
        is_integer = pc.match_substring_regex(texts, _INTEGER)
        suspects = pc.and_(_large(floats), pc.or_(is_integer, is_infinite))
        found: list[Any] = pc.indices_nonzero(suspects).to_pylist()
        for index in found:
            text, value = texts[index].as_py().strip(), floats[index].as_py()
            # Of a decimal, unlike an integer, Python reads any number of digits.
            if math.isinf(value) or Decimal(text) != int(value):
                shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
                what = "integer" if text.lstrip("+-").isdecimal() else "number"
                raise SchemaError(
                    f"{self._path}, row {self._number(index):,}: column {field.name} is {field.type}, which "
                    f"cannot hold the {what} {shown} exactly: declare the column with --schema FILE as "
                    f"string, or as a decimal that holds all its digits",
                    field.name,
                )


def _is_number(text: pa.Scalar[Any], kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _are_large(floats: pa.Array[Any]) -> bool:
    """True if a value is so large that its type skips integers near it."""
    largest = _WHOLE[floats.type.bit_width]
    bounds: Any = pc.min_max(_with_kernels(floats)).as_py()
    return bounds["min"] is not None and bool(bounds["max"] >= largest or bounds["min"] <= -largest)


def _large(floats: pa.Array[Any]) -> pa.Array[Any]:
    """A mask of the values that are so large; null where a value is null."""
    known = _with_kernels(floats)
    return pc.greater_equal(pc.abs(known), pa.scalar(_WHOLE[floats.type.bit_width], known.type))


def _with_kernels(floats: pa.Array[Any]) -> pa.Array[Any]:
    """The numbers, half floats as single floats: Arrow has no kernels for half floats."""
    return floats.cast(pa.float32()) if pa.types.is_float16(floats.type) else floats


def without_loss(column: pa.Array[Any], field: pa.Field[Any], path: Path) -> pa.Array[Any]:
    """The values of a column of a file in the type that holds those of all files.

    Raises:
        SchemaError: The type is a float, which would round an integer.
    """
    kind = field.type
    if not (pa.types.is_integer(column.type) and pa.types.is_floating(kind)):
        try:
            return column.cast(kind)
        except pa.ArrowException as error:
            raise SchemaError(
                f"{path}: column {field.name} is {column.type}, and {kind} in other files, which cannot hold "
                f"all its values: {error}",
                field.name,
            ) from error
    floats = column.cast(kind, safe=False)
    if _are_large(floats):
        large = pc.indices_nonzero(_large(floats))
        pairs: Any = zip(column.take(large).to_pylist(), floats.take(large).to_pylist(), strict=True)
        for value, rounded in pairs:
            if math.isinf(rounded) or int(rounded) != value:
                raise SchemaError(
                    f"{path}: column {field.name} is {column.type}, and {kind} in other files, which cannot "
                    f"hold the integer {value} exactly: give files that agree, such as all of {column.type}",
                    field.name,
                )
    return floats


def refuse_lost_types(path: Path, file: pq.ParquetFile) -> None:
    """Refuse a Parquet file with types that Arrow reads as bytes, unless its Arrow schema names them.

    Raises:
        SchemaError: Names the first such column.
    """
    known = {name for each in file.schema_arrow for name in _extensions(each)}
    leaves = (file.schema.column(number) for number in range(len(file.schema)))
    kinds = [(leaf.path, json.loads(leaf.logical_type.to_json())["Type"]) for leaf in leaves]
    # Of groups pyarrow says the type in print alone.
    lines = map(_VARIANT.match, str(file.schema).splitlines())
    kinds += [(line[1], "Variant") for line in lines if line is not None]
    for name, kind in kinds:
        # Of a nested column, the path ends with the name of its field.
        if kind in _BYTES_ALONE and not known & {name, name.rpartition(".")[2]}:
            raise SchemaError(
                f"{path}: column {name} is {kind}, and would be written as bytes: keep its row groups with "
                f"--copy-row-groups",
                name,
            )


def _extensions(field: pa.Field[Any]) -> Iterator[str]:
    """The names of a field and of those below it that have an extension type, which the writer knows."""
    if isinstance(field.type, pa.BaseExtensionType) or b"ARROW:extension:name" in (field.metadata or {}):
        yield field.name
    elif pa.types.is_nested(field.type):
        for number in range(field.type.num_fields):
            yield from _extensions(field.type.field(number))


def without_wraps(
    path: Path, batches: Iterable[pa.RecordBatch], in_micros: Iterable[pa.RecordBatch], names: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches whose INT96 columns were read as nanoseconds, unless a time does not fit them.

    Arrow wraps the times that 64-bit nanoseconds cannot hold, those before 1677 and after 2262, such as the
    end of 9999 which stands for no end.

    Args:
        path: The file, for messages.
        batches: The rows.
        in_micros: The columns of INT96 of the same rows, read as microseconds.
        names: The names of these columns.

    Raises:
        SchemaError: A time does not fit.
    """
    others = iter(in_micros)
    ahead: list[pa.RecordBatch] = []
    for batch in batches:
        while sum(each.num_rows for each in ahead) < batch.num_rows:
            ahead.append(next(others))
        both = pa.Table.from_batches(ahead).combine_chunks()
        ahead = both.slice(batch.num_rows).to_batches()
        for name in names:
            micros: Any = both[name].slice(0, batch.num_rows).combine_chunks()
            pairs = zip(_times(batch.column(name)), _times(micros), strict=True)
            if any(_differ(nanos, exact) for nanos, exact in pairs):
                raise SchemaError(
                    f"{path}: column {name} has times before 1677 or after 2262, which nanoseconds in 64 "
                    "bits cannot hold, as INT96 is read: keep its row groups with --copy-row-groups, or "
                    "write the file again with timestamps in microseconds",
                    name,
                )
        yield batch


def _times(array: Any) -> Iterator[Any]:
    """The leaf arrays of timestamps, without those under nulls."""
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _times(child)
    elif pa.types.is_map(array.type):
        yield from _times(array.keys)
        yield from _times(array.items)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _times(array.flatten())


def _differ(nanos: Any, micros: Any) -> bool:
    """True if times differ by more than what a rounding to microseconds makes of one."""
    if nanos.type == micros.type:
        return False
    rounded = nanos.cast(micros.type, safe=False).cast(pa.int64())
    apart: Any = pc.abs(pc.subtract(rounded, micros.cast(pa.int64())))
    return bool(pc.any(pc.greater(apart, pa.scalar(1, pa.int64()))).as_py())


def common_type(known: pa.DataType, found: pa.DataType) -> pa.DataType | None:
    """The common type of two types, which holds every value of both; None if no type does.

    64-bit integers and floats become floats, as in a file of CSV or NDJSON: values are looked at when they
    are read.
    """
    alike = _aligned(known, found)
    if alike is None:
        return None
    schemas = [pa.schema([pa.field("", kind)]) for kind in alike]
    try:
        both: pa.DataType = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return both


def _aligned(known: Any, found: Any) -> tuple[pa.DataType, pa.DataType] | None:
    """Both types, with the same one wherever both have a number; None if no type holds these numbers.

    Arrow would choose a type that does not hold all their values.
    """
    if _is_number_type(known) and _is_number_type(found):
        both = known if known == found else _wider_number(known, found)
        return None if both is None else (both, both)
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        return _aligned_structs(known, found)
    if pa.types.is_map(known) and pa.types.is_map(found):
        inner = _aligned(known.item_type, found.item_type)
        return None if inner is None else (_map_of(known, inner[0]), _map_of(found, inner[1]))
    if (first_list := _list_of(known)) and (second_list := _list_of(found)):
        inner = _aligned(known.value_type, found.value_type)
        if inner is None:
            return None
        return (
            first_list(known.value_field.with_type(inner[0])),
            second_list(found.value_field.with_type(inner[1])),
        )
    return known, found


def _aligned_structs(known: Any, found: Any) -> tuple[pa.DataType, pa.DataType] | None:
    parts = {each.name: [each] for each in known}
    for each in found:
        parts.setdefault(each.name, []).append(each)
    alike: dict[str, tuple[pa.DataType, pa.DataType] | None] = {
        name: _aligned(pair[0].type, pair[-1].type) for name, pair in parts.items()
    }
    if any(pair is None for pair in alike.values()):
        return None
    first, second = (
        pa.struct([each.with_type((alike[each.name] or (each.type,) * 2)[side]) for each in kind])
        for side, kind in enumerate((known, found))
    )
    return first, second


def _list_of(kind: pa.DataType) -> Any:
    """What makes a list type of this kind from the field of its elements; None if it is no list."""
    if pa.types.is_fixed_size_list(kind):
        return partial(pa.list_, list_size=kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list
    return pa.list_ if pa.types.is_list(kind) else None


def _map_of(kind: Any, item: pa.DataType) -> pa.DataType:
    return pa.map_(kind.key_field, kind.item_field.with_type(item), kind.keys_sorted)


def _is_number_type(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MOST_DIGITS = 38, 76


def _wider_number(known: pa.DataType, found: pa.DataType) -> pa.DataType | None:
    if pa.types.is_decimal(known) or pa.types.is_decimal(found):
        if pa.types.is_floating(known) or pa.types.is_floating(found):
            return None
        pairs = [_decimal_of(known), _decimal_of(found)]
        return _decimal(max(whole for whole, _ in pairs), max(scale for _, scale in pairs))
    floats = [kind.bit_width for kind in (known, found) if pa.types.is_floating(kind)]
    integers = [kind for kind in (known, found) if pa.types.is_integer(kind)]
    if floats:
        # A float has all integers of half its width.
        width = max([*floats, *(2 * kind.bit_width for kind in integers)])
        return {16: pa.float16(), 32: pa.float32()}.get(width, pa.float64())
    signed = [pa.types.is_signed_integer(kind) for kind in integers]
    if all(signed) or not any(signed):
        return max(integers, key=lambda kind: kind.bit_width)
    width = max(
        kind.bit_width * (1 if is_signed else 2) for kind, is_signed in zip(integers, signed, strict=True)
    )
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(width)


def _decimal_of(kind: pa.DataType) -> tuple[int, int]:
    """The digits before and behind the point."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return _DIGITS[kind.bit_width] + (kind == pa.uint64()), 0


def _decimal(whole: int, scale: int) -> pa.DataType | None:
    if whole + scale <= _MOST_DIGITS[0]:
        return pa.decimal128(whole + scale, scale)
    return pa.decimal256(whole + scale, scale) if whole + scale <= _MOST_DIGITS[1] else None
