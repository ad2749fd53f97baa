"""A vacuum removes what no version within the retention needs, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta
from spillway.delta import Vacuum
from spillway.errors import OptionError, UnsupportedTableError

from ..faults.injection import environment, noted, rule
from .logs import line_of, set_as_another, write_version
from .test_cleanup import age as age_log
from .test_cleanup import grow
from .test_deletes import ids, made
from .test_optimize import small, vacuum

MONTH = 30 * 86_400


def put(root: Path, name: str, content: bytes = b"stray") -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def age(root: Path) -> None:
    """Makes all files but those of logs a month old."""
    then = time.time() - MONTH
    for file in root.rglob("*"):
        if file.is_file() and "_delta_log" not in file.parts:
            os.utime(file, (then, then))


STRANGE = ["stray.parquet", "part=a b/100% ü.parquet", "part=%41/日本.parquet", "deletion_vector_x.bin"]


def test_stray_files_are_found_once_they_are_old(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    for name in STRANGE:
        put(tmp_path / "t", name)
    # Who wrote them may be about to commit.
    assert table.vacuum() == Vacuum([], 0, 0)
    age(tmp_path / "t")
    found = Vacuum(sorted(STRANGE), 5 * len(STRANGE), 0)
    assert table.vacuum() == found
    assert all((tmp_path / "t" / name).exists() for name in STRANGE)
    assert table.vacuum(dry_run=False).removed == len(STRANGE)
    assert not any((tmp_path / "t" / name).exists() for name in STRANGE)
    assert table.vacuum(dry_run=False) == Vacuum([], 0, 0)
    assert sorted(ids(table)) == list(range(500))


def test_files_that_left_the_table_are_kept_for_the_retention(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    before = table.version
    table.delete([("id", "<", 40)])
    table.optimize()
    age(tmp_path / "t")
    assert table.vacuum() == Vacuum([], 0, 0)
    assert len(pa.table(table.scan(version=before))) == 500
    assert len(vacuum(table).files) == 5
    with pytest.raises(Exception, match=r"\.parquet"):
        pa.table(table.scan(version=before))
    assert sorted(ids(table)) == list(range(40, 500))


def test_vectors_stay_with_the_versions_that_need_them(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 5000)
    for first in (0, 1):
        table.delete([("id", "in", list(range(first, 2000, 4)))])
    assert len(list((tmp_path / "t").glob("*.bin"))) == 2
    assert table.vacuum(retention=timedelta(days=8)) == Vacuum([], 0, 0)
    assert len(vacuum(table).files) == 1
    assert len(ids(table)) == 4000
    table.purge()
    assert len(vacuum(table).files) == 2
    assert len(ids(table)) == 4000


def test_a_retention_may_be_longer_than_checkpoints_remember(tmp_path: Path) -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    table = small(tmp_path / "t", properties=properties)
    table.optimize()
    table.checkpoint()
    files = [file for file in (tmp_path / "t").rglob("*.parquet") if "_delta_log" not in file.parts]
    for file in files:
        os.utime(file, (0, 0))
    del table
    table = spillway.delta.open(tmp_path / "t")
    assert table.vacuum(retention=timedelta(days=1)) == Vacuum([], 0, 0)
    assert len(table.vacuum().files) == 5


RETENTION = "delta.deletedFileRetentionDuration"


def test_a_retention_that_became_longer_holds_for_files_that_left_before(tmp_path: Path) -> None:
    table = small(tmp_path / "t", properties={RETENTION: "interval 0 seconds"})
    table.optimize()
    # Its checkpoint forgets the removals.
    table.checkpoint()
    longer = deltalake.DeltaTable(tmp_path / "t")
    longer.alter.set_table_properties({RETENTION: "interval 30 days"})
    age(tmp_path / "t")
    for file in (tmp_path / "t" / "part=a").iterdir():
        os.utime(file, (0, 0))
    assert spillway.delta.open(tmp_path / "t").vacuum(dry_run=False) == Vacuum([], 0, 0)


def test_the_clock_of_who_removed_a_file_does_not_count(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    version = table.optimize().version
    entry = tmp_path / "t" / "_delta_log" / f"{version:020}.json"
    entry.write_text(re.sub(r'"deletionTimestamp":\d+', '"deletionTimestamp":1', entry.read_text()))
    age(tmp_path / "t")
    assert spillway.delta.open(tmp_path / "t").vacuum(dry_run=False) == Vacuum([], 0, 0)


@pytest.mark.parametrize("text", ["a while", "interval -1 days"])
def test_a_checkpoint_keeps_removals_for_as_long_as_nobody_knows(tmp_path: Path, text: str) -> None:
    table = small(tmp_path / "t")
    set_as_another(table, {RETENTION: text})
    table.optimize()
    with pytest.raises(UnsupportedTableError, match=text):
        table.vacuum(dry_run=False)
    table.checkpoint()
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    removes = [each for each in pq.read_table(checkpoint)["remove"].to_pylist() if each is not None]
    assert len(removes) == 5


def test_a_retention_that_is_too_short_is_said_so(tmp_path: Path) -> None:
    table = small(tmp_path / "t", "a")
    with pytest.raises(OptionError, match=r"24\.0 hours is not accepted: .* for 168\.0 hours") as raised:
        table.vacuum(retention=timedelta(days=1))
    assert raised.value.option == "retention"
    with pytest.raises(OptionError, match="is negative"):
        table.vacuum(retention=timedelta(days=-1), enforce_retention=False)
    long = small(tmp_path / "long", "a", {"delta.deletedFileRetentionDuration": "interval 2 weeks"})
    with pytest.raises(OptionError, match=r"336\.0 hours"):
        long.vacuum(retention=timedelta(days=8))
    odd = small(tmp_path / "odd", "a")
    set_as_another(odd, {RETENTION: "a while"})
    with pytest.raises(UnsupportedTableError, match="a while"):
        odd.vacuum(dry_run=False)


def test_what_is_no_data_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = small(root)
    hidden = ["_staging/x.parquet", ".x.parquet.crc", "_staging/_change_data/x.parquet"]
    hidden += ["_change_data/.x.parquet.crc", "part=a/_change_data/x.parquet", "part=a/.tmp/x.parquet"]
    for name in hidden:
        put(root, name)
    put(tmp_path / "elsewhere", "x.parquet")
    (root / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    inner = made(root / "inner", 10)
    age(root)
    assert vacuum(table).files == []
    assert all((root / name).exists() for name in hidden)
    assert (root / "link" / "x.parquet").exists()
    assert len(ids(inner)) == 10


def announce(table: spillway.delta.Table, *adds: dict[str, Any]) -> Path:
    """The announcement of another process, that it commits these files."""
    header = {"format": 1, "tableId": table.id, "changedIn": 0, "first": 9, "members": 1}
    actions = [{"add": add} for add in adds]
    member = {"id": uuid4().hex, "readVersion": table.version, "readAppIds": [], "actions": actions}
    name = f"_spillway/intents/{9:020}-{uuid4().hex}-0.json"
    return put(Path(table.path), name, f"{json.dumps(header)}\n{json.dumps(member)}\n".encode())


def test_a_file_that_a_pending_commit_names_stays(tmp_path: Path) -> None:
    table = small(tmp_path / "t")
    put(tmp_path / "t", "part=a/pending 1.parquet")
    put(tmp_path / "t", "part=a/stray.parquet")
    path = "part=a/pending%201.parquet"
    add = {"path": path, "partitionValues": {"part": "a"}, "size": 5}
    announce(table, add | {"modificationTime": 0, "dataChange": True})
    age(tmp_path / "t")
    assert table.vacuum().files == ["part=a/stray.parquet"]


def test_a_file_that_no_version_names_yet_stays_for_a_day(tmp_path: Path) -> None:
    """A transaction of another process has written it, and commits after the vacuum."""
    table = small(tmp_path / "t")
    table.delete([("id", "<", 40)])
    table.optimize()
    pq.write_table(pa.table({"id": [1000]}), tmp_path / "t" / "part=a" / "new.parquet")
    size = (tmp_path / "t" / "part=a" / "new.parquet").stat().st_size
    other = spillway.delta.open(tmp_path / "t")
    # What left the table goes at once.
    assert len(vacuum(other).files) == 5
    add = spillway.delta.AddFile("part=a/new.parquet", size, partition_values={"part": "a"})
    table.commit(adds=[add])
    other.refresh()
    assert sorted(ids(other)) == [*range(40, 500), 1000]
    then = time.time() - 86_400 - 60
    for name, age in (("young", 60), ("old", 0)):
        put(tmp_path / "t", f"{name}.parquet")
        os.utime(tmp_path / "t" / f"{name}.parquet", (then + 2 * age, then + 2 * age))
    assert vacuum(other).files == ["old.parquet"]


def test_vectors_that_no_version_names_any_more_go_at_once(tmp_path: Path) -> None:
    """Their data file is still in the table, and was never anything else."""
    table = made(tmp_path / "t", 5000)
    for first in (0, 1):
        table.delete([("id", "in", list(range(first, 2000, 4)))])
    table.checkpoint()
    assert len(vacuum(spillway.delta.open(tmp_path / "t")).files) == 1
    assert len(ids(table)) == 4000


def test_a_file_outside_of_the_folder_stops_it(tmp_path: Path) -> None:
    table = small(tmp_path / "t", "a")
    add = line_of(table, "add", 1)
    write_version(table, 2, [{"add": add | {"path": "file:///elsewhere/part.parquet"}}])
    put(tmp_path / "t", "stray.parquet")
    age(tmp_path / "t")
    with pytest.raises(UnsupportedTableError, match="absolute"):
        spillway.delta.open(tmp_path / "t").vacuum(dry_run=False)
    assert (tmp_path / "t" / "stray.parquet").exists()


UPKEEP = """
import json, sys
import spillway.delta
table = spillway.delta.open(sys.argv[1])
vacuum = table.vacuum(dry_run=False)
print(json.dumps([vacuum.files, vacuum.removed, table._native.clean_up_log()]))
"""


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_no_obstacle(tmp_path: Path, injection: Path, failure: int) -> None:
    folder, log = tmp_path / "t", tmp_path / "calls"
    table = grow(folder, 6)
    put(folder, "stray.parquet")
    age(folder)
    age_log(table, range(7), 40)
    rules = [rule("write", "*", nth="1+", number=failure)]
    done = subprocess.run(
        [sys.executable, "-c", UPKEEP, str(folder)],
        env=environment(injection, rules, log, folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["stray.parquet"], 1, 5]
    assert any(call.how == "before" for call in noted(log)), "nothing failed"
    assert not list((folder / "_delta_log").glob(".spillway-*"))
    assert sorted(ids(spillway.delta.open(folder))) == list(range(1, 7))


READ_ONLY = """
import os, sys
import spillway.delta
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
table = spillway.delta.open(sys.argv[1])
print(table.vacuum().files)
try:
    table.vacuum(dry_run=False)
except PermissionError:
    print("refused")
"""


def test_a_dry_run_works_without_write_permission(open_to_all: Path) -> None:
    folder = open_to_all / "table"
    table = grow(folder, 1)
    stray = put(folder, "stray.parquet")
    age(folder)
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "['stray.parquet']\nrefused\n", done.stderr
    assert stray.exists()
    assert table.version == 1
