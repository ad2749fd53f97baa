"""A backend for the bench from outside: pyarrow without dictionaries, one row group a batch.

Installed (``pip install examples/backend_plugin``), it is measured by
``spillway bench --backend pyarrow-flat,spillway``. Its entry point is in
``pyproject.toml``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings


class Flat:
    """`pq.ParquetWriter` with `use_dictionary=False`."""

    name = "pyarrow-flat"
    modes: frozenset[Mode] = frozenset({"batches"})

    def version(self) -> str:
        """Return the library's version."""
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        """Start a file with the codec and the level that the cell asks for."""
        codec = "none" if settings.codec == "uncompressed" else settings.codec
        return Sink(path, schema, codec, settings.level)


class Sink:
    """One file being written."""

    def __init__(self, path: Path, schema: pa.Schema, codec: str, level: int | None) -> None:
        self._writer = pq.ParquetWriter(
            path, schema, compression=codec, compression_level=level, use_dictionary=False
        )

    def write(self, data: pa.RecordBatch) -> None:
        """Write a batch, which is the caller's again afterwards."""
        self._writer.write_batch(data)

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()
