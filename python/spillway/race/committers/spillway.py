"""The committers of `spillway.delta`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import spillway.delta
from spillway.race.committers.protocol import Receipt, Tally
from spillway.race.workload import PARTITION_COLUMN, properties, schema

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.race.location import Location
    from spillway.race.plan import Cell

__all__ = ["Spillway", "SpillwayCoalesce", "create"]


def create(location: Location, cell: Cell) -> None:
    """Make the table of a race."""
    spillway.delta.create(
        location.uri,
        schema(),
        partition_by=PARTITION_COLUMN,
        properties=properties(cell),
        **location.keywords,
    )


class Spillway:
    """Appends that share versions."""

    shares_files = False

    def __init__(self) -> None:
        self._table: spillway.delta.Table | None = None

    def create(self, location: Location, cell: Cell) -> None:
        """Make the table."""
        create(location, cell)

    def writer(self, location: Location, cell: Cell) -> _Writer:
        """Open the table; all threads of a process share what is below."""
        self._table = spillway.delta.open(location.uri, **location.keywords)
        return _Writer(self._table, cell, coalesce=self.shares_files)

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
        self._options = {"coalesce": coalesce, **merge}

    def append(self, rows: pa.Table) -> Receipt:
        with self._table.append(timeout=None, **self._options) as append:
            append.write(rows)
            left = time.monotonic()
        return Receipt(left, None)
