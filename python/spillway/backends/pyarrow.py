"""pyarrow a batch at a time, as its documentation shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.backends.pyarrow_options import compression

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings

__all__ = ["PyarrowStreaming"]


class PyarrowStreaming:
    """`pq.ParquetWriter.write_batch` for each batch.

    pyarrow 26 makes every call a row group of its own, however large a row group is allowed to be: the cell's
    row-group size is an upper bound that only a table reaches.
    """

    name = "pyarrow-streaming"
    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def version(self) -> str:
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:
        return _Sink(path, schema, settings)


class _Sink:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._row_group_rows = settings.row_group_rows
        self._writer = pq.ParquetWriter(path, schema, **compression(settings))

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        if isinstance(data, pa.Table):
            self._writer.write_table(data, row_group_size=self._row_group_rows)
        else:
            self._writer.write_batch(data, row_group_size=self._row_group_rows)

    def close(self) -> None:
        self._writer.close()
