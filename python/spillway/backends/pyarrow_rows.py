"""pyarrow from dicts and from NDJSON, a chunk at a time."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.backends.pyarrow_options import compression

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings

__all__ = ["PyarrowNdjson", "PyarrowRows", "with_text_for_times"]


class PyarrowRows:
    """`pa.Table.from_pylist` with the schema. Rows out of JSON have times as text, which is cast."""

    name = "pyarrow-rows"
    modes: frozenset[Mode] = frozenset({"rows", "rows-json"})

    def version(self) -> str:
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Rows:
        return _Rows(path, schema, settings)


class PyarrowNdjson:
    """`pyarrow.json.read_json` with the schema, in one thread; times are read as text and cast."""

    name = "pyarrow-ndjson"
    modes: frozenset[Mode] = frozenset({"ndjson"})

    def version(self) -> str:
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Lines:
        return _Lines(path, schema, settings)


class _Tables:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._schema = schema
        self._text_schema = with_text_for_times(schema)
        self._settings = settings
        self._writer = pq.ParquetWriter(path, schema, **compression(settings))

    def _write_table(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=self._settings.row_group_rows)

    def close(self) -> None:
        self._writer.close()


class _Rows(_Tables):
    def write(self, data: list[dict[str, Any]]) -> None:
        if _has_text_for_times(data, self._schema):
            self._write_table(pa.Table.from_pylist(data, self._text_schema).cast(self._schema))
        else:
            self._write_table(pa.Table.from_pylist(data, self._schema))


class _Lines(_Tables):
    def write(self, data: bytes) -> None:
        from pyarrow import json

        read = json.ReadOptions(use_threads=self._settings.threads > 1)
        parse = json.ParseOptions(explicit_schema=self._text_schema)
        self._write_table(json.read_json(io.BytesIO(data), read, parse).cast(self._schema))


def with_text_for_times(schema: pa.Schema) -> pa.Schema:
    """`schema` with text where the rows out of JSON have it."""
    return pa.schema([field.with_type(pa.string()) if _is_time(field) else field for field in schema])


def _is_time(field: pa.Field[Any]) -> bool:
    return pa.types.is_temporal(field.type)


def _has_text_for_times(rows: list[dict[str, Any]], schema: pa.Schema) -> bool:
    times = [field.name for field in schema if _is_time(field)]
    return any(isinstance(row[name], str) for name in times for row in rows[:1])
