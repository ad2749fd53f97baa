"""Text as Arrow's readers take it: decompressed, in UTF-8, and refused with its place where it is not."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from spillway.errors import CorruptFileError, OptionError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Readable", "TextOptions", "Utf8Stream", "refuse_binary", "refuse_other_delimiter"]

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
    """Facts about CSV and NDJSON that the text itself does not state.

    Attributes:
        delimiter: Between the fields of CSV, one character or "tab"; None for a comma, or a tab in ``.tsv``.
        encoding: As Python names it; None for UTF-8.
        format: "csv" or "ndjson", of text whose name and first bytes tell neither; None to go by those.
        is_exact: True to keep of CSV what Arrow would change: words such as NA, which it takes for null, and
            integers of over 64 bits, which it rounds.

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
                    f"--delimiter {self.delimiter!r}: give one ASCII character that is no quote, "
                    f"such as ';', or tab"
                )
        if self.format not in {None, "csv", "ndjson"}:
            raise OptionError(
                f"--format {self.format}: choose csv or ndjson; other formats tell themselves by their bytes"
            )
        if self.encoding is not None:
            try:
                b"four".decode(self.encoding, errors="ignore")
            except LookupError as error:
                raise OptionError(
                    f"--encoding {self.encoding}: Python knows no such text encoding; "
                    f"common are latin-1, cp1252 and utf-16"
                ) from error


class Readable(Protocol):
    """A file object opened for reading bytes, of which nothing else is asked."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""


class Utf8Stream(io.RawIOBase):
    """The bytes of a text file in UTF-8, whatever its encoding.

    What is not text in that encoding ends the reading with a `CorruptFileError` that says where it is.

    Args:
        source: The file's bytes, decompressed.
        path: For messages.
        encoding: Of the file; None for UTF-8.
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
            self._ready = data if self._encoding is None else text.encode()
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
            f"{path} is not UTF-8: it begins as {seems.upper()} does; say --encoding {seems}, "
            f"or convert it: iconv -f {seems.upper()} -t UTF-8"
        )


def refuse_other_delimiter(path: Path, head: str, delimiter: str) -> None:
    """Refuse CSV whose first line has none of the delimiters that were expected, but others.

    Raises:
        OptionError: It is so; the message says what to give as ``--delimiter``.
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
