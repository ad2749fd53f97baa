"""An append of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.race.workload import message, rows

if TYPE_CHECKING:
    from spillway.race.committers.protocol import Receipt, Writer
    from spillway.race.plan import Cell
    from spillway.race.workload import Row

__all__ = ["Append"]


class Append:
    """An append, with its rows."""

    kind = "append"

    def __init__(self, cell: Cell, writer: int, number: int) -> None:
        self._key = (writer, number)
        self._rows = rows(cell, writer, number)

    def run(self, writer: Writer) -> Receipt:
        """Append."""
        return writer.append(self._rows)

    def takes(self) -> list[Row]:
        """None."""
        return []

    def puts(self) -> list[Row]:
        """Its rows."""
        return [(*self._key, row, message(*self._key, row)) for row in range(self._rows.num_rows)]
