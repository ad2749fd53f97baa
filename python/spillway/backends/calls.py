"""The code that writes as a backend does, for users whose rows it wrote best.

Text alone: reports are made where the libraries need not be installed. A test runs every call and compares
its file with the backend's, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.backends.protocol import Settings

__all__ = ["call_of"]

_PYARROW_ROW_GROUP = 1 << 20  # pyarrow's own default


def call_of(backend: str, mode: str, settings: Settings) -> str | None:
    """Python that writes `path` as the backend does; None for backends whose code does not fit a few lines.

    `table` is a `pyarrow.Table`, `batches` are record batches of `schema`, `chunks` are lists of dicts or
    bytes of NDJSON. `pa`, `pq` and `pl` stand for pyarrow, pyarrow.parquet and polars.
    """
    template = _TEMPLATES.get((backend, mode))
    return None if template is None else template.format(**_options(settings))


def _options(settings: Settings) -> dict[str, str]:
    """What a cell fixes, as each library is told."""
    codec, level, size = settings.codec, settings.level, settings.row_group_rows
    named = f'compression="{codec}"' + ("" if level is None else f", compression_level={level}")
    raw = {"lz4": "lz4_raw"}.get(codec, codec)
    group = "" if size == _PYARROW_ROW_GROUP else f", row_group_size={size}"
    return {
        "spillway": named
        + ("" if size == _PYARROW_ROW_GROUP else f", row_group_rows={size}")
        + ("" if settings.threads == 1 else f", threads={settings.threads}"),
        "pyarrow": named.replace('"uncompressed"', '"none"'),
        "group": group,
        "polars": f"{named}, row_group_size={size}",
        "duckdb": f"FORMAT parquet, COMPRESSION {raw}, ROW_GROUP_SIZE {size}"
        + ("" if level is None else f", COMPRESSION_LEVEL {level}"),
        "arro3": f'compression="{raw}{"" if level is None else f"({level})"}", max_row_group_size={size}',
        "dataset": settings.dataset,
    }


_SPILLWAY = """\
with spillway.ParquetWriter(path, schema, {{spillway}}{limit}) as writer:
    for {item} in {items}:
        writer.{write}({item})"""
_LIMIT = ', memory_limit="16MB"'


def _spillway(write: str, item: str, items: str, limit: str = "") -> str:
    return _SPILLWAY.format(write=write, item=item, items=items, limit=limit)


_PYARROW = """\
with pq.ParquetWriter(path, schema, {pyarrow}) as writer:
    for"""
_PYARROW_TUNED = """\
from spillway.backends.encodings import choose_encodings

chosen = choose_encodings(table, "{dataset}")
pq.write_table(
    table,
    path,
    {pyarrow}{group},
    use_dictionary=chosen.dictionary,
    column_encoding=chosen.encodings or None,
    store_decimal_as_integer=True,
)"""
_ARRO3_TUNED = """\
from spillway.backends.encodings import choose_encodings

encodings = choose_encodings(pa.Table.from_batches({first}), "{{dataset}}").encodings
arro3.io.write_parquet(
    {stream},
    path,
    {{arro3}},
    column_dictionary_enabled=dict.fromkeys(encodings, False),
    column_encoding={{{{name: encoding.lower() for name, encoding in encodings.items()}}}},
)"""
_TABLE_OF_BATCHES = "table = pa.Table.from_batches(batches)  # as many as make a row group\n"
_READER = "pa.RecordBatchReader.from_batches(schema, batches)"
_COPY = "duckdb.sql(f\"COPY (FROM reader) TO '{{path}}' ({duckdb})\")"
_TEXT_FOR_TIMES = """\
from spillway.backends.pyarrow_rows import with_text_for_times

read_as = with_text_for_times(schema)  # times are text in JSON
"""

_TEMPLATES = {
    ("native", "table"): "spillway.write_parquet(table, path, {spillway})",
    ("native", "batches"): _spillway("write", "batch", "batches"),
    ("native-16mb", "table"): f"spillway.write_parquet(table, path, {{spillway}}{_LIMIT})",
    ("native-16mb", "batches"): _spillway("write", "batch", "batches", _LIMIT),
    ("native-rows", "rows"): _spillway("write_rows", "chunk", "chunks"),
    ("native-rows", "rows-json"): _spillway("write_rows", "chunk", "chunks"),
    ("native-ndjson", "ndjson"): _spillway("write_ndjson", "chunk", "chunks"),
    ("pyarrow-buffered", "table"): "pq.write_table(table, path, {pyarrow}{group})",
    ("pyarrow-buffered", "batches"): (
        "table = pa.Table.from_batches(batches)\npq.write_table(table, path, {pyarrow}{group})"
    ),
    ("pyarrow-streaming", "table"): "pq.write_table(table, path, {pyarrow}{group})",
    (
        "pyarrow-streaming",
        "batches",
    ): f"{_PYARROW} batch in batches:\n        writer.write_batch(batch{{group}})",
    ("pyarrow-streaming-tuned", "table"): _PYARROW_TUNED,
    ("pyarrow-streaming-tuned", "batches"): _TABLE_OF_BATCHES + _PYARROW_TUNED,
    ("pyarrow-rows", "rows"): (
        f"{_PYARROW} chunk in chunks:\n"
        "        writer.write_table(pa.Table.from_pylist(chunk, schema){group})"
    ),
    ("pyarrow-rows", "rows-json"): (
        f"{_TEXT_FOR_TIMES}{_PYARROW} chunk in chunks:\n"
        "        writer.write_table(pa.Table.from_pylist(chunk, read_as).cast(schema){group})"
    ),
    ("polars", "table"): "pl.from_arrow(table).write_parquet(path, {polars})",
    ("polars", "batches"): (
        "frame = pl.concat([pl.from_arrow(batch) for batch in batches])\nframe.write_parquet(path, {polars})"
    ),
    ("duckdb", "table"): f"reader = table.to_reader()\n{_COPY}",
    ("duckdb", "batches"): f"reader = {_READER}\n{_COPY}",
    ("arro3", "table"): "arro3.io.write_parquet(table, path, {arro3})",
    ("arro3", "batches"): f"arro3.io.write_parquet({_READER}, path, {{arro3}})",
    ("arro3-tuned", "table"): _ARRO3_TUNED.format(first="table.to_batches()[:1]", stream="table"),
    ("arro3-tuned", "batches"): _ARRO3_TUNED.format(first="batches[:1]", stream=_READER),
}
