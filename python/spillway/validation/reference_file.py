"""Excuses: a failing reader is excused if it fails alike on pyarrow's own file of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.validation.source import SourceRows
    from spillway.validation.verdict import Mismatch

__all__ = ["excuses", "write_reference"]


def write_reference(source_rows: SourceRows, path: Path) -> bool:
    """Write the source's rows with pyarrow and its defaults; False if pyarrow cannot write such a table."""
    try:
        with pq.ParquetWriter(path, source_rows.raw_schema) as writer:
            for batch in source_rows.raw_batches():
                writer.write_batch(batch)
    except (pa.ArrowException, ValueError):
        return False
    return True


def excuses(found: Mismatch, on_reference: Mismatch | None) -> bool:
    """Return True if a reader's failure on pyarrow's file explains its failure on another one.

    It has to fail there in the same way and on the same column: a reader that knows no nanoseconds is not
    excused from values swapped elsewhere.
    """
    return (
        on_reference is not None and found.kind == on_reference.kind and found.column == on_reference.column
    )
