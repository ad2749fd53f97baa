"""Text for Arrow's readers: decompressed UTF-8; invalid text is refused with its position."""

from __future__ import annotations

import codecs
import io
import os
import re
import select
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyarrow as pa

from spillway.errors import CorruptFileError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DELIMITERS = ",;\t|"
_SPELLED = {"tab": "\t", "\\t": "\t"}


@dataclass(frozen=True)
class TextOptions:
    """Facts about CSV and NDJSON that the text itself does not state, and how exactly files are read.

    Attributes:
        delimiter: Between the fields of CSV, one character or "tab"; None for a comma, or a tab in ``.tsv``.
        encoding: As Python names it; None for UTF-8.
        format: "csv" or "ndjson", for text whose name and first bytes do not show its format; None to detect
            it.
        is_exact: True to keep of CSV what Arrow would change: words such as NA, which it takes for null, and
            integers of over 64 bits, which it rounds. Parquet of types that Arrow has not is refused.

    Raises:
        OptionError: The delimiter is not one ASCII character, Python knows no such encoding, or the format is
            another.
    """

    delimiter: str | None = None
    encoding: str | None = None
    # Rows that were prepared before this field was there are found by the others.
    format: str | None = field(default=None, repr=False)
    is_exact: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _SPELLED.get(self.delimiter, self.delimiter))
            if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n\0':
                raise OptionError(
                    f"--delimiter {self.delimiter!r}: give one ASCII character other than a quote, "
                    f"such as ';', or tab"
                )
        if self.format not in {None, "csv", "ndjson"}:
            raise OptionError(
                f"--format {self.format}: choose csv or ndjson; other formats are recognised by "
                f"their first bytes"
            )
        if self.encoding is not None:
            try:
                codecs.getincrementaldecoder(self.encoding)
                b"four".decode(self.encoding, errors="ignore")
            except (LookupError, TypeError, UnicodeError) as error:
                raise OptionError(
                    f"--encoding {self.encoding}: Python knows no such text encoding; "
                    f"common are latin-1, cp1252 and utf-16"
                ) from error


class Readable(Protocol):
    """A file object opened for reading bytes; no other method is needed."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""


class Utf8Stream(io.RawIOBase):
    """The bytes of a text file in UTF-8, whatever its encoding.

    Text that is invalid in that encoding raises a `CorruptFileError` with its position.

    Args:
        source: The file's bytes, decompressed.
        path: The file, for messages.
        encoding: Its encoding; None for UTF-8.
    """

    def __init__(self, source: Readable, path: Path, encoding: str | None) -> None:
        self._source = source
        self._path = path
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding or "utf-8")()
        self._offset = 0
        self._lines = 0
        self._ready = b""

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, `size` at most; none at the end."""
        while not self._ready:
            data = self._source.read(size)
            text = self._decoded(data)
            self._ready = data if self._encoding is None else self._encoded(text)
            if not data:
                break
        # Arrow has room for no more than it asked for.
        taken, self._ready = (self._ready, b"") if size < 0 else (self._ready[:size], self._ready[size:])
        return taken

    def _decoded(self, data: bytes) -> str:
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise CorruptFileError(self._complaint(error, len(data))) from error
        self._offset += len(data)
        self._lines += data.count(b"\n")
        return text

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            # Some encodings can hold half of a surrogate pair.
            found = f"U+{ord(text[error.start]):04X}, which is not a character"
            raise CorruptFileError(f"{self._path} is not {self._encoding}: it has {found}") from error

    def _complaint(self, error: UnicodeDecodeError, fresh: int) -> str:
        waiting = len(error.object) - fresh  # bytes of a character that began in what was read before
        offset = self._offset - waiting + error.start
        byte = f"byte 0x{error.object[error.start]:02X} at offset {offset:,}"
        if self._encoding is not None:
            return f"{self._path} is not {self._encoding}: {byte}; name another --encoding"
        line = self._lines + error.object.count(b"\n", 0, error.start) + 1
        return (
            f"{self._path} is not UTF-8: {byte}, line {line:,}. Name its encoding, such as "
            f"--encoding cp1252 or latin-1, or convert it: iconv -f CP1252 -t UTF-8"
        )


_WINDOW_BYTES = 16 << 10
_VALUE = re.compile(rb'[^"]*+(?:""[^"]*+)*+"')


class Quotes:
    """Follows the quotes of CSV, whose reader takes all that follows a quote for a value until the next one.

    A quote within a value without quotes is a character like others, as that reader has it.

    Args:
        path: The file, for messages.
        delimiter: The character between fields.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self._path = path
        sign = delimiter.encode()
        self._ends = sign + b"\r\n"
        ends = (sign, b"\r", b"\n")
        self._opening = [end + b'"' for end in ends]
        self._closing = [b'"' + end for end in ends]
        self._lines = 0
        self._last = b"\n"
        # Quotes at the end of what is known: whether the last one closes a value depends on what follows.
        self._held = b""
        self._opened: int | None = None  # the line
        self._has_break = False

    @property
    def is_open(self) -> bool:
        """True within a value in quotes."""
        return self._opened is not None

    def pass_over(self, data: bytes) -> None:
        """Count the lines of text that is not for the reader."""
        self._lines += data.count(b"\n")

    def feed(self, data: bytes) -> None:
        """Follow the next bytes.

        Raises:
            CorruptFileError: A value of several lines in quotes is followed by other text, so its quote was
                not meant to close there.
        """
        data = self._held + data if self._held else data
        whole = data.rstrip(b'"') if data.endswith(b'"') else data
        self._held = data[len(whole) :]
        start = 0
        while start < len(whole):
            stop = start + _WINDOW_BYTES
            while stop < len(whole) and whole[stop - 1 : stop] == b'"':
                stop += 1
            self._follow(whole[start:stop])
            start = stop

    def end(self) -> None:
        """Follow what was held back.

        Raises:
            CorruptFileError: The text ends within quotes.
        """
        if self._held:
            held, self._held = self._held, b""
            self._follow(held)
        self.refuse_open()

    def refuse_open(self) -> None:
        """Refuse text that ends within quotes.

        Raises:
            CorruptFileError: A quote before the end of the text is not closed.
        """
        if self._opened is not None:
            raise CorruptFileError(self._complaint(self._opened, "is not closed"))

    def _complaint(self, line: int, what: str) -> str:
        return (
            f"{self._path}: the quote that opens a value in line {line:,} {what}, so the next lines would "
            f"be read as a part of that value: close the value with a quote, and double each quote within it"
        )

    def _follow(self, data: bytes) -> None:
        if self._opened is not None:
            data = self._rest(data)
        if data and not self._is_plain(data):
            self._walk(data.split(b'"'))
        if data:
            self._lines += data.count(b"\n")
            self._last = data[-1:]

    def _rest(self, data: bytes) -> bytes:
        """What follows the value that is open; none if it goes on."""
        end = len(data) if (found := _VALUE.match(data)) is None else found.end()
        self._has_break = self._has_break or b"\n" in data[:end]
        self._lines += data.count(b"\n", 0, end)
        self._last = data[end - 1 : end]
        if found is not None and self._opened is not None:
            self._refuse_text_behind(data[end : end + 1], self._opened)
            self._opened = None
        return data[end:]

    def _is_plain(self, data: bytes) -> bool:
        """True if every second quote opens a value, and each is beside a delimiter or an end of a line."""
        if b'"' not in data:
            return True
        begun = self._last + data
        if not any(each in begun for each in self._opening):
            return True  # no value begins with a quote
        # Two quotes are an empty value, or one quote within a value.
        parts = data.replace(b'""', b"").split(b'"')
        closed, is_open = divmod(len(parts) - 1, 2)
        # One quote stands for each value, and one for that which is open at the end.
        before = b"" if self._last == b'"' else self._last
        outside = before + b'"'.join(parts[::2]) + b'"' * is_open
        if closed + is_open != sum(map(outside.count, self._opening)):
            return False
        if closed != sum(map(outside.count, self._closing)):
            return False
        if is_open:
            self._open(self._lines + 1 + data.count(b"\n") - parts[-1].count(b"\n"), parts[-1:])
        return True

    def _open(self, line: int, texts: list[bytes]) -> None:
        self._opened = line
        self._has_break = any(b"\n" in text for text in texts)

    def _walk(self, parts: list[bytes]) -> None:
        """Follow text that is cut at its quotes, one by one; only the end of a whole text is a quote."""
        last = len(parts) - 1
        opened = 0  # the part behind the quote
        is_doubled = False
        for place in range(1, last + 1):
            part = parts[place]
            if is_doubled:
                is_doubled = False
            elif not opened:
                before = parts[place - 1][-1:] or (self._last if place == 1 else b'"')
                opened = place if before in self._ends else 0
            elif not part and place < last:
                is_doubled = True
            else:
                if part and part[:1] not in self._ends:
                    self._has_break = any(b"\n" in text for text in parts[opened:place])
                    self._refuse_text_behind(part[:1], self._line(parts, opened))
                opened = 0
        if opened:
            self._open(self._line(parts, opened), parts[opened:])

    def _line(self, parts: list[bytes], place: int) -> int:
        return self._lines + sum(part.count(b"\n") for part in parts[:place]) + 1

    def _refuse_text_behind(self, text: bytes, line: int) -> None:
        """Refuse a value of several lines whose quote is followed by text: it opens another value."""
        if text and text not in self._ends and self._has_break:
            raise CorruptFileError(
                self._complaint(line, "is closed only by one that text or a blank follows")
            )


class CsvText(io.RawIOBase):
    """CSV as Arrow's reader expects it: it begins with the names of columns, and its last line has an end.

    Arrow would take the rest of a text for a value if a quote is not closed, and finds no columns in a first
    line without an end.

    Args:
        source: The text, in UTF-8.
        path: The file, for messages.
        quotes: Looks for a quote that is not closed.
        block: The bytes that Arrow's reader takes together.

    Raises:
        CorruptFileError: From `read`, when a quote is not closed.
    """

    def __init__(self, source: Readable, path: Path, quotes: Quotes, block: int) -> None:
        self._source = Piped(source, path)
        self._quotes = quotes
        self._block = block
        self._given = 0
        self._is_at_start = True
        self._last = b"\n"

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, `size` at most, and no more than the rest of a block; none at the end."""
        data = self._break() or self._rows(min(size, self._block - self._given % self._block))
        self._given += len(data)
        return data

    def _break(self) -> bytes:
        """A line feed between two blocks that part a carriage return from its own one, in a value in quotes.

        Arrow drops a line feed at the begin of a block behind a carriage return: right between rows alone.
        """
        is_between = self._given > 0 and self._given % self._block == 0
        is_parted = is_between and self._last == b"\r" and self._quotes.is_open
        return b"\n" if is_parted and self._source.head(1) == b"\n" else b""

    def _rows(self, size: int) -> bytes:
        if self._is_at_start and self._source.head(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
            self._source.read(len(codecs.BOM_UTF8))
        while data := self._source.read(size):
            if self._is_at_start:
                # Empty lines before the names of columns are no rows.
                rows = data.lstrip(b"\r\n")
                self._quotes.pass_over(data[: len(data) - len(rows)])
                data = rows
                self._is_at_start = not data
            if data:
                self._quotes.feed(data)
                self._last = data[-1:]
                return data
        self._is_at_start = False
        self._quotes.end()
        return self._end()

    def _end(self) -> bytes:
        if self._last in b"\r\n":
            return b""
        self._last = b"\n"
        return b"\n"


def refuse_binary(path: Path, head: bytes) -> None:
    """Refuse what begins as no UTF-8 text does: UTF-16, UTF-32, or bytes that are not text.

    Raises:
        CorruptFileError: It does; the message names the encoding that it seems to have.
    """
    seems = next((name for bom, name in _BOMS.items() if head.startswith(bom)), None)
    even, odd = head[::2].count(0), head[1::2].count(0)
    if seems is None and (even + odd) * 8 > len(head):
        if min(even, odd) * 2 > max(even, odd):
            raise CorruptFileError(f"{path} is not text: many of its first bytes are NUL")
        seems = "utf-16-le" if odd > even else "utf-16-be"
    if seems is not None:
        raise CorruptFileError(
            f"{path} is not UTF-8: it begins like {seems.upper()}; pass --encoding {seems}, "
            f"or convert it: iconv -f {seems.upper()} -t UTF-8"
        )


def refuse_other_delimiter(path: Path, head: str, delimiter: str) -> None:
    """Refuse CSV whose first line has none of the delimiters that were expected, but others.

    Raises:
        OptionError: Another character separates fields; the message says what to give as ``--delimiter``.
    """
    line = head.split("\n", 1)[0]
    other = max(_DELIMITERS, key=line.count)
    if delimiter not in line and other in line:
        raise OptionError(
            f"{path}: the fields of its first line are not separated by {_spelled(delimiter)}, "
            f"but seemingly by {_spelled(other)}: say --delimiter {_spelled(other)}"
        )


def _spelled(delimiter: str) -> str:
    return "tab" if delimiter == "\t" else repr(delimiter)


# Less than what is read together: bytes are read as they are asked for, and nothing waits for more of them.
_BUFFER_BYTES = 1


class TextBatches:
    """The batches of a text, until it is closed.

    A thread of Arrow that needs Python while the interpreter ends is ended by it, and C++ aborts the process
    (https://github.com/apache/arrow/issues/34314). So nothing of Python's is left to such threads: bytes are
    copied into memory of Arrow's as they are read, and `close` waits for the thread that reads ahead.

    Args:
        source: The bytes of the text, in UTF-8, which are closed with the batches.
        open_reader: Opens the reader of a file: `pyarrow.csv.open_csv`, or the reader of NDJSON.
        stop_waiting: Ends a wait of `source` for bytes, in whatever thread it is.

    Attributes:
        schema: The schema of all batches.

    Raises:
        ArrowInvalid: As `open_reader`.
    """

    def __init__(
        self,
        source: Readable,
        open_reader: Callable[[pa.NativeFile], Any],
        stop_waiting: Callable[[], None] | None = None,
    ) -> None:
        self._stop_waiting = stop_waiting
        raw: Any = source  # the stubs ask for a whole file object
        # Buffers of Python's would be given back by whichever thread is done with them.
        self._file = pa.BufferedInputStream(pa.PythonFile(raw, mode="r"), _BUFFER_BYTES)
        self._reader: Any = None
        try:
            self._reader = open_reader(self._file)
        except BaseException:
            self.close()
            raise
        self.schema: pa.Schema = self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._reader is None:
            raise ValueError("the text is closed: read its batches first")
        batch: pa.RecordBatch = self._reader.read_next_batch()
        return batch

    def close(self) -> None:
        """Give up the reader and close the text. Closing again does nothing."""
        if self._stop_waiting is not None:
            self._stop_waiting()
        if self._reader is not None:
            self._reader.close()
            # Arrow's own method waits for nothing. The reader's end does, without the interpreter's lock.
            self._reader = None
        self._file.close()


_SIGNALS = 64
_WOKEN = 0
# The numbers of signals that end a command, as Python hands them on.
_ENDING = {_WOKEN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Piped(io.RawIOBase):
    """The bytes of a pipe.

    Args:
        source: The pipe.
        path: Its name, for messages.

    Attributes:
        taken: Bytes that were taken from it so far.
    """

    def __init__(self, source: Readable, path: Path) -> None:
        self._source = source
        self._ready = b""
        self.path = path
        self.taken = 0

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def head(self, size: int) -> bytes:
        """The next bytes, `size` of them unless the pipe ends before; `read` gives them again."""
        pieces, held = [self._ready], len(self._ready)
        while held < size:
            data = self._source.read(size - held)
            if not data:
                break
            pieces.append(data)
            held += len(data)
            self.taken += len(data)
        self._ready = b"".join(pieces)
        return self._ready[:size]

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, `size` at most; none at the end."""
        if size < 0:
            raise io.UnsupportedOperation("a pipe is read in pieces, of a size that is given")
        # Arrow takes fewer bytes than it asked for as the end.
        taken = self.head(size)
        self._ready = self._ready[len(taken) :]
        return taken

    def end(self) -> None:
        """End a thread's wait for bytes. No more are to be read, unless the source never waits."""
        if isinstance(self._source, _Waiting):
            self._source.end()


class _Waiting:
    """A pipe that any thread reads, and whose wait ends when a signal comes.

    Args:
        descriptor: The pipe.
        signals: Has bytes to read once a signal came.
        wakeup: Bytes written to it are read from `signals`.
    """

    def __init__(self, descriptor: int, signals: int, wakeup: int) -> None:
        self._descriptor = descriptor
        self._signals = signals
        self._wakeup = wakeup
        self._reading = threading.Lock()
        self._is_over = False

    def read(self, size: int, /) -> bytes:
        with self._reading:
            if self._is_over:
                return b""
            while self._descriptor not in (ready := self._ready()):
                if not _ENDING.isdisjoint(os.read(ready[0], _SIGNALS)):
                    # Also where the exception of Python's own handler went under in a finalizer.
                    raise KeyboardInterrupt
            return os.read(self._descriptor, size)

    def _ready(self) -> list[int]:
        """The descriptors that can be read: that of signals alone, if any came."""
        ready, _, _ = select.select([self._descriptor, self._signals], [], [])
        return [self._signals] if self._signals in ready else ready

    def end(self) -> None:
        """Wake a thread that reads ahead, and have it find the end. Ending again does nothing."""
        if self._is_over:
            return
        os.write(self._wakeup, bytes([_WOKEN]))
        with self._reading:
            self._is_over = True


@contextmanager
def interruptible(file: BinaryIO) -> Iterator[Readable]:
    """Make a signal end the wait for a pipe, even if a thread of Arrow is waiting.

    Python's handlers run in its main thread, which waits for that one. To be used there.

    Args:
        file: The pipe, from which nothing was read yet; objects that are not files of the system are returned
            unchanged.
    """
    try:
        descriptor = file.fileno()
    except OSError:
        yield file
        return
    signals, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    # Arrow would put a handler of its own in the place of Python's.
    pa.enable_signal_handlers(False)  # noqa: FBT003 - pyarrow's own
    waiting = _Waiting(descriptor, signals, written)
    try:
        yield waiting
    finally:
        waiting.end()
        pa.enable_signal_handlers(True)  # noqa: FBT003 - pyarrow's own
        signal.set_wakeup_fd(before)
        os.close(written)
        os.close(signals)
