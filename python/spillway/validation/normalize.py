"""Normal forms: one name for each logical type, and the types that readers may return for it.

The source's schema and a reader's are both brought to a normal form, which drops what Parquet or Arrow layout
decides and keeps what the data means:

=========================================  =====================================================
dictionary of a type                       the type
large, view and plain string or binary     string or binary
list, large list, list view, fixed size    list, its element named ``element``
extension type                             its storage
time and timestamp in seconds              in milliseconds: Parquet has no seconds
date in milliseconds                       date in days
any time zone                              UTC: Parquet keeps only that it is an instant
decimal of any width                       the narrowest of 128 and 256 bits
nullability, metadata                      dropped
=========================================  =====================================================

A reader may then give, for a type of the source:

=========================================  =====================================================
timestamp, time                            another unit; an instant stays an instant
duration                                   another unit, or int64: Parquet has no duration
fixed-size binary                          binary
null                                       any type, if every value is null
uint8, uint16, uint32, uint64 (Spark)      int16, int32, int64, decimal(20, 0): it has no unsigned types
=========================================  =====================================================

Such a column is cast to the source's type, and a value that does not survive the cast is a mismatch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNSIGNED_IN_SPARK: Mapping[pa.DataType, pa.DataType] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


class SchemaDiffersError(Exception):
    """A reader's columns differ from the source's; ``column``, ``expected`` and ``actual`` say in what."""

    def __init__(self, message: str, column: str | None, expected: str, actual: str) -> None:
        super().__init__(message)
        self.column, self.expected, self.actual = column, expected, actual


class LossyValueError(Exception):
    """A value does not survive the cast to the source's type; ``row`` counts from the batch's start."""

    def __init__(self, column: str, row: int, value: pa.Scalar, target: pa.DataType) -> None:  # type: ignore[type-arg]  # generic in the stubs only
        super().__init__(f"{value} is no {target}")
        self.column, self.row, self.value, self.target = column, row, value, target


@dataclass(frozen=True)
class Plan:
    """The steps that turn a reader's batches into batches of the source's normal schema."""

    schema: pa.Schema
    casts: tuple[bool, ...]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rename and cast the columns of ``batch``.

        Raises:
            LossyValueError: A value does not survive its cast.
        """
        columns = [
            _cast(column, field) if cast else column
            for column, field, cast in zip(batch.columns, self.schema, self.casts, strict=True)
        ]
        fields = [field.with_type(column.type) for field, column in zip(self.schema, columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def normal_schema(schema: pa.Schema) -> pa.Schema:
    """The normal form of every column."""
    return pa.schema([pa.field(field.name, _normal(field.type)) for field in schema])


def plan_source(schema: pa.Schema) -> Plan:
    """Plan the steps that turn the source's own batches into their normal form."""
    normal = normal_schema(schema)
    return Plan(normal, tuple(_changes_value(field.type) for field in schema))


def plan_reader(expected: pa.Schema, actual: pa.Schema, *, engine: str) -> Plan:
    """Compare a reader's schema with the source's normal schema.

    Args:
        expected: The source's normal schema.
        actual: The schema that the reader gives.
        engine: ``spark`` may give signed types for unsigned ones.

    Raises:
        SchemaDiffersError: Names, order or logical types differ.
    """
    _check_names(expected.names, actual.names)
    casts = []
    for want, have in zip(expected, actual, strict=True):
        normal = _normal(have.type)
        if not _accepts(want.type, normal, engine=engine):
            raise SchemaDiffersError(
                f"column {want.name!r} should be {want.type}, and is read as {have.type}",
                want.name,
                str(want.type),
                str(have.type),
            )
        casts.append(normal != want.type or _changes_value(have.type))
    return Plan(expected, tuple(casts))


def _check_names(expected: list[str], actual: list[str]) -> None:
    if expected == actual:
        return
    for index, want in enumerate(expected):
        have = actual[index] if index < len(actual) else "no column"
        if want != have:
            raise SchemaDiffersError(f"column {index} should be {want!r}, and is {have!r}", want, want, have)
    extra = actual[len(expected)]
    raise SchemaDiffersError(f"there is an extra column {extra!r}", extra, "no column", extra)


def _normal(kind: pa.DataType) -> pa.DataType:  # noqa: C901, PLR0911  # one line per type, as in the table above
    if isinstance(kind, pa.DictionaryType):
        return _normal(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return _normal(kind.storage_type)
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return pa.string()
    if pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.binary()
    if _is_list(kind):
        return pa.list_(pa.field("element", _normal(kind.value_type)))  # type: ignore[attr-defined]  # what `_is_list` makes sure of
    if isinstance(kind, pa.MapType):
        return pa.map_(_normal(kind.key_type), _normal(kind.item_type))
    if isinstance(kind, pa.StructType):
        return pa.struct([pa.field(field.name, _normal(field.type)) for field in kind])
    if isinstance(kind, pa.TimestampType):
        return pa.timestamp("ms" if kind.unit == "s" else kind.unit, "UTC" if kind.tz else None)
    if kind == pa.time32("s"):
        return pa.time32("ms")
    if pt.is_date64(kind):
        return pa.date32()
    if pt.is_decimal(kind):
        wide = kind.precision > _WIDEST_DECIMAL128
        return (pa.decimal256 if wide else pa.decimal128)(kind.precision, kind.scale)
    return kind


_WIDEST_DECIMAL128 = 38


def _is_list(kind: pa.DataType) -> bool:
    checks = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)
    return any(check(kind) for check in checks)


def _children(kind: pa.DataType) -> list[pa.DataType]:
    if isinstance(kind, pa.DictionaryType):
        return [kind.value_type]
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    return [kind.field(index).type for index in range(kind.num_fields)]


def _changes_value(kind: pa.DataType) -> bool:
    """Return True if the normal form of this type, or of one inside it, counts in another unit."""
    coarse = pt.is_date64(kind) or kind == pa.time32("s") or (pt.is_timestamp(kind) and kind.unit == "s")
    return coarse or any(_changes_value(child) for child in _children(kind))


def _accepts(want: pa.DataType, have: pa.DataType, *, engine: str) -> bool:  # noqa: PLR0911  # as the table above
    if want == have or pt.is_null(want):
        return True
    if pt.is_timestamp(want) and pt.is_timestamp(have):
        return (want.tz is None) == (have.tz is None)
    if pt.is_time(want):
        return pt.is_time(have)
    if pt.is_duration(want):
        return pt.is_duration(have) or pt.is_int64(have)
    if pt.is_fixed_size_binary(want):
        return pt.is_binary(have)
    if engine == "spark" and want in _UNSIGNED_IN_SPARK:
        return have == _UNSIGNED_IN_SPARK[want]
    if isinstance(want, pa.StructType) and isinstance(have, pa.StructType):
        if [field.name for field in want] != [field.name for field in have]:
            return False
    elif not (pt.is_list(want) and pt.is_list(have)) and not (pt.is_map(want) and pt.is_map(have)):
        return False
    pairs = zip(_children(want), _children(have), strict=True)
    return all(_accepts(inner, other, engine=engine) for inner, other in pairs)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:  # type: ignore[type-arg]  # generic in the stubs only
    try:
        return _cast_exactly(column, field.type)
    except pa.ArrowInvalid as error:
        row = _first_refused(column, field.type)
        raise LossyValueError(field.name, row, column[row], field.type) from error


def _cast_exactly(column: pa.Array, target: pa.DataType) -> pa.Array:  # type: ignore[type-arg]  # generic in the stubs only
    if pt.is_null(target):
        if column.null_count < len(column):
            raise pa.ArrowInvalid("a value where only nulls were expected")
        return pa.nulls(len(column))
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.cast(target)


def _first_refused(column: pa.Array, target: pa.DataType) -> int:  # type: ignore[type-arg]  # generic in the stubs only
    """The first row whose cast fails, found by halving: some row in ``[low, high)`` fails."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast_exactly(column.slice(low, middle - low), target)
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle
    return low
