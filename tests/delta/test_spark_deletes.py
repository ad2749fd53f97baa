# ruff: noqa: S608 - the folder of a test is no attack
"""Rows that Spark marks as deleted are gone here, and those that are marked here are gone there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pytest

import spillway.delta

from ..counts import count
from .logs import read_version
from .test_deletes import MARKS, NUMBERS, ids, made, numbers
from .test_row_level import ROWS, race

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..spark.process import Worker

pytestmark = pytest.mark.spark
ROUNDS = count(quick=2, ci=2, soak=40)
# A bitmap of one file's rows has a part for each 65,536 of them.
ROWS_OF_FILES = 140_000
# What Spark deletes, and what that is.
GONE: dict[str, Callable[[int], bool]] = {
    "id % 7 = 0": lambda each: each % 7 == 0,
    "id between 1000 and 70000": lambda each: 1000 <= each <= 70000,
    "part = 'p1' and id % 3 = 0": lambda each: each % 2 == 1 and each % 3 == 0,
}
PROPERTIES = "tblproperties ('delta.enableDeletionVectors' = 'true')"


def there(worker: Worker, path: str, where: str = "true") -> list[int]:
    return [row[0] for row in worker.sql(f"select id from {path} where {where} order by id")]


def test_sparks_vectors_are_read(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(f"create table {path} (id bigint, part string) using delta partitioned by (part) {PROPERTIES}")
    some = f"range(0, {ROWS_OF_FILES}, 1, 1)"
    worker.sql(f"insert into {path} select id, concat('p', id % 2) from {some}")
    left = list(range(ROWS_OF_FILES))
    for where, is_gone in GONE.items():
        worker.sql(f"delete from {path} where {where}")
        table = spillway.delta.open(tmp_path / "t")
        left = [each for each in left if not is_gone(each)]
        assert sorted(ids(table)) == left
    assert worker.sql(f"select count(*), sum(id) from {path}") == [[len(left), sum(left)]]
    kinds = {
        line["add"]["deletionVector"]["storageType"]
        for version in range(2, table.version + 1)
        for line in read_version(table, version)
        if "add" in line
    }
    assert kinds == {"u"}
    assert sum(file.deleted_rows for file in table.files()) > 70_000
    found = ids(table, where=[("id", ">=", 69_000), ("part", "=", "p0")])
    assert sorted(found) == there(worker, path, "id >= 69000 and part = 'p0'")
    assert len(found) > 800


def test_vectors_of_both_are_of_one_table(tmp_path: Path, worker: Worker) -> None:
    """Each marks rows of files of which the other has marked some."""
    path = f"delta.`{tmp_path}/t`"
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part", properties=MARKS)
    with table.append() as append:
        append.write(pa.concat_tables([numbers(3000, "a"), numbers(3000, "b", 3000)]))
    left = set(range(6000))
    for number in range(ROUNDS):
        mine = [n for n in range(6000) if n % 11 == number]
        table.delete([("id", "in", mine[: 10 if number % 3 == 0 else None])])
        left -= set(mine[: 10 if number % 3 == 0 else None])
        worker.sql(f"delete from {path} where id % 13 = {number} and part = 'a'")
        table.refresh()
        left -= {n for n in range(3000) if n % 13 == number}
        assert there(worker, path) == sorted(left)
        assert sorted(ids(table)) == sorted(left)
    table.checkpoint()
    assert there(worker, path, "id > 5000") == [n for n in sorted(left) if n > 5000]
    worker.sql(f"delete from {path} where part = 'b'")
    table.refresh()
    assert sorted(ids(table)) == [n for n in sorted(left) if n < 3000]


def test_sparks_purge_and_restore_go_on_from_marks(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    table = made(tmp_path / "t")
    table.delete([("id", "in", list(range(0, 600, 2)))])
    worker.sql(f"reorg table {path} apply (purge)")
    table.refresh()
    assert [file.deleted_rows for file in table.files()] == [0]
    assert sorted(ids(table)) == there(worker, path)
    worker.sql(f"restore table {path} to version as of 2")
    table.refresh()
    assert [file.deleted_rows for file in table.files()] == [300]
    assert sorted(ids(table)) == there(worker, path)


def test_marked_rows_are_deletions_in_sparks_change_feed(tmp_path: Path, worker: Worker) -> None:
    table = made(tmp_path / "t", properties=MARKS | {"delta.enableChangeDataFeed": "true"})
    table.delete([("id", "in", [3, 500])])
    table.delete([("id", "in", [4, 999])])
    changes = worker.sql(
        f"select id, _change_type, _commit_version from table_changes_by_path('{tmp_path}/t', 2) order by id"
    )
    assert changes == [[3, "delete", 2], [4, "delete", 3], [500, "delete", 2], [999, "delete", 3]]


def test_the_counts_have_sparks_names(tmp_path: Path, worker: Worker) -> None:
    def counted(folder: Path) -> dict[str, int]:
        [entry] = spillway.delta.open(folder).history(1)
        return {
            name: int(value) for name, value in entry.info["operationMetrics"].items() if "Ms" not in name
        }

    for gone in (5, 700):
        ours, sparks = tmp_path / f"ours{gone}", tmp_path / f"sparks{gone}"
        made(ours).delete([("id", "<", gone)])
        made(sparks)
        worker.sql(f"delete from delta.`{sparks}` where id < {gone}")
        mine, theirs = counted(ours), counted(sparks)
        assert set(theirs) <= set(mine)
        assert mine["numDeletedRows"] == theirs["numDeletedRows"] == gone
    marked = counted(tmp_path / "ours5")
    assert {name: marked[name] for name in theirs} == counted(tmp_path / "sparks5") | {
        # Spark's own count of a file's bytes that it did not write.
        name: marked[name]
        for name in theirs
        if "Bytes" in name
    }


def test_other_engines_read_what_is_merged(tmp_path: Path, worker: Worker) -> None:
    table = made(tmp_path / "t", ROWS)
    assert race(table, 20) == []
    expected = [ROWS // 2, sum(range(ROWS // 2, ROWS))]
    assert worker.sql(f"select count(*), sum(id) from delta.`{tmp_path}/t`") == [expected]
    frame = pl.scan_delta(str(tmp_path / "t")).select(pl.len(), pl.col("id").sum().alias("sum")).collect()
    assert list(frame.row(0)) == expected
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    found: Any = pa.table(query.execute("select count(*) as n, sum(id) as s from t"))
    assert [found["n"][0].as_py(), found["s"][0].as_py()] == expected
