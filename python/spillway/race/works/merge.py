"""A merge of rows by keys that nobody else has: all of them are in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.race.workload import KEYS, PARTITION_COLUMN, own_rows, table_of

if TYPE_CHECKING:
    import deltalake

    import spillway.delta
    from spillway.race.committers.protocol import Receipt, Writer
    from spillway.race.plan import Cell
    from spillway.race.workload import Row

__all__ = ["Merge"]

_ON = (PARTITION_COLUMN, *KEYS)


class Merge:
    """A merge of the next rows of a writer, with other messages."""

    kind = "merge"

    def __init__(self, cell: Cell, writer: int, number: int) -> None:
        self._takes = own_rows(cell, writer, number)
        message = f"writer {writer} says so in merge {number}"
        self._puts = [(key[0], key[1], key[2], message) for key in self._takes]
        self._source = table_of(cell, self._puts)

    def run(self, writer: Writer) -> Receipt:
        """Merge."""
        return writer.change(self)

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Merge by `Table.merge`."""
        table.merge(self._source, list(_ON), timeout=None)

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Merge by `DeltaTable.merge`."""
        same = " and ".join(f'target."{column}" = source."{column}"' for column in _ON)
        merge = table.merge(self._source, same, source_alias="source", target_alias="target")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def takes(self) -> list[Row]:
        """The rows that are its own, as they were."""
        return self._takes

    def puts(self) -> list[Row]:
        """The same rows with their new message."""
        return self._puts
