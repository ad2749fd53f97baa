"""The committers of `spillway.delta`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

import spillway.delta
from spillway.errors import CommitConflict
from spillway.race.committers.protocol import Receipt, Tally
from spillway.race.workload import PARTITION_COLUMN, first_table, properties, schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from spillway.race.committers.protocol import Change
    from spillway.race.location import Location
    from spillway.race.plan import Cell

__all__ = ["Spillway", "SpillwayCoalesce", "conflict", "create"]


def create(location: Location, cell: Cell, more: Mapping[str, str] | None = None) -> None:
    """Make the table of a race, with `more` properties beside its own."""
    table = spillway.delta.create(
        location.uri,
        schema(),
        partition_by=PARTITION_COLUMN,
        properties=properties(cell) | dict(more or {}),
        **location.keywords,
    )
    if cell.file_rows:
        with table.append() as append:
            append.write(first_table(cell))


def conflict(error: BaseException) -> str | None:
    """The name of a conflict, which is that of its class; None for any other error."""
    return type(error).__name__ if isinstance(error, CommitConflict) else None


class Spillway:
    """Appends that share versions."""

    shares_files = False
    properties: ClassVar[Mapping[str, str]] = {}
    """Properties of the table beside those of the race."""

    def __init__(self) -> None:
        self._table: spillway.delta.Table | None = None

    def create(self, location: Location, cell: Cell) -> None:
        """Make the table."""
        create(location, cell, self.properties)

    def writer(self, location: Location, cell: Cell) -> _Writer:
        """Open the table; all threads of a process share what is below."""
        self._table = spillway.delta.open(location.uri, **location.keywords)
        return _Writer(self._table, cell, coalesce=self.shares_files)

    def conflict(self, error: BaseException) -> str | None:
        """The name of its class."""
        return conflict(error)

    def tally(self) -> Tally | None:
        """The counts of this process' races for versions."""
        if self._table is None:
            return None
        stats = self._table.commit_stats()
        return Tally(
            stats.attempts, stats.most_lost, {str(kind): times for kind, times in stats.effects.items()}
        )


class SpillwayCoalesce(Spillway):
    """Appends that share versions and files."""

    shares_files = True


class _Writer:
    def __init__(self, table: spillway.delta.Table, cell: Cell, *, coalesce: bool) -> None:
        self._table = table
        merge: dict[str, Any] = {"schema_mode": "merge"} if cell.merges else {}
        # Writers of a race are many, as its other committers' are.
        self._options = {"coalesce": coalesce, "threads": 1, **merge}

    def append(self, rows: pa.Table) -> Receipt:
        with self._table.append(timeout=None, **self._options) as append:
            append.write(rows)
            left = time.monotonic()
        return Receipt(left, None)

    def change(self, change: Change) -> Receipt:
        left = time.monotonic()
        change.by_spillway(self._table)
        return Receipt(left, None)
