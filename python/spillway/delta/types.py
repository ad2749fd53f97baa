"""Records of a Delta table: its files, its history, and what a transaction reads and adds."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spillway import _native
    from spillway.types import Condition, EffectName, OutcomeStatus

__all__ = [
    "AddFile",
    "CommitStats",
    "Compaction",
    "Deletion",
    "EffectTimes",
    "HistoryEntry",
    "Merge",
    "Outcome",
    "ReadSet",
    "TableFile",
    "Update",
    "Vacuum",
]


@dataclass(frozen=True)
class TableFile:
    """A data file of a table.

    Args:
        path: Its path as the log has it: relative to the table and URL-encoded. `Table.commit` and `ReadSet`
            take it as it is.
        size: Bytes.
        modification_time: Milliseconds since the epoch.
        partition_values: Its value, as text, in each partition column; None is null.
        stats: Its statistics: ``numRecords``, ``minValues``, ``maxValues``, ``nullCount``. ``numRecords``
            counts the deleted rows too. With ``tightBounds`` false, the bounds hold for the rows that are
            left and need not be among them.
        deleted_rows: Rows of it that its deletion vector marks as deleted.
    """

    path: str
    size: int
    modification_time: int
    partition_values: Mapping[str, str | None]
    stats: Mapping[str, Any] | None
    deleted_rows: int = 0

    @classmethod
    def of(cls, file: _native.DeltaFileDict) -> TableFile:
        """The file that the native module describes."""
        stats = None if file["stats"] is None else json.loads(file["stats"])
        return cls(
            file["path"],
            file["size"],
            file["modification_time"],
            file["partition_values"],
            stats,
            file["deleted_rows"],
        )


@dataclass(frozen=True)
class AddFile:
    """A data file, written by the caller into the table's folder, that is to become part of the table.

    Args:
        path: Its path relative to the table, URL-encoded (`urllib.parse.quote` with ``safe="/"`` does it). A
            path that is not a relative URI reference (RFC 3986), as one with a blank, is refused: Spark could
            not read the table.
        size: Bytes.
        partition_values: Its value, as text, in each partition column; None and ``""`` are null.
        modification_time: Milliseconds since the epoch; now, without it.
        stats: Statistics as the Delta protocol has them, in "Per-file Statistics".
        data_change: Whether the table's rows change by it; False for a file that only rewrites others.
    """

    path: str
    size: int
    _: KW_ONLY
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    modification_time: int | None = None
    stats: Mapping[str, Any] | None = None
    data_change: bool = True


@dataclass(frozen=True)
class ReadSet:
    """The part of a table that a transaction read, so that it conflicts with changes to it.

    Args:
        version: The version that was read. Without it, `Table.version` as it was when the table was asked
            last: threads that share a `Table` should name it.
        files: Files that were read, as `TableFile.path` has them.
        where: Rows that were looked for: those for which the conditions hold, a text in SQL or a list, as
            `Table.scan` takes them. A concurrent transaction conflicts if it adds a file that may hold such
            rows, or removes rows of a file that may have held some at `version`, as far as partition values
            and statistics tell. One that only moves rows to other files, such as `Table.optimize`, does not.
        whole_table: Everything was read.
    """

    _: KW_ONLY
    version: int | None = None
    files: Sequence[str] = ()
    where: str | Sequence[Condition] = ()
    whole_table: bool = False


@dataclass(frozen=True)
class Deletion:
    """A deletion of rows that is committed.

    Args:
        version: The version without the rows; where no file changed, the one that was read.
        rows: The number of rows that were deleted. A file that was empty before may leave the table
            without any.
    """

    version: int
    rows: int


@dataclass(frozen=True)
class Update:
    """An update of rows that is committed.

    Args:
        version: The version with the new values; where no row changed, the one that was read.
        rows: The number of rows that were updated.
    """

    version: int
    rows: int


@dataclass(frozen=True)
class Merge:
    """A merge of rows that is committed.

    Args:
        version: The version that holds it; where nothing changed, the one that was read.
        inserted: The number of rows that were inserted.
        updated: The number of rows that were updated.
        deleted: The number of rows that were deleted.
    """

    version: int
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class Compaction:
    """A compaction that is committed: files that were written again as others, with the same rows.

    Args:
        version: The last version that it made; where no file changed, the one that was read.
        removed_files: The number of files that left the table.
        removed_bytes: Their bytes.
        added_files: The number of files that were written.
        added_bytes: Their bytes.
    """

    version: int
    removed_files: int
    removed_bytes: int
    added_files: int
    added_bytes: int


@dataclass(frozen=True)
class Vacuum:
    """Files that a table does not need.

    Args:
        files: Their names relative to the table's folder, as they are there: not URL-encoded.
        bytes: Their bytes.
        removed: The number of files that were removed: none in a dry run, and fewer than there are `files`
            where the store refused to remove some. Another call names those.
    """

    files: list[str]
    bytes: int
    removed: int


@dataclass(frozen=True)
class HistoryEntry:
    """A version of a table, as the history has it.

    Args:
        version: Its number.
        timestamp: Its time, in milliseconds since the epoch, by the writer's clock.
        operation: What was done: ``WRITE``, ``DELETE``, ``CREATE TABLE``.
        info: Everything that the writer said, as the log has it.
    """

    version: int
    timestamp: int | None
    operation: str | None
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The end of a commit whose outcome was unknown.

    Args:
        status: ``"committed"``; ``"rejected"``, when it is not in the table and never will be; ``"pending"``,
            when it cannot be said yet; ``"unknowable"``, when the log that would tell was cleaned up.
        version: The version that holds it, when it is committed.
    """

    status: OutcomeStatus
    version: int | None = None


class EffectTimes(TypedDict):
    """The times of a committer's effects of one kind.

    Attributes:
        count: The number of effects.
        total_seconds: The time of all of them. They follow one another.
        longest_seconds: The time of the longest one.
    """

    count: int
    total_seconds: float
    longest_seconds: float


@dataclass(frozen=True)
class CommitStats:
    """Attempts of a process to write versions of a table. All its threads try as one.

    Args:
        attempts: Versions that it tried to write; one holds the appends of many threads.
        won: Those of them that it wrote.
        most_lost: The most attempts in which another writer came first, of one transaction.
        effects: The times of its effects, by their kind: ``put_version``, ``list_intents``, ``sync_data`` and
            others. A kind of which there was none is left out.
    """

    attempts: int
    won: int
    most_lost: int
    effects: Mapping[EffectName, EffectTimes] = field(hash=False)
