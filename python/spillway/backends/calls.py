"""The code that writes as a backend does, for users whose rows it wrote best.

They are plain text, because reports are also built where the libraries are not installed. A test runs every
call and compares its file with the backend's, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.backends.protocol import Settings

_WIDTH = 76  # of a terminal, behind an indent
_SPILLWAY_LEVELS = {"zstd": 1, "gzip": 6, "brotli": 1}  # where none is given
_PYARROW_ROW_GROUP = 1 << 20  # pyarrow's own default, and Spillway's


def call_of(backend: str, mode: str, settings: Settings) -> str | None:
    """Python that writes `path` as the backend does; None for backends whose code does not fit a few lines.

    `table` is a `pyarrow.Table`, `batches` are record batches of `schema`, `chunks` are lists of dicts or
    bytes of NDJSON. `pa`, `pq`, `pl` and `pd` stand for pyarrow, pyarrow.parquet, polars
    and pandas.
    """
    lines = _CALLS.get((backend, "batches" if mode == "batches-retained" else mode))
    return None if lines is None else "\n".join(lines(_Options(settings)))


@dataclass(frozen=True)
class _Options:
    """The settings of a cell, as each library is told of them."""

    settings: Settings

    @property
    def codec(self) -> list[str]:
        level = self.settings.level
        named = [f'compression="{self.settings.codec}"']
        return named if level is None else [*named, f"compression_level={level}"]

    @property
    def spillway(self) -> list[str]:
        codec = self.codec
        usual = _SPILLWAY_LEVELS.get(self.settings.codec) == self.settings.level
        return [
            *(codec[:1] if usual else codec),
            *self._row_group("row_group_rows"),
        ]

    @property
    def pyarrow(self) -> list[str]:
        return [text.replace('"uncompressed"', '"none"') for text in self.codec]

    @property
    def pyarrow_size(self) -> list[str]:
        return self._row_group("row_group_size")

    @property
    def polars(self) -> list[str]:
        return [*self.codec, f"row_group_size={self.settings.row_group_rows}"]

    @property
    def arro3(self) -> list[str]:
        level = "" if self.settings.level is None else f"({self.settings.level})"
        return [
            f'compression="{self._raw_codec}{level}"',
            f"max_row_group_size={self.settings.row_group_rows}",
        ]

    @property
    def duckdb(self) -> list[str]:
        level = f", COMPRESSION_LEVEL {self.settings.level}" if self.settings.codec == "zstd" else ""
        return [
            f'codec = "FORMAT parquet, COMPRESSION {self._raw_codec}{level}"',
            f'size = "ROW_GROUP_SIZE {self.settings.row_group_rows}"',
            "duckdb.sql(f\"COPY (FROM reader) TO '{path}' ({codec}, {size})\")",
        ]

    @property
    def _raw_codec(self) -> str:
        return {"lz4": "lz4_raw"}.get(self.settings.codec, self.settings.codec)

    def _row_group(self, name: str) -> list[str]:
        rows = self.settings.row_group_rows
        return [] if rows == _PYARROW_ROW_GROUP else [f"{name}={rows}"]


def _call(head: str, arguments: Sequence[str], tail: str = "") -> list[str]:
    """A call on one line, or with a line for each argument."""
    line = f"{head}({', '.join(arguments)}){tail}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{head}(", *(f"    {argument}," for argument in arguments), f"){tail}"]


_Lines = list[str]


def _spillway_table(*more: str) -> Callable[[_Options], _Lines]:
    return lambda options: _call("spillway.write_parquet", ["table", "path", *options.spillway, *more])


def _spillway(write: str, item: str, items: str, *more: str) -> Callable[[_Options], _Lines]:
    return lambda options: [
        *_call("with spillway.ParquetWriter", ["path", "schema", *options.spillway, *more], " as writer:"),
        f"    for {item} in {items}:",
        f"        writer.{write}({item})",
    ]


def _pyarrow_table(options: _Options) -> _Lines:
    return _call("pq.write_table", ["table", "path", *options.pyarrow, *options.pyarrow_size])


def _pyarrow_batches(options: _Options) -> _Lines:
    return [
        *_call("with pq.ParquetWriter", ["path", "schema", *options.pyarrow], " as writer:"),
        "    for batch in batches:",
        f"        writer.write_batch({', '.join(['batch', *options.pyarrow_size])})",
    ]


def _pyarrow_rows(made: str) -> Callable[[_Options], _Lines]:
    return lambda options: [
        *_call("with pq.ParquetWriter", ["path", "schema", *options.pyarrow], " as writer:"),
        "    for chunk in chunks:",
        f"        table = {made}",
        f"        writer.write_table({', '.join(['table', *options.pyarrow_size])})",
    ]


def _pyarrow_tuned(options: _Options) -> _Lines:
    return [
        _CHOOSE,
        "",
        f'chosen = choose_encodings(table, "{options.settings.dataset}")',
        *_call(
            "pq.write_table",
            [
                *("table", "path", *options.pyarrow, *options.pyarrow_size),
                "use_dictionary=chosen.dictionary",
                "column_encoding=chosen.encodings or None",
                "store_decimal_as_integer=True",
            ],
        ),
    ]


def _arro3(source: str) -> Callable[[_Options], _Lines]:
    return lambda options: _call("arro3.io.write_parquet", [source, "path", *options.arro3])


def _arro3_tuned(source: str, first: str) -> Callable[[_Options], _Lines]:
    return lambda options: [
        _CHOOSE,
        "",
        f"first = pa.Table.from_batches({first})",
        f'chosen = choose_encodings(first, "{options.settings.dataset}").encodings',
        *_call(
            "arro3.io.write_parquet",
            [
                *(source, "path", *options.arro3),
                "column_dictionary_enabled=dict.fromkeys(chosen, False)",
                "column_encoding={name: each.lower() for name, each in chosen.items()}",
            ],
        ),
    ]


def _datafusion(options: _Options) -> _Lines:
    return [
        *_call(
            "options = datafusion.ParquetWriterOptions",
            [
                *(text.replace('"lz4"', '"lz4_raw"') for text in options.codec),
                f"max_row_group_size={options.settings.row_group_rows}",
                f"allow_single_file_parallelism={options.settings.threads > 1}",
            ],
        ),
        "config = datafusion.SessionConfig().with_target_partitions(1)",
        "frame = datafusion.SessionContext(config).from_arrow(table)",
        "frame.write_parquet(path, options)",
    ]


def _pandas(options: _Options) -> _Lines:
    return [
        "frame = table.to_pandas(types_mapper=pd.ArrowDtype)",
        *_call(
            "frame.to_parquet",
            [
                *("path", 'engine="pyarrow"', "index=False"),
                *(text.replace('"uncompressed"', "None") for text in options.codec),
                f"row_group_size={options.settings.row_group_rows}",
            ],
        ),
    ]


_CHOOSE = "from spillway.backends.tuned_encodings import choose_encodings"
_TEXT_FOR_TIMES = (
    "from spillway.backends.pyarrow import with_text_for_times",
    "",
    "read_as = with_text_for_times(schema)  # times are text in JSON",
)
_TABLE = "table = pa.Table.from_batches(batches)"
_READER = "pa.RecordBatchReader.from_batches(schema, batches)"
_LIMIT = 'memory_limit="16MB"'

_CALLS: dict[tuple[str, str], Callable[[_Options], _Lines]] = {
    ("spillway", "table"): _spillway_table(),
    ("spillway", "batches"): _spillway("write", "batch", "batches"),
    ("spillway-16mb", "table"): _spillway_table(_LIMIT),
    ("spillway-16mb", "batches"): _spillway("write", "batch", "batches", _LIMIT),
    ("spillway-rows", "rows"): _spillway("write_rows", "chunk", "chunks"),
    ("spillway-rows", "rows-json"): _spillway("write_rows", "chunk", "chunks"),
    ("spillway-ndjson", "ndjson"): _spillway("write_ndjson", "chunk", "chunks"),
    ("pyarrow-buffered", "table"): _pyarrow_table,
    ("pyarrow-buffered", "batches"): lambda options: [_TABLE, *_pyarrow_table(options)],
    ("pyarrow-streaming", "table"): _pyarrow_table,
    ("pyarrow-streaming", "batches"): _pyarrow_batches,
    ("pyarrow-streaming-tuned", "table"): _pyarrow_tuned,
    ("pyarrow-streaming-tuned", "batches"): lambda options: [
        f"{_TABLE}  # those of a row group",
        *_pyarrow_tuned(options),
    ],
    ("pyarrow-rows", "rows"): _pyarrow_rows("pa.Table.from_pylist(chunk, schema)"),
    ("pyarrow-rows", "rows-json"): lambda options: [
        *_TEXT_FOR_TIMES,
        *_pyarrow_rows("pa.Table.from_pylist(chunk, read_as).cast(schema)")(options),
    ],
    ("polars", "table"): lambda options: _call(
        "pl.from_arrow(table).write_parquet", ["path", *options.polars]
    ),
    ("polars", "batches"): lambda options: [
        "frame = pl.concat([pl.from_arrow(batch) for batch in batches])",
        *_call("frame.write_parquet", ["path", *options.polars]),
    ],
    ("duckdb", "table"): lambda options: ["reader = table.to_reader()", *options.duckdb],
    ("duckdb", "batches"): lambda options: [f"reader = {_READER}", *options.duckdb],
    ("arro3", "table"): _arro3("table"),
    ("arro3", "batches"): _arro3(_READER),
    ("arro3-tuned", "table"): _arro3_tuned("table", "table.to_batches()[:1]"),
    ("arro3-tuned", "batches"): _arro3_tuned(_READER, "batches[:1]"),
    ("datafusion", "table"): _datafusion,
    ("datafusion", "batches"): lambda options: [_TABLE, *_datafusion(options)],
    ("pandas", "table"): _pandas,
    ("pandas", "batches"): lambda options: [_TABLE, *_pandas(options)],
}
