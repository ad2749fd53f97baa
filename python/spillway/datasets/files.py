"""The user's own rows: Parquet, Arrow IPC, CSV and NDJSON files as streams of record batches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from spillway.errors import CorruptFileError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedReader
    from pathlib import Path

__all__ = ["FORMATS", "RowStream", "open_rows"]

FORMATS = "Parquet, Arrow IPC (file or stream), CSV (.csv, .tsv), NDJSON (.ndjson, .jsonl, .json)"

# The columns and types of a text file are inferred from its first block: hence a large one.
_TEXT_BLOCK_BYTES = 32 << 20
_PARQUET_BATCH_ROWS = 16_384

_BY_MAGIC = {b"PAR1": "parquet", b"ARRO": "ipc-file", b"\xff\xff\xff\xff": "ipc-stream"}
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
        rows: How many rows there are; None if only reading to the end can tell.
    """

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int | None


@contextmanager
def open_rows(path: Path) -> Iterator[RowStream]:
    """Open a file of any known format, recognised by its first bytes, or by its suffix if it is text.

    Raises:
        OSError: The file cannot be read: `FileNotFoundError`, `PermissionError`, `IsADirectoryError`.
        CorruptFileError: The file is empty, truncated or damaged; also raised by the iterator of batches.
        OptionError: The file is of no known format.
    """
    opener = _OPENERS[_recognise(path)]
    with path.open("rb") as file:
        with _explained(path):
            stream = opener(file, path)
        yield stream._replace(batches=_explained_batches(path, stream.batches))


def _recognise(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(512)
    if not head:
        raise CorruptFileError(f"{path} is empty")
    if head.startswith(b"PARE"):
        raise OptionError(f"{path} is an encrypted Parquet file; decrypt it first")
    by_content, by_suffix = _BY_MAGIC.get(head[:4]), _BY_SUFFIX.get(path.suffix.lower())
    if by_content is not None:
        return by_content
    if by_suffix in {"parquet", "ipc"}:
        raise CorruptFileError(f"{path} is named {path.suffix}, but does not begin as such a file does")
    if by_suffix is not None:
        return by_suffix
    if head.lstrip().startswith(b"{"):
        return "ndjson"
    raise OptionError(f"{path} is of no known format; these are: {FORMATS}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what Arrow says of a file's content into an error that names the file."""
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
    with _explained(path):
        yield from batches


def _open_parquet(file: BufferedReader, path: Path) -> RowStream:
    source = pa.parquet.ParquetFile(file)
    return RowStream(
        str(path), source.schema_arrow, source.iter_batches(_PARQUET_BATCH_ROWS), source.metadata.num_rows
    )


def _open_ipc_file(_file: BufferedReader, path: Path) -> RowStream:
    source = pa.ipc.open_file(pa.memory_map(str(path)))
    batches = (source.get_batch(index) for index in range(source.num_record_batches))
    return RowStream(str(path), source.schema, batches, _count_rows(source))


def _count_rows(source: pa.ipc.RecordBatchFileReader) -> int:
    rows: int = source.count_rows()  # type: ignore[attr-defined]  # not in the stubs yet
    return rows


def _open_ipc_stream(file: BufferedReader, path: Path) -> RowStream:
    source = pa.ipc.open_stream(file)
    return RowStream(str(path), source.schema, iter(source), None)


def _open_csv(file: BufferedReader, path: Path) -> RowStream:
    source = pa.csv.open_csv(
        file,
        read_options=pa.csv.ReadOptions(block_size=_TEXT_BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(
            delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True
        ),
    )
    return RowStream(str(path), source.schema, iter(source), None)


def _open_ndjson(file: BufferedReader, path: Path) -> RowStream:
    source = pa.json.open_json(file, read_options=pa.json.ReadOptions(block_size=_TEXT_BLOCK_BYTES))
    return RowStream(str(path), source.schema, iter(source), None)


_OPENERS: dict[str, Callable[[BufferedReader, Path], RowStream]] = {
    "parquet": _open_parquet,
    "ipc-file": _open_ipc_file,
    "ipc-stream": _open_ipc_stream,
    "csv": _open_csv,
    "ndjson": _open_ndjson,
}
