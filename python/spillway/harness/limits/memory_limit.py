"""Memory limits: a limiter sets one, and a process starts under it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["Limiter", "MemoryLimit"]


def _no_kills() -> int:
    return 0


def _no_peak() -> None:
    return None


@dataclass(frozen=True)
class MemoryLimit:
    """One limit, ready for one process.

    Attributes:
        prefix: A command that joins the limit and then becomes the command that follows it.
        data_limit: Bytes of ``RLIMIT_DATA`` the process has to set for itself, or None.
        oom_kills: Processes that the kernel has killed for this limit, or None where nobody counts them.
        group: Folder of the control group that holds the process alone; "self" where the process has to look
            for it; None without such a group.
        peak: The most bytes of this group, page cache included, or None.
    """

    prefix: tuple[str, ...] = ()
    data_limit: int | None = None
    oom_kills: Callable[[], int | None] = field(default=_no_kills)
    group: str | None = None
    peak: Callable[[], int | None] = field(default=_no_peak)


class Limiter(Protocol):
    """One kind of memory limit."""

    kind: str

    def limit(self, size: int, /) -> AbstractContextManager[MemoryLimit]:
        """A limit of `size` bytes, gone when the context ends.

        Raises:
            OSError: This machine does not let it be set.
        """
