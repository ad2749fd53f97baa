"""The settings that a search chooses from, of a file and of its columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spillway._wording import and_joined

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DICTIONARY", "LIBRARYS_OWN", "Choice", "Codec", "ColumnChoice"]

DICTIONARY = "DICTIONARY"
LIBRARYS_OWN = "AUTO"
"""The encoding that the library chooses by itself."""


@dataclass(frozen=True, order=True)
class Codec:
    """A codec by Parquet's name in lower case, and its level where it has one."""

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
        codec: Of all columns, where `columns` is empty.
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
