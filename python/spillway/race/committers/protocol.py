"""The protocol of a committer in a race."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import deltalake
    import pyarrow as pa

    import spillway.delta
    from spillway.race.effects import EffectTimes
    from spillway.race.location import Location
    from spillway.race.plan import Cell

__all__ = ["Change", "Committer", "OwnTable", "OwnTables", "Receipt", "Tally", "Writer"]


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


class OwnTable(NamedTuple):
    """A table that is no Delta table, after the race.

    Attributes:
        reader: The name of the library that has read it.
        versions: Versions after those that made the table.
        rows: All rows.
    """

    reader: str
    versions: int
    rows: pa.Table


class Change(Protocol):
    """A change of rows that are in the table, in the words of each library."""

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Change them by `spillway.delta`."""

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Change them by deltalake."""


class Writer(Protocol):
    """One writer with its own handle on the table."""

    def append(self, rows: pa.Table) -> Receipt:
        """Append rows; return when that is acknowledged."""

    def change(self, change: Change) -> Receipt:
        """Change rows as they are in the newest version, once; return when that is acknowledged.

        Committers for appends only have no such method: a plan with them has nothing else.
        """


class Committer(Protocol):
    """A way to commit to a table. Its constructor imports the library."""

    def create(self, location: Location, cell: Cell) -> None:
        """Make the table, with the rows that are there before the race."""

    def writer(self, location: Location, cell: Cell) -> Writer:
        """Open the table for one more writer, before the race begins."""

    def conflict(self, error: BaseException) -> str | None:
        """The name of the conflict that an error tells of, as delta-spark has it; None for any other error.

        A conflict is a result: a transaction that committed first was in the way.
        """

    def tally(self) -> Tally | None:
        """The counts of the process at the end."""


class OwnTables(Committer, Protocol):
    """A committer to tables that are no Delta tables: its own library reads them afterwards."""

    def found(self, location: Location) -> OwnTable:
        """Read the table, to which nothing is written any more."""
