"""The committers of delta-rs, with and without retries around a commit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from spillway.race.model import PARTITION_COLUMN, Backoff, Committer, first_table, properties, schema

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.race.location import Location
    from spillway.race.model import Cell, Change

_FIRST, _MOST = 0.1, 10.0
# Its errors of all conflicts have one class: the words tell them apart.
_CONFLICTS = {
    "ConcurrentAppend": "concurrent transactions? added new data",
    "ConcurrentDeleteRead": "concurrent transaction deleted data this operation read",
    "ConcurrentDeleteDelete": "concurrent transaction deleted the same data",
    "ConcurrentTransaction": "concurrent transaction failed",
    "MetadataChanged": "metadata changed since last commit",
    "ProtocolChanged": "protocol changed since last commit",
}


class DeltaRs(Committer):
    """Its calls with their defaults."""

    def create(self, location: Location, cell: Cell) -> None:
        """Make the table."""
        table = deltalake.DeltaTable.create(
            location.uri,
            schema(),
            partition_by=[PARTITION_COLUMN],
            configuration={**properties(cell)},
            **location.keywords,
        )
        if cell.file_rows:
            deltalake.write_deltalake(table, first_table(cell), mode="append")

    def writer(self, location: Location, cell: Cell) -> _Writer:
        """Open the table again: each writer has a handle, and need not read the log from its beginning."""
        return _Writer(deltalake.DeltaTable(location.uri, **location.keywords), cell)

    def conflict(self, error: BaseException) -> str | None:
        """The conflict that the error names. Giving up after 15 attempts is not a conflict."""
        if not isinstance(error, (CommitFailedError, DeltaError)):
            return None
        text = str(error)
        found = (name for name, words in _CONFLICTS.items() if re.search(words, text, re.IGNORECASE))
        return next(found, None)


class DeltaRsRetry(DeltaRs):
    """`write_deltalake`, called again as long as it fails."""

    def writer(self, location: Location, cell: Cell) -> _RetryingWriter:
        """Open the table again."""
        return _RetryingWriter(deltalake.DeltaTable(location.uri, **location.keywords), cell)


class _Writer:
    def __init__(self, table: deltalake.DeltaTable, cell: Cell) -> None:
        self._table = table
        self._merge: dict[str, Any] = {"schema_mode": "merge"} if cell.merges else {}

    def append(self, rows: pa.Table) -> int | None:
        self._write(rows)
        return None

    def change(self, change: Change) -> int | None:
        self._table.update_incremental()
        change.by_delta_rs(self._table)
        return None

    def _write(self, rows: pa.Table) -> None:
        deltalake.write_deltalake(self._table, rows, mode="append", **self._merge)


class _RetryingWriter(_Writer):
    def append(self, rows: pa.Table) -> int | None:
        pause = Backoff(_FIRST, _MOST)
        calls = 1
        while True:
            try:
                self._write(rows)
            except (CommitFailedError, DeltaError, OSError) as error:
                if not _is_lost_race(error):
                    raise
            else:
                return calls
            calls += 1
            pause.sleep()
            self._table.update_incremental()


def _is_lost_race(error: Exception) -> bool:
    """Return True if another writer was in the way. No other error is cured by trying again."""
    words = ("commit", "transaction", "version", "conflict", "exceeded")
    return isinstance(error, CommitFailedError) or any(word in str(error).lower() for word in words)
