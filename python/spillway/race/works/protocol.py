"""The protocol of an operation, which is what a writer does once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spillway.race.committers.protocol import Receipt, Writer
    from spillway.race.workload import Row

__all__ = ["Operation"]


class Operation(Protocol):
    """One operation of one writer. All that it needs is made before the writer is let go."""

    @property
    def kind(self) -> str:
        """The noun for it."""

    def run(self, writer: Writer) -> Receipt:
        """Do it once; return when it is acknowledged."""

    def takes(self) -> Iterable[Row]:
        """The rows that it takes from the table."""

    def puts(self) -> Iterable[Row]:
        """The rows that it puts into the table."""
