"""Memory that several writers share."""

from __future__ import annotations

from typing import NoReturn, Self

from spillway import _native

__all__ = ["MemoryBudget"]


class MemoryBudget(_native.MemoryBudget):
    """Memory that the open files of a process share: the ``memory_limit`` of any of its writers.

    Each file is written as with ``memory_limit=budget.share``, byte for byte, whatever other writers do. The
    parts of all shares that are for finished pages form one pool, so that a file that grows fast may use what
    others leave; pages that do not fit wait in temporary files. A `ParquetWriter` holds a share until it is
    closed or aborted; a `DatasetWriter` and an append to a Delta table hold one for each open file.

    Args:
        limit: All memory, an integer of bytes or text such as ``"256MB"`` (10^6) and ``"256MiB"`` (2^20).
        writers: The most files that may be open at a time. One more raises `OptionError` where it is opened.

    Attributes:
        limit: All memory, in bytes.
        writers: The most files that may be open at a time.
        share: The limit of each file, in bytes: ``limit // writers``.
        open_writers: The files that are open.

    Raises:
        OptionError: ``limit`` or ``writers`` is not accepted.
        TypeError: ``limit`` is neither an integer nor text.

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
        """Make a budget."""
        return super().__new__(cls, limit, writers)

    def __repr__(self) -> str:
        return f"MemoryBudget({self.limit}, writers={self.writers})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MemoryBudget belongs to its process: make one in each")
