"""Spark's schemas as Arrow schemas, with an error for each type that no file holds."""

from __future__ import annotations

import json
from inspect import signature
from typing import TYPE_CHECKING, Any

from spillway.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

__all__ = ["arrow_schema", "check_names", "exchanged_schema", "quoted", "row_metadata", "version_metadata"]

#: The most digits of a second that a time of day in microseconds has.
_DIGITS_OF_MICROS = 6
_ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"


def quoted(name: str) -> str:
    """Quote the name of a column as Spark's SQL does."""
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Convert the schema of a DataFrame.

    Timestamps with a zone are in UTC. Times of day are in microseconds, or in nanoseconds if the type has
    more than six fractional digits, as in Spark's own files. Types of users become the types that they are
    made of.

    Raises:
        SchemaError: A column has a type that neither Arrow nor Parquet carries.
    """
    import pyarrow as pa

    fields = [
        pa.field(field.name, _converted(field.dataType, field.name), field.nullable)
        for field in schema.fields
    ]
    if not fields:
        raise SchemaError("the DataFrame has no columns, and a Parquet file needs at least one")
    return pa.schema(fields)


def exchanged_schema(schema: StructType) -> pa.Schema:
    """Return the schema in which PySpark gives rows to Python, with timestamps in UTC.

    Unlike `arrow_schema`, it has a type for each of Spark's, those that no file holds among them.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    # Up to Spark 4.1 it is always UTC.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    exchanged: pa.Schema = to_arrow_schema(schema, **zone)
    return exchanged


def version_metadata() -> dict[str, str]:
    """Return the file metadata by which Spark knows that dates and timestamps need no rebase.

    Without it, readers follow ``spark.sql.parquet.datetimeRebaseModeInRead``: Spark 3 refuses dates before
    1582, and the mode ``LEGACY`` shifts them.
    """
    import pyspark

    return {"org.apache.spark.version": pyspark.__version__}


def row_metadata(schema: StructType, *, without: Collection[str] = ()) -> dict[str, str]:
    """Return the file metadata from which Spark restores its own types, comments and lengths.

    Spark's Parquet reader takes the schema of a file from there. Other readers take no notice of it.

    Args:
        schema: The schema of the frame.
        without: Columns that are not in the files: those that partition them.
    """
    kept = [field.jsonValue() for field in schema.fields if field.name not in without]
    return {_ROW_METADATA: json.dumps({"type": "struct", "fields": kept}, separators=(",", ":"))}


def check_names(fields: Iterable[pa.Field[Any]], path: str = "", *, is_case_sensitive: bool = False) -> None:
    """Refuse names that Spark cannot read side by side: equal ones, and those that differ only in case.

    Args:
        fields: A schema, or the fields of a type.
        path: The column that they are in, with a dot after it.
        is_case_sensitive: True if Spark is, and reads names that differ in case.

    Raises:
        SchemaError: There are two such fields side by side, at any depth.
    """
    seen: dict[str, str] = {}
    for field in fields:
        column = f"{path}{field.name}"
        key = field.name if is_case_sensitive else field.name.lower()
        if (other := seen.get(key)) == field.name:
            raise SchemaError(f"there are two columns {column}: rename one, or leave it out", column)
        seen[key] = field.name
        if other is not None:
            raise SchemaError(
                f"the columns {path}{other} and {column} differ only in case, and Spark cannot read "
                f"both: rename one, or set spark.sql.caseSensitive to true, for readers, too",
                column,
            )
        inner = (field.type.field(number) for number in range(field.type.num_fields))
        check_names(inner, f"{column}.", is_case_sensitive=is_case_sensitive)


def _converted(data_type: DataType, path: str) -> pa.DataType:
    import pyarrow as pa
    from pyspark.sql import types

    match data_type:
        case types.DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case types.ArrayType():
            element = _converted(data_type.elementType, f"{path}.element")
            return pa.list_(pa.field("element", element, data_type.containsNull))
        case types.MapType():
            key: Any = pa.field("key", _converted(data_type.keyType, f"{path}.key"), nullable=False)
            value = _converted(data_type.valueType, f"{path}.value")
            entry: Any = pa.field("value", value, data_type.valueContainsNull)
            return pa.map_(key, entry)
        case types.StructType():
            return _struct(data_type, path)
        case types.UserDefinedType():
            return _converted(data_type.sqlType(), path)
    name = type(data_type).__name__
    if name not in _SIMPLE:
        raise SchemaError(
            f"the column {path} is {data_type.simpleString()}, which this writer cannot store in Parquet: "
            f"{_REMEDIES.get(name, 'cast it first, or leave it out')}",
            path,
        )
    # By its name: Spark has the type from 4.1 on.
    is_finer = name == "TimeType" and getattr(data_type, "precision", 0) > _DIGITS_OF_MICROS
    return pa.time64("ns") if is_finer else _SIMPLE[name](pa)


def _struct(data_type: StructType, path: str) -> pa.DataType:
    import pyarrow as pa

    if not data_type.fields:
        message = (
            f"the column {path} is a struct without fields, which Parquet does not support: leave it out"
        )
        raise SchemaError(message, path)
    return pa.struct(
        [
            pa.field(field.name, _converted(field.dataType, f"{path}.{field.name}"), field.nullable)
            for field in data_type.fields
        ]
    )


_SIMPLE: dict[str, Callable[[Any], pa.DataType]] = {
    "BooleanType": lambda pa: pa.bool_(),
    "ByteType": lambda pa: pa.int8(),
    "ShortType": lambda pa: pa.int16(),
    "IntegerType": lambda pa: pa.int32(),
    "LongType": lambda pa: pa.int64(),
    "FloatType": lambda pa: pa.float32(),
    "DoubleType": lambda pa: pa.float64(),
    "StringType": lambda pa: pa.string(),
    "CharType": lambda pa: pa.string(),
    "VarcharType": lambda pa: pa.string(),
    "BinaryType": lambda pa: pa.binary(),
    "DateType": lambda pa: pa.date32(),
    "TimeType": lambda pa: pa.time64("us"),
    "TimestampType": lambda pa: pa.timestamp("us", "UTC"),
    "TimestampNTZType": lambda pa: pa.timestamp("us"),
}

_REMEDIES = {
    "NullType": "give it a type, as in lit(None).cast('string')",
    "DayTimeIntervalType": "cast it to a number of seconds",
    "YearMonthIntervalType": "cast it to a number of months",
    "CalendarIntervalType": "cast it to a string",
    "VariantType": "convert it by to_json(), or extract what is needed by variant_get()",
}
