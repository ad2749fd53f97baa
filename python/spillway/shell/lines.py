"""Slices of NDJSON: whole lines of one file. The places of bad lines of NDJSON, and of bad rows of CSV."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spillway._wording import counted
from spillway.errors import OptionError, RowError
from spillway.reading.files import explained
from spillway.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyarrow.csv import InvalidRow

    from spillway.reading.files import BadRow
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

    Rows of CSV are lines here, whatever number of lines they have.

    Args:
        skips: True to go on without them.
        say: Tells a user about one.

    Attributes:
        is_inferred: True if nobody named the types that lines do not fit.
        count: Lines that were left out.
        noun: The word for one of them.
    """

    def __init__(self, *, skips: bool, say: Callable[[str], None]) -> None:
        self._skips = skips
        self._say = say
        self.is_inferred = False
        self.count = 0
        self.noun = "line"

    @property
    def of_csv(self) -> BadRow | None:
        """Takes note of the rows of CSV that are left out; None if the first is to end the command."""
        return self._leave_out_row if self._skips else None

    def _leave_out_row(self, path: Path, row: InvalidRow, /) -> None:
        self.noun = "row"
        number = "a row" if row.number is None else f"row {row.number:,}"
        fields = counted(row.actual_columns, "field")
        self._leave_out(f"{path}, {number}: it has {fields} where {row.expected_columns:,} are expected")

    def _leave_out(self, text: str) -> None:
        self.count += 1
        if self.count <= _TOLD:
            self._say(f"left out: {text}")
        if self.count == _TOLD:
            self._say(f"left out: more such {self.noun}s are counted, and not named")

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
                    text + (_INFERRED if self.is_inferred else _GIVEN),
                    row=error.row,
                    field=error.field,
                    message=message,
                    line=line,
                    raw=error.raw,
                )
            self._leave_out(text)

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
