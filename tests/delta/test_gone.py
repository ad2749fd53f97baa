"""A table that is deleted, moved or replaced under those who append to it stays what it was made."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING

import deltalake
import pytest

import spillway.delta
from spillway.errors import CommitUnknown, CorruptLogError, TableNotFoundError, VersionNotFoundError

from .programs import SCHEMA, batch
from .test_many import appended, check_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUNDS = 12
THREADS = 8
# What an append may hear while the table goes: files go one by one, and a version that came may go with it.
MEANWHILE = (TableNotFoundError, FileNotFoundError, VersionNotFoundError, CorruptLogError, CommitUnknown)
ENDS_WITHIN_SECONDS = 60


class Appender(threading.Thread):
    """A thread that appends until there is no table any more."""

    def __init__(self, table: spillway.delta.Table, name: str) -> None:
        super().__init__(daemon=True)
        self.table = table
        self.writer = name
        self.said: list[tuple[str, int]] = []
        self.errors: list[Exception] = []

    def run(self) -> None:
        deadline, number = time.monotonic() + ENDS_WITHIN_SECONDS, 0
        while time.monotonic() < deadline:
            try:
                with self.table.append() as append:
                    append.write(batch(self.writer, number))
            except TableNotFoundError as error:
                self.errors.append(error)
                return
            except Exception as error:  # noqa: BLE001 - all of them are looked at
                self.errors.append(error)
            else:
                self.said.append((self.writer, number))
            number += 1


def delete(folder: Path) -> None:
    # A file that comes meanwhile is in the way of the folder's end.
    deadline = time.monotonic() + ENDS_WITHIN_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("way", ["deleted", "moved"])
def test_a_table_that_goes_away_under_its_appenders_does_not_come_back(tmp_path: Path, way: str) -> None:
    for number in range(ROUNDS):
        folder, elsewhere = tmp_path / f"{number}", tmp_path / f"{number}-elsewhere"
        table = spillway.delta.create(folder, SCHEMA, partition_by="writer" if number % 2 else ())
        appenders = [Appender(table, f"w{name}") for name in range(THREADS)]
        for appender in appenders:
            appender.start()
        while table.version < 5:
            time.sleep(0.005)
        if way == "deleted":
            delete(folder)
        else:
            folder.rename(elsewhere)
        for appender in appenders:
            appender.join(ENDS_WITHIN_SECONDS)
            assert isinstance(appender.errors[-1], TableNotFoundError), appender.errors[-1:]
            assert all(isinstance(error, MEANWHILE) for error in appender.errors), appender.errors
        assert not folder.exists(), sorted(folder.rglob("*"))
        if way == "moved":
            check_log(elsewhere)
            said = {append for appender in appenders for append in appender.said}
            assert said <= set(appended(elsewhere))
        anew = spillway.delta.create(folder, SCHEMA)
        with anew.append() as append:
            append.write(batch("anew", 0))
        assert append.version == 1


def roll_back(folder: Path, original: Path) -> None:
    """Leave of a table what a copy of it has, in the files that it has: ``rsync --delete`` does so."""
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        if not (original / file.relative_to(folder)).exists():
            file.unlink()


def copy_over(folder: Path, original: Path) -> None:
    """Put a copy into the files of a table, with its times: they look like what was there."""
    roll_back(folder, original)
    shutil.copytree(original, folder, dirs_exist_ok=True)


def copy_anew(folder: Path, original: Path) -> None:
    """Put a copy in the place of a table. File systems may give it the inodes of what was there."""
    shutil.rmtree(folder)
    shutil.copytree(original, folder)


@pytest.mark.parametrize("put_back", [roll_back, copy_over, copy_anew])
def test_an_old_copy_in_the_place_of_a_table_gets_no_gap(
    tmp_path: Path, put_back: Callable[[Path, Path], None]
) -> None:
    folder, original = tmp_path / "table", tmp_path / "original"
    spillway.delta.create(folder, SCHEMA)
    shutil.copytree(folder, original)
    table = spillway.delta.open(folder)
    for count in range(3):
        with table.append() as append:
            append.write(batch("before", count))
    late = table.append()
    late.write(batch("late", 0))
    put_back(folder, original)
    with pytest.raises(TableNotFoundError, match="open it again"):
        late.commit()
    check_log(folder)
    with spillway.delta.open(folder).append() as append:
        append.write(batch("after", 0))
    check_log(folder)
    assert append.version == deltalake.DeltaTable(folder).version() == 1
    assert appended(folder) == [("after", 0)]
