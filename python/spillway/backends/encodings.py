"""The rule by which the tuned pyarrow backend chooses encodings, from a sample of the first row group.

It is what pyarrow's documentation leaves to its user. Timestamps are DELTA_BINARY_PACKED. Elsewhere a
dictionary is kept where values repeat; where they do not, integers are DELTA_BINARY_PACKED, strings and
binary DELTA_LENGTH_BYTE_ARRAY. Nested columns and other types keep pyarrow's default; floats too, because
Spark 4.2's vectorized reader refuses BYTE_STREAM_SPLIT.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["EncodingChoice", "choose_encodings"]

_SAMPLE_ROWS = 10_000
# Distinct values per non-null value from which a dictionary no longer pays. Integers pack well without one,
# strings only when nearly all differ: a sample holds fewer repeats than the row group.
_DISTINCT_FROM = {"DELTA_BINARY_PACKED": 0.5, "DELTA_LENGTH_BYTE_ARRAY": 0.9}


@dataclass(frozen=True)
class EncodingChoice:
    """Arguments for `pq.ParquetWriter`: columns with a dictionary, and the encodings of the others."""

    dictionary: list[str]
    encodings: dict[str, str]


def choose_encodings(first_row_group: pa.Table) -> EncodingChoice:
    """Choose for each flat column, by its type and how often values repeat in a sample of the row group."""
    sample = first_row_group.slice(0, _SAMPLE_ROWS)
    dictionary: list[str] = []
    encodings: dict[str, str] = {}
    for field, column in zip(sample.schema, sample.columns, strict=True):
        encoding = _without_dictionary(field.type)
        if encoding is not None and _does_without_dictionary(column, encoding):
            encodings[field.name] = encoding
        else:
            dictionary += _leaves(field.name, field.type)
    return EncodingChoice(dictionary, encodings)


def _without_dictionary(data_type: pa.DataType) -> str | None:
    if pa.types.is_integer(data_type) or pa.types.is_timestamp(data_type) or pa.types.is_time(data_type):
        return "DELTA_BINARY_PACKED"
    if pa.types.is_date(data_type) or pa.types.is_duration(data_type):
        return "DELTA_BINARY_PACKED"
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return "DELTA_LENGTH_BYTE_ARRAY"
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return "DELTA_LENGTH_BYTE_ARRAY"
    return None


def _does_without_dictionary(column: pa.ChunkedArray[pa.Scalar[pa.DataType]], encoding: str) -> bool:
    return pa.types.is_timestamp(column.type) or _distinct(column) >= _DISTINCT_FROM[encoding]


def _distinct(column: pa.ChunkedArray[pa.Scalar[pa.DataType]]) -> float:
    """Distinct values per non-null value; 0 where all are null."""
    present = len(column) - column.null_count
    distinct: int = pc.count_distinct(column, mode="only_valid").as_py()
    return distinct / present if present else 0.0


def _leaves(path: str, data_type: pa.DataType) -> list[str]:
    """Parquet's dotted paths of a column's leaves, as pyarrow names them."""
    if pa.types.is_struct(data_type):
        return [leaf for field in data_type for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if pa.types.is_map(data_type):
        entries = f"{path}.key_value"
        return _leaves(f"{entries}.key", data_type.key_type) + _leaves(
            f"{entries}.value", data_type.item_type
        )
    if (
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    ):
        return _leaves(f"{path}.list.element", data_type.value_type)
    return [path]
