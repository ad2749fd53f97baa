"""Clustering changes the order of rows, and nothing else, whoever appends and deletes meanwhile."""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway import datasets
from spillway.delta import Compaction
from spillway.errors import CommitConflict, OptionError, UnsupportedTableError

from ..counts import count, examples
from .conftest import read_polars, rows
from .logs import line_of, read_version
from .test_deletes import MARKS, ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "text": pa.string(),
        "ratio": pa.float64(),
        "day": pa.date32(),
        "price": pa.decimal128(12, 2),
        "at": pa.timestamp("us", "UTC"),
        "flag": pa.bool_(),
        "group": pa.struct({"x": pa.int32()}),
    }
)
KEYS = [[], ["id"], ["text", "day"], ["ratio", "price", "group.x"], ["at", "text", "id", "ratio"]]
NO_CHANGE = (0, 0, 0, 0)

DELETERS, APPENDERS = 4, 2
ROUNDS = count(quick=3, ci=6, soak=60)


def made(numbers: Iterable[int]) -> pa.Table:
    """Rows of these ids; in no column but `id` do they rise."""
    mixed = [(number, number * 7919 % 101) for number in numbers]
    return pa.Table.from_pylist(
        [
            {
                "id": number,
                "text": None if n % 9 == 0 else f"{'long ' * 8}text {n}",
                "ratio": [n / 3, float("nan"), float("-inf"), None, -0.0][n % 5],
                "day": date(2026, 1, 1) + timedelta(days=n),
                "price": Decimal(n * n - 4000) / 100,
                "at": n * 3_600_000_000,
                "flag": n % 2 == 0,
                "group": None if n % 7 == 0 else {"x": n},
            }
            for number, n in mixed
        ],
        SCHEMA,
    )


def append(table: spillway.delta.Table, first: int, last: int) -> None:
    with table.append() as append:
        append.write(made(range(first, last)))


def settled(table: spillway.delta.Table, **options: Any) -> Compaction:
    """A compaction after which another one finds nothing to do."""
    done = table.optimize(**options)
    version = table.version
    assert table.optimize(**options) == Compaction(version, *NO_CHANGE)
    assert table.version == version
    return done


@dataclass
class Model:
    """The ids and the clustering columns of each version."""

    ids: frozenset[int] = frozenset()
    keys: list[str] = field(default_factory=list)
    versions: dict[int, tuple[frozenset[int], list[str]]] = field(default_factory=dict)
    next: int = 0

    def note(self, version: int) -> None:
        self.versions[version] = (self.ids, self.keys)

    def take(self, length: int) -> tuple[int, int]:
        first, self.next = self.next, self.next + length
        return first, self.next


Step = tuple[Any, ...]
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 60)),
    st.tuples(st.just("delete"), st.integers(0, 200), st.integers(1, 50)),
    st.tuples(st.just("optimize"), st.sampled_from([None, 1])),
    st.tuples(st.just("purge")),
    st.tuples(st.just("cluster"), st.sampled_from(KEYS)),
    st.tuples(st.just("restore"), st.integers(0, 30)),
    st.tuples(st.just("overwrite"), st.integers(1, 30)),
    st.tuples(st.just("replace"), st.sampled_from(KEYS)),
)


def do(table: spillway.delta.Table, model: Model, one: Step) -> None:
    match one:
        case ("append", length):
            first, last = model.take(length)
            append(table, first, last)
            model.ids |= set(range(first, last))
        case ("delete", first, length):
            gone = model.ids & set(range(first, first + length))
            assert table.delete([("id", ">=", first), ("id", "<", first + length)]).rows == len(gone)
            model.ids -= gone
        case ("optimize", target):
            settled(table, target_file_bytes=target)
        case ("purge",):
            table.purge()
            assert all(file.deleted_rows == 0 for file in table.files())
        case ("cluster", keys):
            before = table.files()
            table.cluster_by(keys)
            assert table.files() == before
            model.keys = keys
        case ("restore", at):
            version = sorted(model.versions)[at % len(model.versions)]
            table.restore(version)
            model.ids, model.keys = model.versions[version]
        case ("overwrite", length):
            first, last = model.take(length)
            spillway.delta.write(table.path, made(range(first, last)), mode="overwrite")
            table.refresh()
            model.ids = frozenset(range(first, last))
        case ("replace", keys):
            spillway.delta.create(table.path, SCHEMA, mode="overwrite", cluster_by=keys, properties=MARKS)
            table.refresh()
            model.ids, model.keys = frozenset(), keys


def by_delta_rs(table: spillway.delta.Table) -> pa.Table:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.path))
    return pa.table(query.execute("select * from t"))


def by_duckdb(table: spillway.delta.Table) -> pa.Table:
    """The rows of all files, of which none may be marked."""
    files = [str(Path(table.path) / file.path) for file in table.files()]
    with duckdb.connect() as connection:
        return connection.read_parquet(files).to_arrow_table() if files else SCHEMA.empty_table()


def by_polars(table: spillway.delta.Table) -> pa.Table:
    return read_polars(Path(table.path))


@settings(max_examples=examples(0.15))
@given(st.sampled_from(KEYS), st.lists(STEPS, min_size=1, max_size=12))
def test_whatever_is_done_the_rows_and_the_columns_are_those_of_the_model(
    keys: list[str], steps: list[Step]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(f"{folder}/t", SCHEMA, cluster_by=keys, properties=MARKS)
        model = Model(keys=keys)
        model.note(0)
        for one in steps:
            do(table, model, one)
            model.note(table.version)
            assert sorted(ids(table)) == sorted(model.ids)
            assert table.clustering_columns == model.keys
        table.checkpoint()
        anew = spillway.delta.open(table.path)
        assert anew.clustering_columns == model.keys
        settled(anew)
        anew.purge()
        expected = rows(made(model.ids))
        assert rows(pa.table(anew.scan())) == expected
        for read in (by_delta_rs, by_duckdb, by_polars):
            assert rows(read(anew).cast(SCHEMA)) == expected, read.__name__


def test_the_log_says_what_delta_spark_says(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, cluster_by=["text", "group.x"], properties=MARKS)
    assert line_of(table, "protocol") == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "invariants", "deletionVectors", "clustering", "domainMetadata"],
    }
    domain = line_of(table, "domainMetadata")
    assert (domain["domain"], domain["removed"]) == ("delta.clustering", False)
    assert json.loads(domain["configuration"]) == {
        "clusteringColumns": [["text"], ["group", "x"]],
        "domainName": "delta.clustering",
    }
    append(table, 0, 100)
    table.optimize()
    added = line_of(table, "add", 2)
    assert (added["dataChange"], added["clusteringProvider"]) == (False, "liquid")
    cube = added["tags"].pop("ZCUBE_ID")
    assert added["tags"] == {"ZCUBE_ZORDER_BY": '["text","group.x"]', "ZCUBE_ZORDER_CURVE": "hilbert"}
    table.delete([("id", "<", 10)])
    assert table.cluster_by("day") == 4
    assert table.cluster_by(["day"]) == 4
    assert table.cluster_by(None) == 5
    table.purge()
    assert line_of(table, "add", 6)["tags"] == {**added["tags"], "ZCUBE_ID": cube}
    told = [(entry.operation, entry.info["operationParameters"]) for entry in table.history()]
    assert [told[1], told[2], told[4]] == [
        ("CLUSTER BY", {"oldClusteringColumns": "day", "newClusteringColumns": ""}),
        ("CLUSTER BY", {"oldClusteringColumns": "text,group.x", "newClusteringColumns": "day"}),
        (
            "OPTIMIZE",
            {
                "predicate": "[]",
                "zOrderBy": "[]",
                "clusterBy": '["text","group.x"]',
                "auto": "false",
                "isFull": "false",
            },
        ),
    ]
    assert told[6][1]["clusterBy"] == '["text","group.x"]'
    features = deltalake.DeltaTable(table.path).protocol().writer_features
    assert {"clustering", "domainMetadata"} <= set(features or [])


def test_a_table_without_columns_stays_as_it_is(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    assert (table.cluster_by(None), table.clustering_columns) == (0, [])
    assert table.cluster_by("id") == 1
    table.restore(0)
    assert table.clustering_columns == []


REFUSED = {
    "five of them": (["id", "text", "ratio", "day", "price"], "4 at most"),
    "twice": (["id", "id"], "twice"),
    "no column": (["gone"], "which is no column"),
    "a struct": (["group"], "which is no column without fields"),
    "a boolean": (["flag"], "no minimum and maximum"),
    "without statistics": (["at"], "files have no statistics"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_columns_that_cannot_be_clustered_by_are_refused(tmp_path: Path, why: str) -> None:
    columns, message = REFUSED[why]
    properties = {"delta.dataSkippingNumIndexedCols": "5"}
    table = spillway.delta.create(tmp_path / "t", SCHEMA, properties=properties)
    makes: list[Callable[[], Any]] = [
        lambda: table.cluster_by(columns),
        lambda: spillway.delta.create(tmp_path / "n", SCHEMA, cluster_by=columns, properties=properties),
    ]
    for make in makes:
        with pytest.raises(OptionError, match=message) as caught:
            make()
        assert caught.value.option == "cluster_by"
    assert table.version == 0
    assert not (tmp_path / "n").exists()


def test_a_partitioned_table_is_not_clustered_and_the_other_way_round(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, partition_by="day")
    with pytest.raises(OptionError, match="partitioned by day"):
        table.cluster_by("id")
    spillway.delta.create(tmp_path / "t", SCHEMA, mode="overwrite", cluster_by="id")
    with pytest.raises(UnsupportedTableError, match="would partition it by day"):
        table.restore(0)
    with pytest.raises(UnsupportedTableError, match="would partition it by day"):
        spillway.delta.create(tmp_path / "t", SCHEMA, mode="overwrite", partition_by="day")
    assert (table.version, table.clustering_columns) == (1, ["id"])


def test_a_file_without_statistics_of_a_column_refuses_it(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    with table.append(statistics={"text": False}) as one:
        one.write(made(range(10)))
    with pytest.raises(OptionError, match="has no statistics with numRecords"):
        table.cluster_by(["id", "text"])
    assert table.cluster_by("id") == 2


@pytest.mark.parametrize(
    ("appending", "before", "why"),
    [
        ({}, "id", 'no statistics of the column "text"'),
        ({"coalesce": True}, "id", 'leaves out those of the column "text"'),
        ({"schema_mode": "merge"}, None, "ProtocolChanged"),
    ],
    ids=["plain", "coalescing", "merging"],
)
def test_an_append_without_statistics_of_a_column_does_not_follow_it(
    tmp_path: Path, appending: dict[str, Any], before: str | None, why: str
) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, cluster_by=before)
    late = table.append(statistics={"text": False}, **appending)
    late.write(made(range(10)))
    complete = table.append(**appending)
    complete.write(made(range(10, 20)))
    spillway.delta.open(table.path).cluster_by(["id", "text"])
    with pytest.raises((CommitConflict, OptionError), match=why):
        late.commit()
    complete.commit()
    assert ids(table) == list(range(10, 20))


def test_changes_of_the_columns_at_once_are_a_conflict(tmp_path: Path) -> None:
    """Whoever is second sees the columns of the first, or is told of them."""
    table = spillway.delta.create(tmp_path / "t", SCHEMA, cluster_by="id")

    def change(keys: list[str]) -> bool:
        try:
            spillway.delta.open(table.path).cluster_by(keys)
        except CommitConflict:
            return False
        return True

    with ThreadPoolExecutor(len(KEYS)) as pool:
        done = list(pool.map(change, KEYS))
    changed = [line for version in range(1, table.refresh() + 1) for line in read_version(table, version)]
    assert sum("domainMetadata" in line for line in changed) in (sum(done), sum(done) - 1)
    assert table.clustering_columns in [keys for keys, well in zip(KEYS, done, strict=True) if well]


def test_appends_and_deletes_beside_clustering_all_commit(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, cluster_by=["text", "day"], properties=MARKS)
    append(table, 0, 2000)

    def delete_own(writer: int) -> None:
        for turn in range(ROUNDS):
            mine = range(turn * DELETERS + writer, 2000, ROUNDS * DELETERS * 2)
            assert table.delete([("id", "in", list(mine))]).rows == len(mine)

    def append_own(writer: int) -> None:
        for turn in range(ROUNDS):
            first = 10_000 + (turn * APPENDERS + writer) * 5
            append(table, first, first + 5)

    removed = 0
    with ThreadPoolExecutor(DELETERS + APPENDERS) as pool:
        writers = [pool.submit(delete_own, writer) for writer in range(DELETERS)]
        writers += [pool.submit(append_own, writer) for writer in range(APPENDERS)]
        while not all(writer.done() for writer in writers):
            # Small files and all cubes go into new ones.
            removed += table.optimize(target_file_bytes=20_000).removed_files
    for writer in writers:
        writer.result()
    assert removed > 0
    settled(table)
    left = [n for n in range(2000) if n % (ROUNDS * DELETERS * 2) >= ROUNDS * DELETERS]
    expected = left + list(range(10_000, 10_000 + ROUNDS * APPENDERS * 5))
    assert sorted(ids(table)) == expected
    found = pa.table(table.scan())
    assert rows(found) == rows(by_polars(table)) == rows(made(expected))


def groups_read(table: spillway.delta.Table, **ranges: tuple[Any, Any]) -> tuple[int, int]:
    """Row groups that may hold a row in all of the ranges by their statistics, and all."""
    read = every = 0
    for file in table.files():
        metadata = pq.read_metadata(Path(table.path) / file.path)
        places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            least_most = {
                name: (group.column(places[name]).statistics.min, group.column(places[name]).statistics.max)
                for name in ranges
            }
            every += 1
            read += all(
                least_most[name][0] <= most and least_most[name][1] >= least
                for name, (least, most) in ranges.items()
            )
    return read, every


def test_a_query_of_two_columns_reads_a_third_of_the_row_groups_at_most(tmp_path: Path) -> None:
    log = pa.Table.from_batches(datasets.batches("logs", seed=1, rows=60_000))
    log = log.select(["timestamp", "host", "message", "duration_ms", "tenant_id"])
    ranges = {"duration_ms": (20.0, 60.0), "tenant_id": (1000, 1400)}
    where = [(name, ">=", least) for name, (least, _) in ranges.items()]
    where += [(name, "<=", most) for name, (_, most) in ranges.items()]
    table = spillway.delta.create(tmp_path / "t", log.schema)
    for first in range(0, log.num_rows, 10_000):
        with table.append(row_group_rows=2_000) as one:
            one.write(log.slice(first, 10_000))
    before = groups_read(table, **ranges), rows(pa.table(table.scan(where=where)))
    table.cluster_by(list(ranges))
    assert settled(table, target_file_bytes=1 << 18, row_group_rows=2_000).added_files > 1
    after = groups_read(table, **ranges), rows(pa.table(table.scan(where=where)))
    assert after[1] == before[1] != []
    assert after[0][1] >= before[0][1] == 30
    assert after[0][0] <= before[0][0] / 3, (before[0], after[0])


def test_row_groups_of_clustered_files_are_small(tmp_path: Path) -> None:
    numbers = pa.table({"id": range(70_000)})
    table = spillway.delta.create(tmp_path / "t", numbers.schema, cluster_by="id")
    with table.append() as one:
        one.write(numbers)
    table.optimize()
    [file] = table.files()
    assert pq.read_metadata(tmp_path / "t" / file.path).num_row_groups == 3


def test_what_is_clustered_is_left_alone_but_for_a_small_group(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, cluster_by="text")
    append(table, 0, 100)
    settled(table)
    [first] = table.files()
    table.cluster_by("day")
    append(table, 100, 200)
    assert settled(table).removed_files == 1
    assert first in table.files()
    append(table, 200, 300)
    assert settled(table).removed_files == 2
    assert first in table.files()
