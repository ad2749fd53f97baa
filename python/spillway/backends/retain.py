"""Record batches that a sink keeps beyond `write`: copies, or references where the caller allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.backends.protocol import Settings

__all__ = ["Gathered", "retained"]


class Gathered:
    """A sink for libraries that write one table in one call.

    Args:
        schema: The table's schema.
        settings: Those of the cell, which say whether batches are copied.
        write_table: Called once, at the close; writes the whole file.
    """

    def __init__(
        self, schema: pa.Schema, settings: Settings, write_table: Callable[[pa.Table], None]
    ) -> None:
        self._schema = schema
        self._settings = settings
        self._write_table = write_table
        self._batches: list[pa.RecordBatch] = []
        self._table: pa.Table | None = None

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Keep a batch for the close, or the one table."""
        if isinstance(data, pa.Table):
            self._table = data
        else:
            self._batches.append(retained(data, self._settings))

    def close(self) -> None:
        """Write the file."""
        table = self._table
        if table is None:
            table = pa.Table.from_batches(self._batches, self._schema)
        self._write_table(table)


def retained(batch: pa.RecordBatch, settings: Settings) -> pa.RecordBatch:
    """The batch itself if it may be kept, else a copy, so that its producer may reuse or drop the buffers."""
    return batch if settings.may_retain else batch.copy_to(pa.default_cpu_memory_manager())
