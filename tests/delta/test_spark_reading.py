# ruff: noqa: S608 - the folder of a test is no attack
"""Tables that Spark makes with features of its own are read as Spark reads them."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import SchemaError, VersionNotFoundError

from ..counts import SOAK
from .conftest import rows
from .logs import log_of
from .test_v2_checkpoints import read_delta_rs

if TYPE_CHECKING:
    from pathlib import Path

    from ..spark.process import Worker

pytestmark = pytest.mark.spark


def scanned(folder: Path, **options: Any) -> pa.Table:
    return pa.table(spillway.delta.open(folder).scan(**options))


# By name, a table is mapped in the two tests below.
@pytest.mark.parametrize("mode", ["id", *(["name"] if SOAK else [])])
def test_columns_that_spark_maps(tmp_path: Path, worker: Worker, mode: str) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(
        f"create table {path} (id bigint, `odd name` string, part date, "
        "deep struct<x: int, many: array<struct<y: int>>>, pairs map<string, struct<z: double>>) "
        f"using delta partitioned by (part) tblproperties ('delta.columnMapping.mode' = '{mode}')"
    )

    def insert(number: int, more: str = "") -> None:
        deep = f"named_struct('x', {number}, 'many', array(named_struct('y', {number}), null))"
        pairs = f"map('k', named_struct('z', {number}.5D))"
        day = f"date'2026-11-2{number}'"
        worker.sql(f"insert into {path} values ({number}, 'row {number}', {day}, {deep}, {pairs}{more})")

    insert(1)
    insert(2)
    # The names are each other's from now on, and one is of a new column.
    worker.sql(f"alter table {path} rename column id to was_id")
    worker.sql(f"alter table {path} rename column `odd name` to id")
    worker.sql(f"alter table {path} add column (`odd name` int)")
    worker.sql(f"alter table {path} rename column deep.many.element.y to renamed")
    worker.sql(f"alter table {path} rename column part to day")
    insert(3, ", 33")
    worker.sql(f"alter table {path} drop column deep.x")
    table = spillway.delta.open(tmp_path / "t")
    found = scanned(tmp_path / "t")
    expected = worker.read(tmp_path / "t", tmp_path / "out")
    assert found.column_names == expected.column_names
    assert rows(found) == rows(expected.cast(found.schema))
    assert rows(found) == rows(read_delta_rs(tmp_path / "t"))
    assert scanned(tmp_path / "t", where=[("odd name", "=", 33)])["was_id"].to_pylist() == [3]
    assert scanned(tmp_path / "t", where=[("id", "=", "row 2")])["was_id"].to_pylist() == [2]
    by_day = table.scan(["was_id"], where=[("day", "<", "2026-11-22")])
    assert (len(by_day.files), pa.table(by_day)["was_id"].to_pylist()) == (1, [1])
    by_statistics = table.scan(["id"], where=[("was_id", ">", 2)])
    assert (len(by_statistics.files), pa.table(by_statistics)["id"].to_pylist()) == (1, ["row 3"])
    assert {file.partition_values["day"] for file in table.files()} == {f"2026-11-2{n}" for n in (1, 2, 3)}


def test_marked_rows_of_a_mapped_table(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(
        f"create table {path} (id bigint) using delta tblproperties "
        "('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    worker.sql(f"insert into {path} select * from range(0, 100, 1, 1)")
    worker.sql(f"delete from {path} where id % 3 = 0")
    assert sorted(scanned(tmp_path / "t")["id"].to_pylist()) == [n for n in range(100) if n % 3]
    assert scanned(tmp_path / "t", where=[("id", "in", [3, 4])])["id"].to_pylist() == [4]


def test_a_mapping_that_spark_turns_on_later(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    spillway.delta.write(tmp_path / "t", pa.table({"id": [1, 2], "note": ["a", "b"]}))
    table = spillway.delta.open(tmp_path / "t")
    worker.sql(
        f"alter table {path} set tblproperties ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    worker.sql(f"alter table {path} drop column note")
    worker.sql(f"alter table {path} add column (note bigint)")
    worker.sql(f"insert into {path} values (3, 30)")
    table.refresh()
    expected = [{"id": 1, "note": None}, {"id": 2, "note": None}, {"id": 3, "note": 30}]
    assert sorted(pa.table(table.scan()).to_pylist(), key=lambda row: row["id"]) == expected
    assert pa.table(table.scan(where=[("note", "=", None)])).num_rows == 2
    assert pa.table(table.scan(version=1))["note"].to_pylist() == ["a", "b"]


def test_types_that_spark_widens(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    columns = {
        "a": ("byte", "1Y", "bigint", "9000000000"),
        "b": ("int", "7", "double", "7.5D"),
        "c": ("float", "float(0.7)", "double", "0.7D"),
        "d": ("date", "date'2026-11-23'", "timestamp_ntz", "timestamp_ntz'2026-11-23 12:00:00'"),
        "e": ("decimal(5,2)", "1.25", "decimal(12,4)", "12345678.1234"),
        "f": ("int", "7", "decimal(12,2)", "7.25"),
    }
    kinds = ", ".join(f"{name} {kind}" for name, (kind, *_) in columns.items())
    worker.sql(
        f"create table {path} ({kinds}, g array<struct<h: short>>) using delta tblproperties "
        "('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')"
    )
    old = ", ".join(value for _, value, *_ in columns.values())
    worker.sql(f"insert into {path} values ({old}, array(named_struct('h', 1S)))")
    for name, (_, _, wider, _) in columns.items():
        worker.sql(f"alter table {path} change column {name} type {wider}")
    worker.sql(f"alter table {path} change column g.element.h type int")
    new = ", ".join(value for *_, value in columns.values())
    worker.sql(f"insert into {path} values ({new}, array(named_struct('h', 100000)))")
    found = scanned(tmp_path / "t")
    expected = worker.read(tmp_path / "t", tmp_path / "out")
    assert rows(found) == rows(expected.cast(found.schema))
    for name, value in [("a", 1), ("b", 7.0), ("d", "2026-11-23T00:00:00")]:
        assert scanned(tmp_path / "t", where=[(name, "=", value)]).num_rows == 1
    # The single is a little less than the double of the same text, by which Spark leaves its file out.
    assert min(found["c"].to_pylist()) < 0.7
    assert scanned(tmp_path / "t", where=[("c", "<", 0.7)]).num_rows == 1
    table = spillway.delta.open(tmp_path / "t")
    with table.append() as append:
        append.write(found)
    assert table.delete([("a", "=", 1), ("c", "<", 0.7)]).rows == 2
    with table.append() as append:
        append.write(found)
    table.checkpoint()
    again = worker.read(tmp_path / "t", tmp_path / "again").cast(found.schema)
    assert rows(again) == rows(scanned(tmp_path / "t"))
    assert again.num_rows == 4


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_checkpoints_of_sparks_second_form(tmp_path: Path, worker: Worker, form: str) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(f"set spark.databricks.delta.checkpointV2.topLevelFileFormat = {form}")
    worker.sql("set spark.databricks.delta.checkpoint.partSize = 2")
    try:
        worker.sql(
            f"create table {path} (id bigint, part string) using delta partitioned by (part) tblproperties "
            "('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '3')"
        )
        for number in range(4):
            ids = f"range({number * 4}, {number * 4 + 4})"
            worker.sql(f"insert into {path} select id, concat('p', id % 2) from {ids}")
    finally:
        worker.sql("reset spark.databricks.delta.checkpointV2.topLevelFileFormat")
        worker.sql("reset spark.databricks.delta.checkpoint.partSize")
    table = spillway.delta.open(tmp_path / "t")
    (checkpoint,) = log_of(table).glob(f"{3:020}.checkpoint.*.{form}")
    assert any((log_of(table) / "_sidecars").iterdir())
    for version in range(3):
        (log_of(table) / f"{version:020}.json").unlink()
    del table
    table = spillway.delta.open((tmp_path / "t").rename(tmp_path / "u"))
    assert (log_of(table) / checkpoint.name).exists()
    assert sorted(scanned(tmp_path / "u")["id"].to_pylist()) == list(range(16))
    with table.append() as append:
        append.write(pa.table({"id": [100], "part": ["p9"]}))
    table.checkpoint()
    path = f"delta.`{tmp_path}/u`"
    assert worker.sql(f"select count(*), sum(id) from {path}") == [[17, sum(range(16)) + 100]]
    assert rows(read_delta_rs(tmp_path / "u")) == rows(scanned(tmp_path / "u"))


def test_texts_of_declared_lengths(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(
        f"create table {path} (id bigint, v varchar(5), c char(3), l array<varchar(2)>, "
        "m map<varchar(2), char(2)>, g struct<a: varchar(2), b: array<char(2)>>) using delta"
    )
    row = {"id": 1, "v": "ünïcö", "c": "y", "l": ["a "], "m": [("k", "v")], "g": {"a": "日本", "b": ["x"]}}
    table = spillway.delta.open(tmp_path / "t")
    table.append_rows([row | {"m": dict(row["m"])}])
    assert scanned(tmp_path / "t").to_pylist() == [row]
    texts = {"v": "'abcdef'", "c": "'abcd'", "l": "array('abc')", "g.a": "'abc'"}
    wrongs: list[dict[str, Any]] = [
        {"v": "abcde "},
        {"c": "abcd"},
        {"l": ["abc"]},
        {"g": {"a": "abc", "b": None}},
    ]
    for (name, text), wrong in zip(texts.items(), wrongs, strict=True):
        with pytest.raises(RuntimeError, match="CHAR_VARCHAR_LIMIT"):
            worker.sql(f"update {path} set {name} = {text}")
        with pytest.raises(SchemaError):
            table.append_rows([row | {"m": dict(row["m"])} | wrong])
    # Spark goes on with our rows.
    worker.sql(f"update {path} set id = 2")
    assert worker.sql(f"select id, c from {path}") == [[2, "y  "]]


@pytest.mark.parametrize("kind", ["TIMESTAMP_MICROS", "INT96"])
def test_dates_and_times_of_the_old_calendar(tmp_path: Path, worker: Worker, kind: str) -> None:
    path = f"delta.`{tmp_path}/t`"
    settings = {"parquet.datetimeRebaseModeInWrite": "LEGACY", "parquet.int96RebaseModeInWrite": "LEGACY"}
    settings |= {"parquet.outputTimestampType": kind, "session.timeZone": "UTC"}
    before = {name: worker.sql(f"set spark.sql.{name}")[0][1] for name in settings}
    try:
        for name, value in settings.items():
            worker.sql(f"set spark.sql.{name}={value}")
        worker.sql(f"create table {path} (id bigint, day date, at timestamp) using delta")
        days = ["0001-01-01", "1000-03-01", "1582-10-04", "1582-10-15", "1900-01-01", "2020-01-01"]
        # One version with a file for each of its rows.
        rows_of = [f"{number}, date'{day}', timestamp'{day} 12:30:01.5'" for number, day in enumerate(days)]
        worker.sql(f"insert into {path} {' union all '.join(f'select {each}' for each in rows_of)}")
        texts = f"select id, string(day), string(at) from {path} order by id"
        wanted = [[number, day, f"{day} 12:30:01.5"] for number, day in enumerate(days)]
        assert worker.sql(texts) == wanted
        table = spillway.delta.open(tmp_path / "t")
        assert len(table.files()) == len(days)
        for done in (False, True):
            found = sorted(pa.table(table.scan()).to_pylist(), key=lambda row: row["id"])
            assert [str(row["day"]) for row in found] == days
            assert [row["at"].strftime("%H:%M:%S") for row in found] == ["12:30:01"] * len(days)
            assert [str(row["at"].date()) for row in found] == days
            for number, day in enumerate(days):
                assert scanned(tmp_path / "t", where=f"day = DATE '{day}'")["id"].to_pylist() == [number]
            if not done:
                table.optimize()
        assert len(table.files()) == 1
        assert worker.sql(texts) == wanted
    finally:
        for name, value in before.items():
            worker.sql(f"set spark.sql.{name}={value}")


def test_a_time_names_the_version_that_spark_reads(tmp_path: Path, worker: Worker) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}))
    for number in range(1, 5):
        table.append_rows([{"id": number}])
    # Delta reads no versions from before the retention of files that left the table.
    start = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(hours=1)
    # The times of files do not rise.
    for version, milliseconds in enumerate([0, 50, 50, 20, 90]):
        time_ns = int(start.timestamp()) * 10**9 + milliseconds * 10**6
        os.utime(log_of(table) / f"{version:020}.json", ns=(time_ns, time_ns))
    for milliseconds in (0, 49, 50, 51, 52, 90):
        time = start + dt.timedelta(milliseconds=milliseconds)
        query = f"select count(*) from delta.`{tmp_path}/t` timestamp as of '{time.isoformat()}'"
        ((count,),) = worker.sql(query)
        assert pa.table(table.scan(version=time)).num_rows == count
    for milliseconds in (-1, 91):
        time = start + dt.timedelta(milliseconds=milliseconds)
        with pytest.raises(RuntimeError, match=r"(?i)timestamp"):
            worker.sql(f"select * from delta.`{tmp_path}/t` timestamp as of '{time.isoformat()}'")
        with pytest.raises(VersionNotFoundError):
            table.scan(version=time)
