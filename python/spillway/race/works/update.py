"""An update of rows that nobody else touches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.race.workload import MESSAGE, own_conditions, own_rows, predicate

if TYPE_CHECKING:
    import deltalake

    import spillway.delta
    from spillway.race.committers.protocol import Receipt, Writer
    from spillway.race.plan import Cell
    from spillway.race.workload import Row

__all__ = ["Update"]


class Update:
    """An update of the next rows of a writer."""

    kind = "update"

    def __init__(self, cell: Cell, writer: int, number: int) -> None:
        self._which = (cell, writer, number)
        self._conditions = own_conditions(cell, writer, number)
        self._set = {MESSAGE: f"writer {writer} says so in update {number}"}

    def run(self, writer: Writer) -> Receipt:
        """Update."""
        return writer.change(self)

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Update by `Table.update`."""
        table.update(self._conditions, self._set, timeout=None)

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Update by `DeltaTable.update`."""
        values: dict[str, Any] = {**self._set}
        table.update(predicate=predicate(self._conditions), new_values=values)

    def takes(self) -> list[Row]:
        """The rows that are its own, as they were."""
        return own_rows(*self._which)

    def puts(self) -> list[Row]:
        """The same rows with their new message."""
        message = self._set[MESSAGE]
        return [(writer, number, row, message) for writer, number, row, _ in own_rows(*self._which)]
