"""What a memory limit is to the bench: a box that a process starts in."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["Box", "Limiter", "RlimitData", "Unlimited"]


def _no_kills() -> int:
    return 0


@dataclass(frozen=True)
class Box:
    """One limit, ready for one process.

    Attributes:
        prefix: A command that joins the limit and then becomes the command that follows it.
        data_limit: Bytes of ``RLIMIT_DATA`` the process has to set for itself, or None.
        oom_kills: How many processes the kernel has killed in this box.
    """

    prefix: tuple[str, ...] = ()
    data_limit: int | None = None
    oom_kills: Callable[[], int] = field(default=_no_kills)


class Limiter(Protocol):
    """One kind of memory limit."""

    kind: str

    def box(self, limit: int, /) -> AbstractContextManager[Box]:
        """A box of `limit` bytes, gone when the context ends.

        Raises:
            OSError: This machine does not let it be set.
        """


class Unlimited:
    """No limit."""

    kind = "none"

    @contextmanager
    def box(self, limit: int) -> Iterator[Box]:  # noqa: ARG002 - there is none to set
        """A box without walls."""
        yield Box()


class RlimitData:
    """``RLIMIT_DATA``: private writable address space, resident or not, so it bites earlier."""

    kind = "rlimit-data"

    @contextmanager
    def box(self, limit: int) -> Iterator[Box]:
        """A box that the process sets for itself before it imports anything native."""
        yield Box(data_limit=limit)
