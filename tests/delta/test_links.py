"""Nothing outside of a table's folder changes, whatever in it is a symbolic link."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import spillway
import spillway.delta
from spillway.delta import AddFile
from spillway.errors import DeltaError, SpillwayError

from .test_deletes import NUMBERS, ids, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86_400
MARKS = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
FOLDERS = [
    "_delta_log",
    "_spillway",
    "_spillway/intents",
    "_spillway/staging",
    "_change_data",
    "part=a",
    "part=b",
]
OLD = ["thesis.docx", "old.parquet", "sub/deep.parquet", ".tmpfile", "0.json"]


def append(table: spillway.delta.Table) -> None:
    for part in "ab":
        with table.append() as rows:
            rows.write(numbers(10, part, 500))


def append_to_both(table: spillway.delta.Table) -> None:
    with table.append(memory_limit=1 << 20) as rows:
        for part in "ab":
            rows.write(numbers(20_000, part, 500))


def commit(table: spillway.delta.Table) -> None:
    old = table.files()[0]
    copy = Path(table.path, "copy.parquet")
    shutil.copy(Path(table.path, old.path), copy)
    added = AddFile(
        copy.name,
        copy.stat().st_size,
        partition_values=old.partition_values,
        stats=old.stats,
        data_change=False,
    )
    table.commit(adds=[added], removes=[old.path], operation="OPTIMIZE")


def abort(table: spillway.delta.Table) -> None:
    rows = table.append()
    rows.write(numbers(10, "a", 500))
    rows.abort()


OPERATIONS: dict[str, Callable[[spillway.delta.Table], object]] = {
    "append": append,
    "append of two partitions": append_to_both,
    "aborted append": abort,
    "delete of rows": lambda table: table.delete("id = 3"),
    "delete of many rows": lambda table: table.delete("id < 9"),
    "delete of files": lambda table: table.delete("id >= 0"),
    "delete_partition": lambda table: table.delete_partition(part="a"),
    "update": lambda table: table.update("id = 3", {"id": 1000}),
    "optimize": lambda table: table.optimize(),
    "purge": lambda table: table.purge(),
    "vacuum": lambda table: table.vacuum(retention=timedelta(0), dry_run=False, enforce_retention=False),
    "truncate": lambda table: table.truncate(),
    "restore": lambda table: table.restore(table.version - 1),
    "overwrite": lambda table: spillway.delta.write(table.path, numbers(3, "b"), mode="overwrite"),
    "checkpoint": lambda table: table.checkpoint(),
    "properties": lambda table: table.set_properties({"a.b": "c"}),
    "commit": commit,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with each inner folder, whose log and files are old enough to be cleaned up."""
    folder = tmp_path_factory.mktemp("links") / "t"
    # A checkpoint that is written in the background cleans up the old log while it is copied.
    properties = {**MARKS, "delta.checkpointInterval": "1000"}
    table = spillway.delta.create(folder, NUMBERS, partition_by="part", properties=properties)
    for part in "ab":
        for first in (0, 100, 200):
            with table.append() as rows:
                rows.write(numbers(20, part, first))
    table.delete("id = 7")
    table.update("id = 8", {"id": 2000})
    table.delete("id >= 200 AND part = 'a'")
    table.checkpoint()
    append(table)
    for name in ("_spillway/intents", "_spillway/staging"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    assert all((folder / name).is_dir() for name in FOLDERS)
    make_old(folder)
    return folder


def make_old(folder: Path) -> None:
    then = time.time() - 90 * DAY
    for file in folder.rglob("*"):
        if file.is_file():
            os.utime(file, (then, then))


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that there is below a folder, and all that a change of it would change."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in [folder, *folder.rglob("*")]:
        found = path.lstat()
        content = (
            hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else sorted(entry.name for entry in path.iterdir())
        )
        seen[str(path)] = (found.st_ino, found.st_mode, found.st_mtime_ns, content)
    return seen


def linked(template: Path, work: Path, name: str) -> tuple[Path, Path]:
    """A copy of the table with one folder moved to that of somebody else, who has old files there."""
    table, victim = work / "t", work / "victim"
    shutil.copytree(template, table, symlinks=True)
    shutil.move(table / name, victim)
    (table / name).symlink_to(victim)
    for file in OLD:
        path = victim / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    make_old(victim)
    return table, victim


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_changes_in_a_folder_that_is_linked(
    template: Path, tmp_path: Path, name: str, operation: str
) -> None:
    path, victim = linked(template, tmp_path, name)
    before = state(victim)
    try:
        OPERATIONS[operation](spillway.delta.open(path))
    except (SpillwayError, OSError) as error:
        assert f"{name} is a symbolic link" in str(error)  # noqa: PT017 - it may succeed, too
    assert state(victim) == before
    # Whoever reads follows the link, as before.
    assert isinstance(ids(spillway.delta.open(path)), list)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_itself_may_be_linked(template: Path, tmp_path: Path, operation: str) -> None:
    real = tmp_path / "real"
    shutil.copytree(template, real, symlinks=True)
    (tmp_path / "t").symlink_to(real)
    OPERATIONS[operation](spillway.delta.open(tmp_path / "t"))
    assert isinstance(ids(spillway.delta.open(real)), list)


def test_an_append_works_where_the_staging_folder_is_linked(template: Path, tmp_path: Path) -> None:
    path, victim = linked(template, tmp_path, "_spillway/staging")
    count = len(ids(spillway.delta.open(path)))
    append(spillway.delta.open(path))
    assert len(ids(spillway.delta.open(path))) == count + 20
    assert sorted(entry.name for entry in (path / "_spillway").iterdir()) == ["intents", "staging"]
    assert (victim / "thesis.docx").read_text() == "precious"


@pytest.mark.parametrize("name", ["_delta_log", "part=a"])
def test_an_append_through_a_link_is_refused_and_adds_nothing(
    template: Path, tmp_path: Path, name: str
) -> None:
    path, _ = linked(template, tmp_path, name)
    before = spillway.delta.open(path).version
    with pytest.raises((OSError, DeltaError), match=f"{name} is a symbolic link"):
        append(spillway.delta.open(path))
    assert spillway.delta.open(path).version == before


@pytest.mark.parametrize("name", ["_last_checkpoint", f"{13:020}.checkpoint.parquet"])
def test_a_checkpoint_is_not_written_through_a_linked_file(template: Path, tmp_path: Path, name: str) -> None:
    path, target = tmp_path / "t", tmp_path / "thesis.docx"
    shutil.copytree(template, path)
    target.write_text("precious")
    (path / "_delta_log" / name).unlink(missing_ok=True)
    table = spillway.delta.open(path)
    append(table)
    (path / "_delta_log" / name).symlink_to(target)
    version = table.checkpoint()
    assert version == 13
    assert target.read_text() == "precious"


def test_files_of_others_beside_unfinished_ones_stay(template: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(template, path)
    staging = path / "_spillway/staging"
    for name in (*OLD, ".tmpaB3dE6", f".spillway-{0:032}.tmp"):
        (staging / name).parent.mkdir(exist_ok=True)
        (staging / name).write_text("precious")
    make_old(staging)
    append(spillway.delta.open(path))
    left = sorted(str(file.relative_to(staging)) for file in staging.rglob("*") if file.is_file())
    assert left == sorted(OLD)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("name", ["part=a", "part=b"])
def test_a_dataset_is_not_written_through_a_link(tmp_path: Path, mode: str, name: str) -> None:
    rows = pa.concat_tables([numbers(10, "a"), numbers(10, "b", 100)])
    root, victim = tmp_path / "d", tmp_path / "victim"
    spillway.write_dataset(rows, root, partition_by=["part"])
    shutil.move(root / name, victim)
    (root / name).symlink_to(victim)
    (victim / "thesis.docx").write_text("precious")
    make_old(victim)
    before, own = state(victim), state(root)
    with pytest.raises(OSError, match=f"{name} is a symbolic link"):
        spillway.write_dataset(rows, root, partition_by=["part"], mode=mode)  # type: ignore[arg-type]
    assert state(victim) == before
    assert {path: seen[3] for path, seen in state(root).items()} == {
        path: seen[3] for path, seen in own.items()
    }


def test_a_dataset_may_be_linked_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "d").symlink_to(tmp_path / "real")
    for mode in ("append", "overwrite"):
        spillway.write_dataset(
            numbers(10),
            tmp_path / "d",
            partition_by=["part"],
            mode=mode,  # type: ignore[arg-type]
        )
    assert ds.dataset(tmp_path / "real").count_rows() == 10
