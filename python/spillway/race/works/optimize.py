"""Updates and appends, beside which one optimiser puts the table's files together again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.race.works.append import Append
from spillway.race.works.update import Update

if TYPE_CHECKING:
    import deltalake

    import spillway.delta
    from spillway.race.plan import Cell
    from spillway.race.works.protocol import Operation

__all__ = ["Compaction", "operation"]


def operation(cell: Cell, writer: int, number: int) -> Operation:
    """An update of one of the first writers, an append of one of the others; see `mixed`."""
    updates = writer < -(-cell.writers // 2)
    return Update(cell, writer, number) if updates else Append(cell, writer, number)


class Compaction:
    """One call of the optimiser.

    Attributes:
        files: Files that it replaced.
    """

    def __init__(self) -> None:
        self.files = 0

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Compact by `Table.optimize`."""
        self.files = table.optimize(timeout=None).removed_files

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Compact by `DeltaTable.optimize.compact`."""
        self.files = table.optimize.compact()["numFilesRemoved"]
