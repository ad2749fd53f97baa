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

__all__ = ["Arro3", "compression"]


class Arro3:
    """One `write_parquet` over a stream of batches."""

    name = "arro3"
    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def version(self) -> str:
        return str(__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        def write(reader: pa.RecordBatchReader) -> None:
            write_parquet(
                reader,
                path,
                compression=compression(settings),
                max_row_group_size=settings.row_group_rows,
            )

        return Handoff(schema, write)


def compression(settings: Settings) -> str:
    """A cell's codec and level, as arrow-rs writes them."""
    codec = {"lz4": "lz4_raw"}.get(settings.codec, settings.codec)
    return codec if settings.level is None else f"{codec}({settings.level})"
