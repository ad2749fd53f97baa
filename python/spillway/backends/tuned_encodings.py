"""The encodings of the tuned backends: by hand for the datasets that targets are set for, else by a rule.

By hand means by ``scripts/tune.py``: every column was written with every encoding, and the one that takes the
least time is kept among those whose file is at most 5 % larger than the smallest. The measurements of pyarrow
and of arro3 agree, except for one column with a tie. A dictionary is kept for every column that is not named.

The rule, for all other data, is what a peer's documentation leaves to its user. Timestamps are
DELTA_BINARY_PACKED. For other columns, a dictionary is kept if values repeat; otherwise integers are
DELTA_BINARY_PACKED, and strings and binary are DELTA_LENGTH_BYTE_ARRAY. Nested columns and other types keep
pyarrow's default; floats too, because Spark 4.2's vectorized reader refuses BYTE_STREAM_SPLIT.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_LOGS = {
    **dict.fromkeys(
        (
            "timestamp",
            "message",
            "client_port",
            "request_bytes",
            "response_bytes",
            "upstream_ns",
            "score",
        ),
        "PLAIN",
    ),
    **dict.fromkeys(("ingested_at", "log_offset"), "DELTA_BINARY_PACKED"),
    **dict.fromkeys(("trace_id", "span_id", "parent_span_id"), "DELTA_LENGTH_BYTE_ARRAY"),
}
_LINEITEM = {
    **dict.fromkeys(
        ("l_orderkey", "l_partkey", "l_shipdate", "l_commitdate", "l_receiptdate"), "DELTA_BINARY_PACKED"
    ),
    "l_comment": "DELTA_LENGTH_BYTE_ARRAY",
}
_BY_HAND = {"logs": _LOGS, "logs-nested": _LOGS, "lineitem": _LINEITEM}

_SAMPLE_ROWS = 10_000
# Distinct values per non-null value from which a dictionary no longer pays. Integers pack well without one,
# strings only when nearly all differ: a sample holds fewer repeats than the row group.
_DISTINCT_FROM = {"DELTA_BINARY_PACKED": 0.5, "DELTA_LENGTH_BYTE_ARRAY": 0.9}


@dataclass(frozen=True)
class EncodingChoice:
    """Columns with a dictionary, by their leaves' dotted paths, and the encodings of the others."""

    dictionary: list[str]
    encodings: dict[str, str]


def choose_encodings(first_row_group: pa.Table, dataset: str = "file") -> EncodingChoice:
    """Choose by hand for a known dataset, and else by the rule, from a sample of the row group."""
    encodings = _BY_HAND.get(dataset)
    if encodings is None:
        encodings = _by_rule(first_row_group.slice(0, _SAMPLE_ROWS))
    dictionary = [
        leaf
        for field in first_row_group.schema
        if field.name not in encodings
        for leaf in leaf_paths(field.name, field.type)
    ]
    return EncodingChoice(dictionary, encodings)


def _by_rule(sample: pa.Table) -> dict[str, str]:
    """For each flat column that needs no dictionary: by its type and how often values repeat."""
    encodings: dict[str, str] = {}
    for field, column in zip(sample.schema, sample.columns, strict=True):
        encoding = _without_dictionary(field.type)
        if encoding is not None and _does_without_dictionary(column, encoding):
            encodings[field.name] = encoding
    return encodings


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


def leaf_paths(path: str, data_type: pa.DataType) -> list[str]:
    """Parquet's dotted paths of a column's leaves, as pyarrow names them."""
    if pa.types.is_struct(data_type):
        return [leaf for field in data_type for leaf in leaf_paths(f"{path}.{field.name}", field.type)]
    if pa.types.is_map(data_type):
        entries = f"{path}.key_value"
        return leaf_paths(f"{entries}.key", data_type.key_type) + leaf_paths(
            f"{entries}.value", data_type.item_type
        )
    if (
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    ):
        return leaf_paths(f"{path}.list.element", data_type.value_type)
    return [path]
