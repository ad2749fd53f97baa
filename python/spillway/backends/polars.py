"""polars, by `DataFrame.write_parquet`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pyarrow as pa

from spillway.backends.retain import own

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings

__all__ = ["Polars"]


class Polars:
    """A frame from Arrow, then one write; the conversion is part of the phase.

    Batches are collected, each as a frame, and concatenated at the end: the lazy sink that could take a
    stream (`scan_arrow_c_stream`) is marked unstable in polars 2.1.
    """

    name = "polars"
    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def version(self) -> str:
        return pl.__version__

    def threads_in_force(self) -> dict[str, int]:
        """The pool polars made when it was imported."""
        return {"polars": pl.thread_pool_size()}

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:
        return _Sink(path, schema, settings)


class _Sink:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._path = path
        self._schema = schema
        self._settings = settings
        self._frames: list[pl.DataFrame] = []

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        kept = data if isinstance(data, pa.Table) else own(data)
        self._frames.append(cast("pl.DataFrame", pl.from_arrow(kept)))

    def close(self) -> None:
        frames = self._frames or [cast("pl.DataFrame", pl.from_arrow(self._schema.empty_table()))]
        compression: Any = self._settings.codec
        pl.concat(frames).write_parquet(
            self._path,
            compression=compression,
            compression_level=self._settings.level,
            row_group_size=self._settings.row_group_rows,
        )
