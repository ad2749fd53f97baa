"""The judgement of rows that were appended. Each names its append, of which there may be any number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.race.wording import named
from spillway.race.workload import KEYS, MESSAGE, PARTITION_COLUMN, message, partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from spillway.race.plan import Cell
    from spillway.race.wording import Step

__all__ = ["AppendedRows"]


class AppendedRows:
    """The rows of a table to which rows were appended alone.

    Args:
        cell: The race.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def sort_out(self, found: pa.Table) -> tuple[set[Step], set[Step], set[Step]]:
        """Appends that are there whole and once, those with a row doubled, and those that lack rows."""
        counts = found.group_by(list(KEYS)).aggregate([([], "count_all")])
        doubled = {
            (writer, number)
            for writer, number, count in _lines(counts, "writer", "number", "count_all")
            if count > 1
        }
        present = {
            (writer, number): count
            for writer, number, count in _lines(
                counts.group_by(["writer", "number"]).aggregate([("row", "count")]),
                "writer",
                "number",
                "row_count",
            )
            if (writer, number) not in doubled
        }
        whole = {append for append, count in present.items() if count == self._cell.rows}
        return whole, doubled, set(present) - whole

    def faults(self, found: pa.Table) -> list[str]:
        """Rows that no writer of the race has written, or not there."""
        cell = self._cell
        names = [*KEYS, MESSAGE, *({PARTITION_COLUMN} & set(found.column_names))]
        wrong = set()
        for row in found.select(names).to_pylist():
            writer, number, index = (row[name] for name in KEYS)
            is_append = number >= 0 and (cell.expected is None or number < cell.appends)
            is_own = 0 <= writer < cell.writers and is_append and 0 <= index < cell.rows
            is_there = row.get(PARTITION_COLUMN, partition(cell, writer)) == partition(cell, writer)
            if not (is_own and is_there and row[MESSAGE] == message(writer, number, index)):
                wrong.add((writer, number))
        return [f"finds rows that nobody wrote so: {named(wrong, 'append')}"] if wrong else []


def _lines(table: pa.Table, *names: str) -> Iterable[tuple[int, int, int]]:
    return zip(*(table.column(name).to_pylist() for name in names), strict=True)
