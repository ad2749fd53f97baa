# ruff: noqa: T201 - what it prints is what the test waits for
"""A program that kills processes in the middle of an operation: ``killed_changes.py FOLDER KIND KILLS``.

It forks a process for each operation, and kills it at a random moment between its begin and its end. Another
process goes on with the table then: it appends and updates, and compares all rows, as delta-rs and as
Spillway read them, with those of a model, with the whole change or without it. The program itself opens no
table, since threads do not survive a fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa

import spillway.delta

if TYPE_CHECKING:
    from collections.abc import Callable

# Values by ids.
Rows = dict[int, int]

SCHEMA = pa.schema({"id": pa.int64(), "slot": pa.int64(), "value": pa.int64()})
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "7"}
FIRST, NEW, SLOTS = 20_000, 40, 25
# Operations that are let be: pauses before a kill are drawn from the time that they take.
CALIBRATIONS = 2
# So many of the latest: a machine is more or less busy than it was. Pauses reach beyond that time: operations
# that end before their kill are the fast ones, and the last steps of slow ones are to be met too.
LATEST, BEYOND = 5, 1.5
# Answers of a process, as the status of its end.
WITHOUT, WITH = 10, 11


def data(rows: Rows) -> pa.Table:
    return pa.table(
        {"id": list(rows), "slot": [row % SLOTS for row in rows], "value": list(rows.values())}, SCHEMA
    )


def source(turn: int) -> Rows:
    """The rows of a merge: some are there, and some are new."""
    known, first = range(turn % SLOTS, FIRST, SLOTS), 10**6 * (turn + 1)
    return dict.fromkeys((*known, *range(first, first + NEW)), -turn - 1)


def after(kind: str, rows: Rows, turn: int) -> Rows:
    """The rows that an operation leaves."""
    slot = turn % SLOTS
    if kind == "delete":
        return {row: value for row, value in rows.items() if row % SLOTS != slot}
    if kind == "update":
        return {row: -turn - 1 if row % SLOTS == slot else value for row, value in rows.items()}
    return rows | source(turn) if kind == "merge" else rows


def operate(table: spillway.delta.Table, kind: str, turn: int) -> None:
    slot = [("slot", "=", turn % SLOTS)]
    if kind == "delete":
        table.delete(slot)
    elif kind == "update":
        table.update(slot, {"value": -turn - 1})
    elif kind == "merge":
        table.merge(data(source(turn)), "id")
    elif kind == "optimize":
        table.optimize()
    elif kind == "purge":
        table.purge()
    else:
        table.vacuum(retention=timedelta(0), dry_run=False, enforce_retention=False)


def appended(turn: int) -> Rows:
    return dict.fromkeys(range(FIRST + NEW * turn, FIRST + NEW * (turn + 1)), turn)


def gone_on(rows: Rows, turn: int) -> Rows:
    """The rows after `go_on`."""
    return {
        row: turn if row % SLOTS == (turn + 1) % SLOTS else value
        for row, value in (rows | appended(turn)).items()
    }


def go_on(path: str, turn: int) -> None:
    """Use the table as if nothing had happened. It has small files and marked rows then."""
    table = spillway.delta.open(path)
    with table.append() as append:
        append.write(data(appended(turn)))
    table.update([("slot", "=", (turn + 1) % SLOTS)], {"value": turn})


def found(table: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


def look(path: str, without: Rows, with_it: Rows) -> int:
    """Tell which rows are there, each once."""
    by_delta_rs = found(pa.table(deltalake.DeltaTable(path).scan(columns=["id", "value"])))
    by_spillway = found(pa.table(spillway.delta.open(path).scan(["id", "value"])))
    if by_delta_rs != by_spillway:
        raise AssertionError("the readers do not find the same rows")
    for answer, rows in ((WITH, with_it), (WITHOUT, without)):
        if by_delta_rs == Counter(rows.items()):
            return answer
    lost = Counter(with_it.items()) - by_delta_rs
    more = by_delta_rs - Counter(with_it.items())
    raise AssertionError(f"neither with the change nor without: {len(lost)} rows lost, {len(more)} more")


def fork(work: Callable[[int], int]) -> tuple[int, int]:
    """A process that does this, and whose status of its end is the answer; its number, and what it says."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    status = 1
    try:
        status = work(write)
    except BaseException as error:  # noqa: BLE001 - it must not go on as if it were its parent
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(status)


def answer(work: Callable[[int], int]) -> int:
    pid, read = fork(work)
    os.close(read)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in {0, WITH, WITHOUT}:
        raise SystemExit(f"a process ended with {status}")
    return status


def strike(path: str, kind: str, turn: int, pause: float | None) -> tuple[bool, float]:
    """One operation, which is killed after a pause; true if it was, and the seconds that it had."""

    def work(write: int) -> int:
        table = spillway.delta.open(path)
        os.write(write, b"b")
        operate(table, kind, turn)
        os.write(write, b"e")
        return 0

    pid, read = fork(work)
    assert os.read(read, 1) == b"b"
    begun = time.monotonic()
    if pause is not None:
        time.sleep(pause)
        os.kill(pid, signal.SIGKILL)
    is_over = os.read(read, 1) == b"e"
    seconds = time.monotonic() - begun
    os.close(read)
    os.waitpid(pid, 0)
    assert is_over or pause is not None
    return not is_over, seconds


def create(path: str) -> int:
    rows = dict.fromkeys(range(FIRST), 0)
    table = spillway.delta.create(path, SCHEMA, properties=PROPERTIES)
    with table.append() as append:
        append.write(data(rows))
    return 0


def main(path: str, kind: str, kills: int) -> None:
    answer(lambda _: create(path))
    chance = random.Random(kind)  # noqa: S311 - when to kill
    rows: Rows = dict.fromkeys(range(FIRST), 0)
    seconds: list[float] = []
    counts: Counter[str] = Counter()
    for turn in range(CALIBRATIONS + 4 * kills):
        pause = None if turn < CALIBRATIONS else chance.uniform(0, BEYOND * median(seconds[-LATEST:]))
        is_killed, took = strike(path, kind, turn, pause)
        if not is_killed:
            seconds.append(took)
        without, with_it = gone_on(rows, turn), gone_on(after(kind, rows, turn), turn)

        def check(_: int, turn: int = turn, states: tuple[Rows, Rows] = (without, with_it)) -> int:
            go_on(path, turn)
            return look(path, *states)

        is_done = answer(check) == WITH
        if not is_killed and not is_done:
            raise SystemExit("an operation that came to its end was not done")
        counts["killed"] += is_killed
        counts["killed and done"] += is_killed and is_done and without != with_it
        rows = with_it if is_done else without
        if counts["killed"] == kills:
            break
    # What was left in the middle does not hinder the whole operation.
    turn += 1
    strike(path, kind, turn, None)
    rows = after(kind, rows, turn)
    if answer(lambda _: look(path, rows, rows)) != WITH:
        raise SystemExit("the last operation was not done")
    print(json.dumps(counts))


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))
    import tests.without_pandas  # noqa: F401

    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
