"""Input types of `ParquetWriter.write_rows` and `ParquetWriter.write_ndjson`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from spillway.errors import RowError

__all__ = ["Extra", "OnError", "ReadableFile"]

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[RowError], object]
"""What becomes of bad rows: the call raises and keeps no row, or it goes on without them; a callable hears of
each."""

Extra: TypeAlias = Literal["error", "ignore"]
"""What becomes of keys that the schema does not have: the row is bad, or the key is passed over."""


class ReadableFile(Protocol):
    """The methods that `ParquetWriter.write_ndjson` needs of a file object."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
