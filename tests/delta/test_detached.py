"""Appends whose files are written in other processes and committed in one transaction here."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import (
    ClosedError,
    ConcurrentTransaction,
    CorruptLogError,
    MetadataChanged,
    OptionError,
    ProtocolChanged,
    SchemaError,
    UnsupportedTableError,
)

from .conftest import READERS, read_deltalake
from .logs import write_version
from .test_vacuum import announce

SCHEMA = pa.schema({"day": pa.string(), "id": pa.int64()})
PROCESSES = 4
ROWS = 1000


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    return spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="day")


def some_rows(*ids: int, day: str = "mon", **columns: Any) -> pa.Table:
    rows = pa.table({"day": [day] * len(ids), "id": list(ids)}, schema=SCHEMA)
    for name, values in columns.items():
        rows = rows.append_column(name, pa.array(values) if isinstance(values, list) else values)
    return rows


def detached(table: spillway.delta.Table, *data: pa.Table, **options: Any) -> bytes:
    append = table.append(**options)
    for rows in data:
        append.write(rows)
    return append.detach()


def written_elsewhere(path: str, number: int) -> bytes:
    """Write the rows of one process, which open the table for themselves."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    table = spillway.delta.open(path)
    append = table.append(max_file_rows=ROWS // 2)
    append.write(some_rows(*ids, day=f"day {number % 2}"))
    return append.detach()


def data_files(table: spillway.delta.Table) -> set[str]:
    root = Path(table.path)
    return {str(file.relative_to(root)) for file in root.rglob("*.parquet")}


def ids(table: spillway.delta.Table) -> list[int]:
    return sorted(read_deltalake(Path(table.path))["id"].to_pylist())


def test_parts_of_several_processes_are_one_version(table: spillway.delta.Table) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        parts = list(pool.map(written_elsewhere, [table.path] * PROCESSES, range(PROCESSES)))
    assert table.version == 0
    with table.append(user_metadata="from four processes") as append:
        for part in parts:
            append.attach(part)
    assert append.version == table.version == 1
    for read in READERS.values():
        assert sorted(read(Path(table.path))["id"].to_pylist()) == list(range(PROCESSES * ROWS))
    entry = table.history(1)[0]
    assert entry.info["userMetadata"] == "from four processes"
    files = table.files()
    assert entry.info["operationMetrics"] == {
        "numFiles": "8",
        "numOutputRows": str(PROCESSES * ROWS),
        "numOutputBytes": str(sum(file.size for file in files)),
    }
    assert {file.partition_values["day"] for file in files} == {"day 0", "day 1"}
    assert all(file.stats is not None and file.stats["numRecords"] == ROWS // 2 for file in files)
    assert len(files) == len(data_files(table)) == 8


def test_rows_of_the_append_itself_are_committed_with_its_parts(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(1, 2))
    with table.append() as append:
        append.write(some_rows(3))
        append.attach(part)
        append.write(some_rows(4, day="tue"))
    assert ids(table) == [1, 2, 3, 4]


@pytest.mark.parametrize("end", ["abort", "conflict"])
def test_files_that_another_process_has_announced_stay(table: spillway.delta.Table, end: str) -> None:
    """It attached them too, and has died since: any process may still commit its announcement."""
    announced, stray = detached(table, some_rows(1)), detached(table, some_rows(2))
    intent = announce(table, *json.loads(announced)["adds"])
    append = table.append()
    append.attach(announced)
    append.attach(stray)
    if end == "abort":
        append.abort()
    else:
        spillway.delta.open(table.path).add_constraint("some", "id > 0")
        with pytest.raises(ProtocolChanged):
            append.commit()
    paths = [add["path"] for add in json.loads(announced)["adds"]]
    assert data_files(table) == {*paths}
    assert table._native.paths_in_use("day=mon") == paths
    intent.unlink()
    assert table._native.paths_in_use("day=mon") == []
    append = table.append()
    with pytest.raises(ProtocolChanged) if end == "conflict" else contextlib.nullcontext():
        append.attach(announced)
    append.abort()
    assert data_files(table) == ({*paths} if end == "conflict" else set())


def test_a_part_without_rows_adds_nothing(table: spillway.delta.Table) -> None:
    part = detached(table)
    with table.append() as append:
        append.attach(part)
        append.attach(detached(table, some_rows(1)))
    assert ids(table) == [1]


def test_a_detached_append_is_closed_and_its_block_commits_nothing(table: spillway.delta.Table) -> None:
    with table.append() as append:
        append.write(some_rows(1))
        part = append.detach()
    assert append.closed
    assert table.version == 0
    with pytest.raises(ClosedError, match="was detached"):
        append.write(some_rows(2))
    with table.append() as other:
        other.attach(part)
    assert ids(table) == [1]


def test_a_part_is_bytes_that_name_their_form(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(1))
    assert pickle.loads(pickle.dumps(part)) == part  # noqa: S301 - its own
    fields = json.loads(part)
    assert (fields["deltaAppendPart"], fields["rows"], len(fields["adds"])) == (1, 1, 1)
    assert fields["basis"]["id"] == table.id


@pytest.mark.parametrize("garbage", [b"", b"{}", b"\xff\x00", b"[1]", b'{"deltaAppendPart": 1}'])
def test_what_is_no_part_is_refused(table: spillway.delta.Table, garbage: bytes) -> None:
    with table.append() as append:
        with pytest.raises(OptionError, match="detach"):
            append.attach(garbage)
        append.write(some_rows(1))
    assert ids(table) == [1]


def changed(part: bytes, **fields: Any) -> bytes:
    return json.dumps(json.loads(part) | fields).encode()


def test_a_part_of_a_later_form_is_refused(table: spillway.delta.Table) -> None:
    part = changed(detached(table, some_rows(1)), deltaAppendPart=2)
    with table.append() as append, pytest.raises(OptionError, match="form 2"):
        append.attach(part)


@pytest.mark.parametrize(
    ("path", "error", "match"),
    [
        ("../elsewhere.parquet", CorruptLogError, "does not stay inside the table"),
        ("/etc/passwd", UnsupportedTableError, "is absolute"),
        ("s3://bucket/file", UnsupportedTableError, "is absolute"),
    ],
)
def test_a_file_outside_of_the_table_is_refused(
    table: spillway.delta.Table, path: str, error: type[spillway.SpillwayError], match: str
) -> None:
    part = detached(table, some_rows(1))
    add = json.loads(part)["adds"][0] | {"path": path}
    append = table.append()
    with pytest.raises(error, match=match):
        append.attach(changed(part, adds=[add]))
    append.abort()


def test_a_part_of_another_table_is_refused_and_keeps_its_file(
    table: spillway.delta.Table, tmp_path: Path
) -> None:
    other = spillway.delta.create(tmp_path / "other", SCHEMA, partition_by="day")
    part = detached(other, some_rows(1))
    append = table.append()
    with pytest.raises(OptionError, match=f"for the table with the id {other.id}"):
        append.attach(part)
    append.abort()
    assert len(data_files(other)) == 1


def test_an_abort_removes_attached_files(table: spillway.delta.Table) -> None:
    parts = [detached(table, some_rows(number)) for number in range(3)]
    assert len(data_files(table)) == 3
    append = table.append()
    for part in parts:
        append.attach(part)
    append.abort()
    assert (data_files(table), table.version) == (set(), 0)


def test_an_abort_leaves_files_that_another_writer_committed(table: spillway.delta.Table) -> None:
    """Whatever characters that writer escaped in their paths."""
    part = detached(table, some_rows(1))
    (add,) = json.loads(part)["adds"]
    append = table.append()
    append.attach(part)
    write_version(table, 1, [{"add": add | {"path": add["path"].replace("part-", "p%61rt-")}}])
    append.abort()
    assert ids(spillway.delta.open(table.path)) == [1]


def test_a_part_is_attached_once(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(1))
    with table.append() as append:
        append.attach(part)
        with pytest.raises(OptionError, match="added already"):
            append.attach(part)
    again = table.append()
    with pytest.raises(OptionError, match="added already"):
        again.attach(part)
    again.abort()
    assert ids(table) == [1]


def test_an_abort_keeps_files_that_another_append_has_committed(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(1))
    loser = table.append()
    loser.attach(part)
    with table.append() as winner:
        winner.attach(part)
    loser.abort()
    assert ids(table) == [1]


def test_a_repeated_append_removes_attached_files(table: spillway.delta.Table) -> None:
    first, second = (detached(table, some_rows(1)) for _ in range(2))
    for part, repeated in ((first, False), (second, True), (first, True)):
        with table.append(app_id="job", app_version=7) as append:
            assert append.repeated == repeated
            append.attach(part)
        assert append.version == 1
    assert ids(table) == [1]
    assert len(data_files(table)) == 1
    assert table.transaction_version("job") == 7


def test_the_loser_of_two_equal_transactions_removes_its_files(table: spillway.delta.Table) -> None:
    appends = [table.append(app_id="job", app_version=1) for _ in range(2)]
    for append in appends:
        append.attach(detached(table, some_rows(1)))
    appends[0].commit()
    with pytest.raises(ConcurrentTransaction):
        appends[1].commit()
    assert ids(table) == [1]
    assert len(data_files(table)) == 1


def test_parts_replace_the_rows_of_the_table(table: spillway.delta.Table) -> None:
    with table.append() as append:
        append.write(some_rows(1, 2, 3))
    part = detached(table, some_rows(4, day="tue"))
    with table._append(replace=()) as append:
        append.attach(part)
    assert ids(table) == [4]
    assert table.history(1)[0].info["operationParameters"]["mode"] == "Overwrite"


def test_a_part_outside_of_what_is_replaced_fails_the_commit(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(4, day="tue"))
    append = table._append(replace=[("day", "=", "mon")])
    append.attach(part)
    with pytest.raises(OptionError, match="lie outside"):
        append.commit()
    assert (data_files(table), table.version) == (set(), 0)


def test_parts_add_columns_where_schemas_are_merged(table: spillway.delta.Table) -> None:
    one = detached(table, some_rows(1, note=["a"]), schema_mode="merge")
    two = detached(table, some_rows(2, when=pa.array([0], pa.timestamp("us"))), schema_mode="merge")
    refusing = table.append()
    with pytest.raises(SchemaError, match='schema_mode="merge"'):
        refusing.attach(one)
    refusing.abort()
    with table.append(schema_mode="merge") as append:
        append.attach(one)
        append.attach(two)
        append.write(some_rows(3))
    assert pa.schema(table.schema).names == ["day", "id", "note", "when"]
    read = {row["id"]: row for row in READERS["delta-rs"](Path(table.path)).to_pylist()}
    assert (read[1]["note"], read[2]["note"], read[3]["when"]) == ("a", None, None)
    assert read[2]["when"] is not None


def test_parts_with_different_types_in_a_new_column_do_not_mix(table: spillway.delta.Table) -> None:
    long = detached(table, some_rows(1, note=pa.array([1], pa.int64())), schema_mode="merge")
    integer = detached(table, some_rows(2, note=pa.array([2], pa.int32())), schema_mode="merge")
    append = table.append(schema_mode="merge")
    append.attach(long)
    with pytest.raises(SchemaError, match="different types") as raised:
        append.attach(integer)
    assert raised.value.column == "note"
    append.commit()
    assert ids(table) == [1]


def test_many_parts_are_one_version(table: spillway.delta.Table) -> None:
    names = ["first", "second", "third"]
    parts = [detached(table, some_rows(n, **{names[n % 3]: [n]}), schema_mode="merge") for n in range(60)]
    with table.append(schema_mode="merge") as append:
        for number, part in enumerate(parts):
            append.attach(part)
            with pytest.raises(OptionError, match="added already"):
                append.attach(parts[number // 2])
            if number == 30:
                append.write(some_rows(60, own=["x"]))
    assert ids(table) == list(range(61))
    # Columns of the append's own rows come first.
    assert pa.schema(table.schema).names == ["day", "id", "own", *names]
    read = {row["id"]: row for row in READERS["delta-rs"](Path(table.path)).to_pylist()}
    assert all(read[n][names[n % 3]] == n for n in range(60))


def test_a_part_that_was_refused_takes_no_place(table: spillway.delta.Table) -> None:
    long = detached(table, some_rows(1, note=pa.array([1], pa.int64())), schema_mode="merge")
    integer = detached(table, some_rows(2, note=pa.array([2], pa.int32())), schema_mode="merge")
    append = table.append(schema_mode="merge")
    append.attach(long)
    for _ in range(2):
        with pytest.raises(SchemaError, match="different types"):
            append.attach(integer)
    append.attach(changed(integer, columns=json.loads(long)["columns"]))
    append.abort()
    assert data_files(table) == set()


def test_a_part_is_checked_against_rows_written_after_the_first_part(table: spillway.delta.Table) -> None:
    parts = [detached(table, some_rows(n)) for n in (1, 2)]
    noted = detached(table, some_rows(3, note=pa.array([3], pa.int32())), schema_mode="merge")
    append = table.append(schema_mode="merge")
    append.attach(parts[0])
    append.write(some_rows(4, note=pa.array([4], pa.int64())))
    with pytest.raises(SchemaError, match="different types") as raised:
        append.attach(noted)
    assert raised.value.column == "note"
    append.attach(parts[1])
    append.commit()
    assert ids(table) == [1, 2, 4]


def test_a_part_that_names_a_file_twice_is_refused(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(1))
    with table.append() as append:
        with pytest.raises(OptionError, match="added already"):
            append.attach(changed(part, adds=json.loads(part)["adds"] * 2))
        append.attach(part)
    assert ids(table) == [1]


@pytest.mark.parametrize("when", ["before the attachment", "before the commit"])
def test_a_changed_schema_refuses_parts_that_were_written_before(
    table: spillway.delta.Table, when: str
) -> None:
    part = detached(table, some_rows(1))
    append = table.append()
    if when == "before the commit":
        append.attach(part)
    with table.append(schema_mode="merge") as other:
        other.write(some_rows(2, note=["x"]))
    late = table.append()
    act = append.commit if when == "before the commit" else partial(late.attach, part)
    with pytest.raises(MetadataChanged):
        act()
    assert ids(table) == [2]


def test_a_part_that_merges_follows_a_changed_schema(table: spillway.delta.Table) -> None:
    parts = [detached(table, some_rows(n, note=["mine"]), schema_mode="merge") for n in (1, 2)]
    with table.append(schema_mode="merge") as append:
        append.attach(parts[0])
        with table.append(schema_mode="merge") as other:
            other.write(some_rows(3, note=["theirs"], more=[1]))
    with table.append(schema_mode="merge") as append:
        append.attach(parts[1])
    assert ids(table) == [1, 2, 3]
    assert pa.schema(table.schema).names == ["day", "id", "note", "more"]


def test_a_part_whose_column_got_another_type_is_refused(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(1, note=["text"]), schema_mode="merge")
    with table.append(schema_mode="merge") as other:
        other.write(some_rows(2, note=[1]))
    append = table.append(schema_mode="merge")
    with pytest.raises(SchemaError) as raised:
        append.attach(part)
    append.abort()
    assert raised.value.column == "note"


def test_a_changed_protocol_refuses_parts_that_were_written_before(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", SCHEMA)
    part = detached(table, some_rows(1))
    with table.append(schema_mode="merge") as other:
        other.write(some_rows(2, when=pa.array([0], pa.timestamp("us"))))
    append = table.append()
    with pytest.raises(ProtocolChanged):
        append.attach(part)
    append.abort()
    assert ids(table) == [2]


def test_a_property_may_change_between(table: spillway.delta.Table) -> None:
    import deltalake  # noqa: PLC0415 - the other writer of this one test

    part = detached(table, some_rows(1))
    deltalake.DeltaTable(table.path).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 9 days"}
    )
    with table.append() as append:
        append.attach(part)
    assert ids(table) == [1]


@pytest.mark.parametrize(
    "options", [{"app_id": "job", "app_version": 1}, {"user_metadata": "x"}, {"coalesce": True}]
)
def test_options_of_a_commit_are_refused_where_rows_are_detached(
    table: spillway.delta.Table, options: dict[str, Any]
) -> None:
    append = table.append(**options)
    append.write(some_rows(1))
    with pytest.raises(OptionError, match="goes with the append that commits"):
        append.detach()
    append.commit()
    assert ids(table) == [1]


def test_nothing_is_attached_to_a_shared_append(table: spillway.delta.Table) -> None:
    part = detached(table, some_rows(1))
    with table.append(coalesce=True) as append, pytest.raises(OptionError, match="coalesce"):
        append.attach(part)


def test_files_of_a_folder_of_their_own_are_in_the_table(table: spillway.delta.Table) -> None:
    append = table._append(folder="job-1")
    append.write(some_rows(1))
    with table.append() as other:
        other.attach(append.detach())
    assert [Path(file).parts[0] for file in data_files(table)] == ["job-1"]
    for read in READERS.values():
        assert read(Path(table.path))["day"].to_pylist() == ["mon"]


def test_measures_of_the_caller_are_in_the_history(table: spillway.delta.Table) -> None:
    with table.append() as append:
        append.write(some_rows(1))
        append._native.add_metrics({"writerTimeMs": "12"})
    assert table.history(1)[0].info["operationMetrics"]["writerTimeMs"] == "12"
