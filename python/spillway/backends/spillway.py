"""Spillway's own writer, through the same public class a user has: from Arrow, from dicts and from NDJSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from spillway import ParquetWriter, __version__
from spillway.backends.protocol import BATCHES_AND_TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Codec, Mode, Settings

__all__ = ["Spillway", "Spillway16MB", "SpillwayNdjson", "SpillwayRows"]


class Spillway:
    """Batches go to the writer one at a time; a table goes as one stream of batches."""

    name = "spillway"
    modes: frozenset[Mode] = BATCHES_AND_TABLE
    options: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._last: _Sink | None = None

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:
        self._last = _Sink(_open_writer(path, schema, settings, **self.options))
        return self._last

    def peak_account(self) -> dict[str, int]:
        """The most bytes the last writer held, by its own account."""
        if self._last is None:
            return {}
        return {"peak_tracked_bytes": self._last.peak_tracked_bytes}


class Spillway16MB(Spillway):
    """As `Spillway`, with ``memory_limit="16MB"``, whatever the row group."""

    name = "spillway-16mb"
    options: Mapping[str, str] = {"memory_limit": "16MB"}


class SpillwayRows:
    """`ParquetWriter.write_rows` for each chunk."""

    name = "spillway-rows"
    modes: frozenset[Mode] = frozenset({"rows", "rows-json"})

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Rows:
        return _Rows(_open_writer(path, schema, settings))


class SpillwayNdjson:
    """`ParquetWriter.write_ndjson` for each chunk."""

    name = "spillway-ndjson"
    modes: frozenset[Mode] = frozenset({"ndjson"})

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Lines:
        return _Lines(_open_writer(path, schema, settings))


def _open_writer(path: Path, schema: pa.Schema, settings: Settings, **options: Any) -> ParquetWriter:
    """The writer that a cell asks for, with more options that a backend stands for."""
    return ParquetWriter(
        path,
        schema,
        compression=cast("Codec", settings.codec),
        compression_level=settings.level,
        row_group_rows=settings.row_group_rows,
        threads=settings.threads,
        **options,
    )


class _Sink:
    def __init__(self, writer: ParquetWriter) -> None:
        self._writer = writer
        self.peak_tracked_bytes = 0

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        self._writer.write(data)

    def close(self) -> None:
        self._writer.close()
        self.peak_tracked_bytes = self._writer.result.peak_tracked_bytes


class _Rows:
    def __init__(self, writer: ParquetWriter) -> None:
        self._writer = writer

    def write(self, data: list[dict[str, Any]]) -> None:
        self._writer.write_rows(data)

    def close(self) -> None:
        self._writer.close()


class _Lines:
    def __init__(self, writer: ParquetWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._writer.write_ndjson(data)

    def close(self) -> None:
        self._writer.close()
