"""Sums of the hashes of rows: of Arrow batches that tasks write, and of files that Spark reads.

The hash of a row is Spark's own `xxhash64`, which Spark takes in the JVM: no row passes to Python to be
audited. That hash skips nulls, so a bitmap of their positions is hashed after the values. The crate
``row-digest`` describes the rule, and computes the same for Arrow arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from spillway._native import spark_row_sums
from spillway.errors import SchemaError
from spillway.spark.settings import changed_settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import DataType

__all__ = ["RowSums", "check_hashed", "sums_by", "sums_of_batch", "sums_of_frame"]

#: Columns without nesting whose nulls share a long.
_COLUMNS_OF_A_WORD = 63
#: The bits of a hash that are summed up at once: 2^41 rows fit in a long.
_PART = (1 << 22) - 1
_SHIFTS = (0, 22, 44)
#: Spark refuses maps, as equal ones may have their entries in another order. Those of a file keep theirs.
_HASH_MAPS = {"spark.sql.legacy.allowHashOnMapType": "true"}


@dataclass(frozen=True)
class RowSums:
    """Rows in any order.

    Args:
        rows: Their number.
        hashes: The sum of their hashes, each as 64 bits without a sign.
    """

    rows: int = 0
    hashes: int = 0

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.rows + other.rows, self.hashes + other.hashes)

    @property
    def checksum(self) -> str:
        """The sum of hashes as 32 hexadecimal digits."""
        return f"{self.hashes:032x}"


def sums_of_batch(batch: pa.RecordBatch) -> RowSums:
    """The sums of rows of Arrow.

    Raises:
        ValueError: A column has a type that Spark does not have.
    """
    return RowSums(*spark_row_sums(batch))


def check_hashed(schema: pa.Schema) -> None:
    """Refuse a column whose values Spark does not hash.

    Raises:
        SchemaError: There is one, of a type that Spark does not have.
    """
    for field in schema:
        try:
            spark_row_sums(pa.RecordBatchReader.from_batches(pa.schema([field]), []))
        except ValueError as error:
            message = (
                f"the column {field.name} is {field.type}, which an audit cannot compare, as Spark does not "
                f'read it ({error}): make it of another type, or run the pipeline with audit="none" and no '
                "unique()"
            )
            raise SchemaError(message, field.name) from error


def sums_of_frame(frame: DataFrame) -> RowSums:
    """The sums of rows that Spark reads."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    with changed_settings(frame.sparkSession, _HASH_MAPS):
        rows = _hashed(frame).agg(*_sums(F.col("hash"))).collect()
    return _read(rows[0])


def sums_by(frame: DataFrame, key: str) -> dict[str, RowSums]:
    """The sums of rows that Spark reads, by a column that is not hashed."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    with changed_settings(frame.sparkSession, _HASH_MAPS):
        rows = _hashed(frame, key).groupBy("key").agg(*_sums(F.col("hash"))).collect()
    return {row["key"]: _read(row) for row in rows}


def _read(row: Row) -> RowSums:
    parts = ((row[f"part{place}"] or 0) << shift for place, shift in enumerate(_SHIFTS))
    return RowSums(row["rows"], sum(parts))


def _sums(hashes: Column) -> list[Column]:
    """The number of rows, and sums of parts of hashes: those of whole ones would overflow a long."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    parts = [F.shiftrightunsigned(hashes, shift).bitwiseAND(_PART) for shift in _SHIFTS]
    sums = [F.sum(part).alias(f"part{place}") for place, part in enumerate(parts)]
    return [F.count(F.lit(1)).alias("rows"), *sums]


def _hashed(frame: DataFrame, key: str | None = None) -> DataFrame:
    """The hash of each row, and its key."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    # By place: a name may have dots, or be there twice.
    numbered = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    fields = [field for field, name in zip(numbered.schema, frame.columns, strict=True) if name != key]
    columns = [(_comparable(F.col(field.name), field.dataType), _plain(field.dataType)) for field in fields]
    flat = [column for column, kind in columns if not _is_nested(kind)]
    words = range(0, len(flat), _COLUMNS_OF_A_WORD)
    nulls = [_bits(flat[first : first + _COLUMNS_OF_A_WORD]) for first in words]
    shapes = [_shape(column, kind) for column, kind in columns if _is_nested(kind)]
    wanted = [F.xxhash64(*(column for column, _ in columns), *nulls, *shapes).alias("hash")]
    if key is not None:
        wanted.append(F.col(f"c{frame.columns.index(key)}").alias("key"))
    return numbered.select(*wanted)


def _is_nested(kind: DataType) -> bool:
    return kind.typeName() in {"array", "map", "struct"}


def _comparable(column: Column, kind: DataType) -> Column:
    """The column as it is stored.

    Of collations, Spark hashes what they compare, not the text.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
    from pyspark.sql.types import ArrayType, MapType, StructType, UserDefinedType

    if isinstance(kind, UserDefinedType):
        return _comparable(F.unwrap_udt(column), kind.sqlType())
    plain = _plain(kind)
    if plain is kind:
        return column
    # Spark casts no user-defined type, at any depth.
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda each: _comparable(each, kind.elementType))
    if isinstance(kind, MapType) and _plain(kind.keyType) is kind.keyType:
        return F.transform_values(column, lambda _, each: _comparable(each, kind.valueType))
    if isinstance(kind, StructType):
        fields = [_comparable(column.getField(each.name), each.dataType).alias(each.name) for each in kind]
        return F.when(column.isNotNull(), F.struct(*fields))
    return column.cast(plain)


def _plain(kind: DataType) -> DataType:
    """Strip collations and unwrap user-defined types. A type without either is returned as is."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType, UserDefinedType

    if isinstance(kind, UserDefinedType):
        return _plain(kind.sqlType())
    if isinstance(kind, ArrayType):
        element = _plain(kind.elementType)
        return kind if element is kind.elementType else ArrayType(element, kind.containsNull)
    if isinstance(kind, MapType):
        key, value = _plain(kind.keyType), _plain(kind.valueType)
        same = key is kind.keyType and value is kind.valueType
        return kind if same else MapType(key, value, kind.valueContainsNull)
    if isinstance(kind, StructType):
        fields = [StructField(f.name, _plain(f.dataType), f.nullable) for f in kind.fields]
        same = all(new.dataType is old.dataType for new, old in zip(fields, kind.fields, strict=True))
        return kind if same else StructType(fields)
    # Spark 3.5 has no collations.
    if isinstance(kind, StringType) and getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        return StringType()
    return kind


def _bits(columns: list[Column]) -> Column:
    """A long with a bit for each null."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    none = F.lit(0).cast("long")
    bits = [
        F.when(column.isNull(), F.lit(1 << place).cast("long")).otherwise(none)
        for place, column in enumerate(columns)
    ]
    return reduce(lambda word, bit: word.bitwiseOR(bit), bits)


def _shape(value: Column, kind: DataType) -> Column:
    """The nulls and sizes of a value, as a value that has no null but for those of arrays."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
    from pyspark.sql.types import ArrayType, MapType, StructType

    def elements(array: Column, kind: DataType) -> Column:
        return F.transform(array, lambda each: _shape(each, kind))

    if isinstance(kind, StructType):
        fields = [_shape(value.getField(each.name), each.dataType) for each in kind.fields]
        return F.struct(value.isNull(), *fields)
    size = F.when(value.isNull(), F.lit(-1)).otherwise(F.size(value))
    if isinstance(kind, ArrayType):
        return F.struct(size, elements(value, kind.elementType))
    if isinstance(kind, MapType):
        keys, values = F.map_keys(value), F.map_values(value)
        return F.struct(size, elements(keys, kind.keyType), elements(values, kind.valueType))
    return value.isNull()
