# ruff: noqa: T201 - what they print is what the test waits for
"""Writers that run in processes of their own: ``python -m programs NAME FOLDER ...``."""

from __future__ import annotations

import os
import sys
import threading
import time

import pyarrow as pa

import spillway.delta

SCHEMA = pa.schema({"writer": pa.string(), "number": pa.int64()})


def batch(writer: str, number: int, rows: int = 1) -> pa.Table:
    return pa.table({"writer": [writer] * rows, "number": [number] * rows}, schema=SCHEMA)


def many(folder: str, name: str, threads: str) -> None:
    """Append once from each of many threads."""
    table = spillway.delta.open(folder)

    def one(number: int) -> None:
        with table.append() as append:
            append.write(batch(name, number))

    print("ready", flush=True)
    sys.stdin.readline()
    workers = [threading.Thread(target=one, args=(number,)) for number in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def endless(folder: str, name: str, pause: str) -> None:
    """Append as long as somebody waits for it, and say so after each acknowledgement."""
    table = spillway.delta.open(folder)
    number, parent = 0, os.getppid()
    while os.getppid() == parent:
        with table.append() as append:
            append.write(batch(name, number))
        print(number, flush=True)
        number += 1
        time.sleep(float(pause))


if __name__ == "__main__":
    {"many": many, "endless": endless}[sys.argv[1]](*sys.argv[2:])
