"""Types of arguments, for annotations: protocols, accepted names and keyword arguments."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from spillway._destination import ArrowFileSystem, FsspecFileSystem
from spillway.encryption import Encryption  # noqa: TC001 - the type of a field, looked up at run time
from spillway.errors import RowError
from spillway.memory import MemoryBudget  # noqa: TC001 - likewise

__all__ = [
    "AppendKeywords",
    "ArrowArray",
    "ArrowFileSystem",
    "ArrowSchema",
    "ArrowStream",
    "BinaryFile",
    "ColumnPath",
    "Compatibility",
    "Compression",
    "Condition",
    "CreateMode",
    "Data",
    "DatasetKeywords",
    "DatasetMode",
    "Direction",
    "EffectName",
    "Encoding",
    "EncodingReason",
    "Extra",
    "FsspecFileSystem",
    "LazyFrame",
    "Nulls",
    "OnError",
    "OnSchemaChange",
    "Operator",
    "OutcomeStatus",
    "ReadableFile",
    "Scannable",
    "Scanner",
    "SchemaMode",
    "SortKey",
    "Sorting",
    "TimestampLoss",
    "Timestamps",
    "Value",
    "Verify",
    "Version",
    "WriteMode",
    "WriterKeywords",
]

ColumnPath: TypeAlias = str | tuple[str, ...]
"""A column's dotted path in Parquet, or a tuple of its parts if names contain dots."""

Compression: TypeAlias = Literal["zstd", "snappy", "lz4", "gzip", "brotli", "uncompressed"]
"""A codec of pages. ``"lz4"`` is ``LZ4_RAW``."""

Compatibility: TypeAlias = Literal["modern", "v1"]
"""Which readers can read the file."""

Timestamps: TypeAlias = Literal["keep", "us", "ms", "int96"]
"""How timestamps are stored."""

TimestampLoss: TypeAlias = Literal["allow", "refuse"]
"""What to do with times that a coarser unit cannot represent: round them down, or refuse them."""

Sorting: TypeAlias = Literal["verify", "sort"]
"""How to ensure the order of ``sorting_columns``: check it, or sort the rows."""

Verify: TypeAlias = Literal["footer", "pages", "values"]
"""How much of a file is read back, and compared with what was written, before it appears."""

Direction: TypeAlias = Literal["ascending", "descending"]
Nulls: TypeAlias = Literal["nulls_first", "nulls_last"]
SortKey: TypeAlias = str | tuple[str] | tuple[str, Direction] | tuple[str, Direction, Nulls]
"""A column by which rows are sorted: its name, or a tuple of name, direction and position of nulls."""

Encoding: TypeAlias = Literal[
    "auto",
    "dictionary",
    "plain",
    "rle",
    "delta_binary_packed",
    "delta_length_byte_array",
    "delta_byte_array",
    "byte_stream_split",
]
"""An encoding of values: Parquet's name in lower case; ``"auto"`` chooses one from the first page."""

EncodingReason: TypeAlias = Literal[
    "named", "only", "given", "repeats", "lightest", "full", "outweighed", "copied"
]
"""Why a column has its encodings; see `ColumnResult`."""

DatasetMode: TypeAlias = Literal["error", "append", "overwrite"]
"""What to do with existing files in the folder of a dataset."""

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[RowError], object]
"""What to do with bad rows: raise an error, skip them, or call a function with each.

A call that raises writes no row of a list, a tuple or bytes; if the rows come from another iterable or a
file, it writes those before the bad one."""

OnSchemaChange: TypeAlias = Literal["raise", "widen", "rotate"]
"""What a dataset does when rows need another column or a wider type: refuse them, or change its schema."""

Extra: TypeAlias = Literal["error", "ignore"]
"""What to do with keys that the schema lacks: treat the row as bad, or ignore the key."""

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "in"]
Condition: TypeAlias = tuple[str, Operator, Any]
"""Column, operator and value; a sequence of values for ``in``. None is allowed for ``=`` and ``!=``."""

Value: TypeAlias = bool | int | float | str | dt.date | dt.datetime | None
"""A value of a partition column; None is null."""

Version: TypeAlias = int | dt.datetime | str
"""A version of a Delta table: its number, or a time, for the version that was the newest at that time.

A datetime must have a time zone, and so must a string in ISO 8601: ``"2026-11-20T12:00:00Z"``."""

CreateMode: TypeAlias = Literal["error", "ignore", "overwrite"]
"""What `spillway.delta.create` does if the table exists."""

WriteMode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]
"""What `spillway.delta.write` does if the table exists; ``"error"`` by default."""

SchemaMode: TypeAlias = Literal["merge"]
"""What to do with new columns and new fields of structs: add them to the table."""

OutcomeStatus: TypeAlias = Literal["committed", "rejected", "pending", "unknowable"]
"""The outcome of a commit whose outcome was unknown."""

EffectName: TypeAlias = Literal[
    "find_tip",
    "read_version",
    "put_version",
    "check_version",
    "retract_version",
    "list_intents",
    "read_intents",
    "put_intent",
    "delete_intents",
    "withdraw_intents",
    "sync_data",
    "sync_log",
    "merge",
    "pause",
]
"""A step of the committer: an operation on the store, or a pause."""


class ArrowStream(Protocol):
    """Rows with the Arrow PyCapsule interface: tables, data frames, relations, readers."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of an ``ArrowArrayStream``."""


class ArrowArray(Protocol):
    """One record batch with the Arrow PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return capsules of an ``ArrowSchema`` and an ``ArrowArray`` of struct type."""


class LazyFrame(Protocol):
    """A polars query, whose rows are computed while they are written."""

    def collect_batches(self) -> Iterable[ArrowStream]:
        """Return the frames of the result as they are computed."""

    def collect(self) -> ArrowStream:
        """Return the whole result."""


class Scannable(Protocol):
    """A pyarrow dataset, whose files are read while their rows are written."""

    def scanner(self) -> Scanner:
        """Return a scanner of its rows."""


class Scanner(Protocol):
    """A scan of a pyarrow dataset."""

    def to_reader(self) -> ArrowStream:
        """Return its rows as a stream."""


class ArrowSchema(Protocol):
    """A schema with the Arrow PyCapsule interface."""

    def __arrow_c_schema__(self) -> object:
        """Return a capsule of an ``ArrowSchema`` of struct type."""


Data: TypeAlias = (
    ArrowStream
    | ArrowArray
    | LazyFrame
    | Scannable
    | Scanner
    | Iterable[ArrowStream | ArrowArray]
    | Iterable[dict[str, Any]]
    | Mapping[str, Any]
)
"""Everything that `write_parquet`, `write_dataset` and `spillway.delta.write` accept.

Arrow data, queries, datasets, batches, rows and columns."""


class BinaryFile(Protocol):
    """A file object that a writer can write to."""

    def write(self, data: bytes, /) -> int | None:
        """Write bytes; return how many were written, or None for all."""


class ReadableFile(Protocol):
    """A file object that `write_ndjson` can read."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; an empty result means the end."""


class WriterKeywords(TypedDict, total=False):
    """Keyword arguments of `ParquetWriter` and `write_parquet`: the fields of `WriterOptions`."""

    compression: Compression | Mapping[ColumnPath, str]
    compression_level: int | None
    row_group_rows: int
    row_group_bytes: int
    page_bytes: int
    page_rows: int
    dictionary_page_bytes: int
    content_defined_chunking: bool | Sequence[int]
    memory_limit: int | str | MemoryBudget | None
    threads: int | None
    hold_batches: bool
    dictionary: bool | Mapping[ColumnPath, bool]
    encoding: Encoding | Mapping[ColumnPath, Encoding]
    bloom_filter: bool | Sequence[ColumnPath] | Mapping[ColumnPath, float]
    page_checksums: bool
    statistics: bool | Mapping[ColumnPath, bool]
    store_schema: bool
    compatibility: Compatibility
    timestamps: Timestamps
    timestamp_loss: TimestampLoss
    sorting_columns: Sequence[SortKey]
    sorting: Sorting
    durable: bool
    verify: Verify | None
    metadata: Mapping[str, str] | None
    field_ids: Mapping[ColumnPath, int] | None
    encryption: Encryption | None


class DatasetKeywords(WriterKeywords, total=False):
    """Keyword arguments of `DatasetWriter`: the fields of `DatasetOptions` and of `WriterOptions`."""

    partition_by: str | Sequence[str]
    max_file_bytes: int | None
    max_file_rows: int | None
    max_open_files: int
    basename_template: str
    mode: DatasetMode
    metadata_file: bool
    on_schema_change: OnSchemaChange


class AppendKeywords(WriterKeywords, total=False):
    """Keyword arguments of `spillway.delta.Table.append`: its own, and the fields of `WriterOptions`."""

    app_id: str | None
    app_version: int | None
    schema_mode: SchemaMode | None
    timeout: float | None
    user_metadata: str | None
    max_file_bytes: int | None
    max_file_rows: int | None
    coalesce: bool
