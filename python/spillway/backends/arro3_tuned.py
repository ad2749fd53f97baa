"""arro3-io at its best documented settings: encodings that suit the data."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from arro3.core import __version__
from arro3.io import write_parquet

from spillway.backends.arro3 import compression
from spillway.backends.encodings import choose_encodings
from spillway.backends.handoff import Handoff

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings, Sink

__all__ = ["Arro3Tuned"]


class Arro3Tuned:
    """As `Arro3`, with `choose_encodings`, which looks at the first batch alone: the stream goes on."""

    name = "arro3-tuned"
    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def version(self) -> str:
        return str(__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        return Handoff(schema, lambda reader: _write(reader, path, settings))


def _write(reader: pa.RecordBatchReader, path: Path, settings: Settings) -> None:
    first = next(reader, None)
    head = [] if first is None else [first]
    chosen = choose_encodings(pa.Table.from_batches(head, reader.schema), settings.dataset)
    encodings: Any = {name: encoding.lower() for name, encoding in chosen.encodings.items()}
    write_parquet(
        pa.RecordBatchReader.from_batches(reader.schema, chain(head, reader)),
        path,
        compression=compression(settings),
        max_row_group_size=settings.row_group_rows,
        column_dictionary_enabled=dict.fromkeys(chosen.encodings, False),
        column_encoding=encodings,
    )
