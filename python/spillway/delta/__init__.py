"""Delta tables for many concurrent writers: `create`, `open`, `write`, and scans."""

from __future__ import annotations

from spillway.delta.append import Append
from spillway.delta.clauses import (
    MergeClause,
    when_matched_delete,
    when_matched_update,
    when_not_matched_by_source_delete,
    when_not_matched_by_source_update,
    when_not_matched_insert,
)
from spillway.delta.scan import Changes, Scan
from spillway.delta.table import (
    Table,
    create,
    open,  # noqa: A004 - the word for it
    write,
)
from spillway.delta.types import (
    AddFile,
    CommitStats,
    Compaction,
    Deletion,
    EffectTimes,
    HistoryEntry,
    Merge,
    Outcome,
    ReadSet,
    TableFile,
    Update,
    Vacuum,
)
from spillway.types import Condition

__all__ = [
    "AddFile",
    "Append",
    "Changes",
    "CommitStats",
    "Compaction",
    "Condition",
    "Deletion",
    "EffectTimes",
    "HistoryEntry",
    "Merge",
    "MergeClause",
    "Outcome",
    "ReadSet",
    "Scan",
    "Table",
    "TableFile",
    "Update",
    "Vacuum",
    "create",
    "open",
    "when_matched_delete",
    "when_matched_update",
    "when_not_matched_by_source_delete",
    "when_not_matched_by_source_update",
    "when_not_matched_insert",
    "write",
]
