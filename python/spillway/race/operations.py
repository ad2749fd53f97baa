"""The operations of a race: what one writer does to the table, for each work of `spillway.race.model.WORKS`.

An operation says how each library performs it, and which rows it takes from the table and puts there. The
check of a race compares the table with these rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.race.model import (
    KEYS,
    MESSAGE,
    PARTITION_COLUMN,
    message,
    own_conditions,
    own_rows,
    predicate,
    rows,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import deltalake

    import spillway.delta
    from spillway.race.model import Cell, Operation, Receipt, Row, Writer


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


def delete_or_append(cell: Cell, writer: int, number: int) -> Operation:
    """A delete of one of the first writers, an append of one of the others.

    Processes take writers in turns: so each process has writers of both kinds.
    """
    deletes = writer < -(-cell.writers // 2)
    return Delete(cell, writer, number) if deletes else Append(cell, writer, number)


def update_or_append(cell: Cell, writer: int, number: int) -> Operation:
    """An update of one of the first writers, an append of one of the others; see `delete_or_append`."""
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


OPERATIONS: dict[str, Callable[[Cell, int, int], Operation]] = {
    "append": Append,
    "delete": Delete,
    "update": Update,
    "merge": Merge,
    "mixed": delete_or_append,
    "optimize": update_or_append,
}
"""Makes an operation of each work from the cell, the writer and the operation's number."""
