"""Programs that write with helper threads: processes of their own, whose threads nobody else has.

Each prints a list in JSON.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import spillway


def numbers(columns: int = 6, rows: int = 1_000_000) -> pa.Table:
    """A table of 8 MB a column, which is worth a helper for each of them."""
    rng = np.random.default_rng(1)
    return pa.table({f"c{n}": rng.integers(0, 1 << 40, rows) for n in range(columns)})


def written(table: pa.Table, threads: int | None = None) -> bytes:
    """The file of `table`."""
    file = io.BytesIO()
    spillway.write_parquet(table, file, threads=threads, compression="lz4")
    return file.getvalue()


def helpers() -> int:
    """The number of helper threads that this process has."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            count += (task / "comm").read_text() == "spillway-encode\n"
        except OSError:  # the thread has ended
            continue
    return count


def one_writer() -> list[Any]:
    """The helpers of a small table, and of one that is worth many."""
    table, counts = numbers(), []
    for each in (table.slice(0, 10_000), table):
        written(each)
        counts.append(helpers())
    return counts


def on_one_core() -> list[Any]:
    """The helpers of a process that may use one core."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    written(numbers())
    return [helpers()]


def under_limits() -> list[Any]:
    """The helpers of a writer without room for the compressors of any, and of one with room for all."""
    table, counts = numbers(), []
    for limit in ("1MB", "256MB"):
        for threads in (None, 4):
            spillway.write_parquet(table, io.BytesIO(), threads=threads, memory_limit=limit)
        counts.append(helpers())
    return counts


def many_writers() -> list[Any]:
    """The most helpers of 16 writers at once."""
    table = numbers(4)
    writers = [threading.Thread(target=written, args=(table,)) for _ in range(16)]
    for writer in writers:
        writer.start()
    most = 0
    while any(writer.is_alive() for writer in writers):
        most = max(most, helpers())
        writers[0].join(0.001)
    return [most]


def forked() -> list[Any]:
    """Whether a parent writes the same file while others write, and how its forked child ends."""
    table = numbers()
    expected = written(table, threads=1)
    over = threading.Event()

    def write_on() -> None:
        while not over.is_set():
            written(table, threads=2)

    other = threading.Thread(target=write_on)
    other.start()
    written(table)
    child = os.fork()
    same = all(written(table, threads) == expected for threads in (None, 3))
    if child == 0:
        os._exit(0 if same else 1)
    over.set()
    other.join()
    return [same, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]


def interrupted(path: str) -> list[Any]:
    """What a signal raises out of a write with helpers, and the files that it leaves."""
    table = numbers(4)
    table = pa.table({f"{name}{n}": table[name] for n in range(100) for name in table.column_names})
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        spillway.write_parquet(table, path, threads=3)
    except KeyboardInterrupt as error:
        return [type(error).__name__, *map(str, Path(path).parent.iterdir())]
    return []


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))  # noqa: T201 - what the test reads
