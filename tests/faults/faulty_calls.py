# ruff: noqa: T201 - what it prints is what the test waits for
"""A program whose calls to the operating system fail as it is told, one operation in a process each.

It has `injection.c` loaded. Each line of its input is an object with `way`, `target`, `timeout`, `folder`,
`rules` and `log`. For each it forks: the child sets the rules for what is below the folder, and does the
operation. It prints the error that the operation raised, or null. The program itself opens no table, since
threads do not survive a fork.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import spillway
import spillway.delta
from spillway import _native
from spillway.delta.append import _wait_for_checkpoints
from spillway.spark.run import job_of
from spillway.spark.stream_jobs import batch_of
from spillway.spark.write_job import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.spark.write_job import Job
    from spillway.types import Verify

DAYS = 3
SCHEMA = pa.schema({"day": pa.string(), "id": pa.int64(), "noise": pa.float64()})
# A commit takes no longer, however busy the machine is.
SECONDS = 60.0


# Rows by their ids. Their noise has a file written in several calls, and a vector of deleted rows in a file.
OLD, NEW = range(9_000), range(10_000, 30_000)
NOISE = np.random.default_rng(0).random(NEW.stop)


def rows(ids: range) -> pa.Table:
    days = [f"d{number % DAYS}" for number in ids]
    return pa.table({"day": days, "id": ids, "noise": NOISE[ids.start : ids.stop]}, SCHEMA)


def write_file(target: str, _: float) -> None:
    spillway.write_parquet(rows(NEW), target, row_group_rows=5_000)


def write_durable_file(target: str, _: float) -> None:
    spillway.write_parquet(rows(NEW), target, durable=True)


def join_files(target: str, _: float) -> None:
    """Joins two files that lie where no call fails."""
    with tempfile.TemporaryDirectory() as folder:
        halves = (NEW[: len(NEW) // 2], NEW[len(NEW) // 2 :])
        paths = [f"{folder}/{half.start}.parquet" for half in halves]
        for path, half in zip(paths, halves, strict=True):
            spillway.write_parquet(rows(half), path, row_group_rows=5_000)
        spillway.rewrite(paths, target)


def add_to_dataset(target: str, _: float) -> None:
    spillway.write_dataset(rows(NEW), target, partition_by="day", mode="append", durable=True)


def overwrite_dataset(target: str, _: float) -> None:
    spillway.write_dataset(rows(NEW), target, partition_by="day", mode="overwrite", metadata_file=True)


def append(target: str, timeout: float) -> None:
    with spillway.delta.open(target).append(timeout=timeout) as append:
        append.write(rows(NEW))


def write_verified(kind: str, level: Verify) -> Callable[[str, float], None]:
    """A file, a file of a dataset or one of an append, which is read back."""

    def write(target: str, timeout: float) -> None:
        if kind == "file":
            spillway.write_parquet(rows(NEW), target, verify=level)
        elif kind == "dataset":
            spillway.write_dataset(rows(NEW), target, partition_by="day", mode="append", verify=level)
        else:
            with spillway.delta.open(target).append(timeout=timeout, verify=level) as append:
                append.write(rows(NEW))

    return write


def delete(target: str, timeout: float) -> None:
    spillway.delta.open(target).delete([("noise", "<", 0.5)], timeout=timeout)


def optimize(target: str, timeout: float) -> None:
    spillway.delta.open(target).optimize(timeout=timeout)


def checkpoint(target: str, _: float) -> None:
    spillway.delta.open(target).checkpoint()


def stream(target: str, _: float) -> None:
    """The second micro-batch of a query, of two tasks."""
    micro_batch(target, 1, NEW)


def overwrite_by_job(target: str, _: float) -> None:
    """The job of a DataFrame, of two tasks, that replaces a folder."""
    where = Target.of(
        target,
        SCHEMA,
        table="parquet",
        overwrite=True,
        partition_by="day",
        partition_overwrite="static",
        options={},
    )
    job = job_of(where)
    job.begin()
    write_halves(job, NEW)


def micro_batch(target: str, number: int, ids: range) -> None:
    write_halves(
        batch_of(Target.of(target, SCHEMA, table="parquet", overwrite=False, options={}), "query", number),
        ids,
    )


def write_halves(job: Job, ids: range) -> None:
    halves = (ids[: len(ids) // 2], ids[len(ids) // 2 :])
    job.commit([job.write(rows(half).to_batches(), task, task) for task, half in enumerate(halves)])


# Each takes the seconds that its commit may take.
WAYS: dict[str, Callable[[str, float], None]] = {
    "file": write_file,
    "durable file": write_durable_file,
    "joined file": join_files,
    "dataset": add_to_dataset,
    "overwritten dataset": overwrite_dataset,
    "append": append,
    "delete": delete,
    "optimize": optimize,
    "checkpoint": checkpoint,
    "stream": stream,
}

#: Those of power cuts: a job of Spark's writes by the same steps as a stream, and then removes old files.
CUT_WAYS = {**WAYS, "overwriting job": overwrite_by_job}

LEVELS: tuple[Verify, ...] = ("footer", "pages", "values")
#: Those that are read back.
VERIFIED_WAYS = {
    f"{kind} {level}": write_verified(kind, level)
    for kind in ("file", "dataset", "append")
    for level in LEVELS
}


def attempt(way: str, target: str, timeout: float) -> str | None:
    """The error that an operation raises, with what is done in the background after it."""
    try:
        (CUT_WAYS | VERIFIED_WAYS)[way](target, timeout)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"{type(error).__name__}: {error}"
    finally:
        _wait_for_checkpoints()
        _native.await_intent_gc(timeout)
    return None


def main() -> None:
    library = ctypes.CDLL(None)
    library.faults(b"", b"", b"")
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            library.faults(*(order[name].encode() for name in ("rules", "log", "folder")))
            told = attempt(order["way"], order["target"], order["timeout"])
            os.write(write, json.dumps({"error": told}).encode())
            os._exit(0)
        os.close(write)
        told = b"".join(iter(lambda read=read: os.read(read, 1 << 16), b""))
        os.close(read)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(told.decode() if told else json.dumps({"status": status}), flush=True)


if __name__ == "__main__":
    main()
