"""The model of a race: its cells, rows and works, the protocol of committers, and the operations of writers.

An operation says how each library performs it, and which rows it takes from the table and puts there. The
check of a race compares the table with these rows.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypedDict, cast

from spillway._wording import counted
from spillway.harness.records import LATER, Keywords, Positive
from spillway.race import committers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import deltalake
    import pyarrow as pa

    import spillway.delta
    from spillway.race.location import Location
    from spillway.types import Condition

PARTITION_COLUMN = "partition"
MESSAGE = "message"
KEYS = ("writer", "number", "row")

Row = tuple[int, int, int, str]
"""A row: the values of `KEYS`, and the message. The partition follows from the writer."""

# Stands for the number of an append in the rows that are in the table before the race.
_FIRST = -1


def schema() -> pa.Schema:
    """The columns of the table."""
    import pyarrow as pa

    fields: list[pa.Field[Any]] = [pa.field(PARTITION_COLUMN, pa.string())]
    fields += [pa.field(name, pa.int64()) for name in KEYS]
    return pa.schema([*fields, pa.field(MESSAGE, pa.string())])


def properties(cell: Cell) -> dict[str, str]:
    """The table's properties."""
    return {"delta.appendOnly": "true"} if cell.only_appends and not cell.merges else {}


def partition(cell: Cell, writer: int) -> str:
    """The partition that a writer writes to."""
    return f"w{writer}" if cell.partitions == "own" else "all"


def message(writer: int, number: int, row: int) -> str:
    """The message of a row."""
    return f"writer {writer} says {row} in append {number}"


def rows(cell: Cell, writer: int, number: int) -> pa.Table:
    """The rows of one append."""
    return table_of(cell, ((writer, number, row, message(writer, number, row)) for row in range(cell.rows)))


def first_rows(cell: Cell) -> Iterator[Row]:
    """The rows that are in the table before the race. They belong to the writers in turns."""
    for place in range(cell.file_rows):
        row, writer = divmod(place, cell.writers)
        yield _first_row(writer, row)


def first_table(cell: Cell) -> pa.Table:
    """The same as an Arrow table."""
    return table_of(cell, first_rows(cell))


def own_rows(cell: Cell, writer: int, number: int) -> list[Row]:
    """Rows among the first ones that only this operation of this writer changes."""
    return [_first_row(writer, row) for row in _share(cell, number)]


def own_conditions(cell: Cell, writer: int, number: int) -> list[Condition]:
    """The conditions that hold for these and for no other rows."""
    share = _share(cell, number)
    return [
        (PARTITION_COLUMN, "=", partition(cell, writer)),
        ("writer", "=", writer),
        ("row", ">=", share.start),
        ("row", "<", share.stop),
    ]


def predicate(conditions: Sequence[Condition]) -> str:
    """Conditions in SQL."""
    return " and ".join(
        f'"{column}" {operator} {value!r}'  # Python quotes these texts as SQL does.
        for column, operator, value in conditions
    )


def _share(cell: Cell, number: int) -> range:
    return range(number * cell.rows, (number + 1) * cell.rows)


def _first_row(writer: int, row: int) -> Row:
    return writer, _FIRST, row, f"row {row} of writer {writer}"


def table_of(cell: Cell, given: Iterable[Row]) -> pa.Table:
    """Rows as an Arrow table."""
    import pyarrow as pa

    writers, numbers, places, messages = zip(*given, strict=True)
    values = {
        PARTITION_COLUMN: [partition(cell, writer) for writer in writers],
        "writer": writers,
        "number": numbers,
        "row": places,
        MESSAGE: messages,
    }
    return pa.table(values, schema=schema())


class EffectTimes(TypedDict):
    """The times of effects of one kind, of all processes.

    Attributes:
        count: The number of effects.
        total_seconds: The time of all of them.
        longest_seconds: The time of the longest one.
    """

    count: int
    total_seconds: float
    longest_seconds: float


def merged(one: Mapping[str, EffectTimes], other: Mapping[str, EffectTimes]) -> dict[str, EffectTimes]:
    """The times of two processes together."""
    both = dict(one)
    for kind, times in other.items():
        if (known := both.get(kind)) is None:
            both[kind] = times
            continue
        both[kind] = {
            "count": known["count"] + times["count"],
            "total_seconds": known["total_seconds"] + times["total_seconds"],
            "longest_seconds": max(known["longest_seconds"], times["longest_seconds"]),
        }
    return both


class Tally(NamedTuple):
    """Counts of a whole process, where its writers commit together.

    Attributes:
        attempts: Versions that it tried to write.
        most_lost: The most races that one transaction lost.
        effects: The times of effects, by their kind.
    """

    attempts: int
    most_lost: int
    effects: Mapping[str, EffectTimes]


class OwnTable(NamedTuple):
    """A table that is no Delta table, after the race.

    Attributes:
        reader: The name of the library that has read it.
        versions: Versions after those that made the table.
        rows: All rows.
    """

    reader: str
    versions: int
    rows: pa.Table


class Change(Protocol):
    """A change of rows that are in the table, in the words of each library."""

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Change them by `spillway.delta`."""

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Change them by deltalake."""


class Writer(Protocol):
    """One writer with its own handle on the table."""

    def append(self, rows: pa.Table) -> int | None:
        """Append rows; return the commits that it tried when that is acknowledged.

        None where the library does not say.
        """

    def change(self, change: Change) -> int | None:
        """Change rows as they are in the newest version, once; return as `append`.

        Committers for appends only have no such method: a plan with them has nothing else.
        """


class Committer(Protocol):
    """A way to commit to a table. Its constructor imports the library."""

    def create(self, location: Location, cell: Cell) -> None:
        """Create the table, with its rows before the race."""

    def writer(self, location: Location, cell: Cell) -> Writer:
        """Open the table for one more writer, before the race begins."""

    def conflict(self, error: BaseException) -> str | None:  # noqa: ARG002 - committers with conflicts look at it
        """delta-spark's name for the conflict that an error reports; None for any other error.

        A conflict is a result: another transaction committed first.
        """
        return None

    def tally(self) -> Tally | None:
        """The counts of the process at the end; None where the library keeps none."""
        return None


class OwnTables(Committer, Protocol):
    """A committer to tables that are no Delta tables: its own library reads them afterwards."""

    def found(self, location: Location) -> OwnTable:
        """Read the table, to which nothing is written any more."""


class Operation(Protocol):
    """One operation of one writer. All that it needs is made before the writer is let go."""

    @property
    def kind(self) -> str:
        """The noun for it."""

    def run(self, writer: Writer) -> int | None:
        """Do it once; return when it is acknowledged."""

    def takes(self) -> Iterable[Row]:
        """The rows that it takes from the table."""

    def puts(self) -> Iterable[Row]:
        """The rows that it puts into the table."""


class Backoff:
    """Sleeps a random time of up to `first` seconds, then of twice as many, and so on up to `most`."""

    def __init__(self, first: float, most: float) -> None:
        self._next = first
        self._most = most

    def sleep(self) -> None:
        """Wait before the next attempt."""
        time.sleep(random.uniform(0, self._next))  # noqa: S311 - a pause, not a secret
        self._next = min(self._next * 2, self._most)


FILE_ROWS = 100_000
"""Default number of rows in the table before the race, for work other than appends."""
PARTITIONS = ("own", "one")


class Work(NamedTuple):
    """A work.

    Attributes:
        noun: One operation of it, for people.
        article: The article of that.
        what: The operations of all writers, for people.
        optimizes: True if an optimiser compacts the table during the race, in a separate process.
    """

    noun: str
    article: str
    what: str
    optimizes: bool = False

    @property
    def one_operation(self) -> str:
        """The noun with its article."""
        return f"{self.article} {self.noun}"


WORKS = {
    "append": Work("append", "an", "each writer appends rows"),
    "delete": Work("delete", "a", "each writer deletes rows of its own"),
    "update": Work("update", "an", "each writer updates rows of its own"),
    "merge": Work("merge", "a", "each writer merges rows by keys of its own"),
    "mixed": Work("operation", "an", "half of the writers delete rows of their own, the others append"),
    "optimize": Work(
        "operation",
        "an",
        "half of the writers update rows of their own, the others append, while one optimiser of the same "
        "committer, in a process of its own, compacts the table in a loop until they are done",
        optimizes=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One committer in one race.

    Attributes:
        committer: Its name.
        work: The operations of writers. Early records are of appends.
        workload: Of appends: "merge" asks for the schemas to be merged at every append, "append-only" does
            not and the table says that it is append-only, "batched:N" is that with N rows an append. Null
            for any other work.
        writers: Writers that start at once.
        appends: Appends, or other operations of the work, that each makes, one after another.
        rows: Rows of an append, or of another operation.
        partitions: "own" gives each writer a partition, "one" has all write to the same.
        processes: Processes that the writers are spread over; in each they are threads.
        file_rows: Rows that the table has before the race, in one file for each partition.
        seconds: The time for which each writer appends again and again, in place of a number of appends.
        noise: True if another process keeps writing and syncing files on the disk of the table.
        rate: Appends that are due in a second, of all writers together; null in a closed loop.
    """

    committer: Annotated[str, Keywords(enum=list(committers.NAMES))]
    work: Annotated[str, Keywords(enum=list(WORKS))] = "append"
    workload: Annotated[str | None, Keywords(pattern="^(merge|append-only|batched:[1-9][0-9]*)$")] = None
    writers: Positive
    rows: Positive = 10
    appends: Positive = 1
    partitions: Annotated[str, Keywords(enum=list(PARTITIONS))] = "own"
    processes: Positive = 1
    file_rows: int = 0
    seconds: float | None = None
    noise: bool = False
    rate: float | None = field(default=None, metadata=LATER)

    @property
    def expected(self) -> int | None:
        """Operations that should be in the table at the end; None where writers go on for a time."""
        return None if self.seconds is not None else self.writers * self.appends

    @property
    def goes_on(self) -> bool:
        """True if writers go on for a time, in a closed loop: how often is not known before."""
        return self.seconds is not None and self.rate is None

    @property
    def only_appends(self) -> bool:
        """True if its writers append, and do nothing else."""
        return self.work == "append"

    @property
    def kind(self) -> Work:
        """Its work."""
        return WORKS[self.work]

    @property
    def first_version(self) -> int:
        """The version from which the race begins: that of the table, or of its first rows."""
        return 1 if self.file_rows else 0

    @property
    def merges(self) -> bool:
        """True if each append merges the schemas."""
        return self.workload == "merge"

    @property
    def words(self) -> str:
        """The cell for people."""
        spread = "" if self.processes == 1 else f" in {self.processes:,} processes"
        operations = "" if self.appends == 1 else f" x {self.appends:,} {self.kind.noun}s"
        if self.seconds is not None:
            operations = f" for {self.seconds:g} s"
        if self.rate is not None:
            operations += f" at {self.rate:g} appends/s"
        noise = " beside noise" if self.noise else ""
        writers = counted(self.writers, "writer")
        return f"{self.committer}, {self.workload or self.work}, {writers}{spread}{operations}{noise}"

    def share(self, process: int) -> range:
        """The numbers of the writers that are in one of the processes."""
        return range(process, self.writers, self.processes)


def load(name: str) -> Committer:
    """Import what a committer needs.

    Raises:
        MissingExtraError: Its library is not installed.
        SpillwayError: The native module is not built.
    """
    return cast("Committer", committers.made(name))


def load_own(name: str) -> OwnTables:
    """The same of one of `committers.OWN_TABLES`.

    Raises:
        MissingExtraError: Its library is not installed.
    """
    return cast("OwnTables", committers.made(name))


class Append:
    """An append, with its rows."""

    kind = "append"

    def __init__(self, cell: Cell, writer: int, number: int) -> None:
        self._key = (writer, number)
        self._rows = rows(cell, writer, number)

    def run(self, writer: Writer) -> int | None:
        """Append."""
        return writer.append(self._rows)

    def takes(self) -> list[Row]:
        """None."""
        return []

    def puts(self) -> list[Row]:
        """Its rows."""
        return [(*self._key, row, message(*self._key, row)) for row in range(self._rows.num_rows)]


class _Change(Change):
    """A change of the next rows of a writer."""

    kind = ""

    def __init__(self, cell: Cell, writer: int, number: int) -> None:
        self._which = (cell, writer, number)
        self._conditions = own_conditions(cell, writer, number)
        self._message = f"writer {writer} says so in {self.kind} {number}"

    def run(self, writer: Writer) -> int | None:
        """Do it once."""
        return writer.change(self)

    def takes(self) -> list[Row]:
        """The rows that are its own, as they were."""
        return own_rows(*self._which)

    def puts(self) -> list[Row]:
        """The same rows with their new message."""
        return [(writer, number, row, self._message) for writer, number, row, _ in self.takes()]


class Delete(_Change):
    """A delete of the next rows of a writer."""

    kind = "delete"

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Delete by `Table.delete`."""
        table.delete(self._conditions, timeout=None)

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Delete by `DeltaTable.delete`."""
        table.delete(predicate(self._conditions))

    def puts(self) -> list[Row]:
        """None."""
        return []


class Update(_Change):
    """An update of the next rows of a writer."""

    kind = "update"

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Update by `Table.update`."""
        table.update(self._conditions, {MESSAGE: self._message}, timeout=None)

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Update by `DeltaTable.update`."""
        table.update(predicate=predicate(self._conditions), new_values={MESSAGE: self._message})


_ON = (PARTITION_COLUMN, *KEYS)


class Merge(_Change):
    """A merge of the next rows of a writer, with other messages."""

    kind = "merge"

    def __init__(self, cell: Cell, writer: int, number: int) -> None:
        super().__init__(cell, writer, number)
        self._source = table_of(cell, self.puts())

    def by_spillway(self, table: spillway.delta.Table) -> None:
        """Merge by `Table.merge`."""
        table.merge(self._source, list(_ON), timeout=None)

    def by_delta_rs(self, table: deltalake.DeltaTable) -> None:
        """Merge by `DeltaTable.merge`."""
        same = " and ".join(f'target."{column}" = source."{column}"' for column in _ON)
        merge = table.merge(self._source, same, source_alias="source", target_alias="target")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


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
