"""pyarrow: streaming as its documentation shows it, buffered, at its best settings, and from rows."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import Gathered, retained

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings, Sink
    from spillway.backends.tuned_encodings import EncodingChoice

_Codec = Literal["gzip", "brotli", "lz4", "zstd", "snappy", "none"]


class PyarrowStreaming:
    """`pq.ParquetWriter.write_batch` for each batch.

    In pyarrow 26, every call ends a row group, whatever its maximum size: the cell's row-group size is an
    upper bound that only a table reaches.
    """

    name = "pyarrow-streaming"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def version(self) -> str:
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Stream:
        return _Stream(path, schema, settings)


class PyarrowBuffered:
    """Collects all batches, then one `pq.write_table`. A table is written unchanged."""

    name = "pyarrow-buffered"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def version(self) -> str:
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        return Gathered(schema, settings, lambda table: _write_table(table, path, settings))


class PyarrowStreamingTuned:
    """Gathers batches into row groups of the cell's size, and uses `choose_encodings`."""

    name = "pyarrow-streaming-tuned"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def __init__(self) -> None:
        # It brings `pyarrow.compute`, which the other backends do without.
        from spillway.backends.tuned_encodings import choose_encodings

        self._choose = choose_encodings

    def version(self) -> str:
        return pa.__version__

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _RowGroups:
        return _RowGroups(path, schema, settings, self._choose)


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


class _Stream:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._row_group_rows = settings.row_group_rows
        self._writer = pq.ParquetWriter(path, schema, **_compression(settings))

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        if isinstance(data, pa.Table):
            self._writer.write_table(data, row_group_size=self._row_group_rows)
        else:
            self._writer.write_batch(data, row_group_size=self._row_group_rows)

    def close(self) -> None:
        self._writer.close()


def _write_table(table: pa.Table, path: Path, settings: Settings) -> None:
    pq.write_table(table, path, row_group_size=settings.row_group_rows, **_compression(settings))


class _RowGroups:
    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        settings: Settings,
        choose: Callable[[pa.Table, str], EncodingChoice],
    ) -> None:
        self._path = path
        self._schema = schema
        self._settings = settings
        self._choose = choose
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        if isinstance(data, pa.Table):
            self._write_row_groups(data)
            return
        self._gathered.append(retained(data, self._settings))
        self._gathered_rows += data.num_rows
        if self._gathered_rows >= self._settings.row_group_rows:
            self._write_gathered(keep_tail=True)

    def close(self) -> None:
        self._write_gathered(keep_tail=False)
        if self._writer is None:
            self._writer = self._open(self._schema.empty_table())
        self._writer.close()

    def _write_gathered(self, *, keep_tail: bool) -> None:
        if not self._gathered_rows:
            return
        table = pa.Table.from_batches(self._gathered, self._schema)
        size = self._settings.row_group_rows
        whole = table.num_rows - table.num_rows % size if keep_tail else table.num_rows
        self._write_row_groups(table.slice(0, whole))
        tail = table.slice(whole)
        self._gathered = tail.to_batches() if tail.num_rows else []
        self._gathered_rows = tail.num_rows

    def _write_row_groups(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._open(table.slice(0, self._settings.row_group_rows))
        self._writer.write_table(table, row_group_size=self._settings.row_group_rows)

    def _open(self, first_row_group: pa.Table) -> pq.ParquetWriter:
        chosen = self._choose(first_row_group, self._settings.dataset)
        return pq.ParquetWriter(
            self._path,
            self._schema,
            use_dictionary=chosen.dictionary,  # type: ignore[arg-type]  # the stub lacks the list of columns
            column_encoding=chosen.encodings or None,
            store_decimal_as_integer=True,
            **_compression(self._settings),
        )


class _Tables:
    def __init__(self, path: Path, schema: pa.Schema, settings: Settings) -> None:
        self._schema = schema
        self._text_schema = with_text_for_times(schema)
        self._settings = settings
        self._writer = pq.ParquetWriter(path, schema, **_compression(settings))

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
    """`schema` with text for columns that are text in JSON."""
    return pa.schema([field.with_type(pa.string()) if _is_time(field) else field for field in schema])


def _is_time(field: pa.Field[Any]) -> bool:
    return pa.types.is_temporal(field.type)


def _has_text_for_times(rows: list[dict[str, Any]], schema: pa.Schema) -> bool:
    times = [field.name for field in schema if _is_time(field)]
    return any(isinstance(row[name], str) for name in times for row in rows[:1])


class _Compression(TypedDict):
    """The keyword arguments of pyarrow's writers that choose the codec."""

    compression: _Codec
    compression_level: int | None


def _compression(settings: Settings) -> _Compression:
    """Pyarrow takes Parquet's names, but says "none" for no codec."""
    codec = "none" if settings.codec == "uncompressed" else settings.codec
    return {"compression": cast("_Codec", codec), "compression_level": settings.level}
