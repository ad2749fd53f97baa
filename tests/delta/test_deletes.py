"""Deletes take exactly the rows that a scan by the same conditions finds, one way or another."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta.append import _wait_for_checkpoints
from spillway.errors import AppendOnlyError, CorruptLogError, OptionError, UnsupportedTableError

from ..counts import examples
from .conftest import rows
from .logs import line_of, needs, read_version, write_version
from .test_scans import SCHEMA, append, condition, row, satisfies

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKS = {"delta.enableDeletionVectors": "true"}
NUMBERS = pa.schema({"part": pa.string(), "id": pa.int64()})


def numbers(count: int, part: str = "a", first: int = 0) -> pa.Table:
    return pa.table({"part": [part] * count, "id": range(first, first + count)}, NUMBERS)


def made(
    folder: Path, count: int = 1000, properties: dict[str, str] | None = MARKS, **options: Any
) -> spillway.delta.Table:
    """A table with one file of numbers."""
    table = spillway.delta.create(folder, NUMBERS, properties=properties, partition_by="part")
    with table.append(**options) as append:
        append.write(numbers(count))
    return table


def ids(table: spillway.delta.Table, **options: Any) -> list[int]:
    found: list[int] = pa.table(table.scan(["id"], **options))["id"].to_pylist()
    return found


def metrics(table: spillway.delta.Table) -> dict[str, int]:
    [entry] = table.history(1)
    assert entry.operation == "DELETE"
    return {name: int(value) for name, value in entry.info["operationMetrics"].items() if "Ms" not in name}


@settings(max_examples=examples(0.6))
@given(
    st.lists(st.lists(row(), min_size=1, max_size=12), min_size=1, max_size=3),
    st.lists(st.lists(condition(), min_size=1, max_size=2), min_size=1, max_size=3),
    st.sampled_from([None, "part"]),
    st.booleans(),
)
def test_a_delete_takes_the_rows_for_which_its_conditions_hold(
    appends: list[list[dict[str, Any]]],
    deletes: list[list[tuple[str, str, Any]]],
    partition_by: str | None,
    marks: bool,  # noqa: FBT001 - hypothesis names it
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        properties = MARKS if marks else {}
        table = spillway.delta.create(folder, SCHEMA, partition_by=partition_by or [], properties=properties)
        for each in appends:
            append(table, each, row_group_rows=5)
        left = [row for each in appends for row in each]
        for conditions in deletes:
            gone = [row for row in left if all(satisfies(row, one) for one in conditions)]
            left = [row for row in left if not all(satisfies(row, one) for one in conditions)]
            before = table.version
            deletion = table.delete(conditions)
            assert deletion == spillway.delta.Deletion(before + bool(gone), len(gone))
            assert rows(pa.table(table.scan())) == rows(pa.Table.from_pylist(left, SCHEMA))
            assert all(file.deleted_rows == 0 for file in table.files()) or marks
        anew = spillway.delta.open(folder)
        anew.checkpoint()
        found = pa.table(anew.scan(where=deletes[0]))
        expected = [row for row in left if all(satisfies(row, one) for one in deletes[0])]
    assert rows(found) == rows(pa.Table.from_pylist(expected, SCHEMA))


@settings(max_examples=examples(0.3))
@given(st.lists(st.sets(st.integers(0, 199), max_size=120), min_size=1, max_size=4), st.integers())
def test_marked_rows_stay_away_from_every_scan(marked: Sequence[set[int]], bound: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(Path(folder) / "t", 200, row_group_rows=16)
        left = set(range(200))
        for some in marked:
            table.delete([("id", "in", sorted(some))])
            left -= some
            limit = bound % 200
            assert ids(table) == sorted(left)
            assert ids(table, where=[("id", "<", limit)]) == sorted(n for n in left if n < limit)
            reader = pa.RecordBatchReader.from_stream(table.scan([]))
            assert sum(batch.num_rows for batch in reader) == len(left)


def test_few_rows_are_marked_and_their_file_stays(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    [before] = table.files()
    assert table.delete([("id", "<", 3), ("part", "=", "a")]) == spillway.delta.Deletion(2, 3)
    [after] = table.files()
    assert (after.path, after.size, after.deleted_rows) == (before.path, before.size, 3)
    assert after.stats is not None
    assert before.stats is not None
    assert after.stats == {**before.stats, "tightBounds": False}
    assert metrics(table) == {
        "numRemovedFiles": 0,
        "numRemovedBytes": 0,
        "numAddedFiles": 0,
        "numAddedBytes": 0,
        "numCopiedRows": 0,
        "numDeletedRows": 3,
        "numDeletionVectorsAdded": 1,
        "numDeletionVectorsUpdated": 0,
        "numDeletionVectorsRemoved": 0,
        "numAddedChangeFiles": 0,
    }
    # Small vectors are in the log, larger ones in a file.
    assert line_of(table, "add", 2)["deletionVector"]["storageType"] == "i"
    assert not list((tmp_path / "t").glob("*.bin"))
    table.delete([("id", "in", list(range(100, 700, 2)))])
    assert metrics(table)["numDeletionVectorsUpdated"] == 1
    vector = line_of(table, "add", 3)["deletionVector"]
    assert (vector["storageType"], vector["offset"], vector["cardinality"]) == ("u", 1, 303)
    assert len(list((tmp_path / "t").glob("deletion_vector_*.bin"))) == 1
    assert ids(table) == [n for n in range(3, 1000) if not (100 <= n < 700 and n % 2 == 0)]
    table.restore(2)
    assert ids(table) == list(range(3, 1000))


def test_vectors_of_many_files_are_in_one(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties=MARKS, partition_by="part")
    with table.append() as append:
        for part in "abc":
            append.write(numbers(2000, part))
    table.delete([("id", "in", list(range(0, 900, 3)))])
    vectors = [line["add"]["deletionVector"] for line in read_version(table, 2) if "add" in line]
    assert len({vector["pathOrInlineDv"] for vector in vectors}) == 1
    assert len({vector["offset"] for vector in vectors}) == 3
    assert pa.table(table.scan()).num_rows == 6000 - 900


def test_most_rows_of_a_file_are_not_marked(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    [before] = table.files()
    table.delete([("id", ">=", 400)])
    [after] = table.files()
    assert after.path != before.path
    assert (after.deleted_rows, metrics(table)["numCopiedRows"]) == (0, 400)
    assert after.partition_values == {"part": "a"}
    table.delete([("id", "<", 100)])
    table.delete([("id", "<", 400)])
    assert (table.files(), metrics(table)["numRemovedFiles"]) == ([], 1)
    assert metrics(table)["numDeletionVectorsRemoved"] == 1
    assert metrics(table)["numDeletedRows"] == 300


def test_a_partition_goes_without_a_look_at_its_files(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    [file] = table.files()
    (tmp_path / "t" / file.path).unlink()
    assert table.delete([("part", "=", "a")]).rows == 1000
    assert table.files() == []


def test_files_that_hold_no_such_row_are_not_opened(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    [file] = table.files()
    (tmp_path / "t" / file.path).unlink()
    assert table.delete([("id", ">", 5000)]) == spillway.delta.Deletion(1, 0)
    assert table.delete([("part", "=", "b"), ("id", "=", 1)]).rows == 0
    assert table.version == 1


def test_a_file_that_is_empty_before_leaves_in_a_version_of_its_own(tmp_path: Path) -> None:
    properties = {"delta.checkpointInterval": "2"}
    table = spillway.delta.create(tmp_path / "t", NUMBERS, partition_by="part", properties=properties)
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "t" / "empty.parquet")
    size = (tmp_path / "t" / "empty.parquet").stat().st_size
    add = spillway.delta.AddFile("empty.parquet", size, partition_values={"part": "a"})
    assert table.commit(adds=[add]) == 1
    assert table.delete([("part", "=", "a")]) == spillway.delta.Deletion(2, 0)
    _wait_for_checkpoints()
    assert list(tmp_path.glob("t/_delta_log/*2.checkpoint.parquet"))
    assert table.delete([("part", "=", "a")]) == spillway.delta.Deletion(2, 0)


def test_files_that_are_written_again_keep_the_text_of_their_partition_values(tmp_path: Path) -> None:
    """Spark reads a timestamp without a zone in the zone of its session."""
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "id": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="at")
    hours = [pa.scalar(0, schema.field("at").type), pa.scalar(3_600_000_000, schema.field("at").type)]
    for hour in hours:
        with table.append() as append:
            append.write(pa.table({"at": [hour] * 9, "id": range(9)}, schema))
    values = [{"at": "1970-01-01 00:00:00"}, {"at": "1970-01-01 01:00:00.000"}]
    for version, text in enumerate(values, 1):
        lines = read_version(table, version)
        lines = [
            {"add": line["add"] | {"partitionValues": text}} if "add" in line else line for line in lines
        ]
        write_version(table, version, lines)
    # A version that changes below an open table is another table's.
    table = spillway.delta.open(shutil.copytree(tmp_path / "t", tmp_path / "copy"))
    assert table.delete([("id", "=", 3)]).rows == 2
    kept = [line["add"]["partitionValues"] for line in read_version(table, 3) if "add" in line]
    assert sorted(kept, key=str) == sorted(values, key=str)
    assert len(ids(table, where=[("at", "=", "1970-01-01T01:00:00Z")])) == 8


def test_the_history_names_some_of_many_values(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    assert table.delete([("id", "in", list(range(990, 100_000)))]).rows == 10
    predicate = table.history(1)[0].info["operationParameters"]["predicate"]
    assert predicate.startswith('["(id IN (990, 991, ')
    assert predicate.endswith(', 1089, ... 98910 more))"]')


def test_small_vectors_are_read_by_other_engines(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.delete([("id", "in", [3, 500, 999])])
    assert line_of(table, "add", 2)["deletionVector"]["storageType"] == "i"
    left = [n for n in range(1000) if n not in {3, 500, 999}]
    assert sorted(pl.scan_delta(table.path).collect()["id"].to_list()) == left
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table.path))
    assert sorted(pa.table(query.execute("select id from t"))["id"].to_pylist()) == left


def test_without_the_feature_files_are_written_again(tmp_path: Path) -> None:
    table = made(tmp_path / "t", properties={})
    assert table.delete([("id", "=", 7)], compression="snappy", user_metadata="why").rows == 1
    assert table.history(1)[0].info["userMetadata"] == "why"
    assert metrics(table)["numCopiedRows"] == 999
    for engine in (deltalake.DeltaTable(table.path).to_pyarrow_table(), pl.read_delta(table.path).to_arrow()):
        assert sorted(engine["id"].to_pylist()) == [n for n in range(1000) if n != 7]


def test_no_row_leaves_a_table_that_only_grows(tmp_path: Path) -> None:
    table = made(tmp_path / "t", properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError, match=r"delete\(\)"):
        table.delete([("id", "=", 7)])


def test_a_delete_of_everything_is_said_otherwise(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(OptionError, match=r"truncate\(\)"):
        table.delete([])
    with pytest.raises(OptionError, match="no value of its type"):
        table.delete([("id", "=", "seven")])


def with_vector(table: spillway.delta.Table, vector: dict[str, Any]) -> spillway.delta.Table:
    """The table as a writer leaves it that marks rows of its file by this vector."""
    add = line_of(table, "add", 1)
    removed = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1_700_000_000_000}
    write_version(table, 2, [{"remove": removed}, {"add": add | {"deletionVector": vector}}])
    return spillway.delta.open(table.path)


# The rows 3, 4, 7, 11, 18 and 29 of the protocol's example, in the format that its text describes.
EXAMPLE = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}


def test_the_rows_of_the_protocols_example_are_read(tmp_path: Path) -> None:
    table = with_vector(made(tmp_path / "t", 32), EXAMPLE)
    assert ids(table) == [n for n in range(32) if n not in {3, 4, 7, 11, 18, 29}]
    assert [file.deleted_rows for file in table.scan().files] == [6]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"pathOrInlineDv": "vector"}, "no Z85"),
        # The example itself is of an older format, which Spark refuses too.
        (
            {
                "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
                "sizeInBytes": 40,
            },
            "expected 1681511377",
        ),
        ({"sizeInBytes": 4}, "the log says 4"),
        ({"sizeInBytes": -1}, "-1 bytes"),
        ({"cardinality": 5}, "6 rows, and the log says 5"),
        ({"storageType": "x"}, "no place that the protocol knows"),
        ({"storageType": "p", "pathOrInlineDv": "/elsewhere/dv.bin"}, "not in the table's folder"),
    ],
)
def test_a_vector_that_cannot_be_read_is_named(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    table = with_vector(made(tmp_path / "t"), EXAMPLE | changes)
    [file] = table.files()
    with pytest.raises(Exception, match=match) as raised:
        pa.table(table.scan())
    assert file.path in str(raised.value) or "storageType" in changes
    with pytest.raises((CorruptLogError, UnsupportedTableError), match=match):
        table.delete([("id", "=", 1)])


def test_a_vector_of_no_rows_is_read(tmp_path: Path) -> None:
    """delta-spark's own, `DeletionVectorDescriptor.EMPTY`."""
    empty = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0}
    table = with_vector(made(tmp_path / "t", 32), empty)
    assert ids(table) == list(range(32))
    assert table.delete([("id", "=", 1)]).rows == 1
    assert line_of(table, "remove", 3)["deletionVector"] == empty
    assert ids(table) == [n for n in range(32) if n != 1]


def test_a_vector_of_another_file_is_refused(tmp_path: Path) -> None:
    table = with_vector(made(tmp_path / "t", 20), EXAMPLE)
    with pytest.raises(CorruptLogError, match="20 rows, and its deletion vector deletes the row 29"):
        table.delete([("id", "=", 1)])


@pytest.mark.parametrize("damage", ["gone", "cut", "flipped"])
def test_a_vectors_file_that_is_damaged_is_named(tmp_path: Path, damage: str) -> None:
    table = made(tmp_path / "t", 5000)
    table.delete([("id", "in", list(range(0, 2000, 2)))])
    [vector] = (tmp_path / "t").glob("*.bin")
    body = bytearray(vector.read_bytes())
    body[len(body) // 2] ^= 1
    vector.unlink()
    if damage != "gone":
        vector.write_bytes(body[:-5] if damage == "cut" else body)
    with pytest.raises(Exception, match=vector.name):
        pa.table(table.scan())


def test_tables_with_vectors_of_others_open(tmp_path: Path) -> None:
    table = made(tmp_path / "t", properties={})
    lines = read_version(table, 0)
    feature = needs("deletionVectors", reader=("deletionVectors",))
    write_version(table, 0, [feature if "protocol" in line else line for line in lines])
    del table
    # The property that asks for new vectors is not set.
    table = spillway.delta.open(tmp_path / "t")
    table.delete([("id", "=", 7)])
    assert [file.deleted_rows for file in table.files()] == [0]
    assert 7 not in ids(table)
