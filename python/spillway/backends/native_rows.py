"""Spillway's own writer, from dicts and from NDJSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway import __version__
from spillway.backends.native import open_writer

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway import ParquetWriter
    from spillway.backends.protocol import Mode, Settings

__all__ = ["NativeNdjson", "NativeRows"]


class NativeRows:
    """`ParquetWriter.write_rows` for each chunk."""

    name = "native-rows"
    modes: frozenset[Mode] = frozenset({"rows", "rows-json"})

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Rows:
        return _Rows(open_writer(path, schema, settings))


class NativeNdjson:
    """`ParquetWriter.write_ndjson` for each chunk."""

    name = "native-ndjson"
    modes: frozenset[Mode] = frozenset({"ndjson"})

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Lines:
        return _Lines(open_writer(path, schema, settings))


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
