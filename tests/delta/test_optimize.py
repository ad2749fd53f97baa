"""Compactions exchange files and change no row, whoever deletes and appends meanwhile."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import Compaction
from spillway.errors import CommitConflict, OptionError

from ..counts import SOAK, count, examples
from .conftest import rows
from .logs import read_version, set_as_another
from .test_deletes import MARKS, NUMBERS, ids, made, numbers
from .test_many import PROGRAMS

DELETERS, APPENDERS = 8, 4
CHANGERS = count(quick=4, ci=4, soak=32)
# Rows that all changers count in.
SHARED = 3
# A soak goes on for so long.
SECONDS = 60 if SOAK else 0
ROUNDS = count(quick=3, ci=8, soak=60)
PROCESSES = count(quick=2, ci=4, soak=16)
TURNS = count(quick=3, ci=5, soak=20)
KILLS = count(quick=2, ci=3, soak=100)

# As folders, and once more in the log, they are escaped.
PARTS = ["plain", "a b", "100%", "%41", "ü:é/=", "日本", None]

Step = tuple[Any, ...]


def step() -> st.SearchStrategy[Step]:
    first = st.integers(0, 150)
    return st.one_of(
        st.tuples(st.just("append"), st.sampled_from(PARTS), st.integers(1, 30)),
        st.tuples(st.just("append"), st.sampled_from(PARTS), st.integers(1, 30)),
        st.tuples(st.just("delete"), first, st.integers(1, 40)),
        st.tuples(st.just("optimize"), st.sampled_from([None, 1, 2000])),
        st.tuples(st.just("purge")),
        st.tuples(st.just("vacuum")),
    )


def vacuum(table: spillway.delta.Table) -> spillway.delta.Vacuum:
    """Removes everything that the newest version does not need."""
    return table.vacuum(retention=timedelta(0), dry_run=False, enforce_retention=False)


def by_polars(table: spillway.delta.Table) -> pa.Table:
    return pl.scan_delta(table.path).collect().to_arrow()


def by_delta_rs(table: spillway.delta.Table) -> pa.Table:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.path))
    return pa.table(query.execute("select part, id from t"))


def by_spillway(table: spillway.delta.Table) -> pa.Table:
    return pa.table(table.scan())


def do(table: spillway.delta.Table, one: Step, model: dict[int, str | None]) -> None:
    """A step, on the table and on its rows: the part of each id."""
    match one:
        case ("append", part, length):
            first = max(model, default=-1) + 1
            model |= dict.fromkeys(range(first, first + length), part)
            with table.append() as append:
                append.write(numbers(length, part, first))
        case ("delete", first, length):
            gone = [each for each in model if first <= each < first + length]
            for each in gone:
                del model[each]
            assert table.delete([("id", ">=", first), ("id", "<", first + length)]).rows == len(gone)
        case ("optimize", target):
            table.optimize(target_file_bytes=target)
            version = table.version
            again = table.optimize(target_file_bytes=target)
            assert again == Compaction(version, 0, 0, 0, 0)
        case ("purge",):
            table.purge()
            assert all(file.deleted_rows == 0 for file in table.files())
        case _:
            vacuum(table)
            files = [Path(table.path, unquote(file.path)) for file in table.files()]
            there = Path(table.path).rglob("*.parquet")
            assert {file for file in there if "_delta_log" not in file.parts} == {*files}


@pytest.mark.timeout(count(quick=300, ci=300, soak=7200))
@settings(max_examples=examples(0.4))
@given(st.lists(step(), min_size=1, max_size=14), st.booleans())
def test_whatever_is_done_the_rows_are_those_of_the_model(
    steps: list[Step],
    marks: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        properties = MARKS if marks else {}
        table = spillway.delta.create(f"{folder}/t", NUMBERS, partition_by="part", properties=properties)
        model: dict[int, str | None] = {}
        for one in steps:
            do(table, one, model)
            expected = rows(pa.table({"part": list(model.values()), "id": list(model)}, NUMBERS))
            assert rows(by_spillway(table)) == expected
        anew = spillway.delta.open(table.path)
        anew.checkpoint()
        if model:
            assert rows(by_delta_rs(anew)) == expected
            # polars shows deleted rows of files in folders with escaped names, compacted or not.
            anew.purge()
            assert rows(by_polars(anew)) == rows(by_spillway(anew)) == expected


def small(
    folder: Path, parts: str = "aabab", properties: dict[str, str] | None = MARKS
) -> spillway.delta.Table:
    """A table with a file of a hundred rows for each letter."""
    table = spillway.delta.create(folder, NUMBERS, properties=properties, partition_by="part")
    for number, part in enumerate(parts):
        with table.append() as append:
            append.write(numbers(100, part, number * 100))
    return table


def test_small_files_of_a_partition_become_one(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    before = table.files()
    done = table.optimize(user_metadata="why")
    after = table.files()
    assert done == Compaction(6, 5, sum(file.size for file in before), 2, sum(file.size for file in after))
    assert sorted(file.partition_values["part"] or "" for file in after) == ["a", "b"]
    assert sorted(ids(table, where=[("part", "=", "a")])) == [*range(200), *range(300, 400)]
    lines = read_version(table, 6)
    changes = [line[kind]["dataChange"] for line in lines for kind in ("add", "remove") if kind in line]
    assert changes == [False] * 7
    [entry] = table.history(1)
    assert (entry.operation, entry.info["userMetadata"]) == ("OPTIMIZE", "why")
    assert entry.info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": "false",
    }
    measured = entry.info["operationMetrics"]
    assert (measured["numRemovedFiles"], measured["numAddedFiles"]) == ("5", "2")
    sizes = sorted(file.size for file in after)
    assert [int(measured["minFileSize"]), int(measured["maxFileSize"])] == sizes
    assert table.optimize() == Compaction(6, 0, 0, 0, 0)
    assert rows(by_delta_rs(table)) == rows(by_spillway(table))


def test_conditions_choose_partitions_and_nothing_else(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    assert table.optimize(where=[("part", "=", "a")]).removed_files == 3
    assert [line["remove"]["partitionValues"] for line in read_version(table, 6) if "remove" in line] == [
        {"part": "a"}
    ] * 3
    assert table.history(1)[0].info["operationParameters"]["predicate"] == "[\"(part = 'a')\"]"
    for call in (table.optimize, table.purge):
        with pytest.raises(OptionError, match="name partition columns alone"):
            call(where=[("id", "=", 1)])
    with pytest.raises(OptionError, match="target_file_bytes=0 is not accepted"):
        table.optimize(target_file_bytes=0)
    with pytest.raises(OptionError, match="rows are copied in their order"):
        table.optimize(sorting_columns=["id"], sorting="sort")
    assert table.version == 6


def test_files_that_are_large_enough_are_left_alone(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    size = min(file.size for file in table.files())
    assert table.optimize(target_file_bytes=size) == Compaction(5, 0, 0, 0, 0)
    small(tmp_path / "own", properties={"delta.targetFileSize": str(size)}).optimize()
    assert spillway.delta.open(tmp_path / "own").version == 5
    odd = small(tmp_path / "odd")
    set_as_another(odd, {"delta.targetFileSize": "much"})
    with pytest.raises(OptionError, match=r"delta\.targetFileSize"):
        odd.optimize()
    assert odd.optimize(target_file_bytes=1 << 20).removed_files == 5


def test_a_file_is_written_again_for_many_deleted_rows_and_not_for_few(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 1000)
    table.delete([("id", "<", 50)])
    assert table.optimize() == Compaction(2, 0, 0, 0, 0)
    table.delete([("id", "=", 50)])
    assert table.optimize().version == 4
    assert [file.deleted_rows for file in table.files()] == [0]
    assert table.history(1)[0].info["operationMetrics"]["numDeletionVectorsRemoved"] == "1"
    table.delete([("id", "=", 51)])
    assert table.optimize().removed_files == 0
    assert table.purge().removed_files == 1
    [entry] = table.history(1)
    assert (entry.operation, entry.info["operationParameters"]) == (
        "REORG",
        {"predicate": "[]", "applyPurge": "true"},
    )
    assert [file.deleted_rows for file in table.files()] == [0]
    assert ids(table) == list(range(52, 1000))
    assert table.purge().removed_files == 0


@pytest.mark.parametrize("name", ["delta.appendOnly", "delta.enableChangeDataFeed"])
def test_a_table_that_only_grows_or_tells_of_changes_is_compacted(tmp_path: Path, name: str) -> None:
    table = small(tmp_path / "t", properties={name: "true"})
    assert table.optimize().added_files == 2
    assert len(ids(table)) == 500


def test_partition_values_keep_their_text(tmp_path: Path) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "id": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="at")
    for first in (0, 5):
        with table.append() as append:
            append.write(pa.table({"at": [0] * 5, "id": range(first, first + 5)}, schema))
    before = {file.partition_values["at"] for file in table.files()}
    table.optimize()
    [after] = table.files()
    assert {after.partition_values["at"]} == before
    assert sorted(ids(table)) == list(range(10))


FILES = 6


def delete_own(table: spillway.delta.Table, writer: int) -> None:
    """Marks rows of all files in each turn, so that all deleters meet."""
    for turn in range(ROUNDS):
        mine = [file * 1000 + turn * DELETERS + writer for file in range(FILES)]
        assert table.delete([("id", "in", mine)]).rows == FILES


def append_own(table: spillway.delta.Table, writer: int) -> None:
    for turn in range(ROUNDS):
        with table.append() as append:
            append.write(numbers(5, "a", 100_000 + (turn * APPENDERS + writer) * 5))


def test_deletes_and_appends_beside_compactions_all_commit(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties=MARKS, partition_by="part")
    for file in range(FILES):
        with table.append() as append:
            append.write(numbers(1000, "a", file * 1000))
    removed = 0
    with ThreadPoolExecutor(DELETERS + APPENDERS) as pool:
        writers = [pool.submit(delete_own, table, writer) for writer in range(DELETERS)]
        writers += [pool.submit(append_own, table, writer) for writer in range(APPENDERS)]
        while not all(writer.done() for writer in writers):
            removed += table.optimize().removed_files + table.purge().removed_files
    for writer in writers:
        writer.result()
    assert removed > 0
    left = [file * 1000 + number for file in range(FILES) for number in range(ROUNDS * DELETERS, 1000)]
    expected = left + [100_000 + number for number in range(ROUNDS * APPENDERS * 5)]
    assert sorted(ids(table)) == expected
    vacuum(table)
    table.optimize()
    table.purge()
    for read in (by_spillway, by_polars, by_delta_rs):
        assert sorted(read(spillway.delta.open(table.path))["id"].to_pylist()) == expected


VALUES = pa.schema({"id": pa.int64(), "value": pa.int64()})


def append_zeros(table: spillway.delta.Table, first: int, count: int) -> None:
    with table.append() as append:
        append.write(pa.table({"id": range(first, first + count), "value": [0] * count}, VALUES))


def count_up(table: spillway.delta.Table, number: int) -> None:
    """Adds 1 to a row that others count in too."""
    while True:
        try:
            assert table.update([("id", "=", number)], {"value": pc.field("value") + 1}).rows == 1
        except CommitConflict:
            continue
        return


def change_all(table: spillway.delta.Table, writer: int, until: float) -> Counter[int]:
    """Changes rows of its own, which must not fail, and counts in shared ones. Returns what is there then."""
    first = (writer + 1) * 100_000
    own = Counter(dict.fromkeys(range(first, first + 1000), 0))
    turn = 0
    while turn < ROUNDS or time.monotonic() < until:
        turn += 1
        shared = (writer + turn) % SHARED
        count_up(table, shared)
        assert table.update([("id", "=", first)], {"value": pc.field("value") + 1}).rows == 1
        own.update([shared, first])
        merged = {first + 1 + turn % 999: turn, first + 1000 + turn: turn}
        done = table.merge(pa.table({"id": [*merged], "value": [*merged.values()]}, VALUES), "id")
        assert (done.updated, done.inserted) == (1, 1)
        append_zeros(table, first + 50_000 + turn, 1)
        own.update({first + 50_000 + turn: 0})
        for number, value in merged.items():
            own[number] = value
    return own


def test_changes_of_all_kinds_beside_compactions_lose_no_update(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", VALUES, properties=MARKS)
    append_zeros(table, 0, SHARED)
    for writer in range(CHANGERS):
        append_zeros(table, (writer + 1) * 100_000, 1000)
    until = time.monotonic() + SECONDS
    compactions = removed = 0
    with ThreadPoolExecutor(CHANGERS) as pool:
        changes = [pool.submit(change_all, table, writer, until) for writer in range(CHANGERS)]
        while not all(each.done() for each in changes):
            done = table.optimize().removed_files
            compactions += done > 0
            removed += done + table.purge().removed_files
    expected: Counter[int] = Counter()
    for each in changes:
        expected.update(each.result())
    assert removed > 0
    assert compactions >= (3 if SOAK else 0)
    for found in (by_spillway(table), pl.read_delta(str(table.path)).to_arrow()):
        assert found.num_rows == len(expected)
        assert dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == dict(expected)


def test_deletes_of_other_processes_beside_compactions_all_commit(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 100_000)
    command = [sys.executable, str(PROGRAMS), "deletes", str(tmp_path / "t")]
    writers = [
        subprocess.Popen([*command, str(number), str(PROCESSES), str(TURNS)], stdout=subprocess.PIPE)
        for number in range(PROCESSES)
    ]
    purged = 0
    while any(writer.poll() is None for writer in writers):
        purged += table.purge().removed_files
    said = [writer.communicate(timeout=120)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * PROCESSES
    assert all(answer.decode().split() == ["100"] * TURNS for answer in said)
    assert purged + table.purge().removed_files > 0
    assert ids(table) == list(range(PROCESSES * TURNS * 100, 100_000))


def test_a_killed_compaction_or_vacuum_loses_no_row(tmp_path: Path) -> None:
    """The program deletes a row and appends another, and compacts and removes after that."""
    table = small(tmp_path / "t", "abab")
    before = set(range(400))
    number = 0
    for kill in range(KILLS):
        program = [sys.executable, str(PROGRAMS), "endless_upkeep", str(tmp_path / "t"), str(number)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = [int(process.stdout.readline()) for _ in range(2)]
            time.sleep(0.003 * (kill % 10))
            process.kill()
            said += [int(line) for line in process.stdout.read().split()]
        number = said[-1] + 1
        done = (before - set(range(number))) | {1000 + each for each in range(number)}
        found = ids(spillway.delta.open(tmp_path / "t"))
        assert len(found) == len(set(found))
        # The turn that was cut off may have come to its delete, and then to its append.
        assert set(found) in (done, done - {number}, (done - {number}) | {1000 + number})
        if 1000 + number in found:
            number += 1
    anew = spillway.delta.open(tmp_path / "t")
    assert rows(by_delta_rs(table)) == rows(by_spillway(anew))
    vacuum(anew)
    assert vacuum(anew).files == []
    assert set(ids(anew)) == set(found)
