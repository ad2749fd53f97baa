"""Slices of NDJSON: whole lines of one file, and the places of the bad ones among them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import OptionError, RowError
from spillway.reading.files import explained
from spillway.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from spillway.reading.text import Readable

__all__ = ["BadLines", "Slice", "batches_of", "slices"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOLD = 5
_INFERRED = (
    "; its type was inferred from the first lines: give it with --schema FILE, or leave such lines out with "
    "--on-error skip"
)
_GIVEN = "; leave such lines out with --on-error skip"


class Slice(NamedTuple):
    """Whole lines of a file.

    Attributes:
        path: The file.
        data: The lines.
        before: Lines of the file before these.
    """

    path: Path
    data: bytes
    before: int


def slices(file: Readable, path: Path, size: int, longest: int) -> Iterator[Slice]:
    """Cut a file into slices of whole lines; the last line gets an end if it has none.

    Args:
        file: The file, opened for reading.
        path: Its name.
        size: Bytes that are read together.
        longest: Bytes of the longest line.

    Raises:
        OptionError: A line is longer.
        CorruptFileError: The file is truncated or damaged.
    """
    lines, rest, is_first = 0, b"", True
    while data := _read(file, size, path):
        if is_first:
            data = data.removeprefix(_BYTE_ORDER_MARK)
            is_first = False
        end = data.rfind(b"\n") + 1
        if not end:
            rest += data
            if len(rest) > longest:
                raise OptionError(
                    f"{path}: line {lines + 1:,} has over {longest:,} bytes, an eighth of --memory: "
                    f"give more memory"
                )
            continue
        whole = rest + data[:end]
        yield Slice(path, whole, lines)
        lines += whole.count(b"\n")
        rest = data[end:]
    if rest:
        yield Slice(path, rest + b"\n", lines)


def _read(file: Readable, size: int, path: Path) -> bytes:
    with explained(path):
        return file.read(size)


class BadLines:
    """The treatment of lines that do not fit: the first ends the command, or all are counted, and some told.

    Args:
        skips: True to go on without them.
        is_inferred: True if nobody named the types that they do not fit.
        say: Tells a user about one.

    Attributes:
        count: Lines that were left out.
    """

    def __init__(self, *, skips: bool, is_inferred: bool, say: Callable[[str], None]) -> None:
        self._skips = skips
        self._advice = _INFERRED if is_inferred else _GIVEN
        self._say = say
        self.count = 0

    def of(self, piece: Slice, fed: int = 0) -> Callable[[RowError], None]:
        """Return what takes the bad lines of a slice.

        Args:
            piece: The slice.
            fed: Lines that its writer was given before.
        """

        def take(error: RowError) -> None:
            line = piece.before + (error.line or 0) - fed
            message = error.message.partition(": leave it out")[0]
            field = f"{error.field}: " if error.field else ""
            text = f"{piece.path}, line {line:,}: {field}{message}"
            if not self._skips:
                raise RowError(
                    text + self._advice,
                    row=error.row,
                    field=error.field,
                    message=message,
                    line=line,
                    raw=error.raw,
                )
            self.count += 1
            if self.count <= _TOLD:
                self._say(f"left out: {text}")
            if self.count == _TOLD:
                self._say("left out: more such lines are counted, and not named")

        return take


def batches_of(piece: Slice, schema: pa.Schema, bad: BadLines) -> Iterator[pa.RecordBatch]:
    """The rows of a slice as Arrow has them, by the reader that `ParquetWriter.write_ndjson` has.

    Folders and tables take Arrow alone, and a line has to be good or bad wherever it goes. So the rows go
    through a Parquet file in memory, without compression.

    Raises:
        RowError: A line is bad, and bad lines end the command.
    """
    file = io.BytesIO()
    with ParquetWriter(file, schema, compression="uncompressed", encoding="plain") as writer:
        writer.write_ndjson(piece.data, on_error=bad.of(piece))
    source: Any = pa.py_buffer(file.getbuffer())
    for batch in pq.ParquetFile(pa.BufferReader(source)).iter_batches(use_threads=False):
        # Parquet has no seconds, for one.
        yield batch if batch.schema.equals(schema) else batch.cast(schema)
