"""The works of a race: what its writers do to the table.

A work is one file and a line in `WORKS`. The file has the operation of one writer: the way in which each
library is asked for it, and the rows that it takes from the table and puts there, by which the check judges
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spillway.race.works import mixed, optimize
from spillway.race.works.append import Append
from spillway.race.works.delete import Delete
from spillway.race.works.merge import Merge
from spillway.race.works.update import Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.race.plan import Cell
    from spillway.race.works.protocol import Operation

__all__ = ["WORKS", "Work"]


class Work(NamedTuple):
    """A work.

    Attributes:
        noun: One operation of it, for people.
        article: The article of that.
        what: The operations of all writers, for people.
        operation: Makes an operation from the cell, the writer and the operation's number.
        optimizes: True if an optimiser compacts the table beside the writers, in a process of its own.
    """

    noun: str
    article: str
    what: str
    operation: Callable[[Cell, int, int], Operation]
    optimizes: bool = False

    @property
    def one_operation(self) -> str:
        """The noun with its article."""
        return f"{self.article} {self.noun}"


WORKS = {
    "append": Work("append", "an", "each writer appends rows", Append),
    "delete": Work("delete", "a", "each writer deletes rows of its own", Delete),
    "update": Work("update", "an", "each writer updates rows of its own", Update),
    "merge": Work("merge", "a", "each writer merges rows by keys of its own", Merge),
    "mixed": Work(
        "operation", "an", "half of the writers delete rows of their own, the others append", mixed.operation
    ),
    "optimize": Work(
        "operation",
        "an",
        "half of the writers update rows of their own, the others append, while one optimiser of the same "
        "committer, in a process of its own, compacts the table in a loop until they are done",
        optimize.operation,
        optimizes=True,
    ),
}
