"""Many writers delete or update different rows of one file at once: all of them commit."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import spillway.delta
from spillway.delta import when_not_matched_insert
from spillway.errors import CommitConflict

from ..counts import count
from .test_deletes import MARKS, NUMBERS, ids, made, numbers
from .test_many import PROGRAMS
from .test_optimize import vacuum

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITERS = count(quick=40, ci=100, soak=100)
PROCESSES = count(quick=4, ci=8, soak=16)
DELETES = count(quick=3, ci=5, soak=20)
# Each step of a change is one after which it dies in `delta-table`, tests/deaths.rs.
KILLS = count(quick=2, ci=3, soak=100)
INCREMENTS = count(quick=12, ci=40, soak=200)
ROWS = 100_000


def own(writer: int, writers: int) -> list[tuple[str, str, int]]:
    """The rows of a writer: an equal share of the first half of the file."""
    share = ROWS // 2 // writers
    return [("id", ">=", writer * share), ("id", "<", (writer + 1) * share)]


def race(table: spillway.delta.Table, writers: int, change: Callable[[int], int] | None = None) -> list[str]:
    """Each thread changes its own rows, or by default deletes them; the errors of those that fail."""
    barrier = threading.Barrier(writers)
    failed: list[str] = []

    def one(writer: int) -> None:
        barrier.wait()
        try:
            rows = change(writer) if change else table.delete(own(writer, writers)).rows
            assert rows == ROWS // 2 // writers
        except CommitConflict as conflict:
            failed.append(str(conflict))
        except BaseException as error:  # noqa: BLE001 - a thread's error is the test's
            failed.append(repr(error))

    threads = [threading.Thread(target=one, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_threads_that_delete_their_own_rows_of_a_file_all_commit(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    [before] = table.files()
    assert race(table, WRITERS) == []
    # Those that wait at the same time share a version.
    assert table.version <= 1 + WRITERS
    [after] = table.files()
    assert (after.path, after.deleted_rows) == (before.path, ROWS // 2)
    assert ids(table) == list(range(ROWS // 2, ROWS))
    # What nobody names any more is gone: each version's own file is left.
    deletes = [commit for commit in table.history() if commit.operation == "DELETE"]
    assert len(list((tmp_path / "t").glob("*.bin"))) == len(deletes) == table.version - 1
    deleted = [int(delete.info["operationMetrics"]["numDeletedRows"]) for delete in deletes]
    assert sum(deleted) == ROWS // 2


def test_threads_that_update_their_own_rows_of_a_file_all_commit(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    [before] = table.files()

    def update(writer: int) -> int:
        return table.update(own(writer, WRITERS), {"part": "b"}).rows

    assert race(table, WRITERS, update) == []
    assert table.version <= 1 + WRITERS
    [old] = [file for file in table.files() if file.path == before.path]
    assert (old.deleted_rows, len(table.files())) == (ROWS // 2, 1 + WRITERS)
    assert sorted(ids(table)) == list(range(ROWS))
    assert sorted(ids(table, where=[("part", "=", "b")])) == list(range(ROWS // 2))


def test_threads_that_merge_their_own_keys_all_commit(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    share = ROWS // 2 // WRITERS

    def merge(writer: int) -> int:
        keys = range(writer * share, (writer + 1) * share)
        source = pa.table({"part": ["b"] * share, "id": keys}, NUMBERS)
        return table.merge(source, "id").updated

    assert race(table, WRITERS, merge) == []
    assert sorted(ids(table)) == list(range(ROWS))
    assert sorted(ids(table, where=[("part", "=", "b")])) == list(range(ROWS // 2))


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
def test_no_update_of_a_row_is_lost(tmp_path: Path, properties: dict[str, str]) -> None:
    """Threads count in one row, each time again after a conflict."""
    table = made(tmp_path / "t", 1000, properties=properties)
    left = threading.Semaphore(INCREMENTS)

    def count_up() -> None:
        while left.acquire(blocking=False):
            while True:
                try:
                    assert table.update([("id", ">=", 999)], {"id": pc.field("id") + 1}).rows == 1
                    break
                except CommitConflict:
                    continue

    threads = [threading.Thread(target=count_up) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids(table)) == [*range(999), 999 + INCREMENTS]
    assert table.version == 1 + INCREMENTS


def test_a_key_that_threads_insert_is_there_once(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties=MARKS)
    barrier = threading.Barrier(8)
    inserted: list[int] = []

    def insert(writer: int) -> None:
        source = pa.table({"part": [f"w{writer}"] * 5, "id": range(writer % 4, writer % 4 + 5)}, NUMBERS)
        barrier.wait()
        while True:
            try:
                inserted.append(table.merge(source, "id", when_not_matched_insert()).inserted)
            except CommitConflict:
                continue
            return

    threads = [threading.Thread(target=insert, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids(table)) == list(range(8))
    assert sum(inserted) == 8


def test_without_vectors_the_file_is_what_they_race_for(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS, properties={})
    failed = race(table, WRITERS)
    assert failed
    assert all(each.startswith(("ConcurrentAppend", "ConcurrentDelete")) for each in failed)
    rows = pa.table(table.scan()).num_rows
    assert rows == ROWS - (WRITERS - len(failed)) * (ROWS // 2 // WRITERS)


def test_processes_that_delete_their_own_rows_of_a_file_all_commit(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ROWS)
    command = [sys.executable, str(PROGRAMS), "deletes", str(tmp_path / "t")]
    writers = [
        subprocess.Popen([*command, str(number), str(PROCESSES), str(DELETES)], stdout=subprocess.PIPE)
        for number in range(PROCESSES)
    ]
    said = [writer.communicate(timeout=120)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * PROCESSES
    assert all(answer.decode().split() == ["100"] * DELETES for answer in said)
    assert table.refresh() == 1 + PROCESSES * DELETES
    assert ids(table) == list(range(PROCESSES * DELETES * 100, ROWS))


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
def test_a_killed_update_changes_all_of_its_rows_or_none(tmp_path: Path, properties: dict[str, str]) -> None:
    """Each number is a row of both files, and its update moves both to another partition."""
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part", properties=properties)
    with table.append() as append:
        append.write(pa.concat_tables([numbers(2000, "a"), numbers(2000, "b")]))
    first, said = 0, set[int]()
    for kill in range(KILLS):
        program = [sys.executable, str(PROGRAMS), "endless_updates", str(tmp_path / "t"), str(first)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2):
                said.add(int(process.stdout.readline()))
            time.sleep(0.002 * (kill % 10))
            process.kill()
            said |= {int(line) for line in process.stdout.read().split()}
        anew = spillway.delta.open(tmp_path / "t")
        assert Counter(ids(anew)) == Counter([*range(2000)] * 2)
        moved = Counter(ids(anew, where=[("part", "=", "moved")]))
        assert set(moved.values()) == {2}
        assert said <= set(moved)
        assert len(set(moved) - said) <= kill + 1
        first = max(moved) + 1


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
def test_a_killed_merge_updates_and_inserts_all_of_its_rows_or_none(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    """Each number is a row of both files. Its merge moves both to another partition, and inserts another."""
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part", properties=properties)
    with table.append() as append:
        append.write(pa.concat_tables([numbers(2000, "a"), numbers(2000, "b")]))
    first, said = 0, set[int]()
    for kill in range(KILLS):
        program = [sys.executable, str(PROGRAMS), "endless_merges", str(tmp_path / "t"), str(first)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2):
                said.add(int(process.stdout.readline()))
            time.sleep(0.002 * (kill % 10))
            process.kill()
            said |= {int(line) for line in process.stdout.read().split()}
        found = Counter(ids(spillway.delta.open(tmp_path / "t"), where=[("part", "=", "moved")]))
        merged = {number for number in found if number < 2000}
        assert found == Counter(dict.fromkeys(merged, 2) | {10_000 + number: 1 for number in merged})
        assert said <= merged
        assert len(merged - said) <= kill + 1
        first = max(merged) + 1
    expected = Counter([*range(2000)] * 2) + Counter(10_000 + number for number in merged)
    vacuum(table)
    assert vacuum(table).files == []
    assert Counter(ids(table)) == expected
    assert table.merge(pa.table({"part": ["moved"], "id": [first]}), "id").updated == 2


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
def test_a_killed_delete_takes_all_of_its_rows_or_none(tmp_path: Path, properties: dict[str, str]) -> None:
    """Each number is a row of both files."""
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part", properties=properties)
    with table.append() as append:
        append.write(pa.concat_tables([numbers(2000, "a"), numbers(2000, "b")]))
    first, said = 0, set[int]()
    for kill in range(KILLS):
        program = [sys.executable, str(PROGRAMS), "endless_deletes", str(tmp_path / "t"), str(first), "1"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2):
                said.add(int(process.stdout.readline()))
            time.sleep(0.002 * (kill % 10))
            process.kill()
            said |= {int(line) for line in process.stdout.read().split()}
        left = Counter(ids(spillway.delta.open(tmp_path / "t")))
        assert set(left.values()) == {2}
        gone = set(range(2000)) - set(left)
        assert said <= gone
        assert len(gone - said) <= kill + 1
        first = max(gone) + 1
