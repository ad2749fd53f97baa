"""``ReadSet(where=...)`` conflicts with versions that remove rows which the transaction may have read."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import AddFile, ReadSet
from spillway.errors import CommitConflict, ConcurrentDeleteRead, OptionError

from ..counts import examples
from .logs import write_version
from .test_deletes import MARKS, NUMBERS, ids, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = ["Serializable", "WriteSerializable"]
READ, OTHER = "a", "b"
FIRST = {READ: 0, OTHER: 100}


@dataclass(frozen=True)
class Layout:
    """Columns or properties that tell the files of a table apart, and conditions for the rows of `READ`."""

    where: str
    partition_by: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    tells_apart: bool = True


LAYOUTS = {
    "partitions": Layout("part = 'a'", "part"),
    "statistics": Layout("id >= 0 AND id < 100"),
    "partitions and statistics": Layout("id < 100 AND part = 'a'", "part"),
    "nothing": Layout("id < 100", properties=(("delta.dataSkippingNumIndexedCols", "0"),), tells_apart=False),
}


def table_of(folder: Path, layout: Layout, level: str, **properties: str) -> spillway.delta.Table:
    """A table with two files for each of the two groups of rows."""
    given = {**dict(layout.properties), "delta.isolationLevel": level, **properties}
    table = spillway.delta.create(folder / "t", NUMBERS, partition_by=layout.partition_by, properties=given)
    for part, first in FIRST.items():
        for offset in (0, 10):
            with table.append() as append:
                append.write(numbers(10, part, first + offset))
    return table


def paths_of(table: spillway.delta.Table, layout: Layout, part: str) -> list[str]:
    """The files of a group, oldest first."""
    files = sorted(table.files(), key=lambda file: file.modification_time)
    if layout.partition_by:
        return [file.path for file in files if file.partition_values["part"] == part]
    ours = [
        file
        for file in files
        if pq.read_table(Path(table.path) / file.path, columns=["part"])["part"][0].as_py() == part
    ]
    return [file.path for file in ours]


def removed_in_log(table: spillway.delta.Table, paths: list[str], **fields: Any) -> None:
    """The version of another engine, whose removals say nothing of the files but their paths."""
    removals = [
        {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1, **fields}} for path in paths
    ]
    write_version(table, table.version + 1, [{"commitInfo": {"operation": "DELETE"}}, *removals])


def drop_one(table: spillway.delta.Table, _: Layout, part: str) -> None:
    table.delete(f"id >= {FIRST[part]} AND id < {FIRST[part] + 10}")


def drop_all(table: spillway.delta.Table, _: Layout, part: str) -> None:
    table.delete(f"part = '{part}'")


def delete_elsewhere(table: spillway.delta.Table, layout: Layout, part: str) -> None:
    removed_in_log(table, paths_of(table, layout, part)[:1])


def delete_by_delta_rs(table: spillway.delta.Table, _: Layout, part: str) -> None:
    deltalake.DeltaTable(table.path).delete(f"part = '{part}'")


def remove_by_commit(table: spillway.delta.Table, layout: Layout, part: str) -> None:
    table.commit(removes=paths_of(table, layout, part)[:1])


def delete_partition(table: spillway.delta.Table, _: Layout, part: str) -> None:
    table.delete_partition(part=part)


def overwrite_partition(table: spillway.delta.Table, _: Layout, part: str) -> None:
    replacement = numbers(1, part, FIRST[part])
    spillway.delta.write(table.path, replacement, mode="overwrite", where=f"part = '{part}'")


def delete_a_row(table: spillway.delta.Table, _: Layout, part: str) -> None:
    table.delete(f"id = {FIRST[part] + 3}")


def update(table: spillway.delta.Table, _: Layout, part: str) -> None:
    table.update(f"id = {FIRST[part] + 3}", {"id": FIRST[part] + 4})


REMOVALS: dict[str, Callable[[spillway.delta.Table, Layout, str], None]] = {
    "delete of a whole file": drop_one,
    "delete of all files": drop_all,
    "another engine's delete": delete_elsewhere,
    "delta-rs's delete": delete_by_delta_rs,
    "commit": remove_by_commit,
    "delete_partition": delete_partition,
    "overwrite of a partition": overwrite_partition,
    "delete of a row": delete_a_row,
    "update": update,
}
OF_PARTITIONS = {"delete_partition", "overwrite of a partition"}
CASES = [
    pytest.param(layout, removal, id=f"{name}-{removal}")
    for name, layout in LAYOUTS.items()
    for removal in REMOVALS
    if layout.partition_by or removal not in OF_PARTITIONS
]


def outcome(table: spillway.delta.Table, read: ReadSet) -> CommitConflict | None:
    """The conflict of a transaction that read this and adds a file to the other group; None if it commits."""
    partitioned = any(file.partition_values for file in table.files(read.version))
    data = numbers(1, OTHER, 500)
    path = Path(table.path) / "mine.parquet"
    pq.write_table(data.drop_columns("part") if partitioned else data, path)
    stats = {"numRecords": 1, "minValues": {"id": 500}, "maxValues": {"id": 500}, "nullCount": {"id": 0}}
    values = {"part": OTHER} if partitioned else {}
    mine = AddFile(path.name, path.stat().st_size, partition_values=values, stats=stats)
    try:
        table.commit(adds=[mine], read=read)
    except CommitConflict as conflict:
        return conflict
    return None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("layout", "removal"), CASES)
def test_removal_of_files_that_may_match_is_a_conflict(
    tmp_path: Path, layout: Layout, removal: str, level: str
) -> None:
    for part in (READ, OTHER):
        for marks in ("false", "true"):
            if marks == "true" and removal == "delta-rs's delete":
                continue
            folder = tmp_path / part / marks
            table = table_of(folder, layout, level, **{"delta.enableDeletionVectors": marks})
            read = ReadSet(version=table.version, where=layout.where)
            REMOVALS[removal](spillway.delta.open(table.path), layout, part)
            conflict = outcome(table, read)
            may_match = part == READ or not layout.tells_apart
            assert (conflict is not None) == may_match, (part, marks, conflict)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("overwrites", [False, True])
def test_truncation_is_a_conflict_of_whoever_read_rows(
    tmp_path: Path, layout: Layout, level: str, *, overwrites: bool
) -> None:
    table = table_of(tmp_path, layout, level)
    read = ReadSet(version=table.version, where=layout.where)
    if overwrites:
        spillway.delta.write(table.path, numbers(1, OTHER, 900), mode="overwrite")
    else:
        spillway.delta.open(table.path).truncate()
    assert outcome(table, read) is not None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_moved_rows_are_no_conflict_until_they_are_removed(
    tmp_path: Path, layout: Layout, level: str
) -> None:
    for removes in (False, True):
        table = table_of(tmp_path / str(removes), layout, level, **MARKS)
        table.delete("id = 5")
        read = ReadSet(version=table.version, where=layout.where)
        other = spillway.delta.open(table.path)
        assert other.optimize().removed_files
        other.purge()
        if removes:
            removed_in_log(other, [file.path for file in other.files()])
        conflict = outcome(table, read)
        assert isinstance(conflict, ConcurrentDeleteRead) if removes else conflict is None


def test_moved_files_are_a_conflict_of_whoever_read_or_removes_them(tmp_path: Path) -> None:
    layout = LAYOUTS["statistics"]
    table = table_of(tmp_path, layout, "Serializable")
    version, paths = table.version, paths_of(table, layout, READ)
    spillway.delta.open(table.path).optimize()
    assert outcome(table, ReadSet(version=version, where=layout.where, files=paths)) is not None
    with pytest.raises(CommitConflict):
        table.commit(removes=paths, read=ReadSet(version=version, where=layout.where))


def test_what_was_read_may_have_changed_its_columns_since(tmp_path: Path) -> None:
    table = table_of(tmp_path, LAYOUTS["statistics"], "Serializable")
    read = ReadSet(version=table.version, where="note IS NULL")
    extended = numbers(1, OTHER, 900).append_column("note", pa.array(["x"]))
    spillway.delta.write(table.path, extended, mode="append", schema_mode="merge")
    assert isinstance(outcome(table, read), spillway.errors.MetadataChanged)


@settings(max_examples=examples(0.3))
@given(
    st.lists(st.tuples(st.sampled_from(["move", "mark", "drop"]), st.integers(0, 3)), min_size=1, max_size=4),
    st.sampled_from(LEVELS),
    st.integers(0, 40),
    st.integers(1, 15),
)
def test_no_row_that_was_looked_for_leaves_unseen(
    steps: list[tuple[str, int]], level: str, first: int, width: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(folder, NUMBERS, properties={**MARKS, "delta.isolationLevel": level})
        for group in range(4):
            with table.append() as append:
                append.write(numbers(10, first=10 * group))
        where = f"id BETWEEN {first} AND {first + width - 1}"
        read = ReadSet(version=table.version, where=where)
        before = sorted(ids(table, where=where))
        other = spillway.delta.open(table.path)
        for step, group in steps:
            if step == "move":
                other.optimize()
            elif step == "mark":
                other.delete(f"id = {10 * group + 5}")
            else:
                other.delete(f"id BETWEEN {10 * group} AND {10 * group + 9}")
        after = sorted(ids(other, where=where))
        conflict = outcome(table, read)
        assert conflict is not None or before == after, steps
        if all(step == "move" for step, _ in steps):
            assert conflict is None, conflict


def test_a_file_is_added_once_whatever_its_path_or_its_deletion_vector(tmp_path: Path) -> None:
    """Readers would find its rows twice, and those that its vector marks as deleted."""
    schema = pa.schema({"d": pa.string(), "n": pa.int64()})
    marked = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="d", properties=marked)
    with table.append() as append:
        append.write(pa.table({"d": ["a b"] * 10, "n": range(10)}, schema))
    (file,) = table.files()
    for _ in range(2):
        for path in (file.path, file.path.replace("%20", " ").replace(" ", "%20"), f"./{file.path}"):
            with pytest.raises(OptionError, match=r"added already|no URI reference|empty segment"):
                table.commit(adds=[AddFile(path, file.size, partition_values={"d": "a b"})])
        table.delete("n = 3")
        table.checkpoint()
    assert pa.table(table.scan()).num_rows == 9
    assert deltalake.DeltaTable(tmp_path / "t").version() == table.version
    table.optimize()
    assert pa.table(table.scan()).num_rows == 9


@pytest.mark.parametrize(
    "stats",
    [
        {"numRecords": "1"},
        {"numRecords": True},
        {"numRecords": -1},
        {"numRecords": 1, "nullCount": {"n": "0"}},
    ],
)
def test_counts_that_are_none_are_refused(tmp_path: Path, stats: dict[str, Any]) -> None:
    """delta-rs reads nothing of a table that has such statistics in a checkpoint."""
    pq.write_table(pa.table({"n": [1]}), tmp_path / "x.parquet")
    table = spillway.delta.create(tmp_path, pa.schema({"n": pa.int64()}))
    size = (tmp_path / "x.parquet").stat().st_size
    with pytest.raises(OptionError, match="the wrong form"):
        table.commit(adds=[AddFile("x.parquet", size, stats=stats)])
    table.commit(adds=[AddFile("x.parquet", size, stats={"numRecords": 1, "nullCount": {"n": 0}})])
    assert pa.table(table.scan()).num_rows == 1
