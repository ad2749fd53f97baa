"""The libraries whose settings are searched: what each lets its user choose, and the code that writes so.

The measured code is the printed code: a process runs it as a user would paste it, with `table` and `path`
set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import fill, indent
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from spillway._wording import and_joined
from spillway.backends.tuned_encodings import leaf_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

DICTIONARY = "DICTIONARY"
LIBRARYS_OWN = "AUTO"
"""The encoding that the library chooses by itself."""


@dataclass(frozen=True, order=True)
class Codec:
    """A codec, by Parquet's name in lower case, and its level if it has one."""

    name: str
    level: int | None = None

    def __str__(self) -> str:
        """The codec in words."""
        return self.name if self.level is None else f"{self.name} {self.level}"


@dataclass(frozen=True)
class ColumnChoice:
    """The settings of one column: its codec, and an encoding by Parquet's name, or one of those above."""

    codec: Codec
    encoding: str


@dataclass(frozen=True)
class Choice:
    """The settings of a file.

    Attributes:
        codec: For all columns, if `columns` is empty.
        columns: The settings of every column, for libraries that have them.
        row_group_rows: Rows of a row group; the library's default for None.
        page_bytes: Bytes of a page; the library's default for None.
    """

    codec: Codec
    columns: Mapping[str, ColumnChoice] = field(default_factory=dict)
    row_group_rows: int | None = None
    page_bytes: int | None = None

    def __str__(self) -> str:
        """The settings in words."""
        codecs = sorted({each.codec for each in self.columns.values()}) or [self.codec]
        words = [and_joined([str(each) for each in codecs])]
        if self.columns:
            words.append("encodings by column")
        if self.row_group_rows is not None:
            words.append(f"row groups of {self.row_group_rows:,}")
        if self.page_bytes is not None:
            words.append(f"pages of {self.page_bytes >> 10:,} KiB")
        return ", ".join(words)


_WIDTH = 92
_KIB = 1 << 10


class Writer(Protocol):
    """A library's writer.

    Attributes:
        package: The distribution that has to be installed.
        codecs: Codecs that are tried.
        of_columns: Codecs to try column by column; empty if the library has no such settings.
        row_groups: Row-group sizes to try in addition to the library's default.
        pages: Page sizes to try in addition to the library's default.
    """

    package: str
    codecs: tuple[Codec, ...]
    of_columns: tuple[Codec, ...]
    row_groups: tuple[int, ...]
    pages: tuple[int, ...]

    def default(self) -> str:
        """The code that writes with the library's defaults."""

    def code(self, schema: pa.Schema, choice: Choice) -> str:
        """The code that writes so."""

    def encodings(self, kind: pa.DataType) -> tuple[str, ...]:
        """The encodings to try for a column, of those that every reader has; the library's default first."""


_FILE_CODECS = (Codec("zstd", 1), Codec("zstd", 3), Codec("zstd", 6), Codec("snappy"), Codec("lz4"))
_COLUMN_CODECS = (Codec("zstd", 1), Codec("zstd", 3), Codec("lz4"), Codec("snappy"), Codec("uncompressed"))


class _Pyarrow(Writer):
    package = "pyarrow"
    codecs = _FILE_CODECS
    of_columns = _COLUMN_CODECS
    row_groups = (128_000, 500_000)
    pages = (256 * _KIB, 4096 * _KIB)

    def default(self) -> str:
        return _python("import pyarrow.parquet as pq", "pq.write_table", ["table", "path"])

    def code(self, schema: pa.Schema, choice: Choice) -> str:
        arguments = ["table", "path"]
        if choice.columns:
            leaves = _leaves(schema)
            of = {path: choice.columns[name] for name, paths in leaves.items() for path in paths}
            levels = {path: each.codec.level for path, each in of.items() if each.codec.level is not None}
            encodings = {path: each.encoding for path, each in of.items() if each.encoding != DICTIONARY}
            dictionary = [path for path in of if path not in encodings]
            arguments += [
                f"compression={_mapping({path: _pyarrow_name(each.codec) for path, each in of.items()})}",
                f"compression_level={_mapping(levels) if levels else None}",
                f"use_dictionary={_list(dictionary) if encodings else True}",
                *([f"column_encoding={_mapping(encodings)}"] if encodings else []),
                *(["store_decimal_as_integer=True"] if _has_small_decimals(schema) else []),
            ]
        else:
            arguments.append(f"compression={_quoted(_pyarrow_name(choice.codec))}")
            if choice.codec.level is not None:
                arguments.append(f"compression_level={choice.codec.level}")
        arguments += _sizes(choice, "row_group_size", "data_page_size")
        return _python("import pyarrow.parquet as pq", "pq.write_table", arguments)

    def encodings(self, kind: pa.DataType) -> tuple[str, ...]:
        return (DICTIONARY, *_plain_and_deltas(kind))


class _Polars(Writer):
    package = "polars"
    codecs = (*_FILE_CODECS, Codec("zstd", 9))
    of_columns = ()
    row_groups = (128_000, 500_000)
    pages = (256 * _KIB, 4096 * _KIB)

    def default(self) -> str:
        return _python("import polars as pl", "pl.from_arrow(table).write_parquet", ["path"])

    def code(self, schema: pa.Schema, choice: Choice) -> str:  # noqa: ARG002 - it has no settings of columns
        arguments = ["path", f"compression={_quoted(choice.codec.name)}"]
        if choice.codec.level is not None:
            arguments.append(f"compression_level={choice.codec.level}")
        arguments += _sizes(choice, "row_group_size", "data_page_size")
        return _python("import polars as pl", "pl.from_arrow(table).write_parquet", arguments)

    def encodings(self, kind: pa.DataType) -> tuple[str, ...]:  # noqa: ARG002 - it has none to choose
        return (LIBRARYS_OWN,)


class _DuckDB(Writer):
    package = "duckdb"
    codecs = (Codec("zstd", 1), Codec("zstd", 3), Codec("zstd", 6), Codec("snappy"), Codec("lz4_raw"))
    of_columns = ()
    row_groups = (40_960, 491_520)
    pages = ()

    def default(self) -> str:
        return self._copy([])

    def code(self, schema: pa.Schema, choice: Choice) -> str:  # noqa: ARG002 - it has no settings of columns
        level = [] if choice.codec.level is None else [f"COMPRESSION_LEVEL {choice.codec.level}"]
        rows = [] if choice.row_group_rows is None else [f"ROW_GROUP_SIZE {choice.row_group_rows}"]
        return self._copy([f"COMPRESSION {choice.codec.name}", *level, *rows])

    def encodings(self, kind: pa.DataType) -> tuple[str, ...]:  # noqa: ARG002 - it has none to choose
        return (LIBRARYS_OWN,)

    def _copy(self, options: list[str]) -> str:
        listed = ", ".join(["FORMAT parquet", *options])
        return (
            "import duckdb\n\n"
            "rows = table  # in SQL, table is a keyword\n"
            f"duckdb.sql(f\"COPY (FROM rows) TO '{{path}}' ({listed})\")\n"
        )


class _Arro3(Writer):
    package = "arro3-io"
    codecs = _FILE_CODECS
    of_columns = _COLUMN_CODECS
    row_groups = (128_000, 500_000)
    pages = (256 * _KIB, 4096 * _KIB)

    def default(self) -> str:
        return _python("import arro3.io", "arro3.io.write_parquet", ["table", "path"])

    def code(self, schema: pa.Schema, choice: Choice) -> str:
        arguments = ["table", "path"]
        # arrow-rs has other paths for the leaves of lists than pyarrow: those stay as they are by default.
        flat = [name for name in schema.names if not pa.types.is_nested(schema.field(name).type)]
        of = {name: choice.columns[name] for name in flat if name in choice.columns}
        if choice.columns:
            usual = next(iter(of.values())).codec if of else choice.codec
            codecs = {name: _arrow_rs_name(each.codec) for name, each in of.items()}
            encodings = {
                name: each.encoding.lower() for name, each in of.items() if each.encoding != DICTIONARY
            }
            arguments += [
                f"compression={_quoted(_arrow_rs_name(usual))}",
                f"column_compression={_mapping(codecs)}",
            ]
            if encodings:
                arguments += [
                    f"column_dictionary_enabled={_mapping(dict.fromkeys(encodings, False))}",
                    f"column_encoding={_mapping(encodings)}",
                ]
        else:
            arguments.append(f"compression={_quoted(_arrow_rs_name(choice.codec))}")
        arguments += _sizes(choice, "max_row_group_size", "data_page_size_limit")
        return _python("import arro3.io", "arro3.io.write_parquet", arguments)

    def encodings(self, kind: pa.DataType) -> tuple[str, ...]:
        if pa.types.is_decimal(kind):
            return (DICTIONARY, "PLAIN")
        return (DICTIONARY, *_plain_and_deltas(kind))


class _Spillway(Writer):
    package = "spillway"
    codecs = _FILE_CODECS
    of_columns = _COLUMN_CODECS
    row_groups = (128_000, 500_000)
    pages = (64 * _KIB, 1024 * _KIB)

    def default(self) -> str:
        return _python("import spillway", "spillway.write_parquet", ["table", "path"])

    def code(self, schema: pa.Schema, choice: Choice) -> str:
        arguments = ["table", "path"]
        if choice.columns:
            of = {path: choice.columns[name] for name, paths in _leaves(schema).items() for path in paths}
            own = LIBRARYS_OWN
            encodings = {path: each.encoding.lower() for path, each in of.items() if each.encoding != own}
            codecs = {path: _with_level(each.codec.name, each.codec) for path, each in of.items()}
            arguments.append(f"compression={_mapping(codecs)}")
            arguments += [f"encoding={_mapping(encodings)}"] if encodings else []
        else:
            arguments.append(f"compression={_quoted(choice.codec.name)}")
            if choice.codec.level is not None:
                arguments.append(f"compression_level={choice.codec.level}")
        arguments += _sizes(choice, "row_group_rows", "page_bytes")
        return _python("import spillway", "spillway.write_parquet", arguments)

    def encodings(self, kind: pa.DataType) -> tuple[str, ...]:
        dictionary = [] if pa.types.is_boolean(kind) else [DICTIONARY]
        return (LIBRARYS_OWN, *dictionary, *_plain_and_deltas(kind))


WRITERS: dict[str, Writer] = {
    "pyarrow": _Pyarrow(),
    "polars": _Polars(),
    "duckdb": _DuckDB(),
    "arro3": _Arro3(),
    "spillway": _Spillway(),
}
"""The writers by the names that ``--for`` takes."""


def _plain_and_deltas(kind: pa.DataType) -> tuple[str, ...]:
    """The encodings beside a dictionary; BYTE_STREAM_SPLIT is not among them, since Spark refuses it."""
    types = pa.types
    if (
        types.is_nested(kind)
        or types.is_boolean(kind)
        or types.is_floating(kind)
        or types.is_dictionary(kind)
    ):
        return ("PLAIN",)
    if types.is_integer(kind) or types.is_temporal(kind):
        return ("PLAIN", "DELTA_BINARY_PACKED")
    if (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    ):
        return ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
    return ("PLAIN",)


def _leaves(schema: pa.Schema) -> dict[str, list[str]]:
    """The paths of each column's leaves."""
    return {field.name: leaf_paths(field.name, field.type) for field in schema}


def _has_small_decimals(schema: pa.Schema) -> bool:
    """True if pyarrow may store decimals as integers, which others do by themselves."""
    return any(pa.types.is_decimal(field.type) and field.type.precision <= 18 for field in schema)  # noqa: PLR2004 - digits of 64 bits


def _sizes(choice: Choice, rows: str, page: str) -> list[str]:
    return [
        *([] if choice.row_group_rows is None else [f"{rows}={choice.row_group_rows}"]),
        *([] if choice.page_bytes is None else [f"{page}={choice.page_bytes}"]),
    ]


def _pyarrow_name(codec: Codec) -> str:
    return "none" if codec.name == "uncompressed" else codec.name


def _arrow_rs_name(codec: Codec) -> str:
    """The name of a codec in arrow-rs, whose "lz4" is the one that Hadoop framed."""
    return _with_level({"lz4": "lz4_raw"}.get(codec.name, codec.name), codec)


def _with_level(name: str, codec: Codec) -> str:
    return name if codec.level is None else f"{name}({codec.level})"


def _python(imported: str, function: str, arguments: list[str]) -> str:
    """An import and a call, on one line or with a line for each argument."""
    call = f"{function}({', '.join(arguments)})"
    if len(call) > _WIDTH or "\n" in call:
        call = function + _block("(", arguments, ")")
    return f"{imported}\n\n{call}\n"


def _block(start: str, items: list[str], end: str) -> str:
    """Items between brackets, each on lines of its own."""
    body = indent(",\n".join(items), "    ")
    return f"{start}\n{body},\n{end}"


def _quoted(text: object) -> str:
    """A literal, with double quotes where it is a plain text."""
    is_plain = isinstance(text, str) and text.isprintable() and not set(text) & {'"', "\\"}
    return f'"{text}"' if is_plain else repr(text)


def _list(names: list[str]) -> str:
    """A list of texts, filled line by line where no blank within a name could end one."""
    items = list(map(_quoted, names))
    body = ", ".join(items)
    if len(body) <= _WIDTH // 2:
        return f"[{body}]"
    if any(" " in name for name in names):
        return _block("[", items, "]")
    filled = fill(body, _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return _block("[", [filled], "]")


def _mapping(values: Mapping[str, object]) -> str:
    """A dict, with the names that share a value together."""
    by_value: dict[object, list[str]] = {}
    for name, value in values.items():
        by_value.setdefault(value, []).append(name)
    return _block("{", [_pair(names, _quoted(value)) for value, names in by_value.items()], "}")


def _pair(names: list[str], value: str) -> str:
    return f"{_quoted(names[0])}: {value}" if len(names) == 1 else f"**dict.fromkeys({_list(names)}, {value})"
