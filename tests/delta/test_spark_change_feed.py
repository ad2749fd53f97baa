# ruff: noqa: S608 - the folder of a test is no attack
"""Spark reads the change data feed that is written here, and its own feed is read here."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import spillway.delta

from ..counts import SOAK, count
from .conftest import rows
from .logs import log_of
from .test_change_feed import FEED, HISTORIES, OF_FEED, lived
from .test_deletes import MARKS, NUMBERS, made, numbers
from .test_row_level import ROWS, race

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..spark.process import Worker
    from .test_changes import Row

pytestmark = pytest.mark.spark
WRITERS = 4
COLUMNS = "part, id, _change_type, _commit_version, unix_micros(_commit_timestamp)"


def by_spark(worker: Worker, path: Path | str, columns: str, first: int = 0) -> list[list[Any]]:
    return worker.sql(f"select {columns} from table_changes_by_path('{path}', {first})")


@settings(max_examples=count(quick=2, ci=5, soak=1_000))
@given(**HISTORIES)
def test_spark_reads_the_changes_of_every_version(
    worker: Worker,
    first: list[Row],
    steps: list[tuple[str, Any]],
    partition_by: list[str],
    marks: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    with lived(first, steps, partition_by, marks=marks) as (table, expected):
        found = by_spark(worker, table.path, ", ".join(OF_FEED.names))
        columns = [dict(zip(OF_FEED.names, each, strict=True)) for each in found]
        assert rows(pa.Table.from_pylist(columns, OF_FEED)) == expected


def test_spark_reads_the_rows_of_each_of_those_that_race(tmp_path: Path, worker: Worker) -> None:
    table = made(tmp_path / "t", ROWS, properties=FEED | MARKS)
    assert race(table, WRITERS) == []
    feed = f"table_changes_by_path('{tmp_path}/t', 2)"
    counts = "_change_type, count(*), count(distinct id), min(id), max(id)"
    share = ROWS // 2 // WRITERS
    deleted = share * WRITERS
    assert worker.sql(f"select {counts} from {feed} group by _change_type") == [
        ["delete", deleted, deleted, 0, deleted - 1]
    ]
    # Deletes that wait at the same time share a version.
    versions = worker.sql(f"select distinct _commit_version from {feed}")
    assert sorted(each[0] for each in versions) == [*range(2, spillway.delta.open(table.path).version + 1)]


# Without vectors Spark reads our feed above; here, it is read in a soak.
FEEDS = {"marking": MARKS, **({"writing again": {}} if SOAK else {})}


@pytest.mark.parametrize("properties", FEEDS.values(), ids=FEEDS)
def test_both_read_the_changes_of_both(tmp_path: Path, worker: Worker, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    sql = f"delta.`{path}`"
    table = made(path, 100, properties=FEED | properties)
    steps: list[Callable[[], object]] = [
        lambda: worker.sql(f"delete from {sql} where id < 10"),
        lambda: table.delete([("id", "<", 20)]),
        lambda: worker.sql(f"update {sql} set part = 'b' where id between 30 and 40"),
        lambda: table.update([("id", "<", 35)], {"part": "c"}),
        lambda: worker.sql(f"insert into {sql} select 'd', id from range(200, 260)"),
        lambda: table.merge(numbers(20, "e", 250), "id"),
        lambda: worker.sql(
            f"merge into {sql} t using (select 'f' part, id from range(95, 105)) s on t.id = s.id "
            "when matched and s.id < 98 then delete when matched then update set * "
            "when not matched then insert *"
        ),
        lambda: worker.sql(f"optimize {sql}"),
        lambda: table.restore(3),
        lambda: worker.sql(f"restore table {sql} to version as of 6"),
        lambda: spillway.delta.write(path, numbers(5, "g"), mode="overwrite"),
        lambda: worker.sql(f"insert overwrite {sql} select 'h', id from range(5)"),
        lambda: worker.sql(
            f"merge into {sql} t using (select 'h' part, id from range(3)) s on t.id = s.id "
            "when matched and t.part <> s.part then update set * when not matched then insert *"
        ),
        lambda: worker.sql(f"delete from {sql}"),
    ]
    for step in steps:
        step()
    # Both let the times of versions rise where those of files go back, or are equal.
    now = time.time()
    for version, at in [(5, now - 3_600), (7, now), (8, now), (9, now)]:
        os.utime(log_of(table) / f"{version:020}.json", (at, at))
    expected = by_spark(worker, path, COLUMNS)
    found = pa.table(table.changes(0))
    times = found["_commit_timestamp"].cast(pa.int64())
    found = found.set_column(found.schema.get_field_index("_commit_timestamp"), "time", times)
    names = [*NUMBERS.names, "_change_type", "_commit_version", "time"]
    assert sorted(zip(*(found[name].to_pylist() for name in names), strict=True)) == sorted(
        map(tuple, expected)
    )


def test_spark_goes_on_after_a_feed_was_enabled_here(tmp_path: Path, worker: Worker) -> None:
    table = made(tmp_path / "t", 10, properties=MARKS)
    table.set_properties(FEED)
    worker.sql(f"update delta.`{tmp_path}/t` set part = 'b' where id = 3")
    found = by_spark(worker, tmp_path / "t", "part, id, _change_type", 2)
    assert sorted(found) == [["a", 3, "update_preimage"], ["b", 3, "update_postimage"]]
    assert rows(pa.table(table.changes(2)).select(["part", "id", "_change_type"])) == rows(
        pa.table({"part": ["a", "b"], "id": [3, 3], "_change_type": ["update_preimage", "update_postimage"]})
    )
