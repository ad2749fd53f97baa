# ruff: noqa: S608 - the folder of a test is no attack
"""Spark's Delta reads what is written here, and what it writes opens here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway.delta

from ..counts import count
from .conftest import read_deltalake, rows
from .test_values import EVERY_TYPE, PARTITION_VALUES, partitioned

if TYPE_CHECKING:
    from pathlib import Path

    from ..spark.process import Worker

pytestmark = pytest.mark.spark
COMMITS = count(quick=100, ci=100, soak=1000)


def test_every_type(tmp_path: Path, worker: Worker) -> None:
    spillway.delta.write(tmp_path / "t", EVERY_TYPE)
    found = worker.read(tmp_path / "t", tmp_path / "out").cast(EVERY_TYPE.schema)
    assert rows(found) == rows(EVERY_TYPE)


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_odd_partition_values(tmp_path: Path, worker: Worker, kind: str) -> None:
    data, expected = partitioned(kind)
    spillway.delta.write(tmp_path / "t", data, partition_by="p")
    found = worker.read(tmp_path / "t", tmp_path / "out").cast(expected.schema)
    assert rows(found) == rows(expected)


@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["plain", "partitioned"])
def test_many_commits_and_a_checkpoint(tmp_path: Path, worker: Worker, partition_by: list[str]) -> None:
    schema = pa.schema({"day": pa.string(), "id": pa.int64()})
    properties = {"delta.checkpointInterval": str(COMMITS * 2 // 5)}
    table = spillway.delta.create(tmp_path / "t", schema, partition_by=partition_by, properties=properties)
    for number in range(COMMITS):
        with table.append() as append:
            append.write(pa.table({"day": [f"d{number % 3}"], "id": [number]}))
    assert table.version == COMMITS
    table.checkpoint()
    for version in range(COMMITS):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    assert worker.sql(f"select count(*), sum(id), count(distinct day) from delta.`{tmp_path}/t`") == [
        [COMMITS, sum(range(COMMITS)), 3]
    ]
    assert worker.sql(f"select count(*) from delta.`{tmp_path}/t` where id >= {COMMITS - 10}") == [[10]]
    assert read_deltalake(tmp_path / "t").num_rows == COMMITS


def test_every_operation_shows(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    days = pa.table({"day": ["a", "b", None], "id": [1, 2, 3]})
    spillway.delta.write(tmp_path / "t", days, partition_by="day")
    table = spillway.delta.open(tmp_path / "t")
    table.delete_partition(day="a")
    assert worker.sql(f"select id from {path} order by id") == [[2], [3]]
    with table.append(schema_mode="merge") as append:
        append.write(pa.table({"day": ["c"], "id": [4], "note": ["x"]}))
    assert worker.sql(f"select id, note from {path} order by id") == [[2, None], [3, None], [4, "x"]]
    spillway.delta.write(
        tmp_path / "t", pa.table({"day": ["b"], "id": [5]}), mode="overwrite", where=[("day", "=", "b")]
    )
    assert worker.sql(f"select id from {path} order by id") == [[3], [4], [5]]
    table.truncate()
    assert worker.sql(f"select count(*) from {path}") == [[0]]
    table.restore(1)
    assert worker.sql(f"select id from {path} order by id") == [[1], [2], [3]]
    operations = [row[4] for row in worker.sql(f"describe history {path}")]
    assert operations == ["RESTORE", "TRUNCATE", "WRITE", "WRITE", "DELETE", "WRITE", "CREATE TABLE"]


def test_all_years_of_sparks_timestamps_are_scanned(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(f"create table {path} (time timestamp, nested struct<times: array<timestamp>>) using delta")
    years = ("0001-01-01 00:00:00", "2026-11-22 12:00:00.000001", "9999-12-31 23:59:59.999999")
    for year in years:
        moment = f"timestamp'{year}+00:00'"
        worker.sql(f"insert into {path} select {moment}, named_struct('times', array({moment}))")
    found = pa.table(spillway.delta.open(tmp_path / "t").scan())
    assert sorted(str(row) for row in found["time"].cast(pa.string()).to_pylist()) == [
        f"{year.ljust(26, '0') if '.' in year else year + '.000000'}Z" for year in years
    ]
    nested = pa.compute.list_flatten(pa.compute.struct_field(found["nested"].combine_chunks(), "times"))
    assert nested.equals(found["time"].combine_chunks())


def test_sparks_tables_open_and_take_appends(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(
        f"create table {path} (id bigint, day date, note string) using delta partitioned by (day) "
        "tblproperties ('delta.checkpointInterval' = '3')"
    )
    for number in range(5):
        worker.sql(f"insert into {path} values ({number}, date'2026-11-2{number}', 'a b')")
    worker.sql(f"delete from {path} where id = 2")
    table = spillway.delta.open(tmp_path / "t")
    assert len(table.files()) == 4
    assert table.partition_columns == ["day"]
    table.delete_partition(day="2026-11-20")
    with table.append() as append:
        append.write(
            pa.table({"id": [100], "day": ["2026-12-31"], "note": [None]})
            .cast(pa.schema({"id": pa.int64(), "day": pa.string(), "note": pa.string()}))
            .set_column(1, "day", pa.array(["2026-12-31"]).cast(pa.date32()))
        )
    expected = [[1], [3], [4], [100]]
    assert worker.sql(f"select id from {path} order by id") == expected
    assert sorted(pa.table(table.scan(["id"]))["id"].to_pylist()) == [1, 3, 4, 100]
    table.checkpoint()
    assert worker.sql(f"select id from {path} order by id") == expected
    worker.sql(f"insert into {path} values (200, date'2027-01-01', 'later')")
    assert table.refresh() == table.history(1)[0].version
    assert sorted(read_deltalake(tmp_path / "t")["id"].to_pylist()) == [1, 3, 4, 100, 200]
