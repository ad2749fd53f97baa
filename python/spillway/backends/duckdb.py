"""DuckDB, by `COPY ... TO` from Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from spillway.backends.handoff import Handoff
from spillway.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Mode, Settings, Sink

__all__ = ["DuckDB", "copy_options"]


class DuckDB:
    """One COPY over an Arrow stream, in the order of the input, which is DuckDB's default.

    DuckDB ends a row group with the vector (at most 2,048 rows) in which it reaches the cell's size.
    """

    name = "duckdb"
    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def __init__(self) -> None:
        self._threads = 0

    def version(self) -> str:
        return duckdb.__version__

    def threads_in_force(self) -> dict[str, int]:
        """What the last connection said of its own setting; DuckDB does not look at the affinity mask."""
        return {"duckdb": self._threads} if self._threads else {}

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        connection = duckdb.connect(config={"threads": str(settings.threads)})
        ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
        self._threads = int(threads)
        return Handoff(schema, lambda reader: _copy(connection, reader, path, settings))


def _copy(
    connection: duckdb.DuckDBPyConnection, reader: pa.RecordBatchReader, path: Path, settings: Settings
) -> None:
    with connection:
        connection.register("input", reader)
        target = str(path).replace("'", "''")
        connection.execute(f"COPY input TO '{target}' ({copy_options(settings)})")  # COPY takes no parameters


def copy_options(settings: Settings) -> str:
    """The options of a COPY into Parquet, as a cell fixes them."""
    codec = {"lz4": "lz4_raw"}.get(settings.codec, settings.codec)
    options = ["FORMAT parquet", f"COMPRESSION {codec}", f"ROW_GROUP_SIZE {settings.row_group_rows}"]
    if settings.codec == "zstd":
        options.append(f"COMPRESSION_LEVEL {settings.level}")
    elif settings.level is not None:
        raise OptionError(f"DuckDB takes a level for zstd alone, not for {settings.codec}: leave --level out")
    return ", ".join(options)
