"""Folders on S3 without a detour: tasks upload to the final keys, and the commit completes the uploads."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from spillway.cli.app import app
from spillway.errors import OptionError
from spillway.spark.folder_job import FolderJob
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.stream_jobs import FolderBatch, batch_of
from spillway.spark.uploads import find_uploads
from spillway.spark.write_job import Job, Target, choose_scratch

from ..stores.server import Instead
from .test_jobs import SCHEMA, begun, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..stores.server import Bucket, Fault, Proxy, Request


class Killed(BaseException):
    """The end of the process."""


def ids(store: Bucket) -> list[int]:
    """The rows that a reader sees."""
    found: list[int] = []
    for key in store.keys():  # noqa: SIM118 - a bucket is no mapping
        if key.endswith(".parquet"):
            found += pq.read_table(pa.BufferReader(store.read(key)))["id"].to_pylist()
    return sorted(found)


def job(store: Bucket, **options: Any) -> Job:
    return begun(store.url("to"), **{"storage_options": store.options(), **options})


def left(store: Bucket) -> list[str]:
    """What jobs left: uploads, and objects of theirs."""
    return [*store.uploads(), *(key for key in store.keys() if "_spillway_jobs" in key)]  # noqa: SIM118 - as above


def test_a_file_costs_an_upload_of_one_part_and_no_copy(store: Bucket, faulty: Callable[..., Proxy]) -> None:
    proxy = faulty(lambda _: None)
    through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    one = job(store, storage_options=through)
    results = [one.write(rows(1, 2), 0, 0), one.write(rows(3), 1, 1)]
    assert (ids(store), len(store.uploads())) == ([], 2)
    one.commit(results)
    assert (ids(store), left(store)) == ([1, 2, 3], [])
    of_files = [each for each in proxy.seen if ".parquet" in each.path and "prefix=" not in each.path]
    kinds = [
        next(kind for kind in ("is_begin", "is_part", "is_completion") if getattr(each, kind))
        for each in of_files
    ]
    assert sorted(kinds) == ["is_begin", "is_begin", "is_completion", "is_completion", "is_part", "is_part"]
    # The mark of the job, and then all else that it has in the folder.
    assert len([each for each in proxy.seen if each.method == "POST" and each.path.endswith("?delete")]) == 2


def test_a_large_file_goes_in_parts_of_eight_mebibytes(store: Bucket, faulty: Callable[..., Proxy]) -> None:
    schema = pa.schema({"id": pa.int64(), "noise": pa.binary()})
    proxy = faulty(lambda _: None)
    through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    target = Target.of(
        store.url("to"), schema, table="parquet", overwrite=False, options={}, storage_options=through
    )
    one = FolderJob(target)
    one.begin()
    noise = [os.urandom(1 << 20) for _ in range(20)]
    batches = [
        pa.record_batch({"id": [number], "noise": [each]}, schema=schema) for number, each in enumerate(noise)
    ]
    result = one.write(batches, 0, 0)
    (upload,) = result.uploads
    assert (len(upload.parts), upload.bytes) == (3, result.size)
    one.commit([result])
    (key,) = (key for key in store.keys() if key.endswith(".parquet"))  # noqa: SIM118 - a bucket is no mapping
    assert pq.read_table(pa.BufferReader(store.read(key)))["noise"].to_pylist() == noise
    assert left(store) == []


def test_partitions_that_are_open_at_once_are_whole(store: Bucket) -> None:
    one = job(store, partition_by=("day",), max_file_rows=2)
    done = one.commit([one.write(rows(*range(9)), 0, 0)])
    keys = [key for key in store.keys() if key.endswith(".parquet")]  # noqa: SIM118 - a bucket is no mapping
    assert (ids(store), len(keys), left(store)) == (list(range(9)), done.files, [])
    assert {key.split("/")[1] for key in keys} == {"day=d0", "day=d1"}


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_uploads_of_attempts_that_do_not_count_are_aborted(store: Bucket, end: str) -> None:
    one = job(store)
    one.write(rows(1), 0, 0)
    results = [one.write(rows(1), 0, 1), one.write(rows(2), 1, 2)]
    one.write(rows(2), 1, 3)
    assert len(store.uploads()) == 4
    if end == "commit":
        one.commit(results)
    else:
        one.abort()
    assert (ids(store), left(store)) == ([1, 2] if end == "commit" else [], [])


def test_an_attempt_that_fails_aborts_its_uploads(store: Bucket) -> None:
    one = job(store, max_file_rows=1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(1, 2, 3)
        # An executor that is killed here leaves uploads that have their names.
        (found,) = find_uploads(store.url("to"), store.options())
        assert [f"to/{key}" for key in found.pending] == store.uploads() != []
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        one.write(failing(), 0, 0)
    assert left(store) == [f"to/_spillway_jobs/{one.id}/_job"]


def test_a_completion_that_fails_takes_back_the_others(store: Bucket, faulty: Callable[..., Proxy]) -> None:
    before = job(store)
    before.commit([before.write(rows(1), 0, 0)])
    completions: list[str] = []

    def second_fails(request: Request) -> Fault:
        if not request.is_completion:
            return None
        completions.append(request.path)
        return 403 if len(completions) == 2 else None

    proxy = faulty(second_fails)
    through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    one = job(store, storage_options=through, overwrite=True)
    results = [one.write(rows(number), number, number) for number in range(2, 5)]
    with pytest.raises(PermissionError):
        one.commit(results)
    assert (ids(store), store.uploads(), "to/_SUCCESS" in store.keys()) == ([1], [], True)  # noqa: SIM118 - as above
    one.abort()
    assert left(store) == []
    again = job(store, overwrite=True)
    again.commit([again.write(rows(2), 0, 0)])
    assert ids(store) == [2]


def test_a_completion_whose_answer_is_lost_is_good(store: Bucket, faulty: Callable[..., Proxy]) -> None:
    lost: list[str] = []

    def first_is_lost(request: Request) -> Fault:
        if request.is_completion and not lost:
            lost.append(request.path)
            return Instead(None)
        return None

    proxy = faulty(first_is_lost)
    through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    one = job(store, storage_options=through)
    one.commit([one.write(rows(1), 0, 0)])
    assert (len(lost), ids(store), left(store)) == (1, [1], [])


def test_an_upload_that_somebody_aborted_fails_the_commit(store: Bucket) -> None:
    one = job(store)
    results = [one.write(rows(1), 0, 0), one.write(rows(2), 1, 1)]
    upload = results[1].uploads[0]
    store.client.abort_multipart_upload(Bucket=store.name, Key=f"to/{upload.name}", UploadId=upload.id)
    with pytest.raises(FileNotFoundError) as caught:
        one.commit(results)
    assert "lifecycle rule" in str(caught.value.__notes__)
    one.abort()
    assert (ids(store), left(store)) == ([], [])


def listed(store: Bucket, *arguments: str) -> str:
    options = [f"--storage-option={name}={value}" for name, value in store.options().items()]
    done = CliRunner().invoke(app, ["uploads", store.url("to"), *options, *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_uploads_of_a_killed_driver_are_listed_and_aborted(store: Bucket) -> None:
    before = job(store)
    before.commit([before.write(rows(1), 0, 0)])
    assert listed(store, "--abort", "--older-than", "0") == "no job has uploads there\n"
    killed = job(store)
    killed.write(rows(2), 0, 0)
    killed.write(rows(3), 1, 1)
    assert f"{killed.id}: 2 uploads pending" in listed(store)
    # One that may be under way is left alone.
    assert "2 uploads pending" in listed(store, "--abort")
    assert len(store.uploads()) == 2
    assert f"{killed.id}: 2 uploads aborted" in listed(store, "--abort", "--older-than", "0")
    assert (ids(store), left(store)) == ([1], [])
    with pytest.raises(FileNotFoundError, match="the job has ended"):
        killed.write(rows(4), 2, 2)


def test_a_commit_that_was_killed_half_way_is_told_and_its_files_stay(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = job(store)
    results = [one.write(rows(1), 0, 0), one.write(rows(2), 1, 1)]
    publish = FolderJob._publish

    def killed(self: FolderJob, storage: Any, staged: Any) -> None:
        publish(self, storage, staged[:1])
        raise Killed

    monkeypatch.setattr(FolderJob, "_publish", killed)
    monkeypatch.setattr(FolderJob, "_withdrawn", lambda *_: {})
    with pytest.raises(Killed):
        one.commit(results)
    (found,) = find_uploads(store.url("to"), store.options())
    assert (len(found.pending), len(found.complete)) == (1, 1)
    said = listed(store, "--abort", "--older-than", "0")
    assert "1 uploads aborted" in said
    assert "1 files are visible" in said
    assert (ids(store), left(store)) == ([1], [])


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("gs://bucket/to", {"google_skip_signature": "true"}),
        ("az://container/to", {"azure_storage_account_name": "me", "azure_storage_account_key": "c2VjcmV0"}),
        ("abfss://container@me.dfs.core.windows.net/to", {"azure_storage_account_key": "c2VjcmV0"}),
    ],
)
def test_folders_of_every_store_take_the_settings_of_other_writers(url: str, options: dict[str, str]) -> None:
    assert not FolderStorage(url, options).is_local
    with pytest.raises(OptionError, match="does not know"):
        FolderStorage(url, {**options, "aws_region": "eu"})


def test_uploads_of_a_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is a path"):
        find_uploads(str(tmp_path))


def batch(store: Bucket, number: int, **options: Any) -> Job:
    given = {"table": "parquet", "overwrite": False, "options": {}, "storage_options": store.options()}
    target = Target.of(store.url("to"), SCHEMA, **(given | options))
    made: Job = pickle.loads(pickle.dumps(batch_of(target, "query", number)))  # noqa: S301 - its own
    return made


def run(store: Bucket, number: int, *numbers: int, **options: Any) -> None:
    """Do one micro-batch: each of its rows in a task of its own, of which the first is tried twice."""
    one = batch(store, number, **options)
    one.write(rows(numbers[0]), 0, 0)
    results = [one.write(rows(each), task, task + 1) for task, each in enumerate(numbers)]
    batch(store, number, **options).commit(results)


@pytest.mark.parametrize(
    ("step", "overwrite"),
    [("_fulfil", False), ("_publish", False), ("_end", True), ("half of _publish", True)],
)
def test_a_batch_is_there_once_after_a_kill_at_any_step(
    store: Bucket, monkeypatch: pytest.MonkeyPatch, step: str, *, overwrite: bool
) -> None:
    options = {"overwrite": overwrite}
    run(store, 0, 1, 2, **options)
    name = step.rpartition(" ")[2]
    work = getattr(FolderBatch, name)

    def killed(self: FolderBatch, *arguments: Any) -> None:
        if step.startswith("half"):
            storage, staged = arguments
            work(self, storage, staged[:1])
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(FolderBatch, name, killed)
        with pytest.raises(Killed):
            run(store, 1, 3, 4, 5, **options)
    # What a query needs to go on is not aborted.
    kept = set(store.uploads())
    listed(store, "--abort", "--older-than", "0")
    assert step == "_end" or set(store.uploads()) == kept
    # The replay makes the same rows in another split.
    run(store, 1, 5, 4, 3, **options)
    assert ids(store) == ([3, 4, 5] if overwrite else [1, 2, 3, 4, 5])
    assert left(store) == []


def test_an_attempt_of_a_batch_that_is_committed_leaves_no_upload(store: Bucket) -> None:
    run(store, 0, 1, 2)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from rows(3)
        run(store, 1, 3, 4)
        yield from rows(4)

    batch(store, 1, max_file_rows=1).write(overtaken(), 0, 9)
    assert (ids(store), left(store)) == ([1, 2, 3, 4], [])


def test_a_manifest_whose_uploads_are_gone_says_what_lets_the_query_go_on(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(FolderBatch, "_publish", killed)
        with pytest.raises(Killed):
            run(store, 0, 1, 2)
    for each in store.client.list_multipart_uploads(Bucket=store.name)["Uploads"]:
        store.client.abort_multipart_upload(Bucket=store.name, Key=each["Key"], UploadId=each["UploadId"])
    with pytest.raises(FileNotFoundError, match=r"delete s3://.*00000000\.json"):
        run(store, 0, 1, 2)
    store.client.delete_object(Bucket=store.name, Key="to/_spillway_sink/query/00000000.json")
    run(store, 0, 1, 2)
    assert (ids(store), left(store)) == ([1, 2], [])


def test_an_overwrite_passes_over_objects_that_mark_folders(store: Bucket) -> None:
    """Consoles make an empty object whose key ends in a slash, and pyarrow in a folder that it empties."""
    for key in ("to/", "to/day=1/", "to/_spillway_jobs/"):
        store.put(key, b"")
    one = job(store, overwrite=True)
    one.commit([one.write(rows(1), 0, 0)])
    assert ids(store) == [1]


def test_temporary_files_of_a_task_are_in_sparks_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    monkeypatch.delenv("TMPDIR", raising=False)
    choose_scratch()
    assert os.environ["TMPDIR"] == str(tmp_path)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/elsewhere")
    choose_scratch()
    assert os.environ["TMPDIR"] == str(tmp_path)
