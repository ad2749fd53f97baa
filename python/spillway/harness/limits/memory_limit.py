"""Memory limits: a limiter sets one, and a process starts under it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["Limiter", "MemoryLimit", "RlimitData", "Unlimited"]


def _no_kills() -> int:
    return 0


@dataclass(frozen=True)
class MemoryLimit:
    """One limit, ready for one process.

    Attributes:
        prefix: A command that joins the limit and then becomes the command that follows it.
        data_limit: Bytes of ``RLIMIT_DATA`` the process has to set for itself, or None.
        oom_kills: How many processes the kernel has killed for this limit.
    """

    prefix: tuple[str, ...] = ()
    data_limit: int | None = None
    oom_kills: Callable[[], int] = field(default=_no_kills)


class Limiter(Protocol):
    """One kind of memory limit."""

    kind: str

    def limit(self, size: int, /) -> AbstractContextManager[MemoryLimit]:
        """A limit of `size` bytes, gone when the context ends.

        Raises:
            OSError: This machine does not let it be set.
        """


class Unlimited:
    """No limit."""

    kind = "none"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:  # noqa: ARG002 - there is none to set
        """No limit at all."""
        yield MemoryLimit()


class RlimitData:
    """``RLIMIT_DATA``: private writable address space, resident or not, so it bites earlier."""

    kind = "rlimit-data"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A limit that the process sets for itself before it imports anything native."""
        yield MemoryLimit(data_limit=size)
