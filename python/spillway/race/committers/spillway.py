"""The committers of `spillway.delta`, and plain optimistic commits in Python, for scale."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import spillway
import spillway.delta
from spillway.errors import CommitConflict, MetadataChanged
from spillway.race.location import log_name, sync_folder
from spillway.race.model import (
    PARTITION_COLUMN,
    Backoff,
    Committer,
    Tally,
    first_table,
    properties,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from spillway.race.location import Location
    from spillway.race.model import Cell, Change, Writer


class Spillway(Committer):
    """Appends that share versions."""

    shares_files = False
    properties: ClassVar[Mapping[str, str]] = {}
    """Additional properties of the table."""

    def __init__(self) -> None:
        self._table: spillway.delta.Table | None = None

    def create(self, location: Location, cell: Cell) -> None:
        """Make the table."""
        table = spillway.delta.create(
            location.uri,
            schema(),
            partition_by=PARTITION_COLUMN,
            properties={**properties(cell), **self.properties},
            **location.keywords,
        )
        if cell.file_rows:
            with table.append() as append:
                append.write(first_table(cell))

    def writer(self, location: Location, cell: Cell) -> Writer:
        """Open the table; all threads of a process share what is below."""
        self._table = spillway.delta.open(location.uri, **location.keywords)
        return _Writer(self._table, cell, coalesce=self.shares_files)

    def conflict(self, error: BaseException) -> str | None:
        """The name of its class."""
        return type(error).__name__ if isinstance(error, CommitConflict) else None

    def tally(self) -> Tally | None:
        """The counts of this process' races for versions."""
        if self._table is None:
            return None
        stats = self._table.commit_stats()
        return Tally(
            stats.attempts, stats.most_lost, {str(kind): times for kind, times in stats.effects.items()}
        )


class SpillwayCoalesce(Spillway):
    """Appends that share versions and files."""

    shares_files = True


class _Writer:
    def __init__(self, table: spillway.delta.Table, cell: Cell, *, coalesce: bool) -> None:
        self._table = table
        merge: dict[str, Any] = {"schema_mode": "merge"} if cell.merges else {}
        # Writers of a race are many, as its other committers' are.
        self._options = {"coalesce": coalesce, "threads": 1, **merge}

    def append(self, rows: pa.Table) -> int | None:
        with self._table.append(timeout=None, **self._options) as append:
            append.write(rows)
        return None

    def change(self, change: Change) -> int | None:
        change.by_spillway(self._table)
        return None


class RowLevel(Spillway):
    """Rows that are marked in their file."""

    properties: ClassVar[Mapping[str, str]] = {"delta.enableDeletionVectors": "true"}


_FIRST_PAUSE, _MOST_PAUSE = 0.01, 1.0


class PutIfAbsent(Spillway):
    """One version for each append, by put-if-absent: each append counts its own attempts."""

    def writer(self, location: Location, cell: Cell) -> _PlainWriter:  # noqa: ARG002 - all cells are alike to it
        """A writer that has read the log to its tip."""
        return _PlainWriter(location)


class _PlainWriter:
    def __init__(self, location: Location) -> None:
        self._location = location
        self._files = location.files()
        self._tip = -1
        self._catch_up()

    def append(self, rows: pa.Table) -> int | None:
        pause = Backoff(_FIRST_PAUSE, _MOST_PAUSE)
        with self._files.draft(_commit(self._write_file(rows))) as draft:
            attempts = 1
            while not draft.put_new(log_name(self._tip + 1)):
                self._catch_up()
                pause.sleep()
                self._catch_up()
                attempts += 1
        self._tip += 1
        return attempts

    def change(self, change: Change) -> int | None:
        raise NotImplementedError("put-if-absent only takes part in races of appends")

    def _catch_up(self) -> None:
        """Read the log to its tip. Appends of others cause no conflict, a change of the table always does."""
        while (body := self._files.read(log_name(self._tip + 1))) is not None:
            self._tip += 1
            if self._tip and (b'{"metaData"' in body or b'{"protocol"' in body):
                raise MetadataChanged("the table was changed under the race", self._tip)

    def _write_file(self, rows: pa.Table) -> dict[str, object]:
        partition = rows.column(PARTITION_COLUMN)[0].as_py()
        name = f"{PARTITION_COLUMN}={partition}/part-{uuid.uuid4()}.zstd.parquet"
        data = rows.drop_columns([PARTITION_COLUMN])
        uri = f"{self._location.uri}/{name}"
        if self._location.is_local:
            _make_folder(Path(uri).parent)
            result = spillway.write_parquet(data, uri, durable=True)
        else:
            result = spillway.write_parquet(data, uri, storage_options=self._location.storage_options)
        return {
            "path": name,
            "partitionValues": {PARTITION_COLUMN: partition},
            "size": result.bytes,
            "modificationTime": _now(),
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows}),
        }


_MADE: set[Path] = set()
_MAKING = threading.Lock()


def _make_folder(folder: Path) -> None:
    """Make a partition's folder, and have it survive a crash."""
    if folder in _MADE:
        return
    with suppress(FileExistsError):
        folder.mkdir()
    sync_folder(folder.parent)
    with _MAKING:
        _MADE.add(folder)


def _commit(add: dict[str, object]) -> bytes:
    info = {
        "timestamp": _now(),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "isBlindAppend": True,
        "engineInfo": f"spillway-race/{os.getpid()}",
    }
    return f"{json.dumps({'commitInfo': info})}\n{json.dumps({'add': add})}\n".encode()


def _now() -> int:
    return time.time_ns() // 1_000_000
