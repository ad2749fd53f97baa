"""Old versions of the log go, and what is left of it is a whole table."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta
from spillway.delta.append import _wait_for_checkpoints
from spillway.errors import VersionNotFoundError

from .conftest import read_deltalake
from .logs import make_log, metadata_of, write_version

if TYPE_CHECKING:
    from collections.abc import Callable

DAYS = 86_400


def number(value: int) -> pa.Table:
    return pa.table({"id": [value]})


def grow(folder: Path, versions: int, **properties: str) -> spillway.delta.Table:
    """The table of another writer, who may set any property, that makes a checkpoint every five versions."""
    every_five = {"delta.checkpointInterval": "5", **properties}
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    field = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    table = make_log(folder, [protocol, metadata_of([field], **every_five)])
    for value in range(1, versions + 1):
        append(table, value)
    return table


def append(table: spillway.delta.Table, value: int) -> None:
    with table.append() as append:
        append.write(number(value))
    _wait_for_checkpoints()


def age(table: spillway.delta.Table, versions: range, days: float) -> None:
    """Make files of the log look as if they had been written so many days ago."""
    at = time.time() - days * DAYS
    for version in versions:
        for path in log_of(table).glob(f"{version:020}.*"):
            os.utime(path, (at, at))


def log_of(table: spillway.delta.Table) -> Path:
    return Path(table.path) / "_delta_log"


def kept(table: spillway.delta.Table) -> tuple[list[int], list[int]]:
    """The versions and the checkpoints that there are."""
    log = log_of(table)
    versions = sorted(int(path.stem) for path in log.glob("*.json"))
    checkpoints = sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
    return versions, checkpoints


def test_a_checkpoint_takes_old_versions_away(tmp_path: Path) -> None:
    table = grow(tmp_path / "t", 14)
    assert kept(table) == (list(range(15)), [5, 10])
    age(table, range(13), 40)
    append(table, 15)
    # Version 10 is the newest checkpoint that is old enough, and versions 11 to 14 need it.
    assert kept(table) == (list(range(10, 16)), [10, 15])
    assert sorted(read_deltalake(tmp_path / "t")["id"].to_pylist()) == list(range(1, 16))
    older = deltalake.DeltaTable(str(tmp_path / "t"), version=12).to_pyarrow_table()
    assert sorted(older["id"].to_pylist()) == list(range(1, 13))
    again = spillway.delta.open(tmp_path / "t")
    assert len(again.files(11)) == 11
    assert [commit.version for commit in again.history()] == list(range(15, 9, -1))
    with pytest.raises(VersionNotFoundError, match="cleaned up"):
        again.files(9)
    append(table, 16)
    deltalake.write_deltalake(tmp_path / "t", number(17), mode="append")
    assert sorted(read_deltalake(tmp_path / "t")["id"].to_pylist()) == list(range(1, 18))


@pytest.mark.parametrize(
    ("properties", "days", "goes"),
    [
        ({}, 32, True),
        ({}, 29, False),
        ({"delta.enableExpiredLogCleanup": "false"}, 400, False),
        ({"delta.logRetentionDuration": "interval 400 days"}, 399, False),
        ({"delta.logRetentionDuration": "interval 1 year"}, 4000, False),
        ({"delta.logRetentionDuration": "interval 1 week"}, 9, True),
        ({"delta.logRetentionDuration": "1 week 2 days 12 hours"}, 9, False),
        ({"delta.logRetentionDuration": "INTERVAL 1 week 2 days -1 days"}, 10, True),
        ({"delta.logRetentionDuration": "interval 0 days"}, 2, True),
        ({"delta.logRetentionDuration": "interval 0 days"}, 0.5 / 24, False),
    ],
)
def test_the_table_says_how_long_versions_are_kept(
    tmp_path: Path, properties: dict[str, str], days: float, *, goes: bool
) -> None:
    table = grow(tmp_path / "t", 9, **properties)
    age(table, range(10), days)
    append(table, 10)
    assert (kept(table)[0][0] == 5) is goes


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "whole": lambda body: body,
    "cut": lambda body: body[: len(body) // 2],
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_stands_for_no_version(tmp_path: Path, damage: str) -> None:
    table = grow(tmp_path / "t", 9)
    checkpoint = log_of(table) / f"{5:020}.checkpoint.parquet"
    checkpoint.write_bytes(DAMAGES[damage](checkpoint.read_bytes()))
    age(table, range(10), 40)
    append(table, 10)
    first = 5 if damage == "whole" else 0
    assert kept(table)[0] == list(range(first, 11))
    assert sorted(read_deltalake(tmp_path / "t")["id"].to_pylist()) == list(range(1, 11))


@pytest.mark.parametrize("damage", DAMAGES)
def test_clean_up_goes_by_an_older_checkpoint_than_a_damaged_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    table = grow(tmp_path / "t", 14)
    checkpoint = log_of(table) / f"{10:020}.checkpoint.parquet"
    checkpoint.write_bytes(DAMAGES[damage](checkpoint.read_bytes()))
    age(table, range(15), 40)
    append(table, 15)
    first = 10 if damage == "whole" else 5
    assert kept(table)[0] == list(range(first, 16))
    assert "Traceback" not in caplog.text
    assert sorted(read_deltalake(tmp_path / "t")["id"].to_pylist()) == list(range(1, 16))


def test_checksums_and_compacted_versions_go_with_what_they_are_of(tmp_path: Path) -> None:
    table = grow(tmp_path / "t", 14)
    log = log_of(table)
    checksums = [f"{version:020}.crc" for version in range(15)]
    compacted = {
        f"{first:020}.{last:020}.compacted.json": first
        for first, last in [(0, 4), (3, 12), (10, 12), (11, 13), (12, 14)]
    }
    for name in [*checksums, *compacted]:
        (log / name).write_text("{}")
    strange = ["5.crc", f"{4:020}.CRC", f"{4:020}.compacted.json", f"{1:020}.2.compacted.json", "notes.txt"]
    for name in strange:
        (log / name).write_text("mine")
    age(table, range(13), 40)
    append(table, 15)
    assert sorted(path.name[:20] for path in log.glob("*.checkpoint.parquet")) == [f"{10:020}", f"{15:020}"]
    assert sorted(path.name for path in log.glob("*.crc")) == sorted([*checksums[10:], "5.crc"])
    left = {path.name for path in log.glob("*.compacted.json")}
    assert left == {name for name, first in compacted.items() if first > 10} | set(strange[2:4])
    assert all((log / name).exists() for name in strange)


RETENTION = "delta.setTransactionRetentionDuration"


@pytest.mark.parametrize(
    ("retention", "gone"),
    [
        (None, set()),
        ("interval 2 days 12 hours", {"old"}),
        ("interval 30 minutes", {"old", "hour"}),
        ("interval 100 weeks", set()),
        ("a while", set()),
    ],
)
def test_a_checkpoint_drops_progress_that_is_past_its_retention(
    tmp_path: Path, retention: str | None, gone: set[str]
) -> None:
    table = grow(tmp_path / "t", 3, **({} if retention is None else {RETENTION: retention}))
    now = int(time.time() * 1000)
    times = {"old": now - 3 * DAYS * 1000, "hour": now - 3_600_000, "later": now + DAYS * 1000, "none": None}
    lines = [{"txn": {"appId": app, "version": 1, "lastUpdated": at}} for app, at in times.items()]
    write_version(table, 4, lines)
    append(table, 5)
    with table.append(app_id="own", app_version=3) as own:
        own.write(number(6))
    (log_of(table) / f"{5:020}.checkpoint.parquet").unlink(missing_ok=True)
    version = table.checkpoint()
    entries = pq.read_table(log_of(table) / f"{version:020}.checkpoint.parquet")["txn"].to_pylist()
    assert {entry["appId"] for entry in entries if entry} == {*times, "own"} - gone
    moved = spillway.delta.open((tmp_path / "t").rename(tmp_path / "u"))
    assert {app for app in times if moved.transaction_version(app) is None} == gone


def test_a_clock_that_was_set_back_deletes_nothing_that_is_young(tmp_path: Path) -> None:
    table = grow(tmp_path / "t", 14)
    age(table, range(3), 40)
    age(table, range(4, 15), 4000)
    append(table, 15)
    assert kept(table)[0] == list(range(16))


def test_without_a_checkpoint_nothing_goes(tmp_path: Path) -> None:
    table = grow(tmp_path / "t", 4)
    age(table, range(5), 40)
    append(table, 5)
    assert kept(table) == (list(range(6)), [5])
