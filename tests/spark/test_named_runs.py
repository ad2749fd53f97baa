"""Named runs of a folder: a repeated run completes what was decided, and a refused one changes nothing."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from spillway.errors import OptionError
from spillway.spark.folder_job import FolderJob
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.run import job_of
from spillway.spark.stream_jobs import FolderRun
from spillway.spark.write_job import Target

from .test_jobs import SCHEMA, begun, driven, hidden, ids, rows, spoil

if TYPE_CHECKING:
    from pathlib import Path

    from ..stores.server import Bucket

OVERWRITES: list[dict[str, Any]] = [
    {},
    {"partition_by": ("day",)},
    {"partition_by": ("day",), "where": "day = 'd1'"},
    {"partition_by": ("day",), "partition_overwrite": "dynamic"},
]


class KilledError(BaseException):
    """A driver dies."""


def killed(monkeypatch: pytest.MonkeyPatch, at: str, path: Path, *numbers: int, **options: Any) -> None:
    """Write rows by a driver that dies at a step of its commit."""

    def die(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(FolderRun if hasattr(FolderRun, at) else FolderJob, at, die)
        job = begun(path, run_id="monday", **options)
        with pytest.raises(KilledError):
            job.commit([job.write(rows(*numbers), 0, 0)])


@pytest.mark.parametrize("at", ["_publish", "_remove_old"])
@pytest.mark.parametrize("options", OVERWRITES)
def test_an_overwrite_that_is_completed_keeps_what_others_have_written_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, options: dict[str, Any]
) -> None:
    to, partition_by = tmp_path / "to", options.get("partition_by", ())
    before = begun(to, partition_by=partition_by)
    before.commit([before.write(rows(1), 0, 0)])
    killed(monkeypatch, at, to, 3, overwrite=True, **options)
    between = begun(to, partition_by=partition_by, run_id="tuesday")
    between.commit([between.write(rows(5, 6), 0, 0)])
    assert begun(to, run_id="monday", overwrite=True, **options).is_repeated()
    assert (ids(to), hidden(to), (to / "_SUCCESS").exists()) == ([3, 5, 6], [], True)


def test_an_overwrite_that_is_completed_replaces_what_its_first_run_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "to"
    before = begun(to, partition_by="day")
    before.commit([before.write(rows(1, 2), 0, 0)])
    killed(monkeypatch, "_remove_old", to, 3, overwrite=True, partition_by="day", where="day = 'd1'")
    # A file that an overwrite would refuse now.
    (to / "notes.txt").touch()
    target = Target.of(
        *(str(to), SCHEMA), table="parquet", overwrite=True, partition_by="day", run_id="monday", options={}
    )
    assert job_of(target).is_repeated()
    (to / "notes.txt").unlink()
    assert ids(to) == [2, 3]


def test_a_run_that_is_refused_leaves_the_mark_of_the_folder(tmp_path: Path) -> None:
    to = tmp_path / "to"
    before = begun(to, partition_by="day")
    before.commit([before.write(rows(1, 2), 0, 0)])
    outside = begun(to, partition_by="day", overwrite=True, where="day = 'd1'", run_id="monday")
    results = [outside.write(rows(3, 4), 0, 0)]
    with pytest.raises(OptionError, match="outside"):
        outside.commit(results)
    outside.abort()
    damaged = begun(to, partition_by="day", run_id="tuesday")
    results = [damaged.write(rows(5), 0, 0)]
    spoil(to, "torn")
    with pytest.raises(OSError, match="Nothing was published"):
        damaged.commit(results)
    damaged.abort()
    assert (ids(to), hidden(to), (to / "_SUCCESS").exists()) == ([1, 2], [], True)


@pytest.mark.parametrize("step", ["create_once", "sync_folders"])
def test_a_run_that_could_not_be_decided_leaves_its_folder_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "full")

    to = tmp_path / "to"
    before = begun(to)
    before.commit([before.write(rows(1, 2), 0, 0)])
    job = begun(to, run_id="monday")
    results = [job.write(rows(3), 0, 0)]
    with monkeypatch.context() as patch:
        patch.setattr(FolderStorage, step, full)
        with pytest.raises(OSError, match="full"):
            job.commit(results)
    job.abort()
    assert (ids(to), hidden(to), (to / "_SUCCESS").exists()) == ([1, 2], [], True)


def test_a_run_without_rows_is_complete_beside_files_of_others(tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    (to / "notes.txt").touch()
    job = begun(to, run_id="monday")
    job.commit([job.write(rows(), 0, 0)])
    assert (to / "_SUCCESS").exists()
    assert len(list(to.glob("part-*.parquet"))) == 1
    assert begun(to, run_id="monday").is_repeated()


def test_a_store_without_conditional_put_keeps_the_mark_of_its_folder(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> bool:
        raise OSError("no conditional PUT")

    store.put("to/_SUCCESS", b"")
    settings = {"storage_options": store.options(), "options": {}}
    target = Target.of(store.url("to"), SCHEMA, table="parquet", overwrite=False, run_id="monday", **settings)
    job = job_of(target)
    job.begin()
    results = [job.write(rows(1), 0, 0)]
    monkeypatch.setattr(FolderStorage, "create_once", refuse)
    with pytest.raises(OSError, match="conditional"):
        job.commit(results)
    job.abort()
    assert store.keys() == ["to/_SUCCESS"]


@pytest.mark.parametrize("at", ["_before_decision", "_publish"])
def test_a_run_that_must_be_the_first_is_repeated_after_its_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    to = tmp_path / "to"
    killed(monkeypatch, at, to, 3)
    target = Target.of(str(to), SCHEMA, table="parquet", overwrite=False, run_id="monday", options={})
    job = job_of(target)
    driven(job, lambda: [job.write(rows(3), 0, 0)], "error")
    assert (ids(to), hidden(to)) == ([3], [])
