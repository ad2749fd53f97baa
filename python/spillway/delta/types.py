"""Records of a Delta table: its files, its history, and what a transaction reads and adds."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
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
        path: The path as stored in the log: relative to the table and URL-encoded. `Table.commit` and
            `ReadSet` take it in this form.
        size: Bytes.
        modification_time: Milliseconds since the epoch.
        partition_values: The value of each partition column, as text; None is null.
        stats_json: Its statistics as JSON, or None; `stats` parses them.
        deleted_rows: Number of its rows that the deletion vector marks as deleted.
    """

    path: str
    size: int
    modification_time: int
    partition_values: Mapping[str, str | None]
    stats_json: str | None = field(repr=False)
    deleted_rows: int = 0

    @classmethod
    def of(cls, file: _native.DeltaFileDict) -> TableFile:
        """The file that the native module describes."""
        return cls(
            file["path"],
            file["size"],
            file["modification_time"],
            file["partition_values"],
            file["stats"],
            file["deleted_rows"],
        )

    @cached_property
    def stats(self) -> Mapping[str, Any] | None:
        """Its statistics: ``numRecords``, ``minValues``, ``maxValues``, ``nullCount``.

        ``numRecords`` includes deleted rows. If ``tightBounds`` is false, the bounds are valid for the
        remaining rows, but need not occur among them. They are parsed when they are first read: for all files
        of a table with many columns, that takes longer than reading its log.
        """
        return None if self.stats_json is None else json.loads(self.stats_json)


@dataclass(frozen=True)
class AddFile:
    """A data file that the caller wrote into the table's folder, to add to the table.

    Args:
        path: The path relative to the table, URL-encoded, for example with `urllib.parse.quote` and
            ``safe="/"``. A path that is not a relative URI reference (RFC 3986), such as one with a blank, is
            refused, because Spark could not read the table.
        size: Bytes.
        partition_values: Its value, as text, in each partition column; None and ``""`` are null.
        modification_time: Milliseconds since the epoch; by default, now.
        stats: Statistics in the form of "Per-file Statistics" in the Delta protocol.
        data_change: Whether the file changes the table's rows; False for a file that only rewrites others.
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
    """The part of a table that a transaction read; concurrent changes to this part are conflicts.

    Args:
        version: The version that was read; by default, the last `Table.version`. Threads that share a `Table`
            should pass it.
        files: Files that were read, as in `TableFile.path`.
        where: A condition that selects the rows that were read: SQL or a list, as in `Table.scan`. A
            concurrent transaction conflicts if it adds a file that, according to partition values and
            statistics, may contain such rows, or removes rows from a file that may have contained some at
            `version`. A transaction that only moves rows to other files, such as `Table.optimize`, does not
            conflict.
        whole_table: True if the whole table was read.
    """

    _: KW_ONLY
    version: int | None = None
    files: Sequence[str] = ()
    where: str | Sequence[Condition] = ()
    whole_table: bool = False


@dataclass(frozen=True)
class Deletion:
    """A committed deletion of rows.

    Args:
        version: The version without the rows; if no file changed, the version that was read.
        rows: The number of deleted rows. It may be 0 although a file left the table, if the file was empty.
    """

    version: int
    rows: int


@dataclass(frozen=True)
class Update:
    """A committed update of rows.

    Args:
        version: The version with the new values; if no row changed, the version that was read.
        rows: The number of updated rows.
    """

    version: int
    rows: int


@dataclass(frozen=True)
class Merge:
    """A committed merge of rows.

    Args:
        version: The version that contains the merge; if nothing changed, the version that was read.
        inserted: The number of inserted rows.
        updated: The number of updated rows.
        deleted: The number of deleted rows.
    """

    version: int
    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class Compaction:
    """A committed compaction: files that were rewritten with the same rows.

    Args:
        version: The last version of the compaction; if no file changed, the version that was read.
        removed_files: The number of files that left the table.
        removed_bytes: Total size of the removed files.
        added_files: The number of files that were written.
        added_bytes: Total size of the added files.
    """

    version: int
    removed_files: int
    removed_bytes: int
    added_files: int
    added_bytes: int


@dataclass(frozen=True)
class Vacuum:
    """Files that a table no longer needs.

    Args:
        files: Names relative to the table's folder, as in the file system: not URL-encoded.
        bytes: Their bytes.
        removed: The number of files that were removed: 0 in a dry run, and fewer than `files` if the store
            refused to remove some. Another call lists those again.
    """

    files: list[str]
    bytes: int
    removed: int


@dataclass(frozen=True)
class HistoryEntry:
    """An entry of a table's history: one version.

    Args:
        version: Its number.
        timestamp: The time of the version in milliseconds since the epoch, as in time travel: the in-commit
            timestamp, or the modification time of its file. ``info["timestamp"]`` is that of the writer's
            clock, which stands here too if the store does not report modification times.
        operation: The operation: ``WRITE``, ``DELETE``, ``CREATE TABLE`` and others.
        info: The whole ``commitInfo`` of the version.
    """

    version: int
    timestamp: int | None
    operation: str | None
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a commit whose outcome was unknown.

    Args:
        status: ``"committed"``; ``"rejected"``, if the commit is not in the table and never will be;
            ``"pending"``, if it is not decided yet; ``"unknowable"``, if the log that would tell was cleaned
            up.
        version: The version that contains the commit, if it is committed.
    """

    status: OutcomeStatus
    version: int | None = None


class EffectTimes(TypedDict):
    """The times of one kind of step of a committer.

    Attributes:
        count: The number of steps.
        total_seconds: The total time of all steps, which follow one another.
        longest_seconds: The time of the longest step.
    """

    count: int
    total_seconds: float
    longest_seconds: float


@dataclass(frozen=True)
class CommitStats:
    """The attempts of a process to write versions of a table, for all of its threads together.

    Args:
        attempts: Number of versions that it tried to write; one version may contain the appends of many
            threads.
        won: Number of these that it wrote.
        most_lost: The largest number of attempts that one transaction lost to other writers.
        effects: The times of its steps by kind: ``put_version``, ``list_intents``, ``sync_data`` and others.
            Kinds that did not occur are left out.
    """

    attempts: int
    won: int
    most_lost: int
    effects: Mapping[EffectName, EffectTimes] = field(hash=False)
