"""A sync that failed is never believed: Linux tells of an error once, and says "done" the second time.

The failure is real but for its cause: a library answers fsync in the place of the kernel.
"""

from __future__ import annotations

import collections
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spillway.delta

from ..faults.injection import environment, noted, rule
from .programs import SCHEMA, batch
from .test_many import appended, check_log
from .test_scarce import left_behind

PROGRAMS = Path(__file__).with_name("programs.py")
THREADS = 32
PARTITIONS = "*/writer=w[0-9]*[0-9]"
EIO = f"OSError: {os.strerror(errno.EIO)}"


class Machine:
    """A disk, and processes that write to a table on it."""

    def __init__(self, library: Path, tmp_path: Path) -> None:
        self.folder = tmp_path / "table"
        self._library, self._log = library, tmp_path / "calls"

    def run(self, name: str, *arguments: str, rules: list[str] | None = None) -> Any:
        """The output of a program on a disk whose calls follow these rules; one fails at least if one can."""
        rules = rules or []
        command = [sys.executable, str(PROGRAMS), name, str(self.folder), *arguments]
        variables = environment(self._library, rules, self._log, self.folder)
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        failed = any(call.how == "before" for call in noted(self._log))
        assert failed == any(" before " in rule for rule in rules), "nothing failed"
        return json.loads(done.stdout)

    def meetings(self) -> list[str]:
        """Lines about calls that wait for others."""
        return [line for line in self._log.read_text().splitlines() if line in {"met", "alone"}]

    def synced(self) -> collections.Counter[str]:
        return collections.Counter(call.path for call in noted(self._log) if call.name == "sync")


@pytest.fixture
def machine(injection: Path, tmp_path: Path) -> Machine:
    return Machine(injection, tmp_path)


@pytest.mark.parametrize("bad", ["file", "folder"])
def test_a_data_file_whose_sync_failed_fails_its_own_append_only(machine: Machine, bad: str) -> None:
    spillway.delta.create(machine.folder, SCHEMA, partition_by="writer")
    # The first version is slow to come, so that the others share the second.
    told = machine.run(
        "at_once",
        str(THREADS),
        rules=[
            rule("sync", "*/writer=w7/*" if bad == "file" else "*/writer=w7"),
            rule("sync", "*/_spillway/staging/*", how="slow", number=500),
        ],
    )
    said = [(name, number) for name, number in told["said"]]
    assert told["errors"] == [EIO]
    assert sorted(said) == sorted((f"w{n}", 0) for n in range(THREADS) if n != 7)
    assert appended(machine.folder) == sorted(said)
    check_log(machine.folder)
    assert not left_behind(machine.folder)
    assert spillway.delta.open(machine.folder).version < THREADS / 2, "they did not share a version"
    synced = machine.synced()
    assert {count for path, count in synced.items() if path.endswith(".parquet")} == {1}


def test_the_folders_of_partitions_are_synced_side_by_side(machine: Machine) -> None:
    spillway.delta.create(machine.folder, SCHEMA, partition_by="writer")
    # Each of these syncs waits for the company of others: one after the other, none would come.
    told = machine.run("spread", "32", rules=[rule("sync", PARTITIONS, nth="1+", how="meet", number=4)])
    assert told == {"version": 1}
    synced = machine.synced()
    assert machine.meetings() == ["met"]
    folders = {path: count for path, count in synced.items() if "/writer=" in path}
    assert len([path for path in folders if not path.endswith(".parquet")]) == 32
    assert set(folders.values()) == {1}


def test_an_append_syncs_what_may_not_survive_a_crash_and_nothing_else(machine: Machine) -> None:
    spillway.delta.create(machine.folder, SCHEMA, partition_by="writer")
    told = machine.run("in_turn")
    assert told == {"version": 4}
    synced = machine.synced()
    files = [path for path in synced if path.endswith(".parquet")]
    log = machine.folder / "_delta_log"
    versions = {number: synced[f"{log}/{number:020}.json"] for number in range(5)}
    staged = [count for path, count in synced.items() if "/_spillway/staging/" in path]
    assert [synced[path] for path in files] == [1, 1, 1]
    assert synced[str(machine.folder / "writer=w")] == 3
    # The partition's own entry survives since the first append.
    assert synced[str(machine.folder)] == 1
    # A version of ours is synced before it has its name. Of another's, and of the one that a table is opened
    # at, that is not known.
    assert versions == {0: 1, 1: 0, 2: 0, 3: 1, 4: 0}
    assert staged == [1, 1, 1]
    assert synced[str(log)] >= 3


def test_files_for_another_process_survive_a_crash_of_their_own_machine(machine: Machine) -> None:
    """The process that commits them may see them by a file server: it cannot sync what is cached here."""
    spillway.delta.create(machine.folder, SCHEMA, partition_by="writer")
    adds = machine.run("detach")["adds"]
    synced = machine.synced()
    files = [machine.folder / add["path"] for add in adds]
    assert len(files) == 2
    for path in [*files, *(file.parent for file in files), machine.folder]:
        assert synced[str(path)] == 1, path


@pytest.mark.parametrize("bad", ["*/writer=b/*.parquet", "*/writer=b"])
def test_files_whose_sync_failed_are_handed_to_nobody(machine: Machine, bad: str) -> None:
    spillway.delta.create(machine.folder, SCHEMA, partition_by="writer")
    assert machine.run("detach", rules=[rule("sync", bad)]) == {"error": EIO}
    assert not left_behind(machine.folder)


def test_a_version_whose_sync_failed_is_acknowledged_by_nobody_in_the_process(machine: Machine) -> None:
    spillway.delta.create(machine.folder, SCHEMA)
    # The first sync is that of the version that is built upon.
    told = machine.run("doubt", rules=[rule("sync", "*/_delta_log", nth="2")])
    assert told["first"] == "CommitUnknown"
    assert told["outcome"] == told["outcome of a table opened again"] == "pending"
    assert told["next"] == told["next of a table opened again"] == EIO
    assert told["version"] == 1
    assert not left_behind(machine.folder)
    # Another process was told of no error, and can know of none.
    table = spillway.delta.open(machine.folder)
    assert table.outcome(told["token"]).status == "committed"
    assert appended(machine.folder) == [("first", 0)]


@pytest.mark.parametrize("bad", ["*/_delta_log/00000000000000000000.json", "*/_delta_log"])
def test_a_log_whose_sync_failed_is_built_upon_by_nobody_in_the_process(machine: Machine, bad: str) -> None:
    spillway.delta.create(machine.folder, SCHEMA)
    told = machine.run("doubt", rules=[rule("sync", bad)])
    assert told["first"] == told["next"] == told["next of a table opened again"] == EIO
    assert told["version"] == 0
    assert not left_behind(machine.folder)
    with spillway.delta.open(machine.folder).append() as append:
        append.write(batch("other", 0))
    assert appended(machine.folder) == [("other", 0)]
