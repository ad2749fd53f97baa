"""Files in a store that are read before they are published: uploaded below `_spillway_jobs/`, then copied."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import signal
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spillway.errors import AuditError, CheckFailedError, OptionError
from spillway.spark import Pipeline, Sink, between, unique
from spillway.spark.folder_job import _COPIED_FILE, FolderJob
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.pipeline import audit
from spillway.spark.row_sums import RowSums
from spillway.spark.run import job_of
from spillway.spark.uploads import find_uploads
from spillway.spark.write_job import Job, Target

from ..counts import examples
from ..stores.server import Instead, Late, Proxy
from .test_jobs import SCHEMA, rows
from .test_uploads import left, listed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ..stores.server import Bucket, Fault, Request, Server


def planned(store: Bucket, **options: Any) -> Job:
    """A job whose files an audit reads."""
    given = {"table": "parquet", "overwrite": False, "options": {}, "storage_options": store.options()}
    job = job_of(Target.of(store.url("to"), SCHEMA, **(given | options)))
    job.readable = True
    return job


def begun(store: Bucket, **options: Any) -> Job:
    """Such a job as tasks have it: pickled."""
    job = planned(store, **options)
    job.begin()
    copy: Job = pickle.loads(pickle.dumps(job))  # noqa: S301 - its own
    return copy


def data(store: Bucket) -> list[str]:
    return [key for key in store.keys() if key.endswith(".parquet")]  # noqa: SIM118 - a bucket is no mapping


def ids(store: Bucket, keys: list[str] | None = None) -> list[int]:
    """The rows of these objects; of those that a reader sees."""
    found: list[int] = []
    for key in [key for key in data(store) if "/_" not in key] if keys is None else keys:
        found += pq.read_table(pa.BufferReader(store.read(key)))["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_files_are_readable_in_the_jobs_folder_and_then_copied(
    store: Bucket, faulty: Callable[..., Proxy], partition_by: tuple[str, ...]
) -> None:
    proxy = faulty(lambda _: None)
    through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    job = begun(store, storage_options=through, partition_by=partition_by)
    job.write(rows(1, 2), 0, 0)
    results = [job.write(rows(1, 2), 0, 1), job.write(rows(3), 1, 2)]
    staged = [file for result in results for file in job.staged(result)]
    keys = [file.path.removeprefix(f"s3://{store.name}/") for file in staged]
    assert all(key.startswith(f"to/_spillway_jobs/{job.id}/") for key in data(store))
    assert ids(store, keys) == [1, 2, 3]
    assert {file.partition.get("day", "d1") for file in staged} == ({"d0", "d1"} if partition_by else {"d1"})
    proxy.seen.clear()
    done = job.commit(results)
    assert (done.rows, done.files, ids(store), left(store)) == (3, len(keys), [1, 2, 3], [])
    # No byte of a file goes through the driver.
    of_files = [each for each in proxy.seen if ".parquet" in each.path and each.method in {"GET", "PUT"}]
    assert [each.is_copy for each in of_files] == [True] * len(keys)
    assert not any(each.is_begin or each.is_part or each.is_completion for each in proxy.seen)


def test_an_abort_leaves_the_store_as_it_was(store: Bucket) -> None:
    before = begun(store)
    before.commit([before.write(rows(1), 0, 0)])
    keys = store.keys()
    job = begun(store, overwrite=True)
    job.write(rows(2), 0, 0)

    def failing() -> Any:
        yield from rows(3)
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        job.write(failing(), 1, 1)
    assert (len(data(store)), store.uploads()) == (2, [])
    job.abort()
    assert (store.keys(), left(store)) == (keys, [])
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        job.write(rows(4), 2, 2)


@pytest.mark.parametrize("damage", ["gone", "larger"])
def test_a_staged_file_that_changed_is_not_published(store: Bucket, damage: str) -> None:
    job = begun(store)
    results = [job.write(rows(1), 0, 0), job.write(rows(2), 1, 1)]
    key = job.staged(results[1])[0].path.removeprefix(f"s3://{store.name}/")
    if damage == "gone":
        store.client.delete_object(Bucket=store.name, Key=key)
    else:
        store.put(key, store.read(key) + b"more")
    with pytest.raises(OSError, match="Nothing was published"):
        job.commit(results)
    job.abort()
    assert (data(store), left(store)) == ([], [])


class Fails:
    """Fails the requests of a commit from one on: that one alone, or all that follow, as of a killed driver.

    Args:
        at: The number of the request.
        way: ``"once"``, ``"from"``; or ``"answered"`` for a kill between a request and its answer.
    """

    def __init__(self, at: int, way: str) -> None:
        self.left, self.way = at, way

    def __call__(self, _: Request) -> Fault:
        self.left -= 1
        if self.left == -1:
            return Instead(403) if self.way == "answered" else 403
        return 403 if self.left < 0 and self.way != "once" else None


def failed(store: Bucket, fault: Fails, options: dict[str, Any]) -> bool:
    """Write 3, 4 and 5 by a job whose commit fails so; return True if it did not."""
    proxy = Proxy(store.port, lambda _: None)
    try:
        through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}", max_retries="0")
        job = begun(store, storage_options=through, **options)
        job.write(rows(3), 0, 0)
        results = [job.write(rows(3, 4), 0, 1), job.write(rows(5), 1, 2)]
        proxy.fault = fault
        try:
            job.commit(results)
        except (OSError, OptionError):
            with contextlib.suppress(OSError):
                job.abort()
            return False
        return True
    finally:
        proxy.stop()


def again(store: Bucket, options: dict[str, Any]) -> None:
    """Do what a scheduler does: run it again, in another split of rows."""
    job = planned(store, **options)
    if not job.is_repeated():
        job.begin()
        job.commit([job.write(rows(5, 4), 0, 0), job.write(rows(3), 1, 1)])


OPTIONS = st.fixed_dictionaries({"partition_by": st.sampled_from([(), ("day",)]), "overwrite": st.booleans()})


@settings(max_examples=examples(0.03))
@given(at=st.integers(0, 24), way=st.sampled_from(["once", "from", "answered"]), options=OPTIONS)
# After the manifest and before the copies, and in the middle of them.
@example(at=11, way="from", options={"partition_by": ("day",), "overwrite": False})
@example(at=16, way="from", options={"partition_by": ("day",), "overwrite": True})
@example(at=16, way="answered", options={"partition_by": ("day",), "overwrite": True})
# At the end: the run is marked as done, and its driver does not learn of it.
@example(at=15, way="answered", options={"partition_by": (), "overwrite": False})
@example(at=16, way="answered", options={"partition_by": (), "overwrite": False})
def test_a_run_that_fails_at_any_request_is_completed_by_the_next_of_its_name(
    table_server: Server, at: int, way: str, options: dict[str, Any]
) -> None:
    store = table_server.bucket(f"bucket-{secrets.token_hex(4)}")
    before = begun(store, partition_by=options["partition_by"])
    before.commit([before.write(rows(1, 2), 0, 0)])
    options = {**options, "run_id": "monday"}
    failed(store, Fails(at, way), options)
    for _ in range(2):
        again(store, options)
        assert ids(store) == ([3, 4, 5] if options["overwrite"] else [1, 2, 3, 4, 5])
        assert "to/_SUCCESS" in store.keys()  # noqa: SIM118 - a bucket is no mapping
        assert left(store) == []


@settings(max_examples=examples(0.02))
@given(at=st.integers(0, 16), options=OPTIONS)
def test_a_commit_without_a_name_that_fails_is_undone(
    table_server: Server, at: int, options: dict[str, Any]
) -> None:
    store = table_server.bucket(f"bucket-{secrets.token_hex(4)}")
    before = begun(store, partition_by=options["partition_by"])
    before.commit([before.write(rows(1, 2), 0, 0)])
    is_done = failed(store, Fails(at, "once"), options)
    new = [3, 4, 5] if options["overwrite"] else [1, 2, 3, 4, 5]
    assert ids(store) == (new if is_done else [1, 2])


def test_a_staged_file_that_somebody_removed_is_told(store: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(FolderJob, "_publish", killed)
        job = begun(store, run_id="monday")
        with pytest.raises(KilledError):
            job.commit([job.write(rows(1), 0, 0), job.write(rows(2), 1, 1)])
    assert f"{job.id}: 0 uploads pending and 2 files staged, which the query" in listed(store)
    store.client.delete_object(Bucket=store.name, Key=data(store)[0])
    with pytest.raises(FileNotFoundError, match=r"delete s3://.*00000000\.json"):
        planned(store, run_id="monday").is_repeated()


def test_staged_files_of_a_killed_driver_are_listed_and_removed(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begun(store)
    results = [job.write(rows(1), 0, 0), job.write(rows(2), 1, 1)]
    with monkeypatch.context() as patched:
        patched.setattr(FolderJob, "_withdrawn", lambda *_: {})
        patched.setattr(FolderJob, "_write_empty", lambda *_: None)
        patched.setattr("spillway.spark.folder_storage.FolderStorage.mark", _refuse)
        with pytest.raises(PermissionError):
            job.commit(results)
    (found,) = find_uploads(store.url("to"), store.options())
    assert (len(found.pending), len(found.staged), len(found.complete)) == (0, 2, 2)
    said = listed(store, "--abort", "--older-than", "0")
    assert "0 uploads aborted and 2 files removed" in said
    assert "2 files are visible" in said
    assert (ids(store), left(store)) == ([1, 2], [])


def _refuse(*_: Any) -> None:
    raise PermissionError("on purpose")


def test_settings_come_from_the_environment_as_those_of_the_writer(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in store.options().items():
        monkeypatch.setenv(name, value)
    job = begun(store, storage_options=None)
    job.commit([job.write(rows(1), 0, 0)])
    assert ids(store) == [1]


def test_a_file_is_no_larger_than_a_request_copies(store: Bucket) -> None:
    for given_bytes, limit in ((None, _COPIED_FILE), (1 << 40, _COPIED_FILE), (1 << 20, 1 << 20)):
        job = planned(store, max_file_bytes=given_bytes)
        assert isinstance(job, FolderJob)
        assert job._options("00000")["max_file_bytes"] == limit


@pytest.mark.parametrize("options", [{}, {"run_id": "monday"}])
def test_a_file_that_s3_does_not_copy_is_told_before_anything_is_published(
    store: Bucket, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    before = begun(store)
    before.commit([before.write(rows(1), 0, 0)])
    keys = [key for key in store.keys() if "/_spillway" not in key]  # noqa: SIM118 - a bucket is no mapping
    job = begun(store, overwrite=True, **options)
    results = [job.write(rows(2), 0, 0)]
    monkeypatch.setattr("spillway.spark.folder_job._MOST_COPIED", 100)
    with pytest.raises(OptionError, match="Nothing was published"):
        job.commit(results)
    job.abort()
    assert [key for key in store.keys() if "/_spillway" not in key] == keys  # noqa: SIM118 - as above
    assert left(store) == []


def copier(store: Bucket, proxy: Proxy, count: int) -> tuple[FolderStorage, dict[str, str]]:
    """A prefix behind a proxy, and copies of so many objects in it."""
    names = [f"from/{number} %41/ü={number}" for number in range(count)]
    for name in names:
        store.put(f"to/{name}", name.encode())
    options = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}", max_retries="0")
    return FolderStorage(store.url("to"), options), {name: f"copied/{name}" for name in names}


def copied(store: Bucket) -> list[str]:
    return [key.removeprefix("to/copied/") for key in store.keys() if key.startswith("to/copied/")]  # noqa: SIM118


def test_objects_of_any_name_are_copied_and_replace_what_is_there(
    store: Bucket, faulty: Callable[..., Proxy]
) -> None:
    folder, places = copier(store, faulty(lambda _: None), 3)
    store.put(f"to/{places[min(places)]}", b"old")
    folder.copy(places)
    assert {name: store.read(f"to/copied/{name}") for name in copied(store)} == {
        name: name.encode() for name in places
    }


def test_a_copy_of_what_is_not_there_is_told_as_that(store: Bucket, faulty: Callable[..., Proxy]) -> None:
    folder, places = copier(store, faulty(lambda _: None), 1)
    with pytest.raises(FileNotFoundError, match="from/gone"):
        folder.copy({"from/gone": "copied/gone", **places})


def test_after_a_failure_no_copy_begins_and_none_is_under_way(
    store: Bucket, faulty: Callable[..., Proxy]
) -> None:
    first = threading.Lock()

    def fault(request: Request) -> Fault:
        if not request.is_copy:
            return None
        return 403 if first.acquire(blocking=False) else Late(0.3)

    proxy = faulty(fault)
    folder, places = copier(store, proxy, 100)
    with pytest.raises(PermissionError):
        folder.copy(places)
    done = copied(store)
    assert len(done) == sum(each.is_copy for each in proxy.seen) - 1
    assert len(done) < 64
    proxy.wait_until_alone()
    assert copied(store) == done


def test_after_ctrl_c_no_copy_begins_and_none_is_under_way(
    store: Bucket, faulty: Callable[..., Proxy]
) -> None:
    def fault(request: Request) -> Fault:
        if request.is_copy and not signalled.is_set():
            signalled.set()
            os.kill(os.getpid(), signal.SIGINT)
        return Late(1) if request.is_copy else None

    signalled = threading.Event()
    proxy = faulty(fault)
    folder, places = copier(store, proxy, 100)
    with pytest.raises(KeyboardInterrupt):
        folder.copy(places)
    done = copied(store)
    assert len(done) == sum(each.is_copy for each in proxy.seen)
    assert len(done) < 64
    proxy.wait_until_alone()
    assert copied(store) == done


@pytest.fixture
def fetched(tmp_path: Path, store: Bucket, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets Spark read objects as local files, as it has no S3A here; returns the keys that were read."""
    seen: list[str] = []

    def fetch(path: str) -> str:
        key = path.removeprefix(f"s3://{store.name}/")
        local = tmp_path / "fetched" / key
        if key.endswith(".parquet") and not local.exists():
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(store.read(key))
            seen.append(key)
        return f"file:{local}"

    monkeypatch.setattr(audit, "of_hadoop", fetch)
    return seen


def run(spark: SparkSession, store: Bucket, *, bad_rows: Any = "quarantine", **options: Any) -> Any:
    source = spark.range(0, 40, 1, 3).selectExpr(
        "id", "id % 10 AS lat", "concat('d ', id % 2, '/%41') AS day"
    )
    sink = Sink(
        store.url("to"), table="parquet", partition_by="day", storage_options=store.options(), **options
    )
    checks = [between("lat", 0, 8), unique("id")]
    return Pipeline(source=source, checks=checks, bad_rows=bad_rows, sink=sink, run_id="monday").run(spark)


GOOD = [number for number in range(40) if number % 10 < 9]


@pytest.mark.spark
def test_a_pipeline_audits_files_in_a_store_and_then_publishes_them(
    spark: SparkSession, store: Bucket, fetched: list[str]
) -> None:
    done = run(spark, store)
    assert (done.rows_written, done.rows_quarantined, done.audit.rows) == (36, 4, 36)
    assert fetched
    assert all("/_spillway_jobs/" in key for key in fetched)
    assert ids(store) == list(range(40))
    bad = [key for key in data(store) if key.startswith("to__quarantine/")]
    assert len(data(store)) == done.files + len(bad)
    assert left(store) == []
    keys = store.keys()
    assert (run(spark, store).repeated, store.keys()) == (True, keys)


@pytest.mark.spark
@pytest.mark.usefixtures("fetched")
def test_a_pipeline_that_fails_publishes_nothing_in_a_store(
    spark: SparkSession, store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckFailedError):
        run(spark, store, bad_rows="fail")
    assert store.keys() == []
    with monkeypatch.context() as patched:
        # A file that Spark reads with other rows than were written.
        patched.setattr("spillway.spark.pipeline.audit.sums_of_frame", lambda _: RowSums(1))
        with pytest.raises(AuditError):
            run(spark, store)
    assert (data(store), left(store)) == ([], [])
