# ruff: noqa: S608 - the folder of a test is no attack
"""Row ids of tables that delta-spark and Spillway write by turns, as delta-spark reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import spillway.delta

from ..counts import SOAK, count
from .test_row_ids import ROWS, TRACKED, Row, append, check_files, made, scanned, some, tracked

if TYPE_CHECKING:
    from pathlib import Path

    from ..spark.process import Worker

pytestmark = pytest.mark.spark
MARKS = {"delta.enableDeletionVectors": "true"}
# test_row_ids.py has these steps without vectors, and ids that are enabled here. In a soak Spark reads both.
WAYS = {"marked": MARKS, **({"rewritten": {}} if SOAK else {})}
ENABLED = {"by Spark": True, **({"here": False} if SOAK else {})}
# In every second one we compact, in place of Spark.
TURNS = count(quick=1, ci=1, soak=6)


def seen(worker: Worker, folder: Path) -> dict[int, Row]:
    """The id of each row, by its key, and the version that it is of."""
    columns = "key, _metadata.row_id, _metadata.row_commit_version"
    found = worker.sql(f"select {columns} from delta.`{folder}`")
    assert len({own for _, own, _ in found}) == len(found)
    rows = {key: (own, version) for key, own, version in found}
    assert scanned(spillway.delta.open(folder)) == rows
    return rows


@pytest.mark.parametrize("marks", WAYS.values(), ids=WAYS)
def test_spark_reads_the_ids_of_our_rows(tmp_path: Path, worker: Worker, marks: dict[str, str]) -> None:
    folder = tmp_path / "t"
    table = made(folder, partition_by=["part"], **marks)
    append(table, range(20))
    append(table, range(20, 30))
    first = seen(worker, folder)
    assert {own for own, _ in first.values()} == set(range(30))
    table.delete([("key", "in", [0, 1, 25])])
    table.update([("key", "in", [2, 3, 24])], {"stamp": 7})
    table.update([("key", "=", 4)], {"part": "p1"})
    table.merge(some([5, 100], 8), "key")
    changed = {2: 4, 3: 4, 24: 4, 4: 5, 5: 6}
    expected = {
        key: (own, changed.get(key, version))
        for key, (own, version) in first.items()
        if key not in {0, 1, 25}
    }
    before = seen(worker, folder)
    assert before[100][1] == 6
    assert before == expected | {100: before[100]}
    table.optimize()
    table.purge()
    table.checkpoint()
    assert seen(worker, folder) == before == tracked(table)
    table.restore(2)
    assert seen(worker, folder) == first
    check_files(table)


def test_both_write_one_table_by_turns(tmp_path: Path, worker: Worker) -> None:
    folder = tmp_path / "t"
    path = f"delta.`{folder}`"
    table = made(folder, **MARKS)
    for turn in range(TURNS):
        first = 100 * turn
        append(table, range(first, first + 10), stamp=turn)
        more = ", ".join(f"('p0', {key}, {turn})" for key in range(first + 10, first + 20))
        worker.sql(f"insert into {path} values {more}")
        known = seen(worker, folder)
        table.update([("key", "=", first)], {"stamp": 1000 + turn})
        ours = table.version
        worker.sql(f"update {path} set stamp = {2000 + turn} where key = {first + 10}")
        assert table.refresh() == ours + 1
        table.delete([("key", "=", first + 1)])
        worker.sql(f"delete from {path} where key = {first + 11}")
        worker.sql(
            f"merge into {path} t using (select {first + 2} as key) s on t.key = s.key "
            f"when matched then update set stamp = {3000 + turn}"
        )
        merged = table.refresh()
        changed = {first: ours, first + 10: ours + 1, first + 2: merged}
        expected = {
            key: (own, changed.get(key, version))
            for key, (own, version) in known.items()
            if key not in {first + 1, first + 11}
        }
        assert seen(worker, folder) == expected
        if turn % 2:
            table.optimize()
        else:
            worker.sql(f"optimize {path}")
        assert seen(worker, folder) == expected
    check_files(table)


def test_our_writes_go_on_from_sparks_table(tmp_path: Path, worker: Worker) -> None:
    folder = tmp_path / "t"
    path = f"delta.`{folder}`"
    worker.sql(
        f"create table {path} (part string, key bigint, stamp bigint) using delta "
        "tblproperties ('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'false')"
    )
    worker.sql(f"insert into {path} select 'a', id, 0 from range(0, 20, 1, 1)")
    worker.sql(f"update {path} set stamp = 1 where key < 5")
    known = seen(worker, folder)
    table = spillway.delta.open(folder)
    append(table, [50])
    table.update([("key", "in", [4, 7])], {"stamp": 2})
    version = table.version
    table.optimize()
    found = seen(worker, folder)
    assert found.pop(50)[0] not in {own for own, _ in known.values()}
    assert found == known | {4: (known[4][0], version), 7: (known[7][0], version)}
    worker.sql(f"insert into {path} values ('a', 60, 0)")
    assert len(seen(worker, folder)) == 22
    check_files(table)


@pytest.mark.parametrize("by_spark", ENABLED.values(), ids=ENABLED)
def test_a_table_that_gets_ids_keeps_them(tmp_path: Path, worker: Worker, *, by_spark: bool) -> None:
    folder = tmp_path / "t"
    table = spillway.delta.create(folder, ROWS)
    append(table, range(10))
    append(table, range(10, 15))
    if by_spark:
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in TRACKED.items())
        worker.sql(f"alter table delta.`{folder}` set tblproperties ({properties})")
    else:
        table.set_properties(TRACKED)
    known = seen(worker, folder)
    assert len(known) == 15
    table.delete([("key", "<", 3)])
    table.optimize()
    append(table, [99])
    found = seen(worker, folder)
    assert found.pop(99)[0] > max(own for own, _ in known.values())
    assert found == {key: row for key, row in known.items() if key >= 3}
