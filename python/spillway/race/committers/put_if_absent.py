"""Plain optimistic commits in Python, for scale: each writer alone, one version per append."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import spillway
from spillway.errors import MetadataChanged
from spillway.race.committers.backoff import Backoff
from spillway.race.committers.protocol import Receipt
from spillway.race.committers.spillway import conflict, create
from spillway.race.location import log_name, sync_folder
from spillway.race.workload import PARTITION_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.race.committers.protocol import Tally
    from spillway.race.location import Location
    from spillway.race.plan import Cell

__all__ = ["PutIfAbsent"]

_FIRST, _MOST = 0.01, 1.0


class PutIfAbsent:
    """One version for each append, by put-if-absent."""

    def create(self, location: Location, cell: Cell) -> None:
        """Make the table."""
        create(location, cell)

    def writer(self, location: Location, cell: Cell) -> _Writer:  # noqa: ARG002 - all cells are alike to it
        """A writer that has read the log to its tip."""
        return _Writer(location)

    def conflict(self, error: BaseException) -> str | None:
        """The name of its class."""
        return conflict(error)

    def tally(self) -> Tally | None:
        """None: each append counts its own attempts."""
        return None


class _Writer:
    def __init__(self, location: Location) -> None:
        self._location = location
        self._files = location.files()
        self._tip = -1
        self._catch_up()

    def append(self, rows: pa.Table) -> Receipt:
        left = time.monotonic()
        pause = Backoff(_FIRST, _MOST)
        with self._files.draft(_commit(self._write_file(rows))) as draft:
            attempts = 1
            while not draft.put_new(log_name(self._tip + 1)):
                self._catch_up()
                pause.sleep()
                self._catch_up()
                attempts += 1
        self._tip += 1
        return Receipt(left, attempts)

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
