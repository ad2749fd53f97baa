"""pyarrow as a reservoir: every batch is kept, and the file is written at the end in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.backends.pyarrow_options import compression
from spillway.backends.retain import own

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings

__all__ = ["PyarrowBuffered"]


class PyarrowBuffered:
    """Collects all batches, then one `pq.write_table`. A table is written as it is."""

    name = "pyarrow-buffered"
    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def version(self) -> str:
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:
        return _Sink(path, schema, settings)


class _Sink:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._path = path
        self._schema = schema
        self._settings = settings
        self._batches: list[pa.RecordBatch] = []
        self._table: pa.Table | None = None

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        if isinstance(data, pa.Table):
            self._table = data
        else:
            self._batches.append(own(data))

    def close(self) -> None:
        table = self._table
        if table is None:
            table = pa.Table.from_batches(self._batches, self._schema)
        pq.write_table(
            table,
            self._path,
            row_group_size=self._settings.row_group_rows,
            **compression(self._settings),
        )
