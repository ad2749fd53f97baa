"""DuckDB, by `COPY ... TO`: from Arrow and from NDJSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import PushToPull
from spillway.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings, Sink

_TYPES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
}

# The only level that DuckDB compresses with, of codecs whose level cannot be set: that of its miniz.
_FIXED_LEVELS = {"gzip": 6}


class DuckDB:
    """One COPY over an Arrow stream, in the order of the input, which is DuckDB's default.

    DuckDB ends a row group with the vector (at most 2,048 rows) in which it reaches the cell's size.
    """

    name = "duckdb"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def __init__(self) -> None:
        self._threads = 0

    def version(self) -> str:
        return duckdb.__version__

    def threads_in_force(self) -> dict[str, int]:
        """The last connection's own setting; DuckDB does not look at the affinity mask."""
        return {"duckdb": self._threads} if self._threads else {}

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        connection = duckdb.connect(config={"threads": str(settings.threads)})
        ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
        self._threads = int(threads)
        return PushToPull(schema, lambda reader: _copy(connection, reader, path, settings))


class DuckDBNdjson:
    """One COPY from `read_json` with the columns given, once all chunks are there.

    `read_json` accepts only files: the chunks are combined into an in-memory file, which takes a few per cent
    of the time.
    """

    name = "duckdb-ndjson"
    modes: frozenset[Mode] = frozenset({"ndjson"})

    def version(self) -> str:
        return duckdb.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Lines:
        return _Lines(path, schema, settings)


class _Lines:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._path = path
        self._schema = schema
        self._settings = settings
        self._lines = open(os.memfd_create("ndjson"), "wb")  # noqa: SIM115, PTH123 - closed with the sink

    def write(self, data: bytes) -> None:
        self._lines.write(data)

    def close(self) -> None:
        columns = ", ".join(
            f"{_quoted(field.name)}: {_quoted(_sql_type(field.type))}" for field in self._schema
        )
        with self._lines, duckdb.connect(config={"threads": str(self._settings.threads)}) as connection:
            self._lines.flush()
            source = (
                f"read_json('/proc/self/fd/{self._lines.fileno()}', format='newline_delimited', "
                f"columns={{{columns}}})"
            )
            options = _copy_options(self._settings)
            connection.execute(f"COPY (FROM {source}) TO {_quoted(str(self._path))} ({options})")


def _copy(
    connection: duckdb.DuckDBPyConnection, reader: pa.RecordBatchReader, path: Path, settings: Settings
) -> None:
    with connection:
        connection.register("input", reader)
        options = _copy_options(settings)
        connection.execute(f"COPY input TO {_quoted(str(path))} ({options})")  # COPY takes no parameters


def _copy_options(settings: Settings) -> str:
    """The options of a COPY into Parquet, as a cell fixes them."""
    codec = {"lz4": "lz4_raw"}.get(settings.codec, settings.codec)
    options = ["FORMAT parquet", f"COMPRESSION {codec}", f"ROW_GROUP_SIZE {settings.row_group_rows}"]
    if settings.codec == "zstd":
        options.append(f"COMPRESSION_LEVEL {settings.level}")
    elif settings.level != _FIXED_LEVELS.get(settings.codec):
        raise OptionError(
            f"DuckDB does not compress with {settings.codec} at level {settings.level}: it has gzip at 6, "
            f"zstd at any level, and codecs without levels; leave duckdb out"
        )
    return ", ".join(options)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _sql_type(kind: pa.DataType) -> str:
    if isinstance(kind, pa.TimestampType):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    if isinstance(kind, pa.ListType):
        return f"{_sql_type(kind.value_type)}[]"
    if isinstance(kind, pa.StructType):
        fields = ", ".join(f'"{field.name}" {_sql_type(field.type)}' for field in kind)
        return f"STRUCT({fields})"
    return _TYPES.get(str(kind), str(kind).upper())
