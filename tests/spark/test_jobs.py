"""Jobs without Spark: attempts that do not count leave nothing, whatever becomes of them."""

from __future__ import annotations

import errno
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.datasource import WriterCommitMessage

import spillway.delta
from spillway.errors import (
    CommitUnknown,
    OptionError,
    SchemaError,
    SpillwayError,
    UnknownOptionError,
    UnsupportedTableError,
)
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.run import _of_another_python, driver_of, job_of, run
from spillway.spark.source import SpillwayWriter, TaskMessage, parsed
from spillway.spark.write_job import Job, SparkWriteResult, Target, TaskResult
from spillway.types import WriteMode, WriterKeywords

from ..delta.logs import make_log, metadata_of, needs
from ..stores.server import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spillway.spark.folder_job import Staged

    from ..stores.server import Bucket, Request

SCHEMA = pa.schema({"day": pa.string(), "id": pa.int64()})
KINDS = ("parquet", "delta")


def rows(*ids: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"day": [f"d{number % 2}"], "id": [number]}, schema=SCHEMA) for number in ids]


def begun(path: str | Path, **options: Any) -> Job:
    """A job as tasks have it: pickled."""
    options = {"table": "parquet", "overwrite": False, "options": {}} | options
    job = job_of(Target.of(str(path), SCHEMA, **options))
    job.begin()
    copy: Job = pickle.loads(pickle.dumps(job))  # noqa: S301 - its own
    return copy


def ids(path: Path) -> list[int]:
    if (path / "_delta_log").exists():
        files = [path / file.path for file in spillway.delta.open(path).files()]
        found = [pa.table({"id": ds.dataset(file).to_table()["id"]}) for file in files]
        return sorted(pa.concat_tables(found)["id"].to_pylist()) if found else []
    found = ds.dataset(path, partitioning="hive")
    return sorted(found.to_table()["id"].to_pylist()) if found.files else []


def data_files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}


def test_a_folder_in_which_a_store_was_probed_counts_as_empty(tmp_path: Path) -> None:
    # By a table's probe, and by a stream's.
    for name in ("_spillway", "_spillway_sink"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "checked").touch()
    job = job_of(Target.of(str(tmp_path), SCHEMA, table="parquet", overwrite=False, options={}))
    assert not job.exists()
    (tmp_path / "file").touch()
    assert job.exists()


def hidden(path: Path) -> list[str]:
    return [
        str(file) for file in path.rglob("*") if {"_spillway_jobs", "_committing", "_job"} & set(file.parts)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_attempts_that_do_not_count_leave_nothing(
    tmp_path: Path, kind: str, partition_by: tuple[str, ...]
) -> None:
    job = begun(tmp_path / "to", table=kind, partition_by=partition_by)
    job.write(rows(1, 2), 0, 10)
    speculative = [job.write(rows(1, 2), 0, 11), job.write(rows(3, 4), 1, 12)]
    done = job.commit(speculative)
    assert (done.rows, done.files) == (4, len(data_files(tmp_path / "to")))
    assert ids(tmp_path / "to") == [1, 2, 3, 4]
    assert hidden(tmp_path / "to") == []
    assert done.bytes == sum((tmp_path / "to" / name).stat().st_size for name in data_files(tmp_path / "to"))
    assert done.writer_seconds > 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_is_seen_before_the_commit(tmp_path: Path, kind: str) -> None:
    to = tmp_path / "to"
    job = begun(to, table=kind)
    results = [job.write(rows(1), 0, 0)]
    # A table that is not there yet has no reader.
    assert not (to / "_delta_log").exists()
    assert kind == "delta" or ids(to) == []
    job.commit(results)
    assert ids(to) == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_an_abort_leaves_the_destination_as_it_was(tmp_path: Path, kind: str) -> None:
    to = tmp_path / "to"
    job = begun(to, table=kind)
    job.commit([job.write(rows(1), 0, 0)])
    before = data_files(to)
    failing = begun(to, table=kind, overwrite=True)
    failing.write(rows(2), 0, 1)
    failing.write(rows(3), 1, 2)
    failing.abort()
    assert (data_files(to), ids(to), hidden(to)) == (before, [1], [])


def test_an_abort_removes_a_folder_that_the_job_made(tmp_path: Path) -> None:
    job = begun(tmp_path / "to")
    job.write(rows(1), 0, 0)
    job.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_attempt_that_outlives_an_aborted_job_fails(tmp_path: Path, kind: str, end: str) -> None:
    job = begun(tmp_path / "to", table=kind)
    if end == "abort":
        job.abort()
    else:
        job.commit([])
    before = data_files(tmp_path)
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        job.write(rows(1), 0, 0)
    assert data_files(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_attempt_that_is_writing_when_its_job_ends_removes_its_files(
    tmp_path: Path, kind: str, end: str
) -> None:
    to = tmp_path / "to"
    job = begun(to, table=kind, max_file_rows=1, options={"threads": 2})
    counting = [job.write(rows(5), 0, 0)]

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2, 3)
        job.commit(counting) if end == "commit" else job.abort()
        yield from rows(4)

    with pytest.raises(FileNotFoundError):
        job.write(overtaken(), 0, 1)
    assert (len(data_files(tmp_path)), hidden(tmp_path)) == (int(end == "commit"), [])


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("times", [1, 1000])
def test_files_that_appear_while_a_job_ends_do_not_fail_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    end: str,
    times: int,
) -> None:
    to = tmp_path / "to"
    job = begun(to)
    results = [job.write(rows(1), 0, 0)]
    remove, left = shutil.rmtree, times

    def beside_an_attempt(folder: Path, *, ignore_errors: bool = False) -> None:
        nonlocal left
        assert not (folder / "_job").exists()
        if left and folder.name == job.id:
            left -= 1
            (folder / "attempt").mkdir(parents=True, exist_ok=True)
            if not ignore_errors:
                raise OSError(errno.ENOTEMPTY, "Directory not empty", str(folder))
            return
        remove(folder, ignore_errors=ignore_errors)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", beside_an_attempt)
        job.commit(results) if end == "commit" else job.abort()
    assert (to / "_spillway_jobs").exists() == (times > 1)
    assert any("finished job were left in" in message for message in caplog.messages) == (times > 1)
    if end == "commit":
        assert ids(to) == [1]
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        job.write(rows(2), 1, 1)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_delta_table_is_not_written_as_a_folder(tmp_path: Path, *, overwrite: bool) -> None:
    to = tmp_path / "to"
    table = begun(to, table="delta")
    table.commit([table.write(rows(1), 0, 0)])
    with pytest.raises(OptionError, match='is a Delta table, and table="parquet"'):
        begun(to, overwrite=overwrite)
    assert (ids(to), hidden(to)) == ([1], [])


def test_an_overwrite_takes_no_file_of_a_delta_table_below(tmp_path: Path) -> None:
    table = begun(tmp_path / "to" / "table", table="delta")
    table.commit([table.write(rows(1), 0, 0)])
    with pytest.raises(OptionError, match="table is a Delta table, and an overwrite of"):
        begun(tmp_path / "to", overwrite=True)
    assert ids(tmp_path / "to" / "table") == [1]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failing_success_mark_never_leaves_half_a_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, overwrite: bool
) -> None:
    """An append is undone; of an overwrite that is complete but for the mark, the lack is logged."""
    to = tmp_path / "to"
    first = begun(to, partition_by=("day",))
    first.commit([first.write(rows(1), 0, 0)])
    (to / "_SUCCESS").unlink()
    # No file can be made in its place.
    (to / "_SUCCESS").mkdir()
    job = begun(to, overwrite=overwrite, partition_by=("day",))
    results = [job.write(rows(2), 0, 0)]
    if overwrite:
        job.commit(results)
        assert any("without _SUCCESS" in message for message in caplog.messages)
    else:
        with pytest.raises(OSError, match="_SUCCESS"):
            job.commit(results)
        job.abort()
        assert not (to / "day=d0").exists()
    assert (ids(to), hidden(to)) == ([2] if overwrite else [1], [])


def test_an_append_without_rows_that_fails_leaves_no_empty_file(tmp_path: Path) -> None:
    job = begun(tmp_path / "to")
    (tmp_path / "to" / "_SUCCESS").mkdir()
    with pytest.raises(OSError, match="_SUCCESS"):
        job.commit([])
    assert data_files(tmp_path) == set()


@pytest.mark.parametrize("removed", [0, 1])
def test_an_overwrite_that_cannot_remove_old_files_is_undone_or_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    to = tmp_path / "to"
    first = begun(to)
    first.commit([first.write(rows(1), 0, 0), first.write(rows(2), 1, 1)])
    job = begun(to, overwrite=True)
    results = [job.write(rows(3), 0, 0)]

    def failing(_job: Job, storage: FolderStorage, old: list[str]) -> None:
        storage.remove(sorted(old)[:removed])
        raise PermissionError("on purpose")

    monkeypatch.setattr(type(job), "_remove_old", failing)
    with pytest.raises(PermissionError, match="on purpose") as caught:
        job.commit(results)
    assert (to / "_SUCCESS").exists() == (removed == 0)
    if removed:
        assert ids(to) == [2, 3]
        assert "has all new rows, and 1 of 2 old files" in caught.value.__notes__[0]
    else:
        assert ids(to) == [1, 2]


def test_no_mark_of_an_earlier_write_is_beside_half_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "to"
    first = begun(to)
    first.commit([first.write(rows(1), 0, 0)])
    job = begun(to)
    results = [job.write(rows(2), 0, 0)]
    seen: list[bool] = []
    publish = type(job)._publish

    def looking(*arguments: Any) -> None:
        seen.append((to / "_SUCCESS").exists())
        publish(*arguments)
        raise OSError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(type(job), "_publish", looking)
        with pytest.raises(OSError, match="on purpose"):
            job.commit(results)
    # What is undone leaves the mark as it was.
    assert (seen, (to / "_SUCCESS").exists(), ids(to)) == ([False], True, [1])


def test_a_job_does_not_show_its_secrets(tmp_path: Path) -> None:
    target = Target.of(
        f"s3://bucket{tmp_path}",
        SCHEMA,
        table="delta",
        overwrite=False,
        options={},
        storage_options={"a": "secret"},
    )
    assert "secret" not in repr(target)


def test_a_failing_attempt_leaves_nothing_in_the_job(tmp_path: Path) -> None:
    job = begun(tmp_path / "to", table="delta")

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2, 3)
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        job.write(failing(), 0, 0)
    assert data_files(tmp_path / "to") == set()


def test_an_overwrite_publishes_before_it_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "to"
    first = begun(to)
    first.commit([first.write(rows(1), 0, 0)])
    job = begun(to, overwrite=True)
    results = [job.write(rows(2), 0, 0)]
    seen: list[list[int]] = []
    remove = type(job)._remove_old

    def looking(*arguments: Any) -> None:
        seen.append(ids(to))
        remove(*arguments)

    monkeypatch.setattr(type(job), "_remove_old", looking)
    job.commit(results)
    assert (seen, ids(to)) == ([[1, 2]], [2])


@pytest.mark.parametrize("some", [{"partition_overwrite": "dynamic"}, {"where": "day = 'd1'"}])
def test_an_overwrite_of_some_partitions_leaves_no_summary_of_files_that_are_gone(
    tmp_path: Path, some: dict[str, Any]
) -> None:
    job = begun(tmp_path, partition_by=("day",))
    job.commit([job.write(rows(1, 2), 0, 0)])
    (tmp_path / "_metadata").write_bytes(b"footers")
    job = begun(tmp_path, partition_by=("day",), overwrite=True, **some)
    job.commit([job.write(rows(3), 0, 0)])
    assert (ids(tmp_path), (tmp_path / "_metadata").exists()) == ([2, 3], False)


def test_an_overwrite_removes_data_files_alone(tmp_path: Path) -> None:
    to = tmp_path / "to"
    first = begun(to, partition_by=("day",))
    first.commit([first.write(rows(1, 2), 0, 0)])
    (to / "_notes.txt").write_text("kept")
    (to / ".hidden").mkdir()
    (to / ".hidden" / "other.parquet").write_bytes(b"kept")
    (to / "day=d0" / ".old.parquet.crc").write_bytes(b"")
    job = begun(to, overwrite=True)
    job.commit([job.write(rows(3), 0, 0)])
    left = sorted(str(file.relative_to(to)) for file in to.rglob("*") if file.is_file())
    assert left == [".hidden/other.parquet", "_SUCCESS", "_notes.txt", *data_files_seen(to)]
    assert not (to / "day=d0").exists()


def data_files_seen(path: Path) -> list[str]:
    return sorted(name for name in data_files(path) if not name.startswith("."))


def test_a_failure_while_files_are_published_brings_all_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "to"
    first = begun(to)
    first.commit([first.write(rows(1), 0, 0)])
    before = data_files(to)
    job = begun(to, overwrite=True)
    results = [job.write(rows(2), 0, 0), job.write(rows(3), 1, 1)]
    publish = type(job)._publish

    def half(self: Job, storage: FolderStorage, staged: list[Staged]) -> None:
        publish(self, storage, staged[:1])
        raise OSError("on purpose")

    monkeypatch.setattr(type(job), "_publish", half)
    with pytest.raises(OSError, match="on purpose"):
        job.commit(results)
    job.abort()
    assert (data_files(to), ids(to), hidden(to)) == (before, [1], [])


@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_a_file_that_is_not_as_its_task_left_it_is_not_published(tmp_path: Path, damage: str) -> None:
    to = tmp_path / "to"
    first = begun(to)
    first.commit([first.write(rows(1), 0, 0)])
    job = begun(to, overwrite=True)
    results = [job.write(rows(2), 0, 0), job.write(rows(3), 1, 1)]
    spoil(to, damage)
    with pytest.raises(OSError, match=r"Nothing was published"):
        job.commit(results)
    job.abort()
    assert (ids(to), hidden(to), (to / "_SUCCESS").exists()) == ([1], [], True)


def spoil(path: Path, damage: str) -> None:
    """Remove a staged file of a job, or cut it off."""
    file = max(file for file in path.rglob("*.parquet") if "_job" in {each.name for each in beside(file)})
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])


def beside(file: Path) -> list[Path]:
    """The contents of the folder of the job that a staged file is of."""
    return [each for folder in file.parents[1:3] for each in folder.iterdir()]


def test_an_undo_that_fails_names_the_files_that_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begun(tmp_path / "to")
    results = [job.write(rows(1), 0, 0), job.write(rows(2), 1, 1)]
    publish = type(job)._publish

    def stuck(self: Job, storage: FolderStorage, staged: list[Staged]) -> None:
        publish(self, storage, staged)
        for each in staged:
            # What has become a folder cannot be removed as a file.
            file = Path(storage.root, each.place)
            file.unlink()
            (file / "inside").mkdir(parents=True)
        raise OSError("on purpose")

    monkeypatch.setattr(type(job), "_publish", stuck)
    with pytest.raises(OSError, match="on purpose") as caught:
        job.commit(results)
    (note,) = getattr(caught.value, "__notes__", [""])
    assert all(name.partition("/")[2] in note for result in results for name in result.files)


@pytest.mark.parametrize("step", ["publish", "remove"])
def test_a_store_that_fails_in_the_undo_loses_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Until an old file is removed, the undo removes all new ones. Later it leaves all new ones there."""
    to = tmp_path / "to"
    first = begun(to)
    first.commit([first.write(rows(1), 0, 0), first.write(rows(2), 1, 1)])
    job = begun(to, overwrite=True)
    results = [job.write(rows(3), 0, 0)]
    publish = type(job)._publish

    def unreachable(*_: Any) -> None:
        raise ConnectionError("the store is gone")

    def failing(self: Job, storage: FolderStorage, given: Any) -> None:
        if step == "publish":
            publish(self, storage, given)
        else:
            storage.remove(sorted(given)[:1])
        raise PermissionError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(type(job), "_publish" if step == "publish" else "_remove_old", failing)
        patched.setattr(FolderStorage, "present", unreachable)
        with pytest.raises(PermissionError, match="on purpose") as caught:
            job.commit(results)
    if step == "publish":
        assert (ids(to), (to / "_SUCCESS").exists()) == ([1, 2], True)
    else:
        assert (ids(to), (to / "_SUCCESS").exists()) == ([2, 3], False)
        assert any("overwrite it again" in note for note in caught.value.__notes__)


def test_a_message_that_is_not_of_a_task_commits_nothing(tmp_path: Path) -> None:
    to = tmp_path / "to"
    job = begun(to)
    message = TaskMessage(job.write(rows(1), 0, 0))
    for strange in (None, WriterCommitMessage()):
        with pytest.raises(SpillwayError, match="1 of 2 tasks"):
            SpillwayWriter(job).commit([message, strange])
    assert ids(to) == []


def test_a_second_job_is_not_disturbed_by_the_end_of_the_first(tmp_path: Path) -> None:
    to = tmp_path / "to"
    one, two = begun(to), begun(to)
    kept = two.write(rows(2), 0, 0)
    one.commit([one.write(rows(1), 0, 0)])
    two.commit([kept])
    assert (ids(to), hidden(to)) == ([1, 2], [])


def test_files_of_a_commit_in_doubt_outlive_the_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark aborts a job whose commit failed, in another process, which knows nothing of the doubt."""
    to = tmp_path / "to"
    job = begun(to, table="delta")
    results = [job.write(rows(1), 0, 0)]

    class Doubtful(spillway.delta.Append):
        def commit(self, timeout: float | None = None) -> int:
            super().commit(timeout)
            self.version, self.token = None, "token"
            raise CommitUnknown("nobody knows", "token")

    monkeypatch.setattr("spillway.delta.table.Append", Doubtful)
    with pytest.raises(CommitUnknown):
        job.commit(results)
    pickle.loads(pickle.dumps(job)).abort()  # noqa: S301 - its own
    assert ids(to) == [1]


class Closed:
    """A context whose connection was closed by what Ctrl-C left behind, once."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.asked = 0

    def addJobTag(self, tag: str) -> None: ...  # noqa: N802 - Spark's name

    removeJobTag = addJobTag  # noqa: N815 - Spark's name

    def getLocalProperty(self, name: str) -> None: ...  # noqa: N802 - Spark's name

    def setLocalProperty(self, name: str, value: str) -> None: ...  # noqa: N802 - Spark's name

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        self.asked += 1
        if self.asked == 1:
            raise Py4JNetworkError("Answer from Java side is empty")
        self.cancelled.append(tag)


class Here:
    """A session whose driver is this process, as far as `run` asks."""

    _jsparkSession = None  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.sparkContext = Closed()


def driven(job: Job, tasks: Callable[[], Sequence[TaskResult]], mode: WriteMode) -> SparkWriteResult:
    """All that is done on the driver, which is this process."""
    return run(lambda: job, lambda _: tasks(), mode, driver_of(cast("Any", Here())))


def run_here(job: Job, mode: Any, *written: int, error: BaseException | None = None) -> SparkWriteResult:
    """All that is done on the driver; the tasks run here, too."""

    def tasks() -> list[TaskResult]:
        results = [job.write(rows(one), task, task) for task, one in enumerate(written)]
        if error is not None:
            raise error
        return results

    return driven(job, tasks, mode)


def unbegun(path: Path, kind: str) -> Job:
    return job_of(Target.of(str(path), SCHEMA, table=kind, overwrite=False, options={}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_mode_decides_before_anything_is_made(tmp_path: Path, kind: str) -> None:
    to = tmp_path / "to"
    assert run_here(unbegun(to, kind), "error", 1).rows == 1
    before = set(tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match='mode="error"'):
        run_here(unbegun(to, kind), "error", 2)
    assert run_here(unbegun(to, kind), "ignore", 2).rows == 0
    with pytest.raises(OptionError, match="choose one of 'append'"):
        run_here(unbegun(to, kind), "upsert", 2)
    assert set(tmp_path.rglob("*")) == before
    assert run_here(unbegun(to, kind), "append", 2).rows == 1
    assert ids(to) == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [OSError("on purpose"), KeyboardInterrupt("on purpose")])
@pytest.mark.parametrize("step", ["tasks", "commit"])
def test_what_fails_is_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: BaseException, step: str
) -> None:
    to = tmp_path / "to"
    job = unbegun(to, kind)

    def failing(*_: object) -> None:
        raise error

    if step == "commit":
        monkeypatch.setattr(job, "commit", failing)
    with pytest.raises(type(error), match="on purpose"):
        run_here(job, "append", 1, 2, error=error if step == "tasks" else None)
    assert (data_files(tmp_path), hidden(tmp_path)) == (set(), [])


def test_an_error_of_the_abort_does_not_hide_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = unbegun(tmp_path / "to", "parquet")

    def failing() -> None:
        raise OSError("the second")

    monkeypatch.setattr(job, "abort", failing)
    with pytest.raises(RuntimeError, match="the first"):
        run_here(job, "append", 1, error=RuntimeError("the first"))
    assert "the second" in caplog.text


def test_another_python_on_executors_is_told_in_a_sentence() -> None:
    """PySpark says so in the middle of a stack of Java."""
    versions = {"worker_version": "3.12", "driver_version": "3.11"}
    error = PySparkRuntimeError(errorClass="PYTHON_VERSION_MISMATCH", messageParameters=versions)
    told = _of_another_python(RuntimeError(f"Job aborted\n{error}\n\tat org.apache.spark"))
    assert str(told).startswith("the driver has Python 3.11 and executors have 3.12: let PYSPARK_PYTHON name")
    assert _of_another_python(RuntimeError("Job aborted")) is None


def test_ctrl_c_stays_ctrl_c_where_sparks_own_clean_up_fails() -> None:
    session: Any = Here()
    context = session.sparkContext

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), driver_of(session).cancelled_by_failure("a write"):
        interrupted()
    assert len(context.cancelled) == 1


def test_a_job_without_rows_leaves_a_schema(tmp_path: Path) -> None:
    job = begun(tmp_path / "plain")
    done = job.commit([job.write([], 0, 0), job.write([], 1, 1)])
    assert (done.rows, len(data_files(tmp_path / "plain"))) == (0, 1)
    assert ds.dataset(tmp_path / "plain").schema.equals(SCHEMA)
    job = begun(tmp_path / "table", table="delta")
    assert job.commit([job.write([], 0, 0)]).version == 0
    assert pa.schema(spillway.delta.open(tmp_path / "table").schema).names == SCHEMA.names


def test_a_repeated_delta_job_writes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        job = begun(tmp_path / "to", table="delta", app_id="q", app_version=3)
        job.commit([job.write(rows(1, 2), 0, 0)])
    assert (ids(tmp_path / "to"), spillway.delta.open(tmp_path / "to").version) == ([1, 2], 0)
    assert len(data_files(tmp_path / "to")) == 1
    assert job.is_repeated()


def test_measures_of_tasks_are_in_the_history(tmp_path: Path) -> None:
    job = begun(tmp_path / "to", table="delta")
    done = job.commit([job.write(rows(1, 2), 0, 0), job.write(rows(3), 1, 1)])
    metrics = spillway.delta.open(tmp_path / "to").history(1)[0].info["operationMetrics"]
    assert metrics == {
        "numFiles": "2",
        "numOutputRows": "3",
        "numOutputBytes": str(done.bytes),
        "writerTimeMs": str(round(done.writer_seconds * 1000)),
    }


def test_a_table_that_is_there_is_found(tmp_path: Path) -> None:
    spillway.delta.create(tmp_path / "table", SCHEMA)
    assert Target.of(str(tmp_path / "table"), SCHEMA, overwrite=False, options={}).table == "delta"
    assert Target.of(str(tmp_path / "none"), SCHEMA, overwrite=False, options={}).table == "parquet"


def test_what_does_not_fit_is_refused_before_there_is_a_file(tmp_path: Path) -> None:
    other = pa.schema({"id": pa.string()})
    spillway.delta.create(tmp_path / "table", SCHEMA)
    job = job_of(Target.of(str(tmp_path / "table"), other, table="delta", overwrite=False, options={}))
    with pytest.raises(SchemaError, match=r"the column .id. is"):
        job.begin()
    interval = pa.schema({"wait": pa.month_day_nano_interval()})
    job = job_of(Target.of(str(tmp_path / "plain"), interval, table="parquet", overwrite=False, options={}))
    with pytest.raises(SchemaError, match="wait"):
        job.begin()
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
    assert data_files(tmp_path) == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "iceberg"}, '"parquet" or "delta"'),
        ({"app_id": "q", "app_version": 1}, "needs a Delta table"),
        ({"table": "delta", "app_id": "q"}, "go together"),
        ({"schema_mode": "merge"}, "needs a Delta table"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    options = {"table": "parquet", "overwrite": False, "options": {}} | options
    with pytest.raises(OptionError, match=message):
        Target.of(str(tmp_path / "to"), SCHEMA, **options)


def test_another_partitioning_than_the_table_has_is_refused(tmp_path: Path) -> None:
    spillway.delta.create(tmp_path / "to", SCHEMA, partition_by="day")
    with pytest.raises(OptionError, match=r"partitioned by \['day'\]"):
        begun(tmp_path / "to", table="delta", partition_by=("id",))


def test_an_executor_with_another_version_is_refused(tmp_path: Path) -> None:
    job = begun(tmp_path / "to")
    for versions, message in (
        (("0.0.1", ("3", "11")), "the driver has Spillway 0.0.1"),
        ((spillway.__version__, ("3", "9")), "the driver has Python 3.9"),
    ):
        job._versions = versions
        with pytest.raises(SpillwayError, match=message):
            job.write(rows(1), 0, 0)
    job.abort()


def test_every_option_of_the_writer_has_a_form_as_text() -> None:
    texts = {
        "compression": "zstd",
        "compression_level": "3",
        "row_group_rows": "100",
        "row_group_bytes": "1048576",
        "page_bytes": "65536",
        "page_rows": "5000",
        "dictionary_page_bytes": "4096",
        "content_defined_chunking": "[4096, 16384]",
        "memory_limit": "16MiB",
        "threads": "2",
        "dictionary": "false",
        "encoding": '{"id": "plain"}',
        "bloom_filter": '["id"]',
        "page_checksums": "TRUE",
        "statistics": '{"id": false}',
        "store_schema": "false",
        "compatibility": "v1",
        "timestamps": "us",
        "timestamp_loss": "refuse",
        "sorting_columns": '[["id", "descending", "nulls_first"], "day"]',
        "sorting": "verify",
        "durable": "true",
        "verify": "pages",
        "hold_batches": "true",
        "metadata": '{"a": "b"}',
        "field_ids": '{"id": 7}',
    }
    # Keys have no place in options that Spark shows in plans.
    assert texts.keys() == WriterKeywords.__annotations__.keys() - {"encryption"}
    given = parsed({"path": "/to", "MAX_FILE_ROWS": "5", "partition_by": "a, b", "AWS_Region": "x", **texts})
    assert given["options"] == {
        "compression": "zstd",
        "compression_level": 3,
        "row_group_rows": 100,
        "row_group_bytes": 1048576,
        "page_bytes": 65536,
        "page_rows": 5000,
        "dictionary_page_bytes": 4096,
        "content_defined_chunking": [4096, 16384],
        "memory_limit": "16MiB",
        "threads": 2,
        "dictionary": False,
        "encoding": {"id": "plain"},
        "bloom_filter": ["id"],
        "page_checksums": True,
        "statistics": {"id": False},
        "store_schema": False,
        "compatibility": "v1",
        "timestamps": "us",
        "timestamp_loss": "refuse",
        "sorting_columns": [("id", "descending", "nulls_first"), "day"],
        "sorting": "verify",
        "durable": True,
        "verify": "pages",
        "hold_batches": True,
        "metadata": {"a": "b"},
        "field_ids": {"id": 7},
    }
    assert (given["max_file_rows"], given["partition_by"]) == (5, ["a", "b"])
    assert parsed({"path": "/to", "compression": '{"id": "snappy"}'})["options"] == {
        "compression": {"id": "snappy"}
    }
    assert given["storage_options"] == {"aws_region": "x"}


CREDENTIALS = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "aws_token",
    "aws_sse_customer_key_base64",
    "azure_storage_account_key",
    "azure_storage_access_key",
    "azure_storage_master_key",
    "azure_storage_sas_key",
    "azure_storage_sas_token",
    "azure_storage_client_secret",
    "azure_storage_token",
    "google_service_account_key",
]
#: Of each store, names with the same words whose values are no secrets.
SETTINGS = [
    "AWS_REGION",
    "aws_sse_kms_key_id",
    "azure_federated_token_file",
    "google_application_credentials",
]


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_credential_is_refused_as_an_option_that_spark_would_show(name: str) -> None:
    with pytest.raises(spillway.OptionError, match=rf"{name.upper()}, or give it to") as caught:
        parsed({"path": "/to", name: "hunter2"})
    assert caught.value.option == name.lower()
    assert "hunter2" not in str(caught.value)


def test_settings_of_a_store_are_options() -> None:
    given = parsed({"path": "/to", **dict.fromkeys(SETTINGS, "x")})
    assert given["storage_options"] == dict.fromkeys(map(str.lower, SETTINGS), "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_group_size": "5"}, "here it is row_group_rows"),
        ({"maxrecordsperfile": "5"}, "here it is max_file_rows"),
        ({"rowgroup_rows": "5"}, "row_group_rows is the nearest"),
        ({"mode": "append"}, "DatasetWriter"),
    ],
)
def test_an_unknown_option_is_refused_with_the_one_that_is_meant(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(UnknownOptionError, match=message):
        parsed({"path": "/to", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_group_rows": "many"}, "give an integer"),
        ({"durable": "perhaps"}, '"true" or "false"'),
        ({"table": "delta", "timestamps": "ms"}, "for a Delta table"),
        ({"metadata": "{"}, "is not JSON"),
        ({"compression": "lzo"}, "choose one of"),
        ({"path": "hdfs://host/folder"}, "nothing is written to hdfs:"),
    ],
)
def test_a_value_that_is_not_accepted_is_refused(options: dict[str, str], message: str) -> None:
    given = {"path": "/to", "table": "parquet", **options}
    with pytest.raises(OptionError, match=message):
        job_of(Target.of(schema=SCHEMA, overwrite=False, **parsed(given))).begin()


def test_a_path_is_asked_for() -> None:
    with pytest.raises(OptionError, match="the path is missing"):
        parsed({"table": "delta"})


def test_a_relative_path_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = Target.of("folder", SCHEMA, table="parquet", overwrite=False, options={})
    assert target.path == str(tmp_path / "folder")


def keys(store: Bucket, folder: str) -> list[str]:
    """Names of objects below a folder."""
    return sorted(key.removeprefix(f"{folder}/") for key in store.keys() if key.startswith(f"{folder}/"))  # noqa: SIM118 - a bucket is no mapping


@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_a_folder_on_s3_appears_at_its_commit(store: Bucket, partition_by: tuple[str, ...]) -> None:
    folder = f"folder-{len(partition_by)}"
    options: dict[str, Any] = {"storage_options": store.options(), "partition_by": partition_by}
    job = begun(f"s3a://{store.name}/{folder}", **options)
    job.write(rows(1, 2), 0, 0)
    results = [job.write(rows(1, 2), 0, 1), job.write(rows(3), 1, 2)]
    assert all(key.startswith("_spillway_jobs/") for key in keys(store, folder))
    job.commit(results)
    published = keys(store, folder)
    assert "_SUCCESS" in published
    assert not any(key.startswith("_spillway_jobs") for key in published)
    assert len(published) == 1 + (3 if partition_by else 2)
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        job.write(rows(1), 0, 3)
    job = begun(f"s3://{store.name}/{folder}", overwrite=True, **options)
    job.commit([job.write(rows(9), 0, 0)])
    assert len(keys(store, folder)) == 2
    job = begun(f"s3://{store.name}/{folder}", **options)
    job.write(rows(10), 0, 0)
    job.abort()
    assert len(keys(store, folder)) == 2


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_upload_that_outlives_its_job_is_removed(store: Bucket, end: str) -> None:
    folder = f"late-{end}"
    job = begun(f"s3://{store.name}/{folder}", storage_options=store.options())
    other = begun(f"s3://{store.name}/{folder}", storage_options=store.options())
    counting = [job.write(rows(1), 0, 0)]

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from rows(1)
        job.commit(counting) if end == "commit" else job.abort()

    with pytest.raises(FileNotFoundError, match="the job has ended"):
        job.write(overtaken(), 0, 1)
    left = [key for key in keys(store, folder) if key.startswith("_spillway_jobs/")]
    # The end of one job leaves the other's mark.
    assert left == [f"_spillway_jobs/{other.id}/_job"]
    other.commit([other.write(rows(2), 0, 0)])
    assert not any(key.startswith("_spillway_jobs/") for key in keys(store, folder))


def test_a_commit_that_another_one_overtakes_on_s3_loses_neither(store: Bucket) -> None:
    """An append gets there between the look at the log and the request for the version."""
    place = f"s3://{store.name}/overtaken"
    table = spillway.delta.create(place, SCHEMA, storage_options=store.options())
    versions: list[Request] = []

    def overtake(request: Request) -> None:
        if request.is_version:
            versions.append(request)
            if len(versions) == 1:
                with table.append() as append:
                    append.write(rows(1)[0])

    proxy = Proxy(store.port, overtake)
    try:
        through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
        job = begun(place, table="delta", storage_options=through)
        job.commit([job.write(rows(2), 0, 0)])
    finally:
        proxy.stop()
    assert [request.path.rpartition("/")[2] for request in versions] == [f"{n:020}.json" for n in (1, 2)]
    assert all(request.is_conditional for request in versions)
    found = deltalake.DeltaTable(place, storage_options=store.options()).to_pyarrow_table()
    assert sorted(found["id"].to_pylist()) == [1, 2]


def test_a_table_on_s3_has_no_file_of_a_lost_attempt(store: Bucket) -> None:
    job = begun(f"s3://{store.name}/table", table="delta", storage_options=store.options())
    job.write(rows(1, 2), 0, 0)
    done = job.commit([job.write(rows(1, 2), 0, 1)])
    assert (done.version, done.rows) == (0, 2)
    assert len([key for key in keys(store, "table") if key.endswith(".parquet")]) == 1
    assert not any("_committing" in key for key in keys(store, "table"))


def test_a_table_whose_files_an_audit_could_not_compare_is_refused_before_a_row_is_written(
    tmp_path: Path,
) -> None:
    """The writer converts to the table's types, and an audit would read others than were handed over."""
    spillway.delta.create(tmp_path / "to", pa.schema({"day": pa.string(), "id": pa.float64()}))
    job = job_of(Target.of(str(tmp_path / "to"), SCHEMA, table="delta", overwrite=False, options={}))
    job.readable = True
    with pytest.raises(SchemaError, match="audit"):
        job.begin()
    assert data_files(tmp_path / "to") == set()


@pytest.mark.parametrize(
    "kind", [pa.float16(), pa.time32("ms"), pa.list_(pa.dictionary(pa.int8(), pa.timestamp("ns")))]
)
def test_a_column_that_an_audit_cannot_compare_is_refused_before_a_row_is_written(
    tmp_path: Path, kind: pa.DataType
) -> None:
    schema = pa.schema({"id": pa.int64(), "odd": kind})
    job = job_of(Target.of(str(tmp_path / "to"), schema, table="parquet", overwrite=False, options={}))
    job.readable = True
    with pytest.raises(SchemaError, match="audit") as refused:
        job.begin()
    assert refused.value.column == "odd"
    assert not (tmp_path / "to").exists()
    job.readable = False
    job.begin()


def test_a_table_with_column_mapping_is_written(tmp_path: Path) -> None:
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    column = {"name": "id", "type": "long", "nullable": True, "metadata": mapping}
    properties = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    protocol = needs("columnMapping", reader=("columnMapping",))
    make_log(tmp_path / "to", [protocol, metadata_of([column], **properties)])
    schema = pa.schema({"id": pa.int64()})
    job = job_of(Target.of(str(tmp_path / "to"), schema, overwrite=False, options={}))
    job.begin()
    job.commit([job.write([pa.record_batch({"id": [1]}, schema=schema)], 0, 0)])
    table = spillway.delta.open(tmp_path / "to")
    assert pa.table(table.scan()).to_pydict() == {"id": [1]}
    # An audit would look for the columns by their names.
    job.readable = True
    with pytest.raises(UnsupportedTableError, match='audit="none"'):
        job.begin()


def mapped(path: Path) -> spillway.delta.Table:
    properties = {"delta.columnMapping.mode": "name"}
    return spillway.delta.create(path, SCHEMA, partition_by="day", properties=properties)


def test_partitions_of_a_mapped_table_are_replaced_by_their_names(tmp_path: Path) -> None:
    table = mapped(tmp_path / "to")
    table.append_rows([{"id": 1, "day": "d1"}, {"id": 2, "day": "d2"}, {"id": 3, "day": None}])
    job = begun(tmp_path / "to", table="delta", overwrite=True, partition_overwrite="dynamic")
    new = pa.record_batch({"id": [4, 5], "day": ["d1", None]}, schema=SCHEMA)
    job.commit([job.write([new], 0, 0)])
    table.refresh()
    found = pa.table(table.scan(["id", "day"])).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": 2, "day": "d2"},
        {"id": 4, "day": "d1"},
        {"id": 5, "day": None},
    ]


def test_new_columns_of_a_mapped_table_are_refused_before_the_first_task(tmp_path: Path) -> None:
    mapped(tmp_path / "to")
    wider = SCHEMA.append(pa.field("new", pa.int64()))
    target = Target.of(str(tmp_path / "to"), wider, overwrite=False, options={}, schema_mode="merge")
    with pytest.raises(OptionError, match="Add the columns first"):
        job_of(target).begin()


def test_a_run_that_is_repeated_leaves_the_mark_of_another_write_alone(tmp_path: Path) -> None:
    job = begun(tmp_path / "to", run_id="run")
    job.commit([job.write(rows(1), 0, 0)])
    (tmp_path / "to" / "_SUCCESS").unlink()
    assert begun(tmp_path / "to", run_id="run").is_repeated()
    assert not (tmp_path / "to" / "_SUCCESS").exists()
