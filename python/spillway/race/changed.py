"""The judgement of rows that were changed, by a model of every operation."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.race.wording import listed
from spillway.race.workload import KEYS, MESSAGE, PARTITION_COLUMN, first_rows, partition
from spillway.race.works import WORKS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from spillway.race.plan import Cell
    from spillway.race.wording import Step
    from spillway.race.workload import Row

__all__ = ["ChangedRows"]


class ChangedRows:
    """The rows of a table that had some before the race.

    An operation is whole when all rows that it puts into the table are there, and none that it takes from
    it. It was not done when that is the other way round. Everything else is an operation in part.

    Args:
        cell: The race.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._taken: dict[Row, Step] = {}
        self._put: dict[Row, Step] = {}
        operation = WORKS[cell.work].operation
        self._steps = [(writer, number) for writer in range(cell.writers) for number in range(cell.appends)]
        for step in self._steps:
            one = operation(cell, *step)
            self._taken.update((row, step) for row in one.takes())
            self._put.update((row, step) for row in one.puts())
        self._others = {row for row in first_rows(cell) if row not in self._taken}

    def sort_out(self, found: pa.Table) -> tuple[set[Step], set[Step], set[Step]]:
        """Operations that are there whole and once, those with a row doubled, and those in part."""
        rows = Counter(_rows(found))
        takes, puts = Counter(self._taken.values()), Counter(self._put.values())
        left = Counter(self._taken[row] for row in rows if row in self._taken)
        new = Counter(self._put[row] for row in rows if row in self._put)
        again = (row for row, count in rows.items() if count > 1)
        doubled = {step for row in again if (step := self._taken.get(row) or self._put.get(row)) is not None}
        whole = {step for step in self._steps if not left[step] and new[step] == puts[step]}
        undone = {step for step in self._steps if left[step] == takes[step] and not new[step]}
        return whole - doubled, doubled, set(self._steps) - whole - undone - doubled

    def faults(self, found: pa.Table) -> list[str]:
        """Rows of no operation that are not as they were, and rows that nobody wrote, or not there."""
        rows = Counter(_rows(found))
        known = self._taken.keys() | self._put.keys() | self._others
        strange = {row for row in rows if row not in known} | set(self._elsewhere(found))
        gone = len(self._others - rows.keys())
        twice = sum(rows[row] > 1 for row in self._others)
        faults = []
        if strange:
            names = [
                f"writer {writer}, number {number}, row {row}" for writer, number, row, _ in sorted(strange)
            ]
            faults.append(f"finds rows that nobody wrote so: {listed(names)}")
        if gone:
            faults.append(f"does not find {counted(gone, 'row')} that no operation is about")
        if twice:
            faults.append(f"finds {counted(twice, 'row')} more than once that no operation is about")
        return faults

    def _elsewhere(self, found: pa.Table) -> Iterable[Row]:
        """Rows that are in another partition than that of their writer."""
        if PARTITION_COLUMN not in found.column_names:
            return []
        values = zip(_rows(found), found.column(PARTITION_COLUMN).to_pylist(), strict=True)
        return [row for row, value in values if value != partition(self._cell, row[0])]


def _rows(found: pa.Table) -> Iterable[Row]:
    return zip(*(found.column(name).to_pylist() for name in (*KEYS, MESSAGE)), strict=True)
