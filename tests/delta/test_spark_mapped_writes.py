# ruff: noqa: S608 - the folder of a test is no attack
"""Tables with column mapping that both delta-spark and Spillway write, each reads as the other does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta

from ..counts import SOAK
from .conftest import rows
from .test_v2_checkpoints import read_delta_rs

if TYPE_CHECKING:
    from pathlib import Path

    from ..spark.process import Worker

pytestmark = pytest.mark.spark

MODE = "delta.columnMapping.mode"


def agree(worker: Worker, folder: Path) -> pa.Table:
    """The rows of a table that both read."""
    found = pa.table(spillway.delta.open(folder).scan())
    number = len(list(folder.parent.glob("out-*")))
    expected = worker.read(folder, folder.parent / f"out-{number}")
    assert found.column_names == expected.column_names
    assert rows(found) == rows(expected.cast(found.schema))
    return found


# In continuous integration each mode is seen with one of both ways to delete.
WAYS = [("name", "true"), ("id", "false"), *([("name", "false"), ("id", "true")] if SOAK else [])]


@pytest.mark.parametrize(("mode", "marks"), WAYS)
def test_tables_of_spark_are_written(tmp_path: Path, worker: Worker, mode: str, marks: str) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(
        f"create table {path} (id bigint, `odd, name` string, part date, "
        "deep struct<x: int, many: array<struct<`y.z`: int>>>, pairs map<string, struct<z: double>>) "
        f"using delta partitioned by (part) tblproperties ('{MODE}' = '{mode}', "
        f"'delta.enableDeletionVectors' = '{marks}')"
    )
    deep = "named_struct('x', 1, 'many', array(named_struct('y.z', 1), null))"
    for day in (1, 2):
        worker.sql(
            f"insert into {path} values ({day}, 'row {day}', date'2026-11-2{day}', {deep}, "
            f"map('k', named_struct('z', {day}.5D)))"
        )
    table = spillway.delta.open(tmp_path / "t")
    schema = pa.schema(table.schema)

    def made(number: int, day: int) -> dict[str, Any]:
        return {
            "id": number,
            "odd, name": f"row {number}",
            "part": None if day == 0 else pa.scalar(f"2026-11-2{day}").cast(pa.date32()).as_py(),
            "deep": {"x": number, "many": [{"y.z": number}, None]},
            "pairs": [("k", {"z": number / 2})],
        }

    with table.append() as append:
        append.write(pa.Table.from_pylist([made(n, n % 3) for n in range(3, 30)], schema))
    assert agree(worker, tmp_path / "t").num_rows == 29
    table.delete([("id", "=", 5)])
    table.delete("deep.x = 7")
    table.update([("id", "=", 8)], {"odd, name": "changed"})
    table.merge(pa.Table.from_pylist([made(9, 1), made(100, 1)], schema), "id")
    assert agree(worker, tmp_path / "t").num_rows == 28
    table.optimize()
    table.checkpoint()
    found = agree(worker, tmp_path / "t")
    for condition in (
        "id > 20",
        "deep.x = 12",
        "part = date'2026-11-21'",
        "part is null",
        "`odd, name` = 'changed'",
    ):
        (counted,) = worker.sql(f"select count(*) from {path} where {condition}")
        where = condition.replace("date'", "'")
        assert counted == [pa.table(table.scan(where=where)).num_rows], condition
    (deepest,) = worker.sql(f"select max(element.`y.z`) from (select explode(deep.many) element from {path})")
    assert deepest == [100]
    # Files are left out by what this wrote of them, in both.
    assert table.scan(where=[("id", ">", 1000)]).files == []
    (used,) = worker.sql(f"select count(distinct _metadata.file_path) from {path} where id > 99")
    assert used == [1]

    # The names are others from now on.
    worker.sql(f"alter table {path} rename column id to was_id")
    worker.sql(f"alter table {path} rename column `odd, name` to id")
    worker.sql(f"alter table {path} rename column part to day")
    worker.sql(f"alter table {path} drop column pairs")
    table = spillway.delta.open(tmp_path / "t")
    with table.append(schema_mode="merge") as append:
        append.write(
            pa.Table.from_pylist(
                [{"was_id": 200, "id": "new", "day": made(1, 1)["part"], "added, too": {"in": 1}}],
                pa.schema(
                    {
                        "was_id": pa.int64(),
                        "id": pa.string(),
                        "day": pa.date32(),
                        "added, too": pa.struct({"in": pa.int64()}),
                    }
                ),
            )
        )
    assert agree(worker, tmp_path / "t").num_rows == found.num_rows + 1
    worker.sql(f"delete from {path} where `added, too`.`in` = 1")
    worker.sql(f"update {path} set id = 'spark' where was_id = 100")
    worker.sql(f"alter table {path} add column (later int)")
    worker.sql(f"insert into {path} (was_id, later) values (300, 3)")
    table.refresh()
    table.optimize()
    assert agree(worker, tmp_path / "t").num_rows == found.num_rows + 1
    assert pa.table(table.scan(where=[("later", "=", 3)]))["was_id"].to_pylist() == [300]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_spark_goes_on_with_tables_that_begin_here(tmp_path: Path, worker: Worker, mode: str) -> None:
    path = f"delta.`{tmp_path}/t`"
    schema = pa.schema({"a b": pa.int64(), "p=": pa.string(), "s": pa.struct({"x;y": pa.int64()})})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by=["p="], properties={MODE: mode})

    def append(number: int, **more: int) -> None:
        key, *_ = pa.schema(table.schema).names
        given = {key: number, "p=": f"p{number % 2}", "s": {"x;y": number}} | more
        with table.append(schema_mode="merge" if more else None) as append:
            append.write(pa.Table.from_pylist([given]))

    append(1)
    append(2, new=20)
    agree(worker, tmp_path / "t")
    assert rows(read_delta_rs(tmp_path / "t")) == rows(pa.table(table.scan()))
    worker.sql(f"alter table {path} rename column `a b` to `b a`")
    worker.sql(f"alter table {path} add column (`of spark` string)")
    worker.sql(f"insert into {path} values (3, 'p1', named_struct('x;y', 3), 30, 'x')")
    table = spillway.delta.open(tmp_path / "t")
    append(4)
    append(5, newer=50)
    found = agree(worker, tmp_path / "t")
    assert found.column_names == ["b a", "p=", "s", "new", "of spark", "newer"]
    assert sorted(found["b a"].to_pylist()) == [1, 2, 3, 4, 5]
    (counted,) = worker.sql(f"select count(*) from {path} where `b a` > 3 and `p=` = 'p0'")
    assert counted == [1]
    worker.sql(f"optimize {path}")
    agree(worker, tmp_path / "t")


def test_both_cluster_a_mapped_table(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    schema = pa.schema({"odd.name": pa.int64(), "s": pa.struct({"x": pa.int64()})})
    table = spillway.delta.create(
        tmp_path / "t", schema, cluster_by=["`odd.name`", "s.x"], properties={MODE: "name"}
    )
    assert worker.sql(f"describe detail {path}")[0][8] == table.clustering_columns == ["`odd.name`", "s.x"]
    for first in (0, 100):
        with table.append() as append:
            numbers = range(first, first + 100)
            append.write(pa.Table.from_pylist([{"odd.name": n, "s": {"x": -n}} for n in numbers], schema))
    assert table.optimize().removed_files == 2
    version = table.version
    worker.sql(f"optimize {path}")
    assert table.refresh() == version
    worker.sql(f"alter table {path} cluster by (s.x)")
    table.refresh()
    assert table.clustering_columns == ["s.x"]
    assert agree(worker, tmp_path / "t").num_rows == 200


@pytest.mark.parametrize("mode", ["name", "id"])
def test_spark_reads_the_change_feed_of_a_mapped_table(tmp_path: Path, worker: Worker, mode: str) -> None:
    schema = pa.schema({"a b": pa.int64(), "v": pa.int64()})
    properties = {MODE: mode, "delta.enableChangeDataFeed": "true"}
    table = spillway.delta.create(tmp_path / "t", schema, properties=properties)
    with table.append() as append:
        append.write(pa.table({"a b": [1, 2, 3], "v": [1, 2, 3]}))
    table.update([("a b", "=", 2)], {"v": 20})
    table.delete([("a b", "=", 3)])
    found = worker.sql(
        f"select `a b`, v, _change_type, _commit_version from table_changes_by_path('{tmp_path}/t', 0)"
    )
    assert sorted(found, key=repr) == sorted(
        [
            *([n, n, "insert", 1] for n in (1, 2, 3)),
            [2, 2, "update_preimage", 2],
            [2, 20, "update_postimage", 2],
            [3, 3, "delete", 3],
        ],
        key=repr,
    )


@pytest.mark.parametrize("mode", ["name", "id"])
def test_rows_keep_their_ids_in_a_mapped_table(tmp_path: Path, worker: Worker, mode: str) -> None:
    path = f"delta.`{tmp_path}/t`"
    schema = pa.schema({"a b": pa.int64(), "v": pa.int64()})
    properties = {MODE: mode, "delta.enableRowTracking": "true"}
    table = spillway.delta.create(tmp_path / "t", schema, properties=properties)
    for numbers in ([1, 2], [3, 4]):
        with table.append() as append:
            append.write(pa.table({"a b": numbers, "v": numbers}))

    def ids() -> dict[int, int]:
        found = pa.table(table.scan(["a b", "_metadata.row_id"]))
        here = dict(zip(found["a b"].to_pylist(), found["_metadata.row_id"].to_pylist(), strict=True))
        assert {row[0]: row[1] for row in worker.sql(f"select `a b`, _metadata.row_id from {path}")} == here
        return here

    before = ids()
    table.update([("a b", "=", 2)], {"v": 20})
    table.optimize()
    assert ids() == before
