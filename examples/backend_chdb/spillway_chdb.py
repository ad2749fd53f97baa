"""A backend for the bench from outside: chDB, ClickHouse in a Python process.

Installed (``pip install examples/backend_chdb``), it is measured by
``spillway bench --backend chdb,spillway --mode table``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import chdb

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Mode, Settings


class ChDB:
    """One ``INSERT INTO FUNCTION file(...)`` from an Arrow table.

    ClickHouse has no null lists: it writes empty ones, and the bench reports
    the file as wrong output.
    """

    name = "chdb"
    modes: frozenset[Mode] = frozenset({"table"})

    def version(self) -> str:
        """Return the version of ClickHouse."""
        return str(chdb.engine_version)

    def open(self, path: Path, _schema: pa.Schema, settings: Settings) -> Sink:
        """Start a file with the codec, the level and the row groups that the cell asks for."""
        codec = {"uncompressed": "none"}.get(settings.codec, settings.codec)
        options = [
            f"max_threads={settings.threads}",
            f"output_format_parquet_compression_method='{codec}'",
            f"output_format_parquet_row_group_size={settings.row_group_rows}",
        ]
        if settings.level is not None:
            options.append(f"output_format_compression_level={settings.level}")
        return Sink(path, ", ".join(options))


class Sink:
    """One file being written."""

    def __init__(self, path: Path, options: str) -> None:
        self._path = str(path).replace("\\", "\\\\").replace("'", "\\'")
        self._options = options

    def write(self, table: pa.Table) -> None:  # noqa: ARG002 - the query names it
        """Write the table, which chDB finds by its name."""
        chdb.query(
            f"INSERT INTO FUNCTION file('{self._path}', 'Parquet') SELECT * FROM Python(table) "  # noqa: S608
            f"SETTINGS {self._options}"
        )

    def close(self) -> None:
        """Do nothing: the file is complete."""
