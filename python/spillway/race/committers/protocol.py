"""The protocol of a committer in a race."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from spillway.race.effects import EffectTimes
    from spillway.race.location import Location
    from spillway.race.plan import Cell

__all__ = ["Committer", "Receipt", "Tally", "Writer"]


class Receipt(NamedTuple):
    """A writer's receipt of an acknowledged append.

    Attributes:
        left: The monotonic time at which all rows were handed over, from which the wait counts.
        attempts: Commits that it tried, or None where the library does not say.
    """

    left: float
    attempts: int | None


class Tally(NamedTuple):
    """Counts of a whole process, where its writers commit together.

    Attributes:
        attempts: Versions that it tried to write.
        most_lost: The most races that one transaction lost.
        effects: The times of effects, by their kind.
    """

    attempts: int
    most_lost: int
    effects: Mapping[str, EffectTimes]


class Writer(Protocol):
    """One writer with its own handle on the table."""

    def append(self, rows: pa.Table) -> Receipt:
        """Append rows; return when that is acknowledged."""


class Committer(Protocol):
    """A way to append to a table. Its constructor imports the library."""

    def create(self, location: Location, cell: Cell) -> None:
        """Make the table."""

    def writer(self, location: Location, cell: Cell) -> Writer:
        """Open the table for one more writer, before the race begins."""

    def tally(self) -> Tally | None:
        """The counts of the process at the end."""
