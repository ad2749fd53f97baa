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
    #: True if what the end of a block could not complete may be completed after it.
    _may_go_on = False

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
            try:
                self._complete()
            except BaseException:
                if not self._may_go_on:
                    self.abort()
                raise
