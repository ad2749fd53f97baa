"""The base class of writers that end with a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["WithBlock"]


class WithBlock(ABC):
    """Completes what was written when the block ends well, and gives it up when an exception leaves it."""

    _aborted = False

    @abstractmethod
    def abort(self) -> None:
        """Give up what was written. Sets `_aborted`: nothing is left to complete then."""

    @abstractmethod
    def _complete(self) -> None:
        """Make what was written appear, unless it did before."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._aborted:
            self._complete()
