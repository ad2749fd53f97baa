# ruff: noqa: T201 - what it prints is what the test waits for
"""A program that does operations on a table in a store, each in a process that may be killed meanwhile.

Each line of its input is an object with `url`, `options`, `kind` and `turn`. For each it forks, and prints
the number of the child; at its end it prints the status of the child, and if the operation was acknowledged
before. The program itself opens no table, since threads do not survive a fork.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spillway.delta
from spillway import _native
from spillway.delta.append import _wait_for_checkpoints

sys.path.insert(0, str(Path(__file__).parents[2]))

import tests.without_pandas  # noqa: F401
from tests.faults.killed_changes import appended, data, operate

if TYPE_CHECKING:
    from collections.abc import Callable


def add(table: spillway.delta.Table, turn: int) -> None:
    with table.append() as append:
        append.write(data(appended(turn)))


def vacuum(table: spillway.delta.Table) -> None:
    table.vacuum(retention=timedelta(0), dry_run=False, enforce_retention=False)


OTHERS: dict[str, Callable[[spillway.delta.Table, int], Any]] = {
    "append": add,
    "checkpoint": lambda table, _: table.checkpoint(),
    "vacuum": lambda table, _: vacuum(table),
}


def work(order: dict[str, Any], tell: int) -> None:
    table = spillway.delta.open(order["url"], storage_options=order["options"])
    OTHERS.get(order["kind"], lambda table, turn: operate(table, order["kind"], turn))(table, order["turn"])
    os.write(tell, b"done")
    # What goes on in the background may be killed as well.
    _wait_for_checkpoints()
    _native.await_intent_gc(60)


def main() -> None:
    for line in sys.stdin:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                work(json.loads(line), write)
            except BaseException:  # noqa: BLE001 - it must not go on as if it were its parent
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(write)
        print(json.dumps(child), flush=True)
        is_acknowledged = os.read(read, 4) == b"done"
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(read)
        print(json.dumps([status, is_acknowledged]), flush=True)


if __name__ == "__main__":
    main()
