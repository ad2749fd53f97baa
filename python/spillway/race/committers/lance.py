"""The committer of Lance: `lance.write_dataset` in append mode, whose commits retry inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from spillway.race.model import OwnTable, OwnTables, schema

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.race.location import Location
    from spillway.race.model import Cell, Change


class Lance(OwnTables):
    """Appends by the library's call with its defaults."""

    def create(self, location: Location, cell: Cell) -> None:  # noqa: ARG002 - Lance has no partitions
        """Make an empty table."""
        lance.write_dataset(schema().empty_table(), location.uri)

    def writer(self, location: Location, cell: Cell) -> _Writer:  # noqa: ARG002 - all cells are alike to it
        """Open the table."""
        return _Writer(lance.dataset(location.uri))

    def found(self, location: Location) -> OwnTable:
        """The table as Lance reads it."""
        table = lance.dataset(location.uri)
        return OwnTable("lance", table.version - 1, table.to_table())


class _Writer:
    def __init__(self, table: lance.LanceDataset) -> None:
        self._table = table

    def append(self, rows: pa.Table) -> int | None:
        self._table = lance.write_dataset(rows, self._table, mode="append")
        return None

    def change(self, change: Change) -> int | None:
        raise NotImplementedError("Lance only takes part in races of appends")
