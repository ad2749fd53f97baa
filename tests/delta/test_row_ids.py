"""Rows of tables with row tracking have ids that they keep, and that no other row ever has."""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import AddFile
from spillway.errors import (
    CommitConflict,
    CorruptLogError,
    OptionError,
    ProtocolChanged,
    SchemaError,
    UnsupportedTableError,
)

from ..counts import examples
from .conftest import READERS, rows
from .logs import line_of, needs, read_version, write_version
from .programs import SCHEMA as WRITERS
from .test_many import start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TRACKED = {"delta.enableRowTracking": "true"}
ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"
# Each state of a row has a stamp of its own, by which it is found among those that were marked in the files.
ROWS = pa.schema({"part": pa.string(), "key": pa.int64(), "stamp": pa.int64()})

Row = tuple[int, int]


def made(folder: Path, *, partition_by: Sequence[str] = (), **properties: str) -> spillway.delta.Table:
    return spillway.delta.create(folder, ROWS, partition_by=partition_by, properties=TRACKED | properties)


def some(keys: Sequence[int], stamp: int) -> pa.Table:
    parts = [f"p{key % 2}" for key in keys]
    return pa.table({"part": parts, "key": keys, "stamp": [stamp] * len(keys)}, ROWS)


def append(table: spillway.delta.Table, keys: Sequence[int], stamp: int = 0) -> int:
    with table.append() as append:
        append.write(some(keys, stamp))
    assert append.version is not None
    return append.version


def adds(table: spillway.delta.Table) -> dict[str, dict[str, Any]]:
    """The entries of the files in the table, as all versions of its log add up to."""
    found: dict[str, dict[str, Any]] = {}
    for version in range(table.version + 1):
        lines = read_version(table, version)
        for line in lines:
            if "remove" in line:
                found.pop(line["remove"]["path"], None)
        found |= {line["add"]["path"]: line["add"] for line in lines if "add" in line}
    return found


def mark(table: spillway.delta.Table) -> int:
    """The highest row id that the log says was given."""
    found = -1
    for version in range(table.version + 1):
        for line in read_version(table, version):
            if line.get("domainMetadata", {}).get("domain") == "delta.rowTracking":
                configuration = json.loads(line["domainMetadata"]["configuration"])
                assert configuration["rowIdHighWaterMark"] > found
                found = configuration["rowIdHighWaterMark"]
    return found


def check_files(table: spillway.delta.Table) -> None:
    """No two files that ever were have a row id in common, and each names the version that it came in."""
    given: dict[str, tuple[int, int]] = {}
    for version in range(table.refresh() + 1):
        for line in read_version(table, version):
            if "add" in line:
                add = line["add"]
                end = add["baseRowId"] + json.loads(add["stats"])["numRecords"]
                known = given.setdefault(add["path"], (add["baseRowId"], end))
                assert known == (add["baseRowId"], end)
                assert add["defaultRowCommitVersion"] <= version
    spans = sorted(span for span in given.values() if span[0] < span[1])
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    assert max((end for _, end in spans), default=0) == mark(table) + 1


def tracked(table: spillway.delta.Table) -> dict[int, Row]:
    """The id of each row, by its key, and the version that the row is of.

    It is what the protocol says, read by pyarrow: the column, or the file's first id and the row's place.
    """
    live = {(row["key"], row["stamp"]) for row in pa.table(table.scan()).to_pylist()}
    names = table.properties[ID_COLUMN], table.properties[VERSION_COLUMN]
    found: dict[int, Row] = {}
    for path, add in adds(table).items():
        file = pq.read_table(Path(table.path) / unquote(path), partitioning=None).to_pylist()
        for place, row in enumerate(file):
            if (row["key"], row["stamp"]) in live:
                own, version = (row.get(name) for name in names)
                assert row["key"] not in found
                found[row["key"]] = (
                    add["baseRowId"] + place if own is None else own,
                    add["defaultRowCommitVersion"] if version is None else version,
                )
    assert found.keys() == {key for key, _ in live}
    assert len({own for own, _ in found.values()}) == len(found)
    assert scanned(table) == found
    return found


def scanned(table: spillway.delta.Table, **options: Any) -> dict[int, Row]:
    """The same by the table's own scan."""
    names = ["_metadata.row_commit_version", "key", "_metadata.row_id"]
    scan = table.scan(names, **options)
    assert pa.schema(scan).names == names
    return {row["key"]: (row[names[2]], row[names[0]]) for row in pa.table(scan).to_pylist()}


def test_a_table_tracks_rows_from_its_first_version_on(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    protocol = line_of(table, "protocol")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (1, 7)
    assert {"rowTracking", "domainMetadata"} <= {*protocol["writerFeatures"]}
    properties = table.properties
    assert properties[ID_COLUMN] != properties[VERSION_COLUMN]
    append(table, range(10))
    append(table, range(10, 15))
    files = sorted(adds(table).values(), key=lambda add: int(add["baseRowId"]))
    assert [(add["baseRowId"], add["defaultRowCommitVersion"]) for add in files] == [(0, 1), (10, 2)]
    assert mark(table) == 14
    other = spillway.delta.create(tmp_path / "u", ROWS, properties=TRACKED)
    assert other.properties[ID_COLUMN] != properties[ID_COLUMN]


KEYS = st.lists(st.integers(0, 19), min_size=1, max_size=6, unique=True)
STEP = st.one_of(
    st.tuples(st.sampled_from(["append", "delete", "update", "merge", "overwrite"]), KEYS),
    st.tuples(st.sampled_from(["optimize", "purge", "checkpoint", "cluster"]), st.just([])),
)


def do(
    table: spillway.delta.Table, step: tuple[str, list[int]], stamp: int, known: set[int]
) -> tuple[set[int], set[int], set[int]]:
    """Do a step; gives the keys of rows that come, change and go."""
    what, keys = step
    new, there, nothing = set(keys) - known, set(keys) & known, set[int]()
    match what:
        case "append" if new:
            append(table, sorted(new), stamp)
            return new, nothing, nothing
        case "delete":
            table.delete([("key", "in", keys)])
            return nothing, nothing, there
        case "update":
            table.update([("key", "in", keys)], {"stamp": stamp})
            return nothing, there, nothing
        case "merge":
            table.merge(some(keys, stamp), "key")
            return new, there, nothing
        case "overwrite":
            spillway.delta.write(table.path, some(keys, stamp), mode="overwrite")
            table.refresh()
            return set(keys), nothing, known
        case "purge":
            table.purge()
        case "checkpoint":
            table.checkpoint()
        case _:
            if what == "cluster" and not table.partition_columns:
                table.cluster_by(["key"])
            table.optimize()
    return nothing, nothing, nothing


@settings(max_examples=examples(0.3))
@given(
    st.lists(STEP, min_size=1, max_size=10),
    st.sampled_from([[], ["part"]]),
    st.sampled_from(["true", "false"]),
)
def test_rows_keep_their_ids_in_every_history(
    steps: list[tuple[str, list[int]]], partition_by: list[str], marks: str
) -> None:
    # The last append may have begun a checkpoint, which nothing here waits for.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        properties = {"delta.enableDeletionVectors": marks}
        table = made(Path(folder) / "t", partition_by=partition_by, **properties)
        known: dict[int, Row] = {}
        highest = -1
        for stamp, step in enumerate(steps, 1):
            version = table.version + 1
            new, changed, gone = do(table, step, stamp, set(known))
            found = tracked(table)
            assert found.keys() == (known.keys() - gone) | new
            assert all(found[key][0] > highest and found[key][1] == version for key in new)
            assert {key: found[key] for key in found.keys() - new} == {
                key: (own, version if key in changed else before)
                for key, (own, before) in known.items()
                if key not in gone
            }
            highest = max([highest, *(own for own, _ in found.values())])
            known = found
        check_files(table)
        again = Path(folder) / "again"
        shutil.copytree(table.path, again)
        append(spillway.delta.open(again), [100])
        assert tracked(spillway.delta.open(again))[100][0] > highest


@settings(max_examples=examples(0.2))
@given(
    st.lists(st.tuples(st.integers(0, 199), st.integers(1, 60)), max_size=3),
    st.tuples(st.sampled_from(["<", ">=", "="]), st.integers(0, 400)),
    st.sampled_from(["true", "false"]),
    st.booleans(),
)
def test_a_scan_has_the_ids_of_the_rows_that_satisfy_its_conditions(
    gone: list[tuple[int, int]],
    condition: tuple[str, int],
    marks: str,
    together: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    """Some rows are deleted, some row groups left out, and some rows of the others."""
    with tempfile.TemporaryDirectory() as folder:
        table = made(Path(folder) / "t", **{"delta.enableDeletionVectors": marks})
        for first in (0, 200):
            with table.append(row_group_rows=30) as append:
                append.write(some(range(first, first + 200), 0))
        for first, count in gone:
            table.delete([("key", ">=", first), ("key", "<", first + count)], row_group_rows=30)
        if together:
            table.optimize(row_group_rows=30)
        of_all = tracked(table)
        assert all(own == key for key, (own, _) in of_all.items())
        sign, value = condition
        compare = {"<": operator.lt, ">=": operator.ge, "=": operator.eq}[sign]
        found = scanned(table, where=[("key", sign, value)])
        assert found == {key: row for key, row in of_all.items() if compare(key, value)}
        by_version = pa.table(table.scan(["_metadata.row_commit_version"], where=[("key", sign, value)]))
        versions = by_version["_metadata.row_commit_version"].to_pylist()
        assert sorted(versions) == sorted(version for _, version in found.values())


def test_ids_are_read_of_older_versions_and_of_tables_that_have_them(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", ROWS)
    table.set_properties(TRACKED)
    append(table, range(3))
    table.update([("key", "=", 1)], {"stamp": 7})
    assert scanned(table, version=2) == {key: (key, 2) for key in range(3)}
    assert scanned(table)[1] == (1, 3)
    for name in ("_metadata.row_id", "_metadata.row_commit_version"):
        advice = rf"version 0 .*{name}.*set_properties.*enableRowTracking"
        with pytest.raises(SchemaError, match=advice) as refused:
            table.scan(["key", name], version=0)
        assert refused.value.column == name
    with pytest.raises(SchemaError, match=r"no column ._metadata\.other"):
        table.scan(["_metadata.other"])
    named = pa.schema({"_metadata.row_id": pa.string()})
    own = spillway.delta.create(tmp_path / "own", named, properties=TRACKED)
    spillway.delta.write(own.path, pa.table({"_metadata.row_id": ["mine"]}), mode="append")
    own.refresh()
    assert pa.table(own.scan(["_metadata.row_id"]))["_metadata.row_id"].to_pylist() == ["mine"]


@pytest.mark.parametrize("reader", READERS)
def test_other_readers_do_not_see_the_columns_of_copied_rows(tmp_path: Path, reader: str) -> None:
    table = made(tmp_path / "t")
    append(table, range(10))
    append(table, range(10, 20))
    table.optimize()
    table.update([("key", "<", 5)], {"stamp": 1})
    expected = pa.concat_tables([some(range(5), 1), some(range(5, 20), 0)])
    assert rows(READERS[reader](Path(table.path)).cast(ROWS)) == rows(expected)


def test_ids_go_on_from_a_checkpoint_alone(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    append(table, range(10))
    table.delete([("key", "<", 3)])
    assert mark(table) == 16
    table.checkpoint()
    shutil.copytree(table.path, tmp_path / "u")
    for version in range(table.version):
        (tmp_path / "u" / "_delta_log" / f"{version:020}.json").unlink()
    anew = spillway.delta.open(tmp_path / "u")
    assert append(anew, [50]) == 3
    assert anew.optimize().version == 4
    added = [line_of(anew, "add", version) for version in (3, 4)]
    assert [add["baseRowId"] for add in added] == [17, 18]
    file = pq.read_table(tmp_path / "u" / unquote(added[1]["path"]))
    kept = zip(file["key"].to_pylist(), file[anew.properties[ID_COLUMN]].to_pylist(), strict=True)
    assert dict(kept) == {key: key for key in range(3, 10)} | {50: 17}


def test_rows_of_many_processes_and_threads_have_ids_of_their_own(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", WRITERS, partition_by="writer", properties=TRACKED)
    writers = [start("many", table.path, f"w{number}", "8") for number in range(4)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        try:
            writer.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            writer.kill()
            raise
        assert writer.returncode == 0
    table.refresh()
    given = sorted(add["baseRowId"] for add in adds(table).values())
    assert given == list(range(32))
    check_files(table)


def test_appends_that_share_a_file_share_its_ids(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for key in range(3):
        with table.append(coalesce=True) as shared:
            shared.write(some([key], 0))
    assert sorted(own for own, _ in tracked(table).values()) == [0, 1, 2]
    check_files(table)


def test_it_is_enabled_while_a_table_is_empty(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", ROWS)
    late = table.append()
    late.write(some([7], 0))
    table.set_properties(TRACKED)
    assert {"rowTracking", "domainMetadata"} <= {*line_of(table, "protocol", 1)["writerFeatures"]}
    with pytest.raises(ProtocolChanged):
        late.commit()
    append(table, range(3))
    table.optimize()
    assert {own for own, _ in tracked(table).values()} == {0, 1, 2}


@pytest.mark.parametrize("marks", ["true", "false"])
def test_rows_that_are_there_get_ids_when_it_is_enabled(tmp_path: Path, marks: str) -> None:
    properties = {"delta.enableDeletionVectors": marks}
    table = spillway.delta.create(tmp_path / "t", ROWS, partition_by="part", properties=properties)
    append(table, range(10))
    append(table, range(10, 14))
    table.delete([("key", "in", [2, 10])])
    before = rows(pa.table(table.scan()))
    files = {file.path for file in table.files()}
    version = table.set_properties(TRACKED | {"delta.appendOnly": "false"})
    operations = [entry.operation for entry in table.history(3)]
    assert operations == ["SET TBLPROPERTIES", "ROW TRACKING BACKFILL", "UPGRADE PROTOCOL"]
    assert {file.path for file in table.files()} == files
    known = tracked(table)
    assert {found for _, found in known.values()} == {version - 1}
    assert rows(pa.table(table.scan())) == before
    assert table.set_properties(TRACKED) == version
    table.update([("key", "=", 3)], {"stamp": 1})
    table.optimize()
    append(table, [50])
    found = tracked(table)
    assert found.pop(50)[0] > max(own for own, _ in known.values())
    assert found == known | {3: (known[3][0], version + 1)}


@pytest.mark.parametrize("files", [0, 3])
def test_all_callers_that_enable_it_at_once_succeed(tmp_path: Path, files: int) -> None:
    table = spillway.delta.create(tmp_path / "t", ROWS)
    for first in range(files):
        append(table, [first])
    together = threading.Barrier(8)

    def enable(_: int) -> int:
        mine = spillway.delta.open(table.path)
        together.wait(60)
        return mine.set_properties(TRACKED)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(enable, range(8))) == {table.refresh()}
    assert [entry.operation for entry in table.history()].count("SET TBLPROPERTIES") == 1
    append(table, [files])
    assert sorted(own for own, _ in tracked(table).values()) == list(range(files + 1))


def test_rows_that_nobody_counted_are_counted_before_they_get_ids(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", ROWS)
    table.commit(adds=[stored(table, {"minValues": {"key": 100}})])
    table.set_properties(TRACKED)
    [file] = table.files()
    assert file.stats == {"minValues": {"key": 100}, "numRecords": 2}
    assert {own for own, _ in tracked(table).values()} == {0, 1}


def test_a_backfill_is_in_no_change_data_feed(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    table = spillway.delta.create(tmp_path / "t", ROWS, properties=feed)
    append(table, range(3))
    table.set_properties(TRACKED)
    assert pa.table(table.changes(2)).num_rows == 0


def test_appends_and_deletes_go_on_beside_a_backfill(tmp_path: Path) -> None:
    """Those that were under way when the feature came are made again, as their error says."""
    marks = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path / "t", ROWS, properties=marks)
    for first in range(0, 400, 10):
        append(table, range(first, first + 10))
    enabled = threading.Event()

    def persistently(change: Callable[[], object]) -> None:
        while True:
            with contextlib.suppress(CommitConflict):
                change()
                return

    def write(writer: int) -> int:
        done = 0
        while done < 3 or (done < 40 and not enabled.is_set()):
            key = 1000 * (writer + 1) + done
            persistently(lambda key=key: append(table, [key]))  # type: ignore[misc]
            gone = 10 * done + writer
            persistently(lambda gone=gone: table.delete([("key", "=", gone)]))  # type: ignore[misc]
            done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(write, writer) for writer in range(3)]
        try:
            persistently(lambda: table.set_properties(TRACKED))
        finally:
            enabled.set()
        done = [writer.result() for writer in writers]
    expected = set(range(400))
    for writer, count in enumerate(done):
        expected |= {1000 * (writer + 1) + number for number in range(count)}
        expected -= {10 * number + writer for number in range(count)}
    assert tracked(table).keys() == expected


def supporting(folder: Path, *lines: dict[str, Any], **properties: str) -> spillway.delta.Table:
    """A table to which another writer gave the feature."""
    table = spillway.delta.create(folder, ROWS)
    metadata = line_of(table, "metaData") | {"configuration": properties}
    write_version(table, 1, [needs("rowTracking", "domainMetadata"), {"metaData": metadata}, *lines])
    assert table.version == 1
    return table


def test_it_is_enabled_where_all_rows_have_ids(tmp_path: Path) -> None:
    table = supporting(tmp_path / "t")
    append(table, range(3))
    assert table.set_properties(TRACKED) == 3
    assert [own for own, _ in tracked(table).values()] == [0, 1, 2]


def test_the_feature_alone_gives_ids_and_keeps_none(tmp_path: Path) -> None:
    table = supporting(tmp_path / "t")
    append(table, range(3))
    append(table, range(3, 6))
    table.optimize()
    ((path, add),) = adds(table).items()
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (6, 4)
    assert pq.read_schema(Path(table.path) / unquote(path)).names == ROWS.names
    assert mark(table) == 11
    assert "delta.rowTracking.preserved" not in table.history(1)[0].info["tags"]


def test_a_version_before_the_feature_was_dropped_is_not_restored(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    append(table, range(3))
    metadata = line_of(table, "metaData") | {"configuration": {}}
    dropped = {"domain": "delta.rowTracking", "configuration": "", "removed": True}
    write_version(table, 2, [needs("domainMetadata"), {"metaData": metadata}, {"domainMetadata": dropped}])
    with pytest.raises(UnsupportedTableError, match="was changed or dropped after version 1"):
        table.restore(1)


def test_a_version_of_files_that_nobody_counted_is_not_restored(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", ROWS)
    table.commit(adds=[stored(table, None)])
    write_version(table, 2, [needs("rowTracking", "domainMetadata")])
    table.truncate()
    with pytest.raises(UnsupportedTableError, match=r"version 1 cannot be restored.*own\.parquet.*numRec"):
        table.restore(1)
    assert table.version == 3


def test_a_replaced_table_gives_later_ids_in_the_same_columns(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    append(table, range(3))
    before = table.properties[ID_COLUMN]
    anew = spillway.delta.create(table.path, ROWS, properties=TRACKED, mode="overwrite")
    assert anew.properties[ID_COLUMN] == before
    append(anew, [1])
    assert tracked(anew) == {1: (3, 3)}


def stored(table: spillway.delta.Table, stats: dict[str, Any] | None, **options: Any) -> AddFile:
    """A file of the caller's own."""
    path = Path(table.path) / "own.parquet"
    pq.write_table(some([100, 101], 0), path)
    return AddFile("own.parquet", path.stat().st_size, stats=stats, **options)


def test_files_of_callers_need_a_count_of_their_rows(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    append(table, range(3))
    for stats in (None, {"minValues": {}}):
        with pytest.raises(OptionError, match=r"own\.parquet.*numRecords"):
            table.commit(adds=[stored(table, stats)])
    table.commit(adds=[stored(table, {"numRecords": 2})])
    assert tracked(table)[101] == (4, 2)


def test_files_of_callers_do_not_take_the_place_of_rows(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    append(table, range(3))
    [old] = table.files()
    file = stored(table, {"numRecords": 2}, data_change=False)
    with pytest.raises(UnsupportedTableError, match=r"data_change=False.*lose their ids.*optimize"):
        table.commit(adds=[file], removes=[old.path])
    assert table.version == 1
    table.commit(adds=[stored(table, {"numRecords": 2})], removes=[old.path])
    assert table.history(1)[0].info["tags"]["delta.rowTracking.preserved"] == "false"
    assert tracked(table) == {100: (3, 2), 101: (4, 2)}


def test_what_no_writer_can_go_on_from_is_refused_by_name(tmp_path: Path) -> None:
    odd = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":"7"}', "removed": False}
    with pytest.raises(CorruptLogError, match="rowIdHighWaterMark that is a whole number"):
        append(supporting(tmp_path / "mark", {"domainMetadata": odd}), [1])
    both = {**TRACKED, "delta.rowTrackingSuspended": "true"}
    with pytest.raises(UnsupportedTableError, match=r"delta\.rowTrackingSuspended=true"):
        append(supporting(tmp_path / "both", **both), [1])
    nameless = supporting(tmp_path / "nameless", **TRACKED)
    append(nameless, [1])
    append(nameless, [2])
    with pytest.raises(UnsupportedTableError, match=r"materializedRowIdColumnName=\"\""):
        nameless.optimize()
    suspended = supporting(tmp_path / "suspended", **{"delta.rowTrackingSuspended": "true"})
    with pytest.raises(UnsupportedTableError, match="only one may be"):
        suspended.set_properties(TRACKED)
    append(suspended, [1])
    assert "baseRowId" not in next(iter(adds(suspended).values()))


def test_an_enabled_table_refuses_files_that_lack_ids(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    append(table, [1])
    lines = read_version(table, 1)
    for line in lines:
        line.get("add", {}).pop("baseRowId", None)
    write_version(table, 1, lines)
    shutil.copytree(table.path, tmp_path / "u")
    other = spillway.delta.open(tmp_path / "u")
    with pytest.raises(CorruptLogError, match="lacks baseRowId"):
        other.update([("key", "=", 1)], {"stamp": 3})


def test_an_append_goes_on_where_the_property_goes(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    late = table.append()
    late.write(some([2], 0))
    table.set_properties({"delta.enableRowTracking": "false"})
    assert late.commit() == 2
    assert line_of(table, "add", 2)["baseRowId"] == 0
