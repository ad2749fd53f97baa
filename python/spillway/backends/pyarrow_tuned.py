"""pyarrow at its best documented settings: full row groups, encodings that suit the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.backends.encodings import choose_encodings
from spillway.backends.pyarrow_options import compression
from spillway.backends.retain import own

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings

__all__ = ["PyarrowStreamingTuned"]


class PyarrowStreamingTuned:
    """Gathers batches into row groups of the cell's size, and uses `choose_encodings`."""

    name = "pyarrow-streaming-tuned"
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
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        if isinstance(data, pa.Table):
            self._write_row_groups(data)
            return
        self._gathered.append(own(data))
        self._gathered_rows += data.num_rows
        if self._gathered_rows >= self._settings.row_group_rows:
            self._write_gathered(keep_tail=True)

    def close(self) -> None:
        self._write_gathered(keep_tail=False)
        if self._writer is None:
            self._writer = self._open(self._schema.empty_table())
        self._writer.close()

    def _write_gathered(self, *, keep_tail: bool) -> None:
        if not self._gathered_rows:
            return
        table = pa.Table.from_batches(self._gathered, self._schema)
        size = self._settings.row_group_rows
        whole = table.num_rows - table.num_rows % size if keep_tail else table.num_rows
        self._write_row_groups(table.slice(0, whole))
        tail = table.slice(whole)
        self._gathered = tail.to_batches() if tail.num_rows else []
        self._gathered_rows = tail.num_rows

    def _write_row_groups(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._open(table.slice(0, self._settings.row_group_rows))
        self._writer.write_table(table, row_group_size=self._settings.row_group_rows)

    def _open(self, first_row_group: pa.Table) -> pq.ParquetWriter:
        chosen = choose_encodings(first_row_group, self._settings.dataset)
        return pq.ParquetWriter(
            self._path,
            self._schema,
            use_dictionary=chosen.dictionary,  # type: ignore[arg-type]  # the stub lacks the list of columns
            column_encoding=chosen.encodings or None,
            store_decimal_as_integer=True,
            **compression(self._settings),
        )
