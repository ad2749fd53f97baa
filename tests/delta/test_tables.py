"""The state of a table after each operation, as other engines see it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import deltalake
import polars as pl
import pyarrow as pa
import pytest

import spillway.delta
from spillway.delta import append as checkpoints
from spillway.errors import (
    AppendOnlyError,
    ConcurrentAppend,
    ConcurrentDeleteDelete,
    ConcurrentDeleteRead,
    MetadataChanged,
    OptionError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
    VersionNotFoundError,
)
from spillway.types import EffectName

from .conftest import READERS, read_deltalake, rows

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema({"day": pa.string(), "id": pa.int64()})


def batch(day: str | None, *ids: int) -> pa.Table:
    return pa.table({"day": [day] * len(ids), "id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    return spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="day")


def append(table: spillway.delta.Table, data: Any, **options: Any) -> int:
    with table.append(**options) as append:
        append.write(data)
    assert append.version is not None
    return append.version


def ids(table: spillway.delta.Table) -> list[int]:
    return sorted(read_deltalake(table.path)["id"].to_pylist())


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_appended_is_read_by_others(
    table: spillway.delta.Table, read: Callable[[Any], pa.Table]
) -> None:
    assert append(table, batch("a", 1, 2)) == 1
    assert append(table, batch("b", 3)) == 2
    assert rows(read(table.path)) == rows(pa.concat_tables([batch("a", 1, 2), batch("b", 3)]))


def test_an_append_takes_what_speaks_arrow(table: spillway.delta.Table) -> None:
    append(table, pl.DataFrame({"id": [1], "day": ["a"]}))
    append(
        table, pa.record_batch({"day": pa.array(["b"]).dictionary_encode(), "id": pa.array([2], pa.int8())})
    )
    assert ids(table) == [1, 2]


def test_an_append_that_raises_leaves_nothing(table: spillway.delta.Table, tmp_path: Path) -> None:
    with contextlib.suppress(ZeroDivisionError), table.append() as append:
        append.write(batch("a", 1))
        append.write(batch("b", 1 // 0))
    assert table.version == 0
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_aborted_append_leaves_nothing(table: spillway.delta.Table, tmp_path: Path) -> None:
    append = table.append(max_file_rows=1)
    append.write(batch("a", 1, 2, 3))
    assert len(list(tmp_path.rglob("*.parquet"))) >= 2
    append.abort()
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_append_that_meets_a_conflict_leaves_nothing(table: spillway.delta.Table, tmp_path: Path) -> None:
    late = table._append(replace=[], limits=(None, 1))
    late.write(batch("a", 1, 2, 3))
    append(table, batch("a", 4))
    with pytest.raises(ConcurrentAppend):
        late.commit()
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_an_append_without_rows_makes_no_version(table: spillway.delta.Table) -> None:
    with table.append() as nothing:
        pass
    assert nothing.version == 0
    assert table.version == 0


def test_a_refused_batch_leaves_the_append_usable(table: spillway.delta.Table) -> None:
    with table.append() as append:
        with pytest.raises(SchemaError, match=r"no column .more."):
            append.write(pa.table({"day": ["a"], "id": [1], "more": [1]}))
        with pytest.raises(SchemaError, match=r"is .long. in the table"):
            append.write(pa.table({"day": ["a"], "id": ["1"]}))
        append.write(batch("a", 2))
    assert ids(table) == [2]


def test_the_times_of_effects_tell_what_a_commit_did(table: spillway.delta.Table) -> None:
    before = table.commit_stats()
    with table.append() as append:
        append.write(batch("a", 1))
    stats = table.commit_stats()
    assert set(stats.effects) <= set(get_args(EffectName))
    assert stats.effects["put_version"]["count"] == stats.attempts == before.attempts + 1
    assert stats.effects["sync_data"]["count"] == 1
    for times in stats.effects.values():
        assert times["count"] > 0
        assert 0 <= times["longest_seconds"] <= times["total_seconds"]


def test_an_application_appends_once(table: spillway.delta.Table) -> None:
    assert append(table, batch("a", 1), app_id="etl", app_version=7) == 1
    with table.append(app_id="etl", app_version=7) as again:
        again.write(batch("a", 1))
    assert again.repeated
    assert (table.version, table.transaction_version("etl"), table.transaction_version("other")) == (
        1,
        7,
        None,
    )
    append(table, batch("a", 2), app_id="etl", app_version=8)
    assert ids(table) == [1, 2]
    with pytest.raises(OptionError, match="go together"):
        table.append(app_id="etl")


def test_merging_adds_columns(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1))
    append(table, pa.table({"id": [2], "day": ["a"], "note": ["x"]}), schema_mode="merge")
    append(table, batch("a", 3))
    expected = {"day": ["a"] * 3, "id": [1, 2, 3], "note": [None, "x", None]}
    for read in READERS.values():
        assert rows(read(table.path)) == rows(pa.table(expected))
    with pytest.raises(OptionError, match="schema_mode"):
        table.append(schema_mode="overwrite")  # type: ignore[arg-type]


def test_a_url_of_another_machine_is_refused(tmp_path: Path) -> None:
    for host in ("", "localhost"):
        url = f"file://{host}{tmp_path}/a%20b{host}"
        assert spillway.delta.create(url, SCHEMA).path == f"{tmp_path}/a b{host}"
    for ask in (spillway.delta.open, lambda url: spillway.delta.create(url, SCHEMA)):
        with pytest.raises(OptionError, match="this machine"):
            ask(f"file://elsewhere{tmp_path}/t")
    assert not (tmp_path / "t").exists()


def test_create_has_modes(tmp_path: Path) -> None:
    first = spillway.delta.create(tmp_path / "t", SCHEMA, properties={"delta.checkpointInterval": "3"})
    append(first, batch("a", 1))
    with pytest.raises(TableExistsError):
        spillway.delta.create(tmp_path / "t", SCHEMA)
    assert spillway.delta.create(tmp_path / "t", SCHEMA, mode="ignore").version == 1
    other = pa.schema({"name": pa.string()})
    replaced = spillway.delta.create(tmp_path / "t", other, mode="overwrite")
    assert (replaced.version, replaced.schema.names, replaced.properties) == (2, ["name"], {})
    assert read_deltalake(tmp_path / "t").num_rows == 0
    with pytest.raises(TableNotFoundError):
        spillway.delta.open(tmp_path / "missing")


def test_write_does_all_in_one_call(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    assert spillway.delta.write(uri, batch("a", 1), partition_by="day") == 1
    assert spillway.delta.write(uri.as_uri(), iter_of(batch("b", 2)), mode="append") == 2
    assert spillway.delta.write(uri, batch("b", 3), mode="overwrite", where=[("day", "=", "b")]) == 3
    assert ids(spillway.delta.open(uri)) == [1, 3]
    assert spillway.delta.write(uri, batch("c", 4), mode="overwrite") == 4
    assert ids(spillway.delta.open(uri)) == [4]
    assert spillway.delta.write(uri, batch("c", 5), mode="ignore") == 4
    with pytest.raises(TableExistsError):
        spillway.delta.write(uri, batch("c", 5), mode="error")
    with pytest.raises(OptionError, match="outside of what they replace"):
        spillway.delta.write(uri, batch("x", 5), mode="overwrite", where=[("day", "=", "b")])
    with pytest.raises(OptionError, match="partition columns alone"):
        spillway.delta.write(uri, batch("x", 5), mode="overwrite", where=[("id", "=", 1)])
    assert ids(spillway.delta.open(uri)) == [4]


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_table_that_somebody_makes_meanwhile_is_theirs(
    tmp_path: Path, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = tmp_path / "t"
    opened = spillway.delta.table.open

    def late(uri: Any, **_: Any) -> spillway.delta.Table:
        monkeypatch.setattr(spillway.delta.table, "open", opened)
        with pytest.raises(TableNotFoundError) as missing:
            opened(uri)
        spillway.delta.create(uri, SCHEMA)
        raise missing.value

    monkeypatch.setattr(spillway.delta.table, "open", late)
    if mode == "error":
        with pytest.raises(TableExistsError):
            spillway.delta.write(uri, batch("a", 1), mode=mode)
    else:
        assert spillway.delta.write(uri, batch("a", 1), mode=mode) == 0
    assert ids(spillway.delta.open(uri)) == []


@pytest.mark.parametrize(
    "where",
    [
        ["service = 'z'"],
        [("service", "=")],
        [("service", "=", "z", 1)],
        [(1, "=", "z")],
        [None],
    ],
    ids=repr,
)
def test_a_where_that_is_no_list_of_conditions_is_refused(tmp_path: Path, where: Any) -> None:
    data = pa.table({"service": ["z"], "id": [1]})
    accepted = r'where.*where=\[\("service", "=", "z"\)'
    with pytest.raises(OptionError, match=accepted):
        spillway.delta.write(tmp_path / "t", data, mode="overwrite", where=where)
    assert not (tmp_path / "t").exists(), "a refused call leaves no table"
    spillway.delta.write(tmp_path / "t", data, partition_by="service")
    with pytest.raises(OptionError, match=accepted):
        spillway.delta.write(tmp_path / "t", data, mode="overwrite", where=where)
    with pytest.raises(OptionError, match=accepted):
        spillway.delta.open(tmp_path / "t").commit(read=spillway.delta.ReadSet(where=where))
    with pytest.raises(OptionError, match=r'"in" needs a list'):
        spillway.delta.write(tmp_path / "t", data, mode="overwrite", where=[("service", "in", "z")])
    accepted_form = [("service", "=", "z")]
    assert spillway.delta.write(tmp_path / "t", data, mode="overwrite", where=accepted_form) == 2


def test_write_changes_no_table_unasked(tmp_path: Path) -> None:
    table_files = lambda: sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))  # noqa: E731
    assert spillway.delta.write(tmp_path / "t", batch("a", 1)) == 1
    before = table_files()
    for given in ({}, {"mode": "error"}):
        with pytest.raises(TableExistsError, match='mode="append"'):
            spillway.delta.write(tmp_path / "t", batch("b", 2), **given)  # type: ignore[arg-type]
    assert spillway.delta.write(tmp_path / "t", batch("b", 2), mode="ignore") == 1
    assert table_files() == before
    assert spillway.delta.write(tmp_path / "t", batch("b", 2), mode="append") == 2


def test_an_overwrite_with_another_schema_says_what_works(tmp_path: Path) -> None:
    spillway.delta.write(tmp_path / "t", batch("a", 1))
    for data in (pa.table({"name": ["x"]}), pa.table({"day": ["a"], "id": ["text"]})):
        advice = r'create\(\.\.\., mode="overwrite"\)'
        with pytest.raises(SchemaError, match=advice):
            spillway.delta.write(tmp_path / "t", data, mode="overwrite")
        with pytest.raises(SchemaError) as plain:
            spillway.delta.write(tmp_path / "t", data, mode="append")
        assert "overwrite" not in str(plain.value)
        copy = tmp_path / data.column_names[0]
        shutil.copytree(tmp_path / "t", copy)
        spillway.delta.create(copy, data.schema, mode="overwrite")
        spillway.delta.write(copy, data, mode="append")
        assert rows(read_deltalake(copy)) == rows(data)
    more = pa.table({"day": ["b"], "id": [2], "note": ["x"]})
    with pytest.raises(SchemaError, match=r'schema_mode="merge"'):
        spillway.delta.write(tmp_path / "t", more, mode="overwrite")
    spillway.delta.write(tmp_path / "t", more, mode="overwrite", schema_mode="merge")
    assert rows(read_deltalake(tmp_path / "t")) == rows(more)


def test_create_makes_the_folders_above(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "lake" / "raw" / "t", SCHEMA)
    append(table, batch("a", 1))
    assert ids(table) == [1]
    assert spillway.delta.write(tmp_path / "other" / "t", batch("a", 1)) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        spillway.delta.create(tmp_path / "file" / "t", SCHEMA)


def iter_of(table: pa.Table) -> pa.RecordBatchReader:
    """Rows that can be read once."""
    return table.to_reader()


def test_partitions_are_deleted_and_versions_restored(table: spillway.delta.Table) -> None:
    append(table, pa.concat_tables([batch("a", 1), batch("b", 2), batch(None, 3)]))
    assert table.delete_partition(day="a") == 2
    assert ids(table) == [2, 3]
    table.delete_partition(day=None)
    assert ids(table) == [2]
    assert table.truncate() == 4
    assert ids(table) == []
    assert table.restore(1) == 5
    assert ids(table) == [1, 2, 3]
    assert [commit.operation for commit in table.history()] == [
        "RESTORE",
        "TRUNCATE",
        "DELETE",
        "DELETE",
        "WRITE",
        "CREATE TABLE",
    ]
    with pytest.raises(VersionNotFoundError):
        table.restore(17)
    with pytest.raises(OptionError, match="day2"):
        table.delete_partition(day2="a")


def test_an_overwritten_table_gets_the_features_it_needs(tmp_path: Path) -> None:
    clock = pa.schema({"clock": pa.timestamp("us")})
    spillway.delta.create(tmp_path / "t", clock)
    properties = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path / "t", SCHEMA, mode="overwrite", properties=properties)
    (protocol,) = [line["protocol"] for line in version_lines(table, 1) if "protocol" in line]
    assert set(protocol["readerFeatures"]) == {"timestampNtz", "deletionVectors"}
    assert {"timestampNtz", "deletionVectors"} <= set(protocol["writerFeatures"])
    assert append(table, batch("a", 1)) == 2
    spillway.delta.create(tmp_path / "t", clock, mode="overwrite")
    assert not [line for line in version_lines(table, 3) if "protocol" in line]


def test_append_only_tables_only_grow(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, properties={"delta.appendOnly": "true"})
    append(table, batch("a", 1))
    with pytest.raises(AppendOnlyError, match="appendOnly"):
        table.truncate()
    with pytest.raises(AppendOnlyError):
        spillway.delta.write(tmp_path / "t", batch("a", 2), mode="overwrite")
    assert ids(table) == [1]


def test_the_caller_commits_its_own_transactions(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1))
    append(table, batch("a", 2))
    old = table.files()
    rewritten = spillway.delta.AddFile(
        path=old[0].path, size=old[0].size, partition_values={"day": "a"}, stats=dict(old[0].stats or {})
    )
    version = table.commit(
        removes=[old[1].path], read=spillway.delta.ReadSet(files=[old[1].path]), operation="OPTIMIZE"
    )
    assert version == 3
    assert len(table.files()) == 1
    assert table.history(1)[0].operation == "OPTIMIZE"
    with pytest.raises(OptionError, match="is not in version 3"):
        table.commit(removes=[old[1].path])
    with pytest.raises(OptionError, match="partition columns"):
        table.commit(adds=[spillway.delta.AddFile(path="x.parquet", size=1)])
    assert rewritten.partition_values == {"day": "a"}


def version_lines(table: spillway.delta.Table, version: int) -> list[Any]:
    text = (Path(table.path) / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_commit_is_held_against_the_version_that_was_read(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1))
    (old,) = table.files()
    other = spillway.delta.open(table.path)
    append(other, batch("a", 2))
    of_a = [("day", "=", "a")]
    with pytest.raises(ConcurrentAppend):
        table.commit(removes=[old.path], read=spillway.delta.ReadSet(where=of_a))
    assert table.version == 2
    with pytest.raises(ConcurrentAppend):
        table.commit(removes=[old.path], read=spillway.delta.ReadSet(version=1, where=of_a))
    with pytest.raises(VersionNotFoundError, match="versions 0 to 2"):
        table.commit(removes=[old.path], read=spillway.delta.ReadSet(version=9))
    assert table.commit(removes=[old.path], read=spillway.delta.ReadSet(where=of_a)) == 3
    (left,) = table.files()
    other.delete_partition(day="a")
    with pytest.raises(ConcurrentDeleteDelete):
        table.commit(removes=[left.path])
    assert table.version == 4


def test_a_commit_that_read_empty_texts_is_held_against_an_append_of_one(tmp_path: Path) -> None:
    data = pa.table({"text": [""]})
    table = spillway.delta.create(tmp_path / "table", data.schema)
    append(table, data)
    of_none = spillway.delta.ReadSet(version=1, where=[("text", "=", "")])
    append(spillway.delta.open(table.path), data)
    with pytest.raises(ConcurrentAppend):
        table.commit(removes=[table.files(1)[0].path], read=of_none)


def test_a_rewrite_changes_no_data(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1))
    (old,) = table.files()
    copied = Path(table.path) / "copied.parquet"
    copied.write_bytes((Path(table.path) / old.path).read_bytes())
    new = spillway.delta.AddFile(
        path=copied.name, size=old.size, partition_values={"day": "a"}, data_change=False
    )
    version = table.commit(adds=[new], removes=[old.path], operation="OPTIMIZE")
    changes = [next(iter(line.values())) for line in version_lines(table, version)][1:]
    assert [change["dataChange"] for change in changes] == [False, False]
    assert ids(table) == [1]


@pytest.mark.parametrize(
    ("kind", "odd", "value"),
    [
        (pa.float64(), "1,0", 1.0),
        (pa.int64(), "0x1", 1),
        (pa.date32(), "2026-13-01", "2026-11-20"),
        (pa.timestamp("us", "UTC"), "2026-13-01 00:00:00", "2026-11-20T00:00:00Z"),
    ],
    ids=["double", "long", "date", "timestamp"],
)
def test_nothing_is_removed_on_a_guess(tmp_path: Path, kind: pa.DataType, odd: str, value: Any) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"p": kind, "id": pa.int64()}), partition_by="p")
    for name in ("odd", "even"):
        (tmp_path / "t" / name).write_bytes(b"rows")
    with pytest.raises(OptionError, match=f'"{odd}" of "p", which does not parse as'):
        table.commit(adds=[spillway.delta.AddFile("odd", 4, partition_values={"p": odd})])
    table.commit(adds=[spillway.delta.AddFile("even", 4, partition_values={"p": str(value)})])
    add = {"path": "odd", "partitionValues": {"p": odd}, "size": 4, "modificationTime": 0, "dataChange": True}
    write_version(table, 2, [{"add": add}])
    with pytest.raises(OptionError, match=r"p=.*, which cannot be compared"):
        table.delete_partition(p=value)
    with pytest.raises(OptionError, match="cannot be compared"):
        table._append(replace=[("p", ">", value)]).commit()
    assert len(table.files()) == 2
    table.commit(removes=["odd"])
    table.delete_partition(p=value)
    assert table.files() == []


@pytest.mark.parametrize("files", [3, 40])
def test_a_version_is_restored_if_all_its_files_are_there(tmp_path: Path, files: int) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"p": pa.int64(), "id": pa.int64()}))
    for number in range(files):
        spillway.delta.write(tmp_path / "t", pa.table({"p": [number], "id": [number]}), mode="append")
    table.truncate()
    assert table.restore(files) == files + 2
    assert sorted(pa.table(table.scan())["id"].to_pylist()) == list(range(files))
    table.truncate()
    next((tmp_path / "t").glob("*.parquet")).unlink()
    with pytest.raises(VersionNotFoundError, match=r"its data file .* is gone"):
        table.restore(files)


def test_in_commit_timestamps_rise_after_a_checkpoint(tmp_path: Path) -> None:
    properties = {"delta.enableInCommitTimestamps": "true"}
    table = spillway.delta.create(tmp_path / "t", SCHEMA, properties=properties)
    append(table, batch("a", 1))
    newest = tmp_path / "t" / "_delta_log" / f"{1:020}.json"
    # By a clock that is ahead of this one.
    body = newest.read_text().splitlines()
    info = json.loads(body[0])
    info["commitInfo"]["inCommitTimestamp"] = 4_000_000_000_000
    newest.write_text("\n".join([json.dumps(info), *body[1:]]) + "\n")
    table.checkpoint()
    del table
    again = spillway.delta.open(tmp_path / "t")
    for number in (2, 3):
        append(again, batch("a", number))
    stamps = [version_lines(again, version)[0]["commitInfo"]["inCommitTimestamp"] for version in (1, 2, 3)]
    assert stamps == [4_000_000_000_000, 4_000_000_000_001, 4_000_000_000_002]
    plain = spillway.delta.create(tmp_path / "p", SCHEMA)
    assert plain.version == 0
    with pytest.raises(UnsupportedTableError, match="cannot be enabled on an existing table"):
        spillway.delta.create(tmp_path / "p", SCHEMA, mode="overwrite", properties=properties)


@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "dated"])
def test_in_commit_timestamps_rise_after_a_checkpoint_that_stands_alone(
    tmp_path: Path, *, is_noted: bool
) -> None:
    """The time is in the hint that names the checkpoint, or else that of its file."""
    properties = {"delta.enableInCommitTimestamps": "true"}
    table = spillway.delta.create(tmp_path / "t", SCHEMA, properties=properties)
    append(table, batch("a", 1))
    log, ahead = tmp_path / "t" / "_delta_log", 4_000_000_000_000
    newest = log / f"{1:020}.json"
    body = newest.read_text().splitlines()
    info = json.loads(body[0])
    info["commitInfo"]["inCommitTimestamp"] = ahead
    newest.write_text("\n".join([json.dumps(info), *body[1:]]) + "\n")
    del table
    table = spillway.delta.open(tmp_path / "t")
    table.checkpoint()
    if not is_noted:
        (log / "_last_checkpoint").unlink()
        os.utime(log / f"{1:020}.checkpoint.parquet", (ahead / 1000, ahead / 1000))
    for version in (0, 1):
        (log / f"{version:020}.json").unlink()
    del table
    again = spillway.delta.open(tmp_path / "t")
    append(again, batch("a", 2))
    assert version_lines(again, 2)[0]["commitInfo"]["inCommitTimestamp"] > ahead


def test_conflicts_have_deltas_names(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1))
    rewrite = table._append(replace=[])
    rewrite.write(batch("a", 9))
    winner = append(table, batch("b", 2))
    with pytest.raises(ConcurrentAppend, match=rf"version {winner} \(WRITE\)") as raised:
        rewrite.commit()
    assert (raised.value.version, raised.value.operation) == (winner, "WRITE")

    rewrite = table._append(replace=[("day", "=", "a")])
    rewrite.write(batch("a", 9))
    table.delete_partition(day="a")
    with pytest.raises((ConcurrentDeleteRead, ConcurrentDeleteDelete)):
        rewrite.commit()

    late = table.append()
    late.write(batch("a", 5))
    append(table, pa.table({"id": [2], "day": ["a"], "note": ["x"]}), schema_mode="merge")
    with pytest.raises(MetadataChanged):
        late.commit()
    assert ids(table) == [2, 2]


def test_an_append_passes_what_only_repeats_the_metadata(table: spillway.delta.Table) -> None:
    late = [table.append() for _ in range(2)]
    for number, one in enumerate(late):
        one.write(batch("a", number))
    # So does RESTORE of Spark.
    repeated = [line for line in version_lines(table, 0) if "commitInfo" not in line]
    write_version(table, 1, [{"commitInfo": {"operation": "RESTORE"}}, *repeated])
    assert late[0].commit() == 2
    assert spillway.delta.open(table.path).version == 2
    (changed,) = [line for line in repeated if "metaData" in line]
    changed["metaData"]["schemaString"] = changed["metaData"]["schemaString"].replace('"id"', '"other"')
    write_version(table, 3, [changed])
    with pytest.raises(MetadataChanged, match="version 3"):
        late[1].commit()


def write_version(table: spillway.delta.Table, version: int, lines: list[Any]) -> None:
    path = Path(table.path) / "_delta_log" / f"{version:020}.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_an_append_passes_a_deletion_of_other_days(table: spillway.delta.Table) -> None:
    append(table, batch("yesterday", 1))
    today = table.append()
    today.write(batch("today", 2))
    table.delete_partition(day="yesterday")
    assert today.commit() == 3
    assert ids(table) == [2]


def test_merging_appends_do_not_hinder_each_other(table: spillway.delta.Table) -> None:
    both = [table.append(schema_mode="merge") for _ in range(2)]
    for number, one in enumerate(both):
        one.write(pa.table({"day": ["a"], "id": [number], "note": ["x"]}))
    assert [one.commit() for one in both] == [1, 2]
    assert read_deltalake(table.path)["note"].to_pylist() == ["x", "x"]


def test_merging_moves_only_what_can_be_moved(table: spillway.delta.Table) -> None:
    def noted(kind: pa.DataType, **options: Any) -> spillway.delta.Append:
        data = pa.table({"day": ["a"], "id": [1], "note": pa.array([1], kind)})
        late = table._append(schema_mode="merge", **options)
        late.write(data)
        return late

    late = [
        noted(pa.int32()),
        noted(pa.int64(), app_transaction=("etl", 1)),
        noted(pa.int64(), replace=[]),
        noted(pa.int64()),
    ]
    winner = noted(pa.int64(), app_transaction=("etl", 1)).commit()
    for one in late[:3]:
        with pytest.raises(MetadataChanged, match=f"version {winner}"):
            one.commit()
    assert late[3].commit() == winner + 1
    assert read_deltalake(table.path)["note"].to_pylist() == [1, 1]


def test_history_tells_who_did_what(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1, 2), user_metadata="a note")
    (newest,) = table.history(1)
    assert newest.info["userMetadata"] == "a note"
    assert newest.info["operationMetrics"]["numOutputRows"] == "2"
    assert newest.info["isBlindAppend"] is True
    assert deltalake.DeltaTable(table.path).history(1)[0]["userMetadata"] == "a note"


def test_each_commit_is_logged_with_its_version_attempts_and_time(
    table: spillway.delta.Table, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "spillway.delta")
    append(table, batch("a", 1, 2))
    with table.append() as other:
        other.write(batch("a", 3))
        append(table, batch("b", 4))
    table.delete("id = 1")
    table.optimize()
    table.set_properties({"delta.appendOnly": "false"})
    told = [record for record in caplog.records if "committed" in record.msg]
    operations = ["append", "append", "append", "DELETE", "OPTIMIZE", "SET TBLPROPERTIES"]
    assert [record.args[:3] for record in told] == [
        (operation, table.path, version) for version, operation in enumerate(operations, 1)
    ]
    assert [record.levelname for record in told] == ["DEBUG"] * 3 + ["INFO"] * 3
    attempts, seconds = zip(*(record.args[3:] for record in told), strict=True)
    assert sum(attempts) == table.commit_stats().attempts >= len(operations)
    assert all(0 < each < 60 for each in seconds)


def test_a_table_travels_by_its_path(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1))
    assert pickle.loads(pickle.dumps(table)).version == 1  # noqa: S301 - our own


def test_a_version_is_not_hidden_by_what_comes_after(
    table: spillway.delta.Table, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        root = table.path

        def is_checkpoint_due(self, version: int) -> bool:
            message = f"{version}: no such device"
            raise OSError(message)

        def unpin(self) -> None:
            """Forget the version, as a table does that has committed."""

    append = table.append()
    append._table = Broken()  # type: ignore[assignment]
    append.write(batch("a", 1))
    assert append.commit() == 1
    assert "no such device" in caplog.text


class Slow:
    """A table whose checkpoint is being written until it is told to end."""

    root = "slow-table"

    def __init__(self) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

    def is_checkpoint_due(self, _version: int) -> bool:
        return True

    def checkpoint(self) -> int:
        self.begun.set()
        assert self.end.wait(120)
        return 1

    def clean_up_log(self) -> int:
        return 0


class Heard(logging.Handler):
    """An event for the first record of a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.first = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.first.set()


def test_a_long_wait_for_a_checkpoint_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "spillway.delta")
    monkeypatch.setattr(checkpoints, "_SILENT_SECONDS", 0.01)
    heard, slow = Heard(), Slow()
    logging.getLogger("spillway.delta").addHandler(heard)
    try:
        checkpoints._checkpoint_when_due(slow, 1)  # type: ignore[arg-type]
        waiting = threading.Thread(target=checkpoints._wait_for_checkpoints)
        waiting.start()
        assert heard.first.wait(120)
        assert waiting.is_alive()
        slow.end.set()
        waiting.join(120)
    finally:
        logging.getLogger("spillway.delta").removeHandler(heard)
    assert heard.texts[0] == "waiting for the checkpoint of slow-table, which is being written"
    assert not waiting.is_alive()


@pytest.mark.parametrize("is_started", [True, False], ids=["after", "before"])
def test_a_signal_at_the_start_of_a_checkpoint_hides_no_thread(
    monkeypatch: pytest.MonkeyPatch, *, is_started: bool
) -> None:
    """The handler raises where it may: before the thread is started, or after."""
    slow, start = Slow(), checkpoints._thread.start_new_thread

    def interrupted(run: Any, arguments: Any) -> None:
        if is_started:
            start(run, arguments)
            assert slow.begun.wait(120)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints._thread, "start_new_thread", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoints._checkpoint_when_due(slow, 1)  # type: ignore[arg-type]
    monkeypatch.undo()
    assert slow.begun.is_set() == is_started
    assert [*checkpoints._running.values()] == ["slow-table"] * is_started
    slow.end.set()
    checkpoints._wait_for_checkpoints()
    assert not checkpoints._running


@pytest.mark.parametrize(
    ("named", "made"), [({}, [1, 20]), ({"delta.checkpointInterval": "10"}, [1, 10, 20])]
)
def test_checkpoints_of_many_files_are_farther_apart_unless_the_table_names_an_interval(
    named: dict[str, str], made: list[int], tmp_path: Path
) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}), properties=named)
    names = [f"{name}.parquet" for name in range(2_500)]
    for name in names:
        (tmp_path / "t" / name).touch()
    table.commit(adds=[spillway.delta.AddFile(name, 0, stats={"numRecords": 0}) for name in names])
    assert table.checkpoint() == 1
    for number in range(20):
        with table.append() as append:
            append.write(pa.table({"id": [number]}))
        checkpoints._wait_for_checkpoints()
    files = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    assert sorted(int(path.name[:20]) for path in files) == made


def test_a_checkpoint_is_made_once(table: spillway.delta.Table) -> None:
    append(table, batch("a", 1))
    made = Path(table.path) / "_delta_log" / f"{1:020}.checkpoint.parquet"
    assert table.checkpoint() == 1
    before = made.stat()
    assert table.checkpoint() == 1
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_checkpoints_stand_for_the_log(tmp_path: Path, read: Callable[[Any], pa.Table]) -> None:
    properties = {"delta.checkpointInterval": "5"}
    table = spillway.delta.create(tmp_path / "t", SCHEMA, partition_by="day", properties=properties)
    for number in range(8):
        append(table, batch(["a", "b c", None, ""][number % 4], number), app_id="app", app_version=number)
    table.delete_partition(day="a")
    assert table.checkpoint() == 9
    log = tmp_path / "t" / "_delta_log"
    hint = json.loads((log / "_last_checkpoint").read_text())
    assert hint["version"] == 9
    for version in range(9):
        (log / f"{version:020}.json").unlink()
    again = spillway.delta.open(tmp_path / "t")
    assert (again.version, again.transaction_version("app"), again.properties) == (9, 7, properties)
    assert sorted(read(tmp_path / "t")["id"].to_pylist()) == [1, 2, 3, 5, 6, 7]
    append(again, batch("a", 10))
    assert sorted(read(tmp_path / "t")["id"].to_pylist()) == [1, 2, 3, 5, 6, 7, 10]


def test_tables_of_delta_rs_open_and_take_appends(tmp_path: Path) -> None:
    for number in range(12):
        deltalake.write_deltalake(tmp_path / "t", batch("a b", number), mode="append", partition_by=["day"])
    deltalake.DeltaTable(tmp_path / "t").create_checkpoint()
    deltalake.DeltaTable(tmp_path / "t").delete("id = 3")
    table = spillway.delta.open(tmp_path / "t")
    append(table, batch("c%d", 100))
    assert ids(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 100]
    table.delete_partition(day="a b")
    assert ids(table) == [100]
    deltalake.write_deltalake(tmp_path / "t", batch("d", 101), mode="append")
    assert append(table, batch("e", 102)) == table.version
    assert ids(table) == [100, 101, 102]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.field("n", pa.uint64()), "decimal"),
        (pa.field("n", pa.duration("us")), "int64"),
        (pa.field("n", pa.float16()), "float32"),
        (pa.field("n", pa.decimal256(50, 2)), "Decimal256"),
        (pa.field("a b", pa.int64()), "a b"),
    ],
    ids=["uint64", "duration", "float16", "decimal256", "name"],
)
def test_what_a_table_cannot_hold_is_refused_by_name(tmp_path: Path, column: pa.Field, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        spillway.delta.create(tmp_path / "t", pa.schema([column]))
    assert not (tmp_path / "t").exists()


def test_features_that_are_not_built_are_refused_by_name(tmp_path: Path) -> None:
    for name in (
        "delta.columnMapping.maxColumnId",
        "delta.feature.rowTracking",
        "delta.minWriterVersion",
        "DELTA.ROWTRACKINGSUSPENDED",
    ):
        with pytest.raises(UnsupportedTableError, match=name):
            spillway.delta.create(tmp_path / "t", SCHEMA, properties={name: "supported"})


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1.0])
def test_a_timeout_is_a_number_of_seconds(table: spillway.delta.Table, timeout: float) -> None:
    with pytest.raises(ValueError, match=r"timeout=.*give seconds"):
        append(table, batch("a", 1), timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        table.truncate(timeout=timeout)
    assert table.version == 0


def test_no_partitioning_is_none(tmp_path: Path) -> None:
    assert spillway.delta.create(tmp_path / "t", SCHEMA, partition_by=None).partition_columns == []
