"""Append to one Delta table from many processes at once: each append once, however often this is run."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa

import spillway
from spillway.errors import CommitUnknown

PATH = "events"
SCHEMA = pa.schema({"writer": pa.int64(), "message": pa.string()})
WRITERS, APPENDS = 4, 5


def append_all(writer: int) -> int:
    """Append as application ``writer-N``; the number of appends that were new."""
    table = spillway.delta.open(PATH)
    new = 0
    for number in range(APPENDS):
        append = table.append(app_id=f"writer-{writer}", app_version=number)
        append.write(pa.table({"writer": [writer], "message": [f"message {number}"]}, schema=SCHEMA))
        new += not append.repeated
        try:
            append.commit(timeout=60)
        except CommitUnknown as doubt:
            # Committed or not, and for ever: after "rejected" the same append may be made again.
            print(table.outcome(doubt.token))
            raise
    return new


def main() -> None:
    table = spillway.delta.create(PATH, SCHEMA, mode="ignore")
    with ProcessPoolExecutor(WRITERS) as pool:
        new = sum(pool.map(append_all, range(WRITERS)))
    table.refresh()
    assert len(table.files()) == WRITERS * APPENDS
    print(f"{new} of {WRITERS * APPENDS} appends were new; the table is at version {table.version}")


if __name__ == "__main__":
    main()
