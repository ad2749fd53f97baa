"""One file of the user's own, Parquet, Arrow IPC, CSV or NDJSON, as a stream of record batches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from spillway.datasets.text import TextOptions, Utf8Stream, refuse_binary, refuse_other_delimiter
from spillway.errors import CorruptFileError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedReader
    from pathlib import Path

__all__ = [
    "FORMATS",
    "TITLES",
    "Format",
    "RowStream",
    "UnknownFormatError",
    "explained",
    "open_rows",
    "recognise",
]

FORMATS = (
    "Parquet, Arrow IPC (file or stream), CSV (.csv, .tsv) and NDJSON (.ndjson, .jsonl, .json), "
    "these two also compressed (.gz, .zst, .bz2, .lz4)"
)

# The columns and types of a text file are inferred from its first block: hence a large one.
_TEXT_BLOCK_BYTES = 32 << 20
_PARQUET_BATCH_ROWS = 16_384
_HEAD_BYTES = 512

_BY_MAGIC = {b"PAR1": "parquet", b"ARROW1": "ipc-file", b"\xff\xff\xff\xff": "ipc-stream"}
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
_BY_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}


class RowStream(NamedTuple):
    """A file's rows, read as they are asked for.

    Attributes:
        name: For messages.
        schema: Of all batches.
        batches: Record batches of whatever size the file gives.
        rows: The number of rows; None if only reading to the end can tell.
    """

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int | None


class Format(NamedTuple):
    """The format of a file.

    Attributes:
        kind: "parquet", "ipc-file", "ipc-stream", "csv" or "ndjson".
        compression: Of the file as a whole, by Arrow's name, or None.
        suffix: Of its name, without that of the compression, in lower case.
        head: Its first bytes, decompressed.
    """

    kind: str
    compression: str | None
    suffix: str
    head: bytes

    @property
    def is_text(self) -> bool:
        """True for CSV and NDJSON."""
        return self.kind in {"csv", "ndjson"}


class UnknownFormatError(OptionError):
    """The file is of no known format."""


@contextmanager
def open_rows(
    path: Path, text: TextOptions | None = None, *, schema: pa.Schema | None = None
) -> Iterator[RowStream]:
    """Open a file of any known format, recognised by its first bytes, or by its suffix if it is text.

    Args:
        path: The file.
        text: Properties that a text file does not state itself.
        schema: Types for the columns of a text file that it names, where inferred ones would not do.

    Raises:
        OSError: The file cannot be read: `FileNotFoundError`, `PermissionError`, `IsADirectoryError`.
        CorruptFileError: The file is empty, truncated, damaged or not in its encoding; also raised by the
            iterator of batches.
        OptionError: The file is of no known format, or `text` is not for it.
    """
    text = text or TextOptions()
    form = recognise(path, text)
    with path.open("rb") as file:
        with explained(path):
            stream = _OPENERS[form.kind](_Opened(file, path, form, text, schema))
        yield stream._replace(batches=_explained_batches(path, stream.batches))


def recognise(path: Path, text: TextOptions) -> Format:
    """The format of a file, by its first bytes, or by its suffix if it is text.

    Raises:
        UnknownFormatError: It is of none that is known.
        CorruptFileError: It is empty, or not what its name says.
        OptionError: It is of a known format that cannot be read as it is, or `text` is not for it.
    """
    compression, head = _head(path)
    if not head:
        raise CorruptFileError(f"{path} is empty")
    inner = path.with_suffix("") if compression else path
    suffix = inner.suffix.lower()
    kind = _kind(path, suffix, head)
    if compression is not None and kind not in {"csv", "ndjson"}:
        raise OptionError(f"{path} is compressed as a whole, which only CSV and NDJSON may be: decompress it")
    form = Format(kind, compression, suffix, head)
    _check_text(path, form, text)
    return form


def _head(path: Path) -> tuple[str | None, bytes]:
    """The compression of a file, and its first bytes decompressed."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        compression = next((name for magic, name in _COMPRESSIONS.items() if head.startswith(magic)), None)
        if compression is None:
            return None, head
        file.seek(0)
        with explained(path):
            return compression, _decompressed(file, compression).read(_HEAD_BYTES)


def _decompressed(file: BufferedReader, compression: str) -> pa.NativeFile:
    return pa.CompressedInputStream(file, compression)  # type: ignore[arg-type]  # the keys of a dict


def _kind(path: Path, suffix: str, head: bytes) -> str:
    if head.startswith(b"PARE"):
        raise OptionError(f"{path} is an encrypted Parquet file; decrypt it first")
    by_content = next((kind for magic, kind in _BY_MAGIC.items() if head.startswith(magic)), None)
    by_suffix = _BY_SUFFIX.get(suffix)
    if by_content is not None:
        return by_content
    if by_suffix in {"parquet", "ipc"}:
        raise CorruptFileError(f"{path} is named {suffix}, but does not begin as such a file does")
    if by_suffix is not None:
        return by_suffix
    if head.lstrip().startswith(b"{"):
        return "ndjson"
    raise UnknownFormatError(f"{path} is of no known format; these are: {FORMATS}")


def _check_text(path: Path, form: Format, text: TextOptions) -> None:
    """Refuse text in another form, judged by its beginning, and options that are not for this file."""
    if text.delimiter is not None and form.kind != "csv":
        raise OptionError(f"--delimiter is for CSV; {path} is {TITLES[form.kind]}")
    if not form.is_text:
        if text.encoding is not None:
            raise OptionError(f"--encoding is for CSV and NDJSON; {path} is {TITLES[form.kind]}")
        return
    if text.encoding is None:
        refuse_binary(path, form.head)
    head = form.head.decode(text.encoding or "utf-8-sig", errors="replace").lstrip("\ufeff")
    if form.kind == "csv" and text.delimiter is None:
        refuse_other_delimiter(path, head, _delimiter(form, text))
    if form.kind == "ndjson" and head.lstrip().startswith("["):
        raise OptionError(
            f"{path} holds a JSON array; NDJSON is read, one object a line: "
            f"jq -c '.[]' FILE.json > FILE.ndjson"
        )


TITLES = {
    "parquet": "Parquet",
    "ipc-file": "Arrow IPC",
    "ipc-stream": "Arrow IPC",
    "csv": "CSV",
    "ndjson": "NDJSON",
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of Arrow about a file's content into one that names the file."""
    try:
        yield
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowSerializationError,
        UnicodeDecodeError,
    ) as error:
        raise CorruptFileError(f"{path} cannot be read: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        # Arrow's own: the file ended too early, or a page did not decompress.
        raise CorruptFileError(f"{path} cannot be read: {error}") from error


def _explained_batches(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with explained(path):
        yield from batches


class _Opened(NamedTuple):
    """An open file and its properties."""

    file: BufferedReader
    path: Path
    form: Format
    text: TextOptions
    schema: pa.Schema | None

    def utf8(self) -> Any:
        """A text file's bytes in UTF-8."""
        compression = self.form.compression
        source: Any = self.file if compression is None else _decompressed(self.file, compression)
        return pa.PythonFile(Utf8Stream(source, self.path, self.text.encoding), mode="r")


def _open_parquet(opened: _Opened) -> RowStream:
    source = pa.parquet.ParquetFile(opened.file)
    batches = source.iter_batches(_PARQUET_BATCH_ROWS)
    return RowStream(str(opened.path), source.schema_arrow, batches, source.metadata.num_rows)


def _open_ipc_file(opened: _Opened) -> RowStream:
    source = pa.ipc.open_file(pa.memory_map(str(opened.path)))
    batches = (source.get_batch(index) for index in range(source.num_record_batches))
    return RowStream(str(opened.path), source.schema, batches, _count_rows(source))


def _count_rows(source: pa.ipc.RecordBatchFileReader) -> int:
    rows: int = source.count_rows()  # type: ignore[attr-defined]  # not in the stubs yet
    return rows


def _open_ipc_stream(opened: _Opened) -> RowStream:
    source = pa.ipc.open_stream(opened.file)
    return RowStream(str(opened.path), source.schema, iter(source), None)


def _delimiter(form: Format, text: TextOptions) -> str:
    return text.delimiter or ("\t" if form.suffix == ".tsv" else ",")


def _open_csv(opened: _Opened) -> RowStream:
    types = {} if opened.schema is None else {field.name: field.type for field in opened.schema}
    source = pa.csv.open_csv(
        opened.utf8(),
        read_options=pa.csv.ReadOptions(block_size=_TEXT_BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(
            delimiter=_delimiter(opened.form, opened.text), newlines_in_values=True
        ),
        convert_options=pa.csv.ConvertOptions(column_types=types),
    )
    return RowStream(str(opened.path), source.schema, iter(source), None)


def _open_ndjson(opened: _Opened) -> RowStream:
    source = pa.json.open_json(
        opened.utf8(),
        read_options=pa.json.ReadOptions(block_size=_TEXT_BLOCK_BYTES),
        parse_options=pa.json.ParseOptions(explicit_schema=opened.schema),
    )
    return RowStream(str(opened.path), source.schema, iter(source), None)


_OPENERS: dict[str, Callable[[_Opened], RowStream]] = {
    "parquet": _open_parquet,
    "ipc-file": _open_ipc_file,
    "ipc-stream": _open_ipc_stream,
    "csv": _open_csv,
    "ndjson": _open_ndjson,
}
