"""A change data feed has the rows that each version changed, however they were changed."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import when_matched_delete, when_not_matched_insert
from spillway.errors import OptionError, SchemaError, UnsupportedTableError, VersionNotFoundError

from ..counts import examples
from .conftest import rows
from .logs import line_of, log_of, make_log, metadata_of, needs, read_version, write_version
from .test_changes import SCHEMA, STEPS, Model, row, without_empty
from .test_deletes import MARKS, NUMBERS, made, numbers
from .test_optimize import DELETERS, FILES, ROUNDS, delete_own, small, vacuum
from .test_row_level import ROWS, WRITERS, own, race
from .test_vacuum import age

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .logs import Line
    from .test_changes import Row

FEED = {"delta.enableChangeDataFeed": "true"}
OF_FEED = pa.schema([*SCHEMA, pa.field("_change_type", pa.string()), pa.field("_commit_version", pa.int64())])
PARTS = st.sampled_from(["a", "b"])
MORE_STEPS = st.one_of(
    STEPS,
    STEPS,
    st.tuples(st.just("overwrite"), st.lists(row(), min_size=1, max_size=5)),
    st.tuples(st.just("overwrite_part"), st.tuples(PARTS, st.lists(row(), min_size=1, max_size=5))),
    st.tuples(st.sampled_from(["optimize", "purge"]), st.none()),
)


class FeedModel(Model):
    """A model that overwrites and compacts, too."""

    def overwrite(self, table: spillway.delta.Table, new: list[Row]) -> None:
        spillway.delta.write(table.path, pa.Table.from_pylist(new, SCHEMA), mode="overwrite")
        table.refresh()
        self.replace(table, self.rows, new)

    def overwrite_part(self, table: spillway.delta.Table, change: tuple[str, list[Row]]) -> None:
        part, new = change
        if "part" not in table.partition_columns:
            return
        new = [row | {"part": part} for row in new]
        data = pa.Table.from_pylist(new, SCHEMA)
        spillway.delta.write(table.path, data, mode="overwrite", where=[("part", "=", part)])
        table.refresh()
        self.replace(table, [row for row in self.rows if row["part"] == part], new)

    def replace(self, table: spillway.delta.Table, old: list[Row], new: list[Row]) -> None:
        self.note(table, "delete", old)
        self.note(table, "insert", new)
        self.rows = [row for row in self.rows if row not in old] + new

    def optimize(self, table: spillway.delta.Table, _: None) -> None:
        table.optimize()

    def purge(self, table: spillway.delta.Table, _: None) -> None:
        table.purge()


HISTORIES = {
    "first": st.lists(row(), min_size=1, max_size=20),
    "steps": st.lists(MORE_STEPS, min_size=1, max_size=6),
    "partition_by": st.sampled_from([[], ["part"], ["part", "text"]]),
    "marks": st.booleans(),
}


@contextlib.contextmanager
def lived(
    first: list[Row], steps: list[tuple[str, Any]], partition_by: list[str], *, marks: bool
) -> Iterator[tuple[spillway.delta.Table, list[str]]]:
    """A table with a history, and the rows of its feed by the model."""
    if "text" in partition_by:
        # The log has an empty text and null of a partition column alike.
        first = [row | {"text": row["text"] or None} for row in first]
        steps = [(name, without_empty(change)) for name, change in steps]
    with tempfile.TemporaryDirectory() as folder:
        properties = FEED | MARKS if marks else FEED
        table = spillway.delta.create(folder, SCHEMA, partition_by=partition_by, properties=properties)
        model = FeedModel()
        model.append(table, first)
        for name, change in steps:
            getattr(model, name)(table, change)
        yield table, rows(pa.Table.from_pylist(model.feed, OF_FEED))


def feed(table: spillway.delta.Table, *versions: int) -> list[str]:
    """The changes of versions, by default of all, without their times."""
    return rows(pa.table(table.changes(*(versions or (0,)))).drop_columns(["_commit_timestamp"]))


def ids_by_version(table: spillway.delta.Table, change: str, first: int = 0) -> dict[int, list[int]]:
    changes = pa.table(table.changes(first, columns=["id"]))
    found: dict[int, list[int]] = {}
    for each in changes.filter(pc.field("_change_type") == change).to_pylist():
        found.setdefault(each["_commit_version"], []).append(each["id"])
    return {version: sorted(ids) for version, ids in found.items()}


def deletions(table: spillway.delta.Table, *versions: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for each in pa.table(table.changes(*versions)).to_pylist():
        assert each["_change_type"] == "delete"
        found.setdefault(each["_commit_version"], []).append(each["id"])
    return found


def change_files(table: spillway.delta.Table) -> set[str]:
    """Those that are stored."""
    root = Path(table.path)
    return {str(file.relative_to(root)) for file in (root / "_change_data").rglob("*") if file.is_file()}


def named_change_files(table: spillway.delta.Table) -> set[str]:
    """Those that versions name, in folders whose names need no code in the log."""
    lines = (line for version in range(table.version + 1) for line in read_version(table, version))
    return {line["cdc"]["path"] for line in lines if "cdc" in line}


@settings(max_examples=examples(0.6))
@given(**HISTORIES)
def test_a_feed_has_the_changes_of_every_version(
    first: list[Row],
    steps: list[tuple[str, Any]],
    partition_by: list[str],
    marks: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    with lived(first, steps, partition_by, marks=marks) as (table, expected):
        assert feed(table) == expected
        assert change_files(table) == named_change_files(table)
        if not marks:
            by_delta_rs = pa.table(deltalake.DeltaTable(table.path).load_cdf().read_all())
            assert rows(by_delta_rs.select(OF_FEED.names)) == expected


def test_delta_rs_mistakes_files_that_leave_with_a_vector(tmp_path: Path) -> None:
    """The guide says so. Once this fails, the guide and the test above have to follow."""
    table = made(tmp_path / "t", 10, properties=FEED | MARKS)
    table.delete([("id", "=", 3)])
    table.truncate()
    assert [*deletions(table, 3)] == [3]
    assert pa.table(table.changes(3)).num_rows == 9
    by_delta_rs = pa.table(deltalake.DeltaTable(table.path).load_cdf(starting_version=3).read_all())
    assert by_delta_rs["id"].to_pylist() == [3]


@pytest.mark.parametrize("marks", [True, False], ids=["marking", "writing again"])
def test_a_change_by_whole_files_needs_no_file_of_its_own(
    tmp_path: Path,
    marks: bool,  # noqa: FBT001 - pytest names it
) -> None:
    table = small(tmp_path / "t", "ab", FEED | (MARKS if marks else {}))
    table.delete([("id", "<", 100)])
    source = pa.table({"part": ["c", "b"], "id": [500, 150]}, NUMBERS)
    table.merge(source, "id", when_not_matched_insert())
    source = pa.table({"part": ["c"] * 2, "id": [500, 501]}, NUMBERS)
    table.merge(source, "id", when_matched_delete(), when_not_matched_insert())
    table.delete_partition(part="c")
    table.truncate()
    assert change_files(table) == set()
    assert ids_by_version(table, "delete") == {
        3: [*range(100)],
        5: [500],
        6: [501],
        7: [*range(100, 200)],
    }
    assert ids_by_version(table, "insert") == {
        1: [*range(100)],
        2: [*range(100, 200)],
        4: [500],
        5: [501],
    }


def test_change_data_files_are_as_the_protocol_has_them(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part", properties=FEED | MARKS)
    with table.append() as append:
        append.write(numbers(10, "a b"))
    table.update([("id", "=", 3)], {"part": "c"})
    noted = [line["cdc"] for line in read_version(table, 2) if "cdc" in line]
    assert sorted(each["partitionValues"]["part"] for each in noted) == ["a b", "c"]
    assert [each["dataChange"] for each in noted] == [False, False]
    before, after = sorted(noted, key=lambda each: str(each["path"]))
    assert before["path"].startswith("_change_data/part=a%20b/")
    assert after["path"].startswith("_change_data/part=c/")
    file = tmp_path / "t" / before["path"].replace("%20", " ")
    assert before["size"] == file.stat().st_size
    assert pq.ParquetFile(file).read().to_pylist() == [{"id": 3, "_change_type": "update_preimage"}]
    [entry] = table.history(1)
    assert entry.info["operationMetrics"]["numAddedChangeFiles"] == "2"


@pytest.mark.parametrize("changes", ["delete", "update"])
def test_threads_that_change_rows_of_one_file_have_their_own_rows_in_the_feed(
    tmp_path: Path, changes: str
) -> None:
    table = made(tmp_path / "t", ROWS, properties=FEED | MARKS)

    def update(writer: int) -> int:
        return table.update(own(writer, WRITERS), {"part": "b"}).rows

    assert race(table, WRITERS, None if changes == "delete" else update) == []
    share = ROWS // 2 // WRITERS
    kinds = ["delete"] if changes == "delete" else ["update_preimage", "update_postimage"]
    for kind in kinds:
        found = ids_by_version(table, kind)
        # Those that wait at the same time share a version, each with all of its rows.
        assert sorted(found) == [*range(2, table.version + 1)]
        assert sorted(number for each in found.values() for number in each) == [*range(ROWS // 2)]
        for each in found.values():
            assert set(Counter(number // share for number in each).values()) == {share}
    assert change_files(table) == named_change_files(table)


def test_a_change_that_fails_leaves_no_change_data_file(tmp_path: Path) -> None:
    """Without vectors, the threads race for the file."""
    table = made(tmp_path / "t", ROWS, properties=FEED)
    failed = race(table, WRITERS)
    won = ids_by_version(table, "delete")
    assert len(won) == table.version - 1 == WRITERS - len(failed)
    assert failed
    assert change_files(table) == named_change_files(table)
    assert len(change_files(table)) == len(won)


def test_deletes_beside_compactions_are_in_the_feed_once(tmp_path: Path) -> None:
    """A delete that a compaction got ahead of finds its rows again, and writes its files again."""
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties=FEED | MARKS, partition_by="part")
    for file in range(FILES):
        with table.append() as append:
            append.write(numbers(1000, "a", file * 1000))
    removed = 0
    with ThreadPoolExecutor(DELETERS) as pool:
        writers = [pool.submit(delete_own, table, writer) for writer in range(DELETERS)]
        while not all(writer.done() for writer in writers):
            removed += table.optimize().removed_files + table.purge().removed_files
    for writer in writers:
        writer.result()
    assert removed > 0
    deleted = [Counter(number % 1000 for number in each) for each in ids_by_version(table, "delete").values()]
    assert sorted(number for each in deleted for number in each) == [*range(ROUNDS * DELETERS)]
    assert all(set(each.values()) == {FILES} for each in deleted)
    assert sorted(ids_by_version(table, "insert")) == [*range(1, FILES + 1)]
    assert change_files(table) == named_change_files(table)


@pytest.mark.parametrize("properties", [{}, MARKS], ids=["writing again", "marking"])
def test_a_restore_takes_changes_back(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", 100, properties=FEED | properties)
    table.delete([("id", "<", 10)])
    table.update([("id", "=", 50)], {"id": 1050})
    with table.append() as append:
        append.write(numbers(5, "a", 200))
    table.restore(2)
    net: Counter[int] = Counter()
    for each in pa.table(table.changes(5)).to_pylist():
        net[each["id"]] += {"insert": 1, "delete": -1}[each["_change_type"]]
    assert {number: count for number, count in net.items() if count} == {
        50: 1,
        1050: -1,
        **dict.fromkeys(range(200, 205), -1),
    }


def test_a_restore_that_takes_fields_away_shows_what_the_rows_have_in_the_others(tmp_path: Path) -> None:
    few = pa.struct({"x": pa.int64()})
    more = pa.struct({"new": pa.string(), "x": pa.int64(), "other": few})
    schemas = [
        pa.schema({"id": pa.int64(), "s": kind, "l": pa.list_(kind), "m": pa.map_(pa.string(), kind)})
        for kind in (few, more)
    ]
    table = spillway.delta.create(tmp_path / "t", schemas[0], properties=FEED)
    with table.append(schema_mode="merge") as append:
        field = {"new": "n", "x": 2, "other": None}
        append.write(
            pa.Table.from_pylist([{"id": 2, "s": field, "l": [field], "m": [("k", field)]}], schemas[1])
        )
    table.restore(0)
    [row] = pa.table(table.changes(2)).to_pylist()
    assert row["_change_type"] == "delete"
    assert {name: row[name] for name in schemas[0].names} == {
        "id": 2,
        "s": {"x": 2},
        "l": [{"x": 2}],
        "m": [("k", {"x": 2})],
    }
    # delta-rs refuses maps whose values lose fields.
    feed = deltalake.DeltaTable(str(tmp_path / "t")).load_cdf(2, 2, columns=["id", "s", "l"])
    [theirs] = pa.table(feed).to_pylist()
    assert (theirs["s"], theirs["l"]) == (row["s"], row["l"])


def test_keys_of_a_map_lose_no_field_in_a_feed(tmp_path: Path) -> None:
    def kind(*names: str) -> pa.DataType:
        return pa.map_(pa.struct([(name, pa.int64()) for name in names]), pa.int64())

    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64(), "m": kind("x", "y")}))
    table.set_properties(FEED)
    entries = [({"x": 1, "y": 1}, 1), ({"x": 1, "y": 2}, 2)]
    with table.append() as append:
        append.write(pa.table({"id": [1], "m": pa.array([entries], kind("x", "y"))}))
    fewer = pa.schema({"id": pa.int64(), "m": kind("x")})
    spillway.delta.create(tmp_path / "t", fewer, mode="overwrite", properties=FEED)
    table = spillway.delta.open(tmp_path / "t")
    [row] = pa.table(table.changes(table.version)).to_pylist()
    assert (row["_change_type"], row["id"], row["m"]) == ("delete", 1, None)


def test_columns_are_chosen_and_those_of_the_feed_come_behind(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 10, properties=FEED)
    changes = table.changes(1, columns=["id"])
    assert (changes.first_version, changes.last_version) == (1, 1)
    names = ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    assert pa.schema(changes).names == names
    assert pa.table(changes).num_rows == pa.table(changes).num_rows == 10
    assert pa.table(table.changes(0, 0)).num_rows == 0
    with pytest.raises(SchemaError, match="nothing"):
        table.changes(1, columns=["nothing"])


@pytest.mark.parametrize("in_commit", [True, False])
def test_the_time_of_a_change_is_that_of_its_version(
    tmp_path: Path,
    in_commit: bool,  # noqa: FBT001 - pytest names it
) -> None:
    properties = FEED | ({"delta.enableInCommitTimestamps": "true"} if in_commit else {})
    table = made(tmp_path / "t", 10, properties=properties)
    table.delete([("id", "=", 1)])
    if not in_commit:
        # Two commits within a millisecond would have rising times, which is another test's claim.
        for version in range(3):
            dated(table, version, 10 * version)
    for version in (1, 2):
        found = pc.unique(pa.table(table.changes(version, version))["_commit_timestamp"])
        if in_commit:
            [info] = [line["commitInfo"] for line in read_version(table, version) if "commitInfo" in line]
            expected = info["inCommitTimestamp"]
        else:
            expected = (log_of(table) / f"{version:020}.json").stat().st_mtime_ns // 1_000_000
        assert found.cast(pa.int64()).to_pylist() == [expected * 1_000]


def test_versions_without_a_feed_are_named(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 10, properties=MARKS)
    table.set_properties(FEED)
    assert "changeDataFeed" in read_version(table, 2)[1]["protocol"]["writerFeatures"]
    table.delete([("id", "=", 1)])
    assert deletions(table, 2) == {3: [1]}
    table.set_properties({"delta.enableChangeDataFeed": "false"})
    table.delete([("id", "=", 2)])
    assert named_change_files(table) == change_files(table)
    assert len(change_files(table)) == 1
    for first, last, named in [(1, None, 1), (2, None, 4), (2, 5, 4), (5, 5, 5)]:
        with pytest.raises(OptionError, match=rf"version {named} has no change data feed") as raised:
            table.changes(first, last)
        assert raised.value.option == "first_version"
    assert deletions(table, 2, 3) == {3: [1]}


def test_versions_that_are_not_there_are_named(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 10, properties=FEED)
    for versions in [(2,), (0, 2), (-1,)]:
        with pytest.raises(VersionNotFoundError, match=r"no version (2|-1): it has versions 0 to 1"):
            table.changes(*versions)
    with pytest.raises(OptionError, match="no versions from 1 to 0"):
        table.changes(1, 0)
    table.checkpoint()
    (log_of(table) / f"{0:020}.json").unlink()
    assert pa.table(table.changes(1)).num_rows == 10
    with pytest.raises(VersionNotFoundError, match=r"first version whose changes are there is 1: read from"):
        table.changes(0)
    with pytest.raises(VersionNotFoundError, match=r"first version that is still there is 1"):
        table.scan(version=0)


def test_versions_that_a_checkpoint_alone_stands_for_have_no_changes(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 10, properties=FEED)
    table.delete([("id", "=", 1)])
    table.checkpoint()
    table.delete([("id", "=", 2)])
    for version in range(3):
        (log_of(table) / f"{version:020}.json").unlink()
    for first in range(3):
        gone = rf"version {first} cannot be read any more.*cleaned up.*is 3: .*logRetentionDuration"
        with pytest.raises(VersionNotFoundError, match=gone):
            table.changes(first)
    assert deletions(table, 3) == {3: [2]}


def test_a_version_whose_removed_rows_have_no_schema_any_more_is_not_promised(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 3, properties=FEED)
    spillway.delta.create(tmp_path / "t", NUMBERS, mode="overwrite", properties=FEED)
    table.checkpoint()
    with table.append() as append:
        append.write(numbers(1))
    for version in range(2):
        (log_of(table) / f"{version:020}.json").unlink()
    for first in range(3):
        gone = rf"version {first} cannot be read any more.*there is 3: read from it"
        with pytest.raises(VersionNotFoundError, match=gone):
            table.changes(first)
    assert pa.table(table.changes(3)).num_rows == 1


def test_rows_have_the_columns_of_the_last_version(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 3, properties=FEED)
    table.delete([("id", "=", 1)])
    more = pa.table({"part": ["a"], "id": [9], "text": ["x"]})
    with table.append(schema_mode="merge") as append:
        append.write(more)
    found = pa.table(table.changes(1))
    assert Counter(found["text"].to_pylist()) == {None: 4, "x": 1}
    assert "text" not in pa.schema(table.changes(1, 2)).names
    spillway.delta.create(tmp_path / "t", NUMBERS, mode="overwrite", properties=FEED)
    with pytest.raises(OptionError, match="version 1 cannot be read as those of version 4") as raised:
        table.changes(1)
    assert raised.value.option == "last_version"
    assert ids_by_version(table, "delete", 4) == {4: [0, 2, 9]}
    with table.append() as append:
        append.write(numbers(1))
    assert pa.table(table.changes(5)).num_rows == 1


# Schemas that take each other's place: rows of some can be read as those of others, and of some not.
SHAPES = [
    pa.table({"id": [1, None]}),
    pa.table({"id": [2]}, pa.schema([pa.field("id", pa.int64(), nullable=False)])),
    pa.table({"id": pa.array([3, 4], pa.int32())}),
    pa.table({"id": ["5"]}),
    pa.table({"id": [6], "text": ["x"]}),
    pa.table({"id": [7], "group": [{"x": 1}]}),
    pa.table({"id": [8], "group": [{"x": 1, "y": ["z"]}]}),
]
APART = re.compile(r"version (\d+) replaced the schema. Read (.*), each by themselves")
RANGE = re.compile(r"versions? (\d+)(?: to (\d+))?")


def inserted_and_deleted(changes: spillway.delta.Changes) -> dict[int, tuple[int, int]]:
    """The numbers of rows that each version inserted and deleted."""
    found = pa.table(changes)
    kinds = Counter(zip(found["_commit_version"].to_pylist(), found["_change_type"].to_pylist(), strict=True))
    versions = range(changes.first_version, changes.last_version + 1)
    return {version: (kinds[version, "insert"], kinds[version, "delete"]) for version in versions}


@settings(max_examples=examples(0.2))
@given(st.lists(st.sampled_from(range(len(SHAPES))), min_size=2, max_size=4), st.booleans())
def test_a_range_is_read_or_the_ranges_in_it_that_can_be_are_named(
    shapes: list[int],
    partitioned: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts: list[tuple[int, int]] = []
        for place, shape in enumerate(shapes):
            data = SHAPES[shape]
            by = ["id"] if partitioned and place % 2 and data.num_columns > 1 else []
            table = spillway.delta.create(
                folder, data.schema, partition_by=by, mode="overwrite", properties=FEED
            )
            with table.append() as append:
                append.write(data)
            counts += [(0, counts[-1][0] if counts else 0), (data.num_rows, 0)]
        for first, last in itertools.combinations_with_replacement(range(table.version + 1), 2):
            expected = {version: counts[version] for version in range(first, last + 1)}
            try:
                assert inserted_and_deleted(table.changes(first, last)) == expected
            except OptionError as refused:
                message = APART.search(str(refused))
                assert message is not None
                ranges = [(int(a), int(b or a)) for a, b in RANGE.findall(message[2])]
                assert (ranges[0][0], ranges[-1]) == (first, (int(message[1]), last))
                assert all(one[1] + 1 == other[0] for one, other in itertools.pairwise(ranges))
                read = [inserted_and_deleted(table.changes(*each)) for each in ranges]
                assert {version: found for each in read for version, found in each.items()} == expected


def test_rows_that_left_with_their_schema_have_what_the_new_one_can_hold(tmp_path: Path) -> None:
    old = pa.table({"part": ["a", "b"], "id": [1, 2], "text": ["x", "y"], "number": [7, 8]})
    table = spillway.delta.create(tmp_path / "t", old.schema, partition_by="part", properties=FEED)
    with table.append() as append:
        append.write(old)
    new = pa.schema(
        [
            pa.field("number", pa.string(), nullable=False),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("part", pa.string()),
            pa.field("more", pa.int64()),
        ]
    )
    spillway.delta.create(tmp_path / "t", new, mode="overwrite", properties=FEED)
    found = pa.table(table.changes(2)).drop_columns(["_commit_version", "_commit_timestamp"]).to_pylist()
    gone = {"number": None, "more": None, "_change_type": "delete"}
    assert sorted(found, key=lambda row: int(row["id"])) == [
        {**gone, "id": 1, "part": "a"},
        {**gone, "id": 2, "part": "b"},
    ]
    with pytest.raises(OptionError, match=r"other columns, since version 2 replaced the schema"):
        table.changes(1)


def test_null_is_allowed_where_rows_of_the_range_have_it(tmp_path: Path) -> None:
    """The column takes no null any more, and a row of before had one."""
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}), properties=FEED)
    with table.append() as append:
        append.write(pa.table({"id": [1, None]}))
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    spillway.delta.create(tmp_path / "t", required, mode="overwrite", properties=FEED)
    with table.append() as append:
        append.write(pa.table({"id": [2]}, required))
    for first, ids in [(1, [1, None, 1, None, 2]), (2, [1, None, 2])]:
        changes = table.changes(first)
        assert pa.schema(changes).field("id").nullable
        found = pa.table(changes).sort_by("_commit_version")["id"].to_pylist()
        assert Counter(found) == Counter(ids)
    assert not pa.schema(table.changes(3)).field("id").nullable


def evolved(table: spillway.delta.Table, schema: pa.Schema, *lines: Line) -> None:
    """Give the table another schema, as another writer does."""
    with tempfile.TemporaryDirectory() as folder:
        text = spillway.delta.create(folder, schema).schema.to_json()
    metadata = line_of(table, "metaData") | {"schemaString": text}
    before = table.version
    write_version(table, before + 1, [*lines, {"metaData": metadata}])
    assert table.version == before + 1


def test_structs_that_grew_are_read_with_nulls(tmp_path: Path) -> None:
    def shape(*fields: pa.Field) -> pa.Schema:
        group = pa.struct([pa.field("x", pa.int64()), *fields])
        return pa.schema({"group": group, "each": pa.list_(group), "by_name": pa.map_(pa.string(), group)})

    def row(group: dict[str, Any]) -> dict[str, Any]:
        return {"group": group, "each": [group, None], "by_name": [("a", group)]}

    table = spillway.delta.create(tmp_path / "t", shape(), properties=FEED)
    with table.append() as append:
        append.write(pa.Table.from_pylist([row({"x": 1})], shape()))
    inner = pa.field("y", pa.struct([pa.field("z", pa.string(), nullable=False)]))
    evolved(table, shape(inner))
    with table.append() as append:
        append.write(pa.Table.from_pylist([row({"x": 2, "y": {"z": "a"}})], shape(inner)))
    found = pa.table(table.changes(0)).select(shape().names).to_pylist()
    assert found == [row({"x": 1, "y": None}), row({"x": 2, "y": {"z": "a"}})]
    assert rows(pa.Table.from_pylist(found, shape(inner))) == rows(pa.table(table.scan()))


def test_columns_that_were_widened_are_read_in_their_last_type(tmp_path: Path) -> None:
    narrow = pa.schema({"id": pa.int32(), "day": pa.date32()})
    wide = pa.schema({"id": pa.float64(), "day": pa.timestamp("us")})
    table = spillway.delta.create(tmp_path / "t", narrow, properties=FEED)
    with table.append() as append:
        append.write(pa.table({"id": [1], "day": [dt.date(2026, 1, 31)]}, narrow))
    features = ("timestampNtz", "typeWidening")
    evolved(table, wide, needs("changeDataFeed", *features, reader=features))
    assert pa.table(table.changes(1)).select(wide.names).cast(wide).to_pylist() == [
        {"id": 1.0, "day": dt.datetime(2026, 1, 31)}  # noqa: DTZ001 - a clock without a zone
    ]


NOON = 1_800_000_000_000


def dated(table: spillway.delta.Table, version: int, millis: int) -> None:
    """Give the file of a version this time, in milliseconds after a moment."""
    at = (NOON + millis) * 1_000_000
    os.utime(log_of(table) / f"{version:020}.json", ns=(at, at))


def times_of(changes: spillway.delta.Changes) -> dict[int, int]:
    """The times of versions that changed rows, in milliseconds after that moment."""
    found = pa.table(changes)
    times = found["_commit_timestamp"].cast(pa.int64()).to_pylist()
    versions = found["_commit_version"].to_pylist()
    return {version: time // 1_000 - NOON for version, time in zip(versions, times, strict=True)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([9_000, 5_000, 9_001, 5_000, 20_000], {1: 9_001, 2: 9_002, 3: 9_003, 4: 20_000}),
        ([0, 1_558_000, 1_558_000, 1_558_000, 1_558_001], {n: 1_557_999 + n for n in range(1, 5)}),
        ([0, 1, 2, 3, 4], {n: n for n in range(1, 5)}),
    ],
    ids=["falling", "equal", "rising"],
)
def test_times_of_versions_rise_where_those_of_their_files_do_not(
    tmp_path: Path, files: list[int], expected: dict[int, int]
) -> None:
    """As delta-spark has them: a millisecond after the version before."""
    table = made(tmp_path / "t", 10, properties=FEED)
    for number in range(3):
        table.delete([("id", "=", number)])
    for version, millis in enumerate(files):
        dated(table, version, millis)
    for first in range(5):
        assert times_of(table.changes(first)) == {
            version: millis for version, millis in expected.items() if version >= first
        }


def test_a_time_of_long_before_a_range_does_not_count(tmp_path: Path) -> None:
    """delta-spark looks at 100 versions before the first."""
    table = made(tmp_path / "t", 10, properties=FEED)
    for version in range(2, 104):
        write_version(table, version, [{"commitInfo": {"timestamp": 0, "operation": "OTHER"}}])
    table.delete([("id", "=", 1)])
    assert table.version == 104
    for version in range(105):
        dated(table, version, version)
    for late, expected in [(3, 104), (4, 1_000_100)]:
        dated(table, late, 1_000_000)
        assert times_of(table.changes(104)) == {104: expected}


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
def test_columns_with_the_names_of_a_feeds_own_are_refused(tmp_path: Path, name: str) -> None:
    schema = pa.schema([*NUMBERS, pa.field(name, pa.string())])
    with pytest.raises(SchemaError, match=f"{name}.*change data feed"):
        spillway.delta.create(tmp_path / "new", schema, properties=FEED)
    table = spillway.delta.create(tmp_path / "t", schema)
    with pytest.raises(SchemaError, match=f"{name}.*change data feed"):
        table.set_properties(FEED)
    table = made(tmp_path / "growing", 3, properties=FEED)
    append = table.append(schema_mode="merge")
    with pytest.raises(SchemaError, match=f"{name}.*change data feed"):
        append.write(pa.table({"part": ["a"], "id": [9], name: ["x"]}))
    append.abort()
    assert table.version == 1


@pytest.mark.parametrize("detached", [False, True])
def test_an_append_brings_no_such_column_beside_a_feed_that_came_meanwhile(
    tmp_path: Path, *, detached: bool
) -> None:
    table = made(tmp_path / "t", 3, properties={"delta.enableChangeDataFeed": "false"})
    append = table.append(schema_mode="merge")
    append.write(pa.table({"part": ["a"], "id": [9], "_change_type": ["x"]}))
    parts = [append.detach()] if detached else []
    table.set_properties(FEED)
    if detached:
        append = table.append(schema_mode="merge")
    for part in parts:
        append.attach(part)
    with pytest.raises(SchemaError, match=r"_change_type.*change data feed"):
        append.commit()
    assert "_change_type" not in table.schema.names


def test_a_merge_that_changed_no_row_is_in_no_feed(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 3, properties=FEED)
    (add,) = [each["add"] for each in read_version(table, 1) if "add" in each]
    shutil.copy(Path(table.path) / add["path"], Path(table.path) / "again.parquet")
    counts = dict.fromkeys(("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), "0")
    lines = [
        {"commitInfo": {"timestamp": 0, "operation": "MERGE", "operationMetrics": counts}},
        {"remove": {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}},
        {"add": {**add, "path": "again.parquet"}},
    ]
    write_version(table, 2, lines)
    assert pa.table(table.changes(2)).num_rows == 0
    assert pa.table(table.changes(1)).num_rows == 3


def test_tables_of_writer_version_4_have_a_feed(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}
    table = make_log(tmp_path / "t", [protocol, metadata_of(fields, **FEED)])
    with table.append() as append:
        append.write(pa.table({"id": [1, 2, 3]}))
    table.update([("id", "=", 2)], {"id": 7})
    found = pa.table(deltalake.DeltaTable(table.path).load_cdf(starting_version=2).read_all())
    assert rows(found.select(["id", "_change_type"])) == rows(
        pa.table({"id": [2, 7], "_change_type": ["update_preimage", "update_postimage"]})
    )
    generated = fields[0] | {"metadata": {"delta.generationExpression": "1 + 1"}}
    other = make_log(tmp_path / "generated", [protocol, metadata_of([generated])])
    with pytest.raises(UnsupportedTableError, match=r"generationExpression"):
        other.truncate()
    table.set_properties(MARKS)
    features = read_version(table, 3)[1]["protocol"]["writerFeatures"]
    assert {"changeDataFeed", "generatedColumns", "deletionVectors"} <= {*features}
    assert table.delete([("id", "=", 7)]).rows == 1


def test_a_vacuum_removes_change_data_files_of_versions_before_the_retention(tmp_path: Path) -> None:
    table = small(tmp_path / "t", "ab", FEED | MARKS)
    table.delete([("id", "in", [3, 103])])
    old = change_files(table)
    table.delete([("id", "=", 4)])
    new = change_files(table) - old
    assert (len(old), len(new)) == (2, 1)
    age(tmp_path / "t")
    # Their versions are young.
    assert table.vacuum().files == []
    then = time.time() - 30 * 86_400
    os.utime(log_of(table) / f"{3:020}.json", (then, then))
    done = table.vacuum(dry_run=False)
    assert {*done.files} == old
    assert change_files(table) == new
    assert deletions(table, 4) == {4: [4]}
    advice = r"version 3 cannot be read any more.*_change_data.*vacuum.*later.*deletedFileRetentionDuration"
    with pytest.raises(Exception, match=advice) as raised:
        pa.table(table.changes(3, 3))
    assert "table.commit" not in str(raised.value)
    assert {*vacuum(table).files} == new


def test_options_of_files_hold_for_change_data_files_but_for_their_order(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, properties=FEED | MARKS)
    for first in (100, 0):
        with table.append() as append:
            append.write(pa.table({"id": range(first, first + 50)}, schema))
    table.delete([("id", "in", [1, 101])], sorting_columns=["id"], compression="snappy")
    [file] = change_files(table)
    found = pq.ParquetFile(tmp_path / "t" / file)
    assert sorted(found.read()["id"].to_pylist()) == [1, 101]
    assert found.metadata.row_group(0).column(0).compression == "SNAPPY"
