# ruff: noqa: S608 - the folder of a test is no attack
"""delta-spark and Spillway name the same clustering columns, and each clusters what the other left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta

from .logs import line_of, read_version
from .test_clustering import settled
from .test_deletes import ids

if TYPE_CHECKING:
    from pathlib import Path

    from ..spark.process import Worker

pytestmark = pytest.mark.spark
SCHEMA = pa.schema({"id": pa.int64(), "odd.name": pa.int64(), "group": pa.struct({"x": pa.int64()})})


def append(table: spillway.delta.Table, first: int) -> None:
    numbers = range(first, first + 500)
    rows = [{"id": n, "odd.name": n * 7919 % 997, "group": {"x": n * 31 % 499}} for n in numbers]
    with table.append() as append:
        append.write(pa.Table.from_pylist(rows, SCHEMA))


def named(worker: Worker, path: str) -> Any:
    """The clustering columns that delta-spark tells of."""
    return worker.sql(f"describe detail {path}")[0][8]


def cubes(table: spillway.delta.Table) -> list[Any]:
    """The columns that the files of the newest version are clustered by, and their implementation."""
    adds = [line["add"] for line in read_version(table, table.version) if "add" in line]
    return [(json.loads(add["tags"]["ZCUBE_ZORDER_BY"]), add["clusteringProvider"]) for add in adds]


def test_each_clusters_what_the_other_left(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    table = spillway.delta.create(tmp_path / "t", SCHEMA, cluster_by=["`odd.name`", "group.x"])
    expected = ["`odd.name`", "group.x"]
    assert table.clustering_columns == named(worker, path) == expected
    for first in (0, 500):
        append(table, first)
    assert settled(table).removed_files == 2
    ours = cubes(table)
    assert ours == [(expected, "liquid")]

    # One cube has all rows: there is nothing to gain.
    version = table.version
    worker.sql(f"optimize {path}")
    assert table.refresh() == version

    append(table, 1000)
    worker.sql(f"optimize {path}")
    table.refresh()
    assert table.history(1)[0].operation == "OPTIMIZE"
    assert cubes(table) == ours
    assert sum("remove" in line for line in read_version(table, table.version)) == 2
    assert settled(table).removed_files == 0

    append(table, 1500)
    assert settled(table).removed_files == 2
    assert sorted(ids(table)) == list(range(2000))
    counts = worker.sql(f"select count(*), count(distinct id), sum(id) from {path}")
    assert counts == [[2000, 2000, 1_999_000]]
    found = worker.sql(f"select id from {path} where group.x = 31 and `odd.name` > 100 order by id")
    expected = [n for n in range(2000) if n * 31 % 499 == 31 and n * 7919 % 997 > 100]
    assert [number for [number] in found] == expected

    worker.sql(f"alter table {path} cluster by (id)")
    table.refresh()
    assert table.clustering_columns == ["id"]
    theirs = table.history(1)[0].info
    table.cluster_by(["id", "group.x"])
    own = table.history(1)[0].info
    assert own["operation"] == theirs["operation"]
    assert own["operationParameters"].keys() == theirs["operationParameters"].keys()
    assert named(worker, path) == ["id", "group.x"]
    worker.sql(f"alter table {path} cluster by none")
    table.refresh()
    assert (table.clustering_columns, named(worker, path)) == ([], [])
    configuration = json.loads(line_of(table, "domainMetadata", table.version)["configuration"])
    assert configuration == {"clusteringColumns": [], "domainName": "delta.clustering"}


def test_what_delta_spark_clusters_is_overwritten_and_restored(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(f"create table {path} (id bigint, part string) using delta cluster by (id)")
    worker.sql(f"insert into {path} select id, 'a' from range(0, 100, 1, 1)")
    table = spillway.delta.open(tmp_path / "t")
    assert settled(table).removed_files == 1
    clustered = table.version
    spillway.delta.create(table.path, SCHEMA, mode="overwrite")
    assert named(worker, path) == []
    append(table, 0)
    worker.sql(f"optimize {path}")
    table.restore(clustered)
    assert named(worker, path) == ["id"]
    assert worker.sql(f"select count(*), sum(id) from {path}") == [[100, 4950]]
    worker.sql(f"insert into {path} select id, 'b' from range(100, 200, 1, 1)")
    worker.sql(f"optimize {path}")
    table.refresh()
    assert sorted(ids(table)) == list(range(200))
