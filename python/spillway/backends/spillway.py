"""Spillway's own writer, through the same public class a user has: from Arrow, from dicts and from NDJSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from spillway import ParquetWriter, __version__, write_parquet
from spillway.backends.protocol import BATCHES_AND_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings
    from spillway.types import WriterKeywords
    from spillway.writer import WriteResult


class Spillway:
    """Batches go to the writer one at a time; a table goes to `write_parquet`."""

    name = "spillway"
    modes: frozenset[Mode] = BATCHES_AND_TABLE
    options: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._last: _Sink | None = None

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:
        self._last = _Sink(path, schema, _keywords(settings, **self.options))
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

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Parts:
        writer = _open_writer(path, schema, settings)
        return _Parts(writer, writer.write_rows)


class SpillwayNdjson:
    """`ParquetWriter.write_ndjson` for each chunk."""

    name = "spillway-ndjson"
    modes: frozenset[Mode] = frozenset({"ndjson"})

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Parts:
        writer = _open_writer(path, schema, settings)
        return _Parts(writer, writer.write_ndjson)


def _open_writer(path: Path, schema: pa.Schema, settings: Settings) -> ParquetWriter:
    """The writer that a cell asks for."""
    return ParquetWriter(path, schema, **_keywords(settings))


def _keywords(settings: Settings, **options: Any) -> WriterKeywords:
    """The options that a cell asks for, with more that a backend stands for."""
    return cast(
        "WriterKeywords",
        {
            "compression": settings.codec,
            "compression_level": settings.level,
            "row_group_rows": settings.row_group_rows,
            # More than one are found by affinity, as users have it: small files have no helpers.
            "threads": 1 if settings.threads == 1 else None,
            **options,
        },
    )


class _Sink:
    def __init__(self, path: Path, schema: pa.Schema, options: WriterKeywords) -> None:
        self._path, self._schema, self._options = path, schema, options
        self._writer: ParquetWriter | None = None
        self._result: WriteResult | None = None

    @property
    def peak_tracked_bytes(self) -> int:
        return 0 if self._result is None else self._result.peak_tracked_bytes

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        if isinstance(data, pa.Table):
            self._result = write_parquet(data, self._path, schema=self._schema, **self._options)
        else:
            self._open().write(data)

    def close(self) -> None:
        if self._result is None:
            writer = self._open()
            writer.close()
            self._result = writer.result

    def _open(self) -> ParquetWriter:
        if self._writer is None:
            self._writer = ParquetWriter(self._path, self._schema, **self._options)
        return self._writer


class _Parts:
    """A file whose rows come in parts, by a method of the writer."""

    def __init__(self, writer: ParquetWriter, write: Callable[[Any], object]) -> None:
        self._writer = writer
        self.write = write

    def close(self) -> None:
        self._writer.close()
