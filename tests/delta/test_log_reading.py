"""Versions are read ahead on a store that answers late, out of order and with failures."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import CorruptLogError, DeltaError, TableNotFoundError

from .test_stores import all_keys, through

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..stores.server import Bucket, Fault, Proxy, Request

    Faulty = Callable[[Callable[[Request], Fault]], Proxy]

SCHEMA = pa.schema({"number": pa.int64()})
VERSIONS = 70
WINDOW = 32


def key(version: int) -> str:
    return f"table/_delta_log/{version:020}.json"


def version_of(request: Request) -> int | None:
    """The version that a request reads."""
    name = request.path.rpartition("/")[2]
    is_version = request.method == "GET" and "/_delta_log/" in request.path and name.endswith(".json")
    return int(name.removesuffix(".json")) if is_version else None


def add(bucket: Bucket, *versions: int, name: str = "") -> None:
    """Versions of another writer, each with a file of its number."""
    for version in versions:
        file = {"path": f"{name}{version}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
        info = {"operation": "WRITE", "timestamp": version}
        lines = [{"commitInfo": info}, {"add": file | {"dataChange": True}}]
        bucket.put(key(version), "\n".join(map(json.dumps, lines)).encode())


def make(bucket: Bucket, versions: int = VERSIONS) -> spillway.delta.Table:
    table = spillway.delta.create(
        bucket.url("table"),
        SCHEMA,
        storage_options=bucket.options(),
        # A checkpoint that is due would read the log, too.
        properties={"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "1000"},
    )
    add(bucket, *range(1, versions))
    return table


def names(versions: range, name: str = "") -> set[str]:
    return {f"{name}{version}.parquet" for version in versions}


def open_by(proxy: Proxy, bucket: Bucket, **options: str) -> spillway.delta.Table:
    return spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket, **options))


def files_of(table: spillway.delta.Table) -> set[str]:
    return {file.path for file in table.files()}


class Slow:
    """Answers late and out of order, and keeps which versions were requested and how many at a time."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.most = 0
        self._flying = 0
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> None:
        version = version_of(request)
        if version is None:
            return
        with self._lock:
            self.versions.append(version)
            self._flying += 1
            self.most = max(self.most, self._flying)
            # Later requests of a window are answered before earlier ones.
            late = 0.05 - 0.01 * (version % 5)
        time.sleep(late)
        with self._lock:
            self._flying -= 1

    def taken(self) -> list[int]:
        """The versions that were requested since, in order."""
        versions, self.versions = sorted(self.versions), []
        return versions


def test_each_version_is_requested_once_and_many_at_a_time(bucket: Bucket, faulty: Faulty) -> None:
    make(bucket)
    slow = Slow()
    table = open_by(faulty(slow), bucket)
    assert slow.taken() == [*range(VERSIONS + 1)]
    assert WINDOW // 4 < slow.most <= WINDOW
    assert files_of(table) == names(range(1, VERSIONS))
    assert slow.taken() == [VERSIONS]


def test_a_table_that_goes_on_costs_few_requests_for_nothing(bucket: Bucket, faulty: Faulty) -> None:
    make(bucket, 2)
    slow = Slow()
    table = open_by(faulty(slow), bucket)
    table.files()
    newest = 1
    for more in (0, 1, 5, 60):
        slow.taken()
        add(bucket, *range(newest + 1, newest + 1 + more))
        newest += more
        table.refresh()
        assert files_of(table) == names(range(1, newest + 1))
        requested = slow.taken()
        # One request finds that there is no more, and no more than what was found are for nothing.
        assert requested == [*range(requested[0], requested[-1] + 1)]
        assert len(requested) <= 1 + more + min(more, WINDOW)
    assert slow.most > 1


@pytest.mark.parametrize("way", ["history", "changes"])
def test_history_and_changes_are_read_ahead(bucket: Bucket, faulty: Faulty, way: str) -> None:
    make(bucket)
    slow = Slow()
    table = open_by(faulty(slow), bucket)
    slow.taken()
    slow.most = 0
    if way == "history":
        found = [entry.version for entry in table.history()]
        assert found == [*reversed(range(VERSIONS))]
        assert [entry.version for entry in table.history(2)] == [VERSIONS - 1, VERSIONS - 2]
    else:
        table.changes(1)
    assert WINDOW // 4 < slow.most <= WINDOW
    assert max(map(slow.versions.count, slow.versions)) <= 3


def test_a_committer_that_is_behind_reads_ahead(bucket: Bucket, faulty: Faulty) -> None:
    make(bucket, 2)
    slow = Slow()
    table = open_by(faulty(slow), bucket)
    add(bucket, *range(2, VERSIONS))
    slow.taken()
    began = time.monotonic()
    with table.append(timeout=60) as append:
        append.write(pa.table({"number": [1]}))
    seconds = time.monotonic() - began
    assert append.version == VERSIONS
    requested = slow.taken()
    assert set(requested) >= {*range(2, VERSIONS + 1)}
    # What was requested ahead counts for a second. On a busy machine it is requested again after that.
    assert len(requested) <= VERSIONS + WINDOW * (1 + int(seconds))
    assert slow.most > WINDOW // 4 or seconds > 1


@pytest.mark.parametrize("missing", [0, 1, 35, VERSIONS - 2])
def test_a_version_that_is_missing_is_an_error(bucket: Bucket, faulty: Faulty, missing: int) -> None:
    make(bucket)
    bucket.client.delete_object(Bucket=bucket.name, Key=key(missing))
    with pytest.raises(CorruptLogError, match=f"{missing:020}"):
        open_by(faulty(Slow()), bucket)


@pytest.mark.parametrize("fault", [500, 503, "close"])
def test_requests_that_fail_once_are_repeated(bucket: Bucket, faulty: Faulty, fault: Fault) -> None:
    make(bucket)
    failed: set[int] = set()
    slow = Slow()

    def once(request: Request) -> Fault:
        version = version_of(request)
        if version is not None and version % 3 == 0 and version not in failed:
            failed.add(version)
            return fault
        return slow(request)

    table = open_by(faulty(once), bucket)
    assert files_of(table) == names(range(1, VERSIONS))
    assert len(failed) > VERSIONS // 4


def test_a_version_that_is_refused_is_an_error_and_not_an_end(bucket: Bucket, faulty: Faulty) -> None:
    make(bucket)
    refused = [True]
    proxy = faulty(lambda request: 403 if refused[0] and version_of(request) == VERSIONS // 2 else None)
    with pytest.raises((DeltaError, OSError), match="403"):
        open_by(proxy, bucket)
    refused[0] = False
    assert files_of(open_by(proxy, bucket)) == names(range(1, VERSIONS))


class Once:
    """Does something before the first request for a version is handed on."""

    def __init__(self, version: int, work: Callable[[], object]) -> None:
        self.version, self.work = version, work
        self._lock = threading.Lock()
        self.is_done = False

    def __call__(self, request: Request) -> None:
        if version_of(request) == self.version:
            with self._lock:
                if not self.is_done:
                    self.is_done = True
                    self.work()


def test_a_log_that_is_cleaned_up_while_it_is_read_is_read_from_its_checkpoint(
    bucket: Bucket, faulty: Faulty
) -> None:
    direct = make(bucket)

    def clean_up() -> None:
        assert direct.checkpoint() == VERSIONS - 1
        for version in range(VERSIONS - 1):
            bucket.client.delete_object(Bucket=bucket.name, Key=key(version))

    work = Once(VERSIONS // 2, clean_up)
    table = open_by(faulty(work), bucket)
    assert work.is_done
    assert files_of(table) == names(range(1, VERSIONS))


def test_a_table_that_is_made_anew_while_it_is_read_is_read_whole(bucket: Bucket, faulty: Faulty) -> None:
    make(bucket)

    def make_anew() -> None:
        for found in all_keys(bucket):
            bucket.client.delete_object(Bucket=bucket.name, Key=found)
        make(bucket, 1)
        add(bucket, *range(1, VERSIONS), name="new-")

    work = Once(VERSIONS - 5, make_anew)
    proxy = faulty(work)
    try:
        table = open_by(proxy, bucket)
        found = files_of(table)
    except (TableNotFoundError, CorruptLogError):
        found = files_of(open_by(proxy, bucket))
    assert work.is_done
    assert found == names(range(1, VERSIONS), "new-")
