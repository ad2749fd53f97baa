"""Processes that are killed at a request of theirs to the store lose no row and hinder nobody."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import deltalake
import pyarrow as pa
import pytest

import spillway.delta

from ..counts import SOAK, count
from ..faults.killed_changes import (
    FIRST,
    PROPERTIES,
    SCHEMA,
    SLOTS,
    after,
    appended,
    data,
    found,
    gone_on,
)
from ..stores.server import Instead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..faults.killed_changes import Rows
    from ..stores.server import Bucket, Fault, Proxy, Request

PROGRAM = [sys.executable, str(Path(__file__).with_name("killed_on_store.py"))]
# In a soak, as many as an operation makes requests, and as many again that the store has done.
KILLS = count(quick=1, ci=1, soak=0)
# Requests that each kind of operation makes at least.
FEWEST = 8
# Kinds of operation, and a request that each of them makes.
KINDS: dict[str, Callable[[Request], bool]] = {
    "append": lambda request: request.is_version,
    "delete": lambda request: request.is_version,
    "merge": lambda request: request.is_version,
    "optimize": lambda request: request.is_version,
    "checkpoint": lambda request: request.method == "PUT" and ".checkpoint." in request.path,
    "vacuum": lambda request: request.method == "POST" and request.path.endswith("?delete"),
}


class Killer:
    """Kills a process at its n-th request: before the store gets it, or before the answer comes back."""

    def __init__(self) -> None:
        self.begin(0, is_done=False)

    def begin(self, nth: int, *, is_done: bool) -> None:
        self.nth, self.is_done, self.seen = nth, is_done, 0
        self._lock = threading.Lock()
        self._child = 0
        self._is_known = threading.Event()

    def know(self, child: int) -> None:
        self._child = child
        self._is_known.set()

    def __call__(self, _: Request) -> Fault:
        self._is_known.wait(60)
        with self._lock:
            self.seen += 1
            if self.seen != self.nth:
                return None
            os.kill(self._child, signal.SIGKILL)
        return Instead() if self.is_done else "close"


class Ended(NamedTuple):
    """How the process of an operation ended."""

    status: int
    is_acknowledged: bool


class Victim:
    """One operation after the other on a table, each in a process of its own that may be killed."""

    def __init__(
        self, bucket: Bucket, kind: str, make: Callable[[Callable[[Request], Fault]], Proxy]
    ) -> None:
        self.killer = Killer()
        self.proxy = make(self.killer)
        address = f"http://127.0.0.1:{self.proxy.port}"
        self._order = {
            "url": bucket.url("table"),
            "options": bucket.options(AWS_ENDPOINT_URL=address),
            "kind": kind,
        }
        self._process = subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def strike(self, turn: int, nth: int = 0, *, is_done: bool = False) -> Ended:
        """Do an operation, killed at its n-th request; at none if it makes fewer, or for 0."""
        self.killer.begin(nth, is_done=is_done)
        assert self._process.stdin is not None
        print(json.dumps(self._order | {"turn": turn}), file=self._process.stdin, flush=True)
        self.killer.know(self._told())
        ended = Ended(*self._told())
        assert ended.status in {0, -signal.SIGKILL}, "the operation failed: its error is in stderr"
        # What was under way reaches the store.
        self.proxy.wait_until_alone()
        return ended

    def _told(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def victim(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> Iterator[Callable[[str], Victim]]:
    """Makes the process for a kind of operation."""
    made: list[Victim] = []

    def make(kind: str) -> Victim:
        made.append(Victim(bucket, kind, faulty))
        return made[-1]

    yield make
    for each in made:
        each.end()


def opened(bucket: Bucket) -> spillway.delta.Table:
    return spillway.delta.open(bucket.url("table"), storage_options=bucket.options())


def go_on(bucket: Bucket, kind: str, turn: int) -> None:
    """The next writer, as if nothing had happened. The table has small files and marked rows then."""
    table = opened(bucket)
    with table.append(timeout=60) as append:
        append.write(data(appended(turn)))
    table.update([("slot", "=", (turn + 1) % SLOTS)], {"value": turn}, timeout=60)
    if kind == "vacuum":
        table.optimize(timeout=60)
        # There is something to remove, and the store tells the time in whole seconds.
        time.sleep(1.1)


def changed(kind: str, rows: Rows, turn: int) -> Rows:
    return rows | appended(turn) if kind == "append" else after(kind, rows, turn)


def look(bucket: Bucket) -> Counter[tuple[int, int]]:
    """The rows that are there, as both readers find them."""
    options = bucket.options() | {"aws_conditional_put": "etag"}
    delta_rs = deltalake.DeltaTable(bucket.url("table"), storage_options=options)
    by_delta_rs = found(pa.table(delta_rs.scan(columns=["id", "value"])))
    assert by_delta_rs == found(pa.table(opened(bucket).scan(["id", "value"]))), "readers find other rows"
    return by_delta_rs


def moments(kind: str, seed: int) -> Iterator[tuple[int, bool]]:
    """When to kill: at which request, and if the store has done it. One after the other in a soak."""
    if SOAK:
        yield from ((nth, is_done) for nth in itertools.count(1) for is_done in (False, True))
    drawn = random.Random(f"{seed} {kind}")  # noqa: S311 - of moments
    while True:
        yield drawn.randint(1, FEWEST), drawn.random() < 0.5


@pytest.mark.timeout(7200 if SOAK else 120)
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_killed_at_a_request_loses_no_row_and_hinders_nobody(
    bucket: Bucket, victim: Callable[[str], Victim], seed: int, kind: str
) -> None:
    rows: Rows = dict.fromkeys(range(FIRST), 0)
    table = spillway.delta.create(
        bucket.url("table"), SCHEMA, properties=PROPERTIES, storage_options=bucket.options()
    )
    with table.append() as append:
        append.write(data(rows))
    # Each operation has a number of its own, and so have its rows.
    turns = itertools.count()
    go_on(bucket, kind, first := next(turns))
    rows = gone_on(rows, first)
    process = victim(kind)

    def turn(nth: int = 0, *, is_done: bool = False) -> Ended:
        """An operation that may be killed, and another writer after it that is not."""
        nonlocal rows
        own, later = itertools.islice(turns, 2)
        ended = process.strike(own, nth, is_done=is_done)
        go_on(bucket, kind, later)
        without, with_it = gone_on(rows, later), gone_on(changed(kind, rows, own), later)
        there = look(bucket)
        where = f"killed at request {nth} of {process.killer.seen}, {is_done=}"
        assert there in (Counter(with_it.items()), Counter(without.items())), where
        is_there = there == Counter(with_it.items())
        assert is_there or not ended.is_acknowledged, where
        rows = with_it if is_there else without
        return ended

    counts: Counter[str] = Counter()
    missed = 0
    for nth, is_done in moments(kind, seed):
        ended = turn(nth, is_done=is_done)
        counts["killed"] += ended.status != 0
        counts["acknowledged"] += ended.is_acknowledged
        # Operations make more requests at times, when they write a checkpoint or clean the log.
        missed = 0 if ended.status else missed + 1
        if missed == 8 or counts["killed"] == KILLS:
            break
    assert counts["killed"] >= (KILLS or FEWEST)
    # What was left in the middle does not hinder the whole operation.
    process.proxy.seen.clear()
    assert turn() == (0, True)
    assert any(map(KINDS[kind], process.proxy.seen))
    print(f"{kind}: {counts}")  # noqa: T201 - a soak's report
