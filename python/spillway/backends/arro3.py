"""arro3-io, the Python face of arrow-rs, by `write_parquet` over an Arrow stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arro3.core import __version__
from arro3.io import write_parquet

from spillway.backends.handoff import Handoff

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Mode, Settings, Sink

__all__ = ["Arro3"]


class Arro3:
    """One `write_parquet` over a stream of batches."""

    name = "arro3"
    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def version(self) -> str:
        return str(__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        codec = {"lz4": "lz4_raw"}.get(settings.codec, settings.codec)
        compression = codec if settings.level is None else f"{codec}({settings.level})"

        def write(reader: pa.RecordBatchReader) -> None:
            write_parquet(reader, path, compression=compression, max_row_group_size=settings.row_group_rows)

        return Handoff(schema, write)
