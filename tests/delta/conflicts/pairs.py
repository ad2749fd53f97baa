"""Pairs of transactions that race, and the effect of each on the rows, in Python alone.

The table that they race on is partitioned by `day` and has one row a file. Its version 1 holds the rows 1, 3
and 5. Its version 2, from which every transaction starts, holds the rows 1 and 2 of the earlier day, and 3
and 4 of today.

Tables with features have the same rows, a file for each day, in their version 0, from which transactions
start.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

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

# Tables with features, by name, and their properties. Rows of all of them are marked by deletion vectors.
_VECTORS = {"delta.enableDeletionVectors": "true", "delta.feature.domainMetadata": "supported"}
TABLES: dict[str, dict[str, str]] = {
    "deletion vectors": _VECTORS,
    "row tracking": _VECTORS | {"delta.enableRowTracking": "true"},
    "row tracking to come": _VECTORS | {"delta.feature.rowTracking": "supported"},
    "in-commit timestamps": _VECTORS | {"delta.enableInCommitTimestamps": "true"},
}
_MARKING = ["delete of a row", "delete of another row", "update of a row"]
_STREAMS = ["append of a stream", "append of another stream"]
_DOMAINS = ["domain change", "change of another domain"]
_OTHERS = ["append", "partition delete", "rewrite", "property change"]
_ENABLING = {
    "row tracking enablement": "row tracking to come",
    "in-commit timestamps enablement": "deletion vectors",
}

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
    "update of a row": 5,
    "append of a stream": 6,
    "append of another stream": 7,
}
_REPLACING_ALL = {"overwrite", "truncate"}
_REPLACING_A_DAY = {"partition delete", "overwrite of a partition", "DELETE of earlier days"}
_MARKS = {
    "append with schema change": "column",
    "property change": "property",
    "protocol change": "protocol",
    "protocol change to constraints": "protocol",
    "append of a stream": "stream",
    "append of another stream": "other stream",
    "domain change": "domain",
    "change of another domain": "other domain",
    "row tracking enablement": "row tracking",
    "in-commit timestamps enablement": "in-commit timestamps",
}


@dataclass(frozen=True)
class Pair:
    """Two transactions from one snapshot: the winner commits first, the loser tries next."""

    winner: str
    loser: str
    partitions: str
    isolation: str
    table: str | None = None  # with features

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


def pair_of(line: dict[str, Any]) -> Pair:
    """The pair of a line of the table."""
    return Pair(line["winner"], line["loser"], line["partitions"], line["isolation"], line.get("table"))


def all_pairs() -> list[Pair]:
    """Every pair, in the order of the table."""
    square = product(OPERATIONS, OPERATIONS, PARTITIONS, ISOLATIONS)
    plain = [Pair(*one) for one in square] + [Pair(*one, level) for one in NAMED for level in ISOLATIONS]
    return plain + _pairs_with_features()


def _pairs_with_features() -> list[Pair]:
    """Pairs that the features of their table are about. Levels matter to those that mark rows."""
    marking = _each_with(_MARKING, [*_OTHERS, _STREAMS[0]])
    pairs = [Pair(*one, "same", level, "deletion vectors") for one in marking for level in ISOLATIONS]
    apart = [*product(_STREAMS + _DOMAINS, _STREAMS + _DOMAINS)]
    apart += [pair for one in (_STREAMS[0], _DOMAINS[0]) for pair in _each_with([one], _OTHERS)[1:]]
    pairs += [Pair(*one, "same", "Serializable", "deletion vectors") for one in apart]
    of_each = ["append", "partition delete", "rewrite", "delete of a row"]
    for table in ("row tracking", "in-commit timestamps"):
        pairs += [Pair(*one, "same", "Serializable", table) for one in product(of_each, of_each)]
    for one, table in _ENABLING.items():
        beside = _each_with([one], [*_OTHERS, "delete of a row"])
        pairs += [Pair(*pair, "same", "Serializable", table) for pair in beside]
    return pairs


def _each_with(some: list[str], others: list[str]) -> list[tuple[str, str]]:
    """Pairs of some with each other, and then with others, as the winner and as the loser."""
    return [*product(some, some), *product(some, others), *product(others, some)]


def rows_marked(operation: str, day: str) -> frozenset[int]:
    """The rows of the snapshot that an operation marks: the first of its day, or the second."""
    of_day = sorted(row for row, its_day in BASE.items() if its_day == day)
    places = {"delete of a row": 0, "update of a row": 0, "delete of another row": 1}
    return frozenset({of_day[places[operation]]} if operation in places else ())


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
    if operation in _REPLACING_ALL:
        return Effect(adds, frozenset(BASE), marks)
    removes = of_day if operation in _REPLACING_A_DAY else rows_marked(operation, day)
    return Effect(adds, removes, marks)


def expected(pair: Pair, *, both: bool) -> tuple[list[int], list[str]]:
    """The rows and marks that a reader sees after the winner, or after both."""
    rows, marks = set(BASE), set[str]()
    for side in ("winner", "loser")[: 1 + both]:
        done = effect(getattr(pair, side), side, pair.day(side))
        rows = rows - done.removes | done.adds
        marks |= done.marks
    return sorted(rows), sorted(marks)
