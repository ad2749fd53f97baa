"""A delete of rows that nobody else touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.race.workload import own_conditions, own_rows, predicate

if TYPE_CHECKING:
    import deltalake

    import spillway.delta
    from spillway.race.committers.protocol import Receipt, Writer
    from spillway.race.plan import Cell
    from spillway.race.workload import Row

__all__ = ["Delete"]


class Delete:
    """A delete of the next rows of a writer."""

    kind = "delete"

    def __init__(self, cell: Cell, writer: int, number: int) -> None:
        self._which = (cell, writer, number)
        self._conditions = own_conditions(cell, writer, number)

    def run(self, writer: Writer) -> Receipt:
        """Delete."""
        return writer.change(self)

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Delete by `Table.delete`."""
        table.delete(self._conditions, timeout=None)

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Delete by `DeltaTable.delete`."""
        table.delete(predicate(self._conditions))

    def takes(self) -> list[Row]:
        """The rows that are its own."""
        return own_rows(*self._which)

    def puts(self) -> list[Row]:
        """None."""
        return []
