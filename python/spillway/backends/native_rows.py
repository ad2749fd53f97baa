"""Spillway's own writer, from dicts and from NDJSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from spillway import ParquetWriter, __version__

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Codec, Mode, Settings

__all__ = ["NativeNdjson", "NativeRows"]


class NativeRows:
    """`ParquetWriter.write_rows` for each chunk."""

    name = "native-rows"
    modes: frozenset[Mode] = frozenset({"rows", "rows-json"})

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Rows:
        return _Rows(_writer(path, schema, settings))


class NativeNdjson:
    """`ParquetWriter.write_ndjson` for each chunk."""

    name = "native-ndjson"
    modes: frozenset[Mode] = frozenset({"ndjson"})

    def version(self) -> str:
        return __version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Lines:
        return _Lines(_writer(path, schema, settings))


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


def _writer(path: Path, schema: pa.Schema, settings: Settings) -> ParquetWriter:
    return ParquetWriter(
        path,
        schema,
        compression=cast("Codec", settings.codec),
        compression_level=settings.level,
        row_group_rows=settings.row_group_rows,
        threads=settings.threads,
    )
