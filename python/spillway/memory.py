"""A memory limit that several writers share."""

from __future__ import annotations

from typing import NoReturn, Self

from spillway import _native

__all__ = ["MemoryBudget"]


class MemoryBudget(_native.MemoryBudget):
    """A memory limit that the open files of a process share; pass it as ``memory_limit`` to its writers.

    Each file is written as with ``memory_limit=budget.share``, byte for byte, whatever other writers do. The
    shares for finished pages form one pool, so a file that grows fast can use memory that others do not need;
    pages that do not fit wait in temporary files. A `ParquetWriter` holds a share until it is closed or
    aborted; a `DatasetWriter` and an append to a Delta table hold one for each open file.

    Args:
        limit: The total memory, as a number of bytes or a string such as ``"256MB"`` (10^6) or ``"256MiB"``
            (2^20).
        writers: Maximum number of files open at the same time. Opening one more raises `OptionError`.

    Attributes:
        limit: The total memory, in bytes.
        writers: Maximum number of files open at the same time.
        share: The limit of each file, in bytes: ``limit // writers``.
        open_writers: The number of open files.

    Raises:
        OptionError: ``limit`` or ``writers`` is not accepted.
        TypeError: ``limit`` is neither an integer nor a string.

    Example:
        >>> import pyarrow as pa, spillway
        >>> budget = spillway.MemoryBudget("8MB", writers=2)
        >>> ids, words = pa.table({"id": [1, 2]}), pa.table({"word": ["a", "b"]})
        >>> with (
        ...     spillway.ParquetWriter("ids.parquet", ids.schema, memory_limit=budget) as first,
        ...     spillway.ParquetWriter("words.parquet", words.schema, memory_limit=budget) as second,
        ... ):
        ...     first.write(ids)
        ...     second.write(words)
        ...     budget.open_writers
        2
        >>> budget.share, budget.open_writers
        (4000000, 0)
    """

    def __new__(cls, limit: int | str, *, writers: int) -> Self:
        """Create a budget."""
        return super().__new__(cls, limit, writers)

    def __repr__(self) -> str:
        return f"MemoryBudget({self.limit}, writers={self.writers})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MemoryBudget belongs to one process: create one in each")
