"""arro3-io, the Python package of arrow-rs: as it comes, and with encodings that suit the data."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from arro3.core import __version__
from arro3.io import write_parquet

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import PushToPull

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings, Sink
    from spillway.backends.tuned_encodings import EncodingChoice


class Arro3:
    """One `write_parquet` over a stream of batches."""

    name = "arro3"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def version(self) -> str:
        return str(__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        def write(reader: pa.RecordBatchReader) -> None:
            write_parquet(
                reader,
                path,
                compression=_compression(settings),
                max_row_group_size=settings.row_group_rows,
            )

        return PushToPull(schema, write)


class Arro3Tuned:
    """Like `Arro3`, with `choose_encodings`, which looks only at the first batch, so rows still stream."""

    name = "arro3-tuned"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def __init__(self) -> None:
        # It brings `pyarrow.compute`, which `Arro3` does without.
        from spillway.backends.tuned_encodings import choose_encodings

        self._choose = choose_encodings

    def version(self) -> str:
        return str(__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        return PushToPull(schema, lambda reader: _write_tuned(reader, path, settings, self._choose))


def _write_tuned(
    reader: pa.RecordBatchReader,
    path: Path,
    settings: Settings,
    choose: Callable[[pa.Table, str], EncodingChoice],
) -> None:
    first = next(reader, None)
    head = [] if first is None else [first]
    chosen = choose(pa.Table.from_batches(head, reader.schema), settings.dataset)
    encodings: Any = {name: encoding.lower() for name, encoding in chosen.encodings.items()}
    write_parquet(
        pa.RecordBatchReader.from_batches(reader.schema, chain(head, reader)),
        path,
        compression=_compression(settings),
        max_row_group_size=settings.row_group_rows,
        column_dictionary_enabled=dict.fromkeys(chosen.encodings, False),
        column_encoding=encodings,
    )


def _compression(settings: Settings) -> str:
    """A cell's codec and level, as arrow-rs writes them."""
    codec = {"lz4": "lz4_raw"}.get(settings.codec, settings.codec)
    return codec if settings.level is None else f"{codec}({settings.level})"
