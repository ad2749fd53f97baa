"""Pairs of transactions that race, and the effect of each on the rows, in Python alone.

The table that they race on is partitioned by `day` and has one row a file. Its version 1 holds the rows 1, 3
and 5. Its version 2, from which every transaction starts, holds the rows 1 and 2 of the earlier day, and 3
and 4 of today.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

EARLIER = "2026-11-20"
TODAY = "2026-11-21"

OPERATIONS = [
    "append",
    "append with schema change",
    "partition delete",
    "overwrite",
    "overwrite of a partition",
    "truncate",
    "restore",
    "rewrite",
    "property change",
    "protocol change",
]
ISOLATIONS = ["Serializable", "WriteSerializable"]
PARTITIONS = ["same", "disjoint"]

# By name: an hourly job beside its nightly clean-up, and a protocol that asks more of writers.
NAMED = [
    ("INSERT of today", "DELETE of earlier days", "disjoint"),
    ("DELETE of earlier days", "INSERT of today", "disjoint"),
    ("protocol change to constraints", "append", "same"),
    ("protocol change to constraints", "partition delete", "same"),
    ("protocol change to constraints", "rewrite", "same"),
]

BASE = {1: EARLIER, 2: EARLIER, 3: TODAY, 4: TODAY}
RESTORED_VERSION = 1
RESTORED_ROW = 5
RESTORED_AWAY = (2, 4)

_ADDING = {
    "append": 1,
    "INSERT of today": 1,
    "append with schema change": 2,
    "overwrite": 3,
    "overwrite of a partition": 4,
}
_REPLACING_ALL = {"overwrite", "truncate"}
_REPLACING_A_DAY = {"partition delete", "overwrite of a partition", "DELETE of earlier days"}
_MARKS = {
    "append with schema change": "column",
    "property change": "property",
    "protocol change": "protocol",
    "protocol change to constraints": "protocol",
}


@dataclass(frozen=True)
class Pair:
    """Two transactions from one snapshot: the winner commits first, the loser tries next."""

    winner: str
    loser: str
    partitions: str
    isolation: str

    def day(self, side: str) -> str:
        """The day that a side works on: the winner's is today, but for the clean-up of earlier days."""
        if getattr(self, side) == "DELETE of earlier days":
            return EARLIER
        disjoint = self.partitions == "disjoint" and self.loser != "INSERT of today"
        return EARLIER if side == "loser" and disjoint else TODAY


@dataclass(frozen=True)
class Effect:
    """The effect of a transaction if it commits, whatever else happened since its snapshot."""

    adds: frozenset[int]
    removes: frozenset[int]
    marks: frozenset[str]


def all_pairs() -> list[Pair]:
    """Every pair, in the order of the table."""
    square = product(OPERATIONS, OPERATIONS, PARTITIONS, ISOLATIONS)
    return [Pair(*one) for one in square] + [Pair(*one, level) for one in NAMED for level in ISOLATIONS]


def row_added(operation: str, side: str, day: str) -> int:
    """The id of the row that an operation adds: no two sides, operations and days share one."""
    return {"winner": 100, "loser": 200}[side] + 10 * _ADDING[operation] + (day == TODAY)


def effect(operation: str, side: str, day: str) -> Effect:
    """The effect of the operation on the rows of the snapshot, and on the table itself."""
    marks = frozenset({_MARKS[operation]} if operation in _MARKS else ())
    if operation == "restore":
        return Effect(frozenset({RESTORED_ROW}), frozenset(RESTORED_AWAY), marks)
    adds = frozenset({row_added(operation, side, day)} if operation in _ADDING else ())
    of_day = frozenset(row for row, its_day in BASE.items() if its_day == day)
    removes = frozenset(BASE) if operation in _REPLACING_ALL else of_day
    return Effect(adds, removes if operation in _REPLACING_ALL | _REPLACING_A_DAY else frozenset(), marks)


def expected(pair: Pair, *, both: bool) -> tuple[list[int], list[str]]:
    """The rows and marks that a reader sees after the winner, or after both."""
    rows, marks = set(BASE), set[str]()
    for side in ("winner", "loser")[: 1 + both]:
        done = effect(getattr(pair, side), side, pair.day(side))
        rows = rows - done.removes | done.adds
        marks |= done.marks
    return sorted(rows), sorted(marks)
