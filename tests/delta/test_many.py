"""Many writers at once: all commit, nothing is lost or doubled, and the log has no gap."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

import spillway.delta
from spillway.errors import CommitTimeoutError, CommitUnknown

from ..counts import count
from .conftest import interrupted_in_an_attempt, read_deltalake
from .programs import SCHEMA, batch

# How long others may wait because a process was killed, with much to spare for a busy machine.
BOUND_SECONDS = 30
ROUNDS = count(quick=5, ci=5, soak=200)
ENOUGH_FOR_CHANCE = 100
PROGRAMS = Path(__file__).with_name("programs.py")


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    return spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="writer")


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAMS), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def check_log(folder: Path) -> None:
    """The log is contiguous, adds each file once, and every file is there."""
    log = folder / "_delta_log"
    versions = sorted(int(file.stem) for file in log.glob("*.json"))
    assert versions == list(range(len(versions)))
    adds: collections.Counter[str] = collections.Counter()
    for version in versions:
        for line in (log / f"{version:020}.json").read_text().splitlines():
            if "add" in (action := json.loads(line)):
                adds[action["add"]["path"]] += 1
    assert set(adds.values()) <= {1}
    for path in adds:
        assert (folder / unquote(path)).exists()


def appended(folder: Path) -> list[tuple[str, int]]:
    """All appends that a reader finds."""
    found = read_deltalake(folder).to_pylist()
    return sorted((row["writer"], row["number"]) for row in found)


@pytest.mark.parametrize("own", [True, False], ids=["own partitions", "one partition"])
def test_two_hundred_threads_all_commit(table: spillway.delta.Table, own: bool) -> None:  # noqa: FBT001
    with table.append() as append:
        append.write(batch("all", 200))
    versions = [1]
    written, go = threading.Barrier(201), threading.Event()
    committing: list[int] = []

    def one(number: int) -> None:
        mine = spillway.delta.open(table.path)
        with mine.append() as append:
            append.write(batch(f"w{number}" if own else "all", number))
            written.wait()
            go.wait()
            committing.append(number)
        assert append.version is not None
        versions.append(append.version)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    written.wait()
    # A version that is there, and cannot be read: all of them wait for its end, however busy the machine is.
    unseen = Path(table.path) / "_delta_log" / f"{2:020}.json"
    unseen.symlink_to("nowhere")
    go.set()
    while len(committing) < 200 and any(thread.is_alive() for thread in threads):
        time.sleep(0.01)
    unseen.unlink()
    for thread in threads:
        thread.join()
    assert len(versions) == 201
    assert sorted(set(versions)) == list(range(1, table.version + 1))
    assert table.version < 100, "threads combine"
    check_log(Path(table.path))
    assert [number for _, number in sorted(appended(Path(table.path)), key=lambda row: row[1])] == list(
        range(201)
    )


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("coalesce", [False, True])
def test_an_open_append_of_ten_rows_takes_less_than_64_kib(
    table: spillway.delta.Table,
    coalesce: bool,  # noqa: FBT001
) -> None:
    kept: list[spillway.delta.Append] = []

    def begin(number: int) -> float:
        """Bytes that each of so many appends takes."""
        before = resident()
        for _ in range(number):
            kept.append(table.append(coalesce=coalesce))
            kept[-1].write(batch("w", len(kept), rows=10))
        return (resident() - before) / number

    # What the first ones need is there for all; what other threads take meanwhile can only be more.
    begin(50)
    assert any(begin(500) < 64 << 10 for _ in range(3))
    for append in kept:
        append.abort()


def test_processes_help_each_other(table: spillway.delta.Table) -> None:
    workers = [start("many", table.path, f"p{number}", "8") for number in range(4)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=120)
        assert worker.returncode == 0
    check_log(Path(table.path))
    expected = [(f"p{process}", number) for process in range(4) for number in range(8)]
    assert appended(Path(table.path)) == expected


class Endless:
    """A writer that appends until it is killed, and what it said by then."""

    def __init__(self, table: spillway.delta.Table, name: str, folder: Path, pause: float = 0) -> None:
        self.name = name
        self.output = folder / f"{name}.txt"
        with self.output.open("w") as output:
            command = [sys.executable, str(PROGRAMS), "endless", table.path, name, str(pause)]
            self.process = subprocess.Popen(command, stdout=output)
        self.await_next()

    @property
    def said(self) -> list[tuple[str, int]]:
        # A line that was not ended was not said.
        return [(self.name, int(line)) for line in self.output.read_text().split("\n")[:-1]]

    def await_next(self) -> None:
        """Wait until it has said one more."""
        before, deadline = len(self.said), time.monotonic() + BOUND_SECONDS
        while len(self.said) == before:
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def kill(self) -> list[tuple[str, int]]:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)
        return self.said


@pytest.mark.timeout(300 if ROUNDS < ENOUGH_FOR_CHANCE else 3_000)
def test_killed_writers_lose_nothing_and_block_nobody(table: spillway.delta.Table, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 - when to kill
    said: list[tuple[str, int]] = []
    # They pause only for the log's sake: one of many thousands of versions would make the test slow.
    survivors = [Endless(table, name, tmp_path, pause=0.05) for name in ("a", "b")]
    for number in range(ROUNDS):
        # It never rests, so that whatever it is killed at is a part of an append.
        victim = Endless(table, f"k{number}", tmp_path)
        time.sleep(chance.random() * 0.05)
        said += victim.kill()
        with table.append(timeout=BOUND_SECONDS) as append:
            append.write(batch("here", number))
        said.append(("here", number))
        for survivor in survivors:
            survivor.await_next()
    for survivor in survivors:
        said += survivor.kill()
    check_log(Path(table.path))
    found = collections.Counter(appended(Path(table.path)))
    assert set(found.values()) == {1}
    assert set(said) <= set(found)
    # Some died between their commit and saying so: they were killed at random points, not between appends.
    assert set(found) - set(said) or ROUNDS < ENOUGH_FOR_CHANCE


def test_a_forked_child_appends_too(table: spillway.delta.Table) -> None:
    with table.append() as append:
        append.write(batch("parent", 0))
    mine = table.append()
    mine.write(batch("parent", 1))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with table.append() as append:
                append.write(batch("child", 0))
            status = 0 if append.version == 2 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert mine.commit() == 3
    assert appended(Path(table.path)) == [("child", 0), ("parent", 0), ("parent", 1)]


def test_no_time_is_no_commit(table: spillway.delta.Table) -> None:
    append = table.append(timeout=0)
    append.write(batch("a", 0))
    with pytest.raises((CommitTimeoutError, CommitUnknown)):
        append.commit()
    assert table.version == 0
    assert not list(Path(table.path).rglob("*.parquet"))


def test_a_forked_child_leaves_its_parents_files(table: spillway.delta.Table) -> None:
    mine = table.append(max_file_rows=1)
    mine.write(batch("parent", 0, rows=3))
    child = os.fork()
    if child == 0:
        try:
            mine.abort()
            del mine
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    mine.commit()
    assert appended(Path(table.path)) == [("parent", 0)] * 3


def test_ctrl_c_ends_a_wait(table: spillway.delta.Table) -> None:
    with table.append() as append:
        append.write(batch("a", 0))
    late = table.append()
    late.write(batch("a", 1))
    # A version that is there, and cannot be read: its writer tries until its time is up.
    unseen = Path(table.path) / "_delta_log" / f"{2:020}.json"
    unseen.symlink_to("nowhere")
    raised = interrupted_in_an_attempt(table, late)
    assert isinstance(raised.__cause__, CommitUnknown)
    assert late.version is None
    assert late.token is not None
    unseen.unlink()
    assert table.outcome(late.token).status == "rejected"
    assert appended(Path(table.path)) == [("a", 0)]


class Rang(Exception):  # noqa: N818 - a bell is no error
    """The exception of an alarm's handler."""


def test_a_signal_hides_no_version(table: spillway.delta.Table) -> None:
    def ring(*_: object) -> None:
        raise Rang

    chance = random.Random(7)  # noqa: S311 - when to ring
    before = signal.signal(signal.SIGALRM, ring)
    said = []
    longest = 0.01
    try:
        for number in range(10 * ROUNDS):
            append = table.append()
            append.write(batch("a", number))
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, longest))
                append.commit()
                # A handler runs between two bytecodes: this is where it does when it was not earlier.
                time.sleep(10)
                pytest.fail("the alarm was not heard")
            except Rang:
                signal.setitimer(signal.ITIMER_REAL, 0)
            in_doubt = append.token and table.outcome(append.token).version
            if append.version is not None or in_doubt is not None:
                said.append(("a", number))
            # Both before and after the end of a commit, however long one takes on a busy machine.
            longest *= 0.8 if append.version is not None else 1.25
    finally:
        signal.signal(signal.SIGALRM, before)
    assert said
    assert appended(Path(table.path)) == said
