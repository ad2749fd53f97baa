"""polars, by `DataFrame.write_parquet`: from Arrow, from dicts and from NDJSON."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pyarrow as pa

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import retained

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings


class _Library:
    def version(self) -> str:
        return pl.__version__

    def threads_in_force(self) -> dict[str, int]:
        """The pool polars made when it was imported."""
        return {"polars": pl.thread_pool_size()}


class Polars(_Library):
    """A frame from Arrow, then one write; the conversion is part of the phase.

    Batches are collected, each as a frame, and concatenated at the end: the lazy sink that could take a
    stream (`scan_arrow_c_stream`) is marked unstable in polars 2.1.
    """

    name = "polars"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:
        return _Sink(path, schema, settings)


class PolarsRows(_Library):
    """`polars.DataFrame` with the schema. Rows out of JSON have times as text, which is parsed."""

    name = "polars-rows"
    modes: frozenset[Mode] = frozenset({"rows", "rows-json"})

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Rows:
        return _Rows(path, schema, settings)


class PolarsNdjson(_Library):
    """`polars.read_ndjson` with the schema; times and integers below 32 bits are cast."""

    name = "polars-ndjson"
    modes: frozenset[Mode] = frozenset({"ndjson"})

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Lines:
        return _Lines(path, schema, settings)


class _Sink:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._path = path
        self._schema = schema
        self._settings = settings
        self._frames: list[pl.DataFrame] = []

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        kept = data if isinstance(data, pa.Table) else retained(data, self._settings)
        self._frames.append(cast("pl.DataFrame", pl.from_arrow(kept)))

    def close(self) -> None:
        frames = self._frames or [cast("pl.DataFrame", pl.from_arrow(self._schema.empty_table()))]
        _write(frames, self._path, self._settings)


class _Frames:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._path = path
        self._schema = cast("pl.DataFrame", pl.from_arrow(schema.empty_table())).schema
        self._settings = settings
        self._frames: list[pl.DataFrame] = []

    def _keep(self, frame: pl.DataFrame) -> None:
        self._frames.append(_with_times(frame, self._schema).cast(self._schema))

    def close(self) -> None:
        _write(self._frames or [self._schema.to_frame()], self._path, self._settings)


class _Rows(_Frames):
    def write(self, data: list[dict[str, Any]]) -> None:
        schema = {
            name: pl.String if kind.is_temporal() and data and isinstance(data[0][name], str) else kind
            for name, kind in self._schema.items()
        }
        self._keep(pl.DataFrame(data, schema=schema))


class _Lines(_Frames):
    def write(self, data: bytes) -> None:
        schema = {
            name: pl.String if kind.is_temporal() else pl.Int64 if kind in {pl.Int8, pl.Int16} else kind
            for name, kind in self._schema.items()
        }
        self._keep(pl.read_ndjson(io.BytesIO(data), schema=schema))


def _write(frames: list[pl.DataFrame], path: Path, settings: Settings) -> None:
    compression: Any = settings.codec
    pl.concat(frames).write_parquet(
        path,
        compression=compression,
        compression_level=settings.level,
        row_group_size=settings.row_group_rows,
    )


def _with_times(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The frame with times where it has their text."""
    found = frame.schema
    return frame.with_columns(
        pl.col(name).str.to_datetime(time_unit=kind.time_unit, time_zone=kind.time_zone)
        for name, kind in schema.items()
        if isinstance(kind, pl.Datetime) and found[name] == pl.String
    )
