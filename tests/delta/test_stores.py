"""Tables in a store: what other engines read there, many writers at once, and a network that fails."""

from __future__ import annotations

import asyncio
import collections
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

import deltalake
import polars as pl
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError

import spillway.delta
from spillway import _native
from spillway.delta.append import _wait_for_checkpoints
from spillway.errors import (
    CommitTimeoutError,
    CommitUnknown,
    DeltaError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
    VersionNotFoundError,
)

from ..counts import SOAK, count
from ..stores.server import SECRET, Instead, Late, Undated, ministack, refusing_port
from .conftest import rows
from .programs import SCHEMA, batch
from .test_many import PROGRAMS
from .test_optimize import vacuum
from .test_scarce import alone
from .test_values import EVERY_TYPE, PARTITION_VALUES, partitioned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..stores.server import Bucket, Fault, Proxy, Request

HOUR, DAY = 3_600, 86_400
ROUNDS = count(quick=10, ci=20, soak=200)
TASKS = count(quick=20, ci=100, soak=1_000)
CONDITIONAL = {"aws_conditional_put": "etag"}
# MinIO takes any region; ministack, as S3 does, its own alone.
OTHER_REGION = "eu-west-1" if SOAK else "us-east-1"


def read_deltalake(bucket: Bucket, name: str = "table") -> pa.Table:
    table = deltalake.DeltaTable(bucket.url(name), storage_options=bucket.options() | CONDITIONAL)
    return pa.table(table.to_pyarrow_table())


def read_polars(bucket: Bucket, name: str = "table") -> pa.Table:
    return pl.read_delta(bucket.url(name), storage_options=bucket.options()).to_arrow()


def read_spillway(bucket: Bucket, name: str = "table") -> pa.Table:
    return pa.table(spillway.delta.open(bucket.url(name), storage_options=bucket.options()).scan())


READERS = {"delta-rs": read_deltalake, "polars": read_polars, "spillway": read_spillway}


def create(bucket: Bucket, **options: str) -> spillway.delta.Table:
    return spillway.delta.create(
        bucket.url("table"), SCHEMA, storage_options=bucket.options() | options, partition_by="writer"
    )


def through(proxy: Proxy, bucket: Bucket, **options: str) -> dict[str, str]:
    return bucket.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}", **options)


def append(table: spillway.delta.Table, writer: str, number: int) -> int:
    with table.append(timeout=60) as append:
        append.write(batch(writer, number))
    assert append.version is not None
    return append.version


def append_side_by_side(*tables: spillway.delta.Table) -> None:
    """Sixteen appends from as many threads, by the tables in turn; all are acknowledged."""
    with ThreadPoolExecutor(16) as threads:
        appends = [
            threads.submit(append, tables[number % len(tables)], "many", number) for number in range(16)
        ]
    assert all(done.result() for done in appends)


async def append_by_tasks(table: spillway.delta.Table, count: int) -> list[int]:
    """So many appends that tasks wait for; returns the version of each."""

    async def one(number: int) -> int:
        append = table.append(coalesce=True, timeout=60)
        append.write(batch("tasks", number))
        return await append.commit_async()

    return await asyncio.gather(*map(one, range(count)))


def all_keys(bucket: Bucket) -> list[str]:
    pages = bucket.client.get_paginator("list_objects_v2").paginate(Bucket=bucket.name)
    return sorted(entry["Key"] for page in pages for entry in page.get("Contents", ()))


def check_log(bucket: Bucket) -> None:
    """The log is contiguous, adds each file once, and the files are there, without others."""
    assert _native.await_intent_gc(60)
    keys = all_keys(bucket)
    log = [key for key in keys if key.startswith("table/_delta_log/") and key.endswith(".json")]
    assert [key.rpartition("/")[2] for key in log] == [f"{version:020}.json" for version in range(len(log))]
    adds: collections.Counter[str] = collections.Counter()
    for key in log:
        for line in bucket.read(key).decode().splitlines():
            if "add" in (action := json.loads(line)):
                adds["table/" + unquote(action["add"]["path"])] += 1
    assert set(adds.values()) <= {1}
    data = {key for key in keys if key.endswith(".parquet") and "_delta_log" not in key}
    assert set(adds) == data
    # Whoever announced a bundle has withdrawn it.
    assert not [key for key in keys if "_spillway" in key]
    assert bucket.uploads() == []


def acknowledged(bucket: Bucket) -> list[tuple[str, int]]:
    return sorted((row["writer"], row["number"]) for row in read_deltalake(bucket).to_pylist())


@pytest.mark.parametrize("kind", ["minio", "ministack"] if SOAK else ["ministack"])
def test_of_sixteen_creations_one_wins(kind: str, bucket: Bucket, tmp_path: Path) -> None:
    with ministack(tmp_path) if kind == "ministack" else nullcontext() as small:
        if small is not None:
            bucket = small.bucket("race")
        for key in range(ROUNDS):
            barrier, won = threading.Barrier(16), []

            def one(number: int, key: int = key, barrier: Any = barrier, won: list[int] = won) -> None:
                barrier.wait()
                try:
                    body = str(number).encode()
                    bucket.client.put_object(Bucket=bucket.name, Key=str(key), Body=body, IfNoneMatch="*")
                except ClientError as error:
                    assert error.response["ResponseMetadata"]["HTTPStatusCode"] in {409, 412}  # noqa: PT017
                else:
                    won.append(number)

            threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [str(number).encode() for number in won] == [bucket.read(str(key))]


@pytest.mark.parametrize("reader", READERS)
def test_every_type(bucket: Bucket, reader: str) -> None:
    spillway.delta.write(bucket.url("table"), EVERY_TYPE, storage_options=bucket.options())
    found = READERS[reader](bucket)
    if reader == "polars":
        assert found.num_rows == EVERY_TYPE.num_rows
    else:
        assert rows(found.cast(EVERY_TYPE.schema)) == rows(EVERY_TYPE)


@pytest.mark.parametrize("kind", PARTITION_VALUES)
def test_odd_partition_values(bucket: Bucket, kind: str) -> None:
    data, expected = partitioned(kind)
    if kind == "decimal":
        # As in the test of folders: delta-rs makes "-1.-50" of a negative one.
        data, expected = data.slice(1), expected.slice(1)
    url = bucket.url("table")
    spillway.delta.write(url, data, partition_by="p", storage_options=bucket.options())
    assert rows(read_deltalake(bucket).cast(expected.schema)) == rows(expected)
    check_log(bucket)


@pytest.mark.parametrize("reader", READERS)
def test_what_is_appended_is_read_with_and_without_a_checkpoint(bucket: Bucket, reader: str) -> None:
    table = create(bucket)
    assert table.path == bucket.url("table")
    for number in range(12):
        assert append(table, "a", number) == number + 1
    table.checkpoint()
    assert "table/_delta_log/_last_checkpoint" in all_keys(bucket)
    append(table, "b", 0)
    expected = [("a", number) for number in range(12)] + [("b", 0)]

    def found() -> list[tuple[str, int]]:
        read = READERS[reader](bucket).to_pylist()
        return sorted((row["writer"], row["number"]) for row in read)

    assert found() == sorted(expected)
    check_log(bucket)
    # Only the checkpoint stands for the versions before it now.
    for version in range(12):
        bucket.client.delete_object(Bucket=bucket.name, Key=f"table/_delta_log/{version:020}.json")
    assert found() == sorted(expected)
    again = spillway.delta.open(bucket.url("table"), storage_options=bucket.options(AWS_REGION=OTHER_REGION))
    assert again.version == 13
    assert append(again, "c", 0) == 14
    assert append(table, "c", 1) == 15
    with pytest.raises(VersionNotFoundError):
        again.files(3)


def test_appends_share_files_there_too(bucket: Bucket) -> None:
    table = create(bucket)

    def one(number: int) -> int:
        with table.append(coalesce=True, timeout=60) as append:
            append.write(batch("many", number))
        assert append.version is not None
        return append.version

    with ThreadPoolExecutor(16) as threads:
        versions = list(threads.map(one, range(64)))
    assert acknowledged(bucket) == [("many", number) for number in range(64)]
    assert len(table.files()) == table.version == len(set(versions)) < 64
    check_log(bucket)


def test_tasks_share_versions_there_too(bucket: Bucket) -> None:
    table = create(bucket)
    versions = asyncio.run(append_by_tasks(table, TASKS))
    assert acknowledged(bucket) == [("tasks", number) for number in range(TASKS)]
    assert table.version == len(set(versions)) < TASKS
    check_log(bucket)


@pytest.mark.parametrize(("days", "kept"), [(40, range(10, 16)), (29, range(16))])
def test_old_versions_leave_the_log_by_the_times_of_the_store(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], days: int, kept: range
) -> None:
    create(bucket)
    proxy = faulty(lambda _: None)
    table = spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket))
    for number in range(15):
        append(table, "a", number)
        _wait_for_checkpoints()
    assert [key for key in all_keys(bucket) if "checkpoint.parquet" in key][-1].endswith(
        f"{10:020}.checkpoint.parquet"
    )
    proxy.aged = days * 86_400
    table._native.clean_up_log()
    versions = [int(key[-25:-5]) for key in all_keys(bucket) if "_delta_log/" in key and key.endswith("json")]
    assert versions == list(kept)
    assert acknowledged(bucket) == [("a", number) for number in range(15)]
    # The version that it knew the table by is gone, and the table is still the same.
    assert append(table, "b", 0) == 16
    assert table.version == 16


@pytest.mark.parametrize("ahead", [-31 * DAY, -2 * HOUR, 2 * HOUR, 31 * DAY])
def test_nothing_leaves_a_store_whose_clock_is_far_off(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], ahead: int
) -> None:
    create(bucket)
    proxy = faulty(lambda _: None)
    table = spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket))
    append(table, "a", 0)
    table.checkpoint()
    before = all_keys(bucket)
    proxy.ahead, proxy.aged = ahead, 400 * DAY
    vacuums = [table.vacuum, lambda: table.vacuum(dry_run=False)]
    for remove in [table._native.clean_up_log, *vacuums]:
        with pytest.raises(UnsupportedTableError, match="clock of this machine"):
            remove()
    assert all_keys(bucket) == before


@pytest.mark.parametrize(
    ("behind", "spare"), [(31 * DAY, HOUR // 4), (HOUR // 2, HOUR // 4), (-HOUR // 2, -HOUR // 4)]
)
def test_a_checkpoint_goes_by_the_clock_of_the_store(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], behind: int, spare: int
) -> None:
    """Seconds by which the store's clock is behind, and seconds until an entry expires by it."""
    spillway.delta.create(
        bucket.url("table"),
        SCHEMA,
        storage_options=bucket.options(),
        properties={"delta.setTransactionRetentionDuration": "interval 1 day"},
    )
    at = int((time.time() - behind - DAY + spare) * 1000)
    line = {"txn": {"appId": "loader", "version": 1, "lastUpdated": at}}
    key = f"table/_delta_log/{1:020}.json"
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=json.dumps(line).encode())
    proxy = faulty(lambda _: None)
    proxy.ahead = -behind
    table = spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket))
    assert table.checkpoint() == 1
    bucket.client.delete_object(Bucket=bucket.name, Key=f"table/_delta_log/{0:020}.json")
    again = spillway.delta.open(bucket.url("table"), storage_options=bucket.options())
    assert again.transaction_version("loader") == (1 if spare > 0 else None)


@pytest.mark.parametrize("status", [400, 405, 501])
def test_a_store_without_conditions_on_replacing_gets_checkpoints(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], status: int
) -> None:
    create(bucket)
    proxy = faulty(lambda request: status if request.is_exchange and request.method == "PUT" else None)
    table = spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket))
    for number in range(2):
        assert append(table, "a", number) == table.checkpoint()
    assert any(request.is_exchange for request in proxy.seen)
    hint = bucket.client.get_object(Bucket=bucket.name, Key="table/_delta_log/_last_checkpoint")
    assert json.load(hint["Body"])["version"] == 2


def test_a_damaged_checkpoint_is_replaced_there_too(bucket: Bucket) -> None:
    table = create(bucket)
    append(table, "a", 0)
    key = f"table/_delta_log/{table.checkpoint():020}.checkpoint.parquet"
    bucket.client.put_object(Bucket=bucket.name, Key=key, Body=b"PAR1 and no more")
    assert table.checkpoint() == 1
    for version in (0, 1):
        bucket.client.delete_object(Bucket=bucket.name, Key=f"table/_delta_log/{version:020}.json")
    for read in READERS.values():
        assert rows(read(bucket)) == rows(batch("a", 0))


WITHOUT_THREADS = """
url, options = sys.argv[1], dict(option.split("=", 1) for option in sys.argv[2:])
rows = pa.table({"number": [1]})
native = spillway._native.DeltaTable
table = spillway.delta.Table(native.planned(url, native.plan(rows.schema, []), options), options)

def append():
    with table.append() as append:
        append.write(rows)
    return append.version

try:
    append()
except (OSError, spillway.SpillwayError) as error:
    print(error)
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
print(append())
"""


def test_a_table_whose_client_got_no_thread_asks_for_it_again(bucket: Bucket) -> None:
    options = [f"{name}={value}" for name, value in bucket.options().items()]
    said = alone(WITHOUT_THREADS, bucket.url("table"), *options)
    refused, version = said.splitlines()
    assert "Resource temporarily unavailable" in refused
    assert version == "0"
    assert read_spillway(bucket)["number"].to_pylist() == [1]


def test_a_table_that_was_made_anew_is_another_table(bucket: Bucket) -> None:
    table = create(bucket)
    append(table, "a", 0)
    assert table.version == 1
    for key in all_keys(bucket):
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    options = bucket.options() | CONDITIONAL
    for number in range(3):
        deltalake.write_deltalake(table.path, batch("rs", number), storage_options=options, mode="append")
    for _ in range(2):
        with pytest.raises(TableNotFoundError, match="open it again"):
            table.files()
        with pytest.raises(TableNotFoundError, match="open it again"):
            append(table, "a", 1)
    assert acknowledged(bucket) == [("rs", number) for number in range(3)]


def test_a_table_that_delta_rs_made_is_written_to(bucket: Bucket) -> None:
    options = bucket.options() | CONDITIONAL
    deltalake.write_deltalake(bucket.url("table"), batch("rs", 0), storage_options=options)
    table = spillway.delta.open(bucket.url("table"), storage_options=bucket.options())
    append(table, "a", 0)
    deltalake.write_deltalake(bucket.url("table"), batch("rs", 1), storage_options=options, mode="append")
    append(table, "a", 1)
    assert acknowledged(bucket) == [("a", 0), ("a", 1), ("rs", 0), ("rs", 1)]
    check_log(bucket)


def test_the_whole_bucket_can_be_a_table(bucket: Bucket) -> None:
    spillway.delta.write(f"s3://{bucket.name}", batch("a", 0), storage_options=bucket.options())
    assert read_deltalake(bucket, "").num_rows == 1
    assert spillway.delta.open(f"s3://{bucket.name}/", storage_options=bucket.options()).version == 1


def test_removals_restoring_and_overwriting(bucket: Bucket) -> None:
    table = create(bucket)
    for name in ("a", "b"):
        append(table, name, 0)
    table.delete_partition(writer="a")
    assert acknowledged(bucket) == [("b", 0)]
    table.restore(2)
    assert acknowledged(bucket) == [("a", 0), ("b", 0)]
    spillway.delta.write(table.path, batch("c", 0), mode="overwrite", storage_options=bucket.options())
    assert acknowledged(bucket) == [("c", 0)]
    assert [commit.operation for commit in table.history()][:2] == ["WRITE", "RESTORE"]
    lost = next(file for file in table.files(2) if "writer=a" in file.path)
    bucket.client.delete_object(Bucket=bucket.name, Key=f"table/{lost.path}")
    with pytest.raises(VersionNotFoundError, match="is gone"):
        table.restore(2)


def marking(bucket: Bucket) -> spillway.delta.Table:
    """A table with 4000 numbers in a file, of which deletes mark rows."""
    properties = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(
        bucket.url("table"), SCHEMA, properties=properties, storage_options=bucket.options()
    )
    with table.append() as append:
        append.write(pa.table({"writer": ["w"] * 4000, "number": range(4000)}, SCHEMA))
    return table


def test_rows_are_marked_and_deleted_on_a_store(bucket: Bucket) -> None:
    table = marking(bucket)

    def one(writer: int) -> int:
        return table.delete([("number", "in", list(range(writer, 2000, 8)))]).rows

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(8))) == [250] * 8
    assert read_spillway(bucket)["number"].to_pylist() == list(range(2000, 4000))
    assert read_polars(bucket)["number"].to_pylist() == list(range(2000, 4000))
    # Those that wait at the same time share a version, and its vector.
    assert 1 <= len([key for key in all_keys(bucket) if key.endswith(".bin")]) <= 8
    assert table.delete([("number", "<", 3500)]).rows == 1500
    assert sorted(read_spillway(bucket)["number"].to_pylist()) == list(range(3500, 4000))


def test_a_table_on_a_store_is_compacted_and_cleaned(bucket: Bucket) -> None:
    table = marking(bucket)
    for number in range(4000, 4006):
        append(table, "other", number)
    assert table.delete([("number", "in", [1, 2, 3])]).rows == 3
    assert table.optimize().removed_files == 7
    assert table.delete([("number", "in", [4, 5])]).rows == 2
    assert table.purge().added_files == 1
    bucket.client.put_object(Bucket=bucket.name, Key="table/a b/stray 100%.parquet", Body=b"stray")
    assert table.vacuum().files == []
    # The store tells the time in whole seconds.
    deadline = time.monotonic() + 120
    gone: set[str] = set()
    while len(gone) < 8:
        assert time.monotonic() < deadline, gone
        done = vacuum(table)
        assert done.removed == len(done.files)
        gone |= {*done.files}
        time.sleep(0.2)
    # No version names it, and somebody may be about to commit it.
    assert "a b/stray 100%.parquet" not in gone
    for read in (read_spillway, read_polars):
        assert sorted(read(bucket)["number"].to_pylist()) == [0, *range(6, 4006)]


def test_a_change_data_feed_is_read_on_a_store_and_removed_from_it(bucket: Bucket) -> None:
    table = spillway.delta.create(
        bucket.url("table"),
        SCHEMA,
        storage_options=bucket.options(),
        partition_by="writer",
        properties={"delta.enableChangeDataFeed": "true"},
    )
    with table.append() as append:
        append.write(pa.concat_tables([batch("a b", number) for number in range(3)]))
    table.update([("number", "=", 1)], {"writer": "c"})
    table.delete([("number", "=", 2)])
    changes = [
        ("a b", 1, "update_preimage", 2),
        ("a b", 2, "delete", 3),
        ("c", 1, "update_postimage", 2),
    ]
    names = ["writer", "number", "_change_type", "_commit_version"]
    delta_rs = deltalake.DeltaTable(bucket.url("table"), storage_options=bucket.options() | CONDITIONAL)
    for found in (pa.table(table.changes(2)), pa.table(delta_rs.load_cdf(starting_version=2).read_all())):
        assert sorted(zip(*(found[name].to_pylist() for name in names), strict=True)) == changes
    assert table.vacuum().files == []
    # The store tells the time in whole seconds.
    deadline = time.monotonic() + 120
    while "/_change_data/" in " ".join(bucket.keys()):
        assert time.monotonic() < deadline
        vacuum(table)
        time.sleep(0.2)
    assert sorted(read_spillway(bucket)["number"].to_pylist()) == [0, 1]


def test_the_timeout_of_a_delete_is_that_of_its_commit(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    marking(bucket)
    # The first read takes longer than a commit may, and a commit less, on a busy machine too.
    longer = iter([6.0])

    def slow(request: Request) -> Fault:
        if request.method == "GET" and request.path.endswith(".parquet"):
            time.sleep(next(longer, 0))
        return None

    table = spillway.delta.open(bucket.url("table"), storage_options=through(faulty(slow), bucket))
    assert table.delete([("number", "=", 7)], timeout=5).rows == 1
    assert next(longer, None) is None, "nothing was slow"


def test_a_signal_in_a_merge_ends_the_delete_and_leaves_no_vector(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    other = marking(bucket)
    vectors = itertools.count()

    def rule(request: Request) -> Fault:
        if not (request.method == "PUT" and request.path.endswith(".bin")):
            return None
        match next(vectors):
            case 0:
                other.delete([("number", "in", list(range(1, 2000, 8)))])
                return None
            case 1:
                signal.raise_signal(signal.SIGINT)
        return "hang"

    table = spillway.delta.open(bucket.url("table"), storage_options=through(faulty(rule), bucket))
    with pytest.raises(KeyboardInterrupt) as raised:
        table.delete([("number", "in", list(range(0, 2000, 8)))])
    assert isinstance(raised.value.__cause__, CommitTimeoutError)
    assert next(vectors) == 2
    assert table.version == 2
    assert len([key for key in all_keys(bucket) if key.endswith(".bin")]) == 1


def test_a_missing_object_fails_its_own_commit(bucket: Bucket) -> None:
    table = create(bucket)
    file = spillway.delta.AddFile("nowhere.parquet", 9, partition_values={"writer": "a"})
    with pytest.raises(FileNotFoundError, match=r"table/nowhere\.parquet"):
        table.commit(adds=[file])
    bucket.put("table/nowhere.parquet", b"it is now")
    assert table.commit(adds=[file]) == 1


def test_an_object_of_another_size_fails_its_own_commit(bucket: Bucket) -> None:
    table = create(bucket)
    bucket.put("table/short.parquet", b"a part")
    file = spillway.delta.AddFile("short.parquet", 9, partition_values={"writer": "a"})
    with pytest.raises(DeltaError, match=r"table/short\.parquet.* 6 bytes.* 9"):
        table.commit(adds=[file])
    assert table.version == 0


def test_an_append_that_is_given_up_leaves_nothing(bucket: Bucket) -> None:
    table = create(bucket)
    before = all_keys(bucket)
    abandoned = table.append(max_file_rows=1)
    for number in range(3):
        abandoned.write(batch("a", number))
    assert len(all_keys(bucket)) > len(before)
    abandoned.abort()
    assert all_keys(bucket) == before


def test_an_append_that_nobody_finishes_leaves_nothing(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    create(bucket)
    before = all_keys(bucket)
    # The proxy is a thread of this process: it answers only while nobody holds the GIL.
    options = through(faulty(lambda _: None), bucket)
    abandoned = spillway.delta.open(bucket.url("table"), storage_options=options).append(max_file_rows=1)
    for number in range(3):
        abandoned.write(batch("a", number))
    assert len(all_keys(bucket)) > len(before)
    del abandoned
    assert all_keys(bucket) == before


def test_the_same_rows_are_not_written_again(bucket: Bucket) -> None:
    table = create(bucket)
    for _ in range(2):
        with table.append(app_id="loader", app_version=7) as append:
            append.write(batch("a", 0))
    assert table.version == 1
    assert acknowledged(bucket) == [("a", 0)]


def test_a_table_travels_in_a_pickle_and_into_a_child(bucket: Bucket) -> None:
    table = create(bucket)
    append(table, "parent", 0)
    append(pickle.loads(pickle.dumps(table)), "pickle", 0)  # noqa: S301 - our own
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if append(table, "child", 0) == 3 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert append(table, "parent", 1) == 4
    assert acknowledged(bucket) == [("child", 0), ("parent", 0), ("parent", 1), ("pickle", 0)]


def test_processes_and_threads_append_at_once(bucket: Bucket) -> None:
    create(bucket)
    command = [sys.executable, str(PROGRAMS), "many", bucket.url("table")]
    workers = [
        subprocess.Popen(
            [*command, f"p{number}", "16"],
            env=dict(os.environ) | bucket.options(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=120)
        assert worker.returncode == 0
    check_log(bucket)
    assert acknowledged(bucket) == sorted((f"p{process}", n) for process in range(4) for n in range(16))
    table = spillway.delta.open(bucket.url("table"), storage_options=bucket.options())
    assert table.version <= 32, "processes combine"


class OncePerVersion:
    """Does it to the first attempt at each version that is not the table's first."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.met: set[str] = set()

    def __call__(self, request: Request) -> Fault:
        if not request.is_version or request.path in self.met:
            return None
        self.met.add(request.path)
        return self.fault


FAULTS: dict[str, Fault] = {
    "lost request": "close",
    "lost reply": Instead(),
    "lost reply, told 500": Instead(500),
    "lost reply, told 503": Instead(503),
    "lost reply, told 409": Instead(409),
    "lost reply, told 412": Instead(412),
    "told 409": 409,
    "told 412": 412,
    "told 429": 429,
    "told 500": 500,
    "told 503": 503,
    "late": Late(0.3),
    "late beyond patience": Late(2.5),
}


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_of_a_commit_loses_or_doubles_rows(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], name: str
) -> None:
    table = create(bucket)
    proxy = faulty(OncePerVersion(FAULTS[name]))
    unlucky = spillway.delta.open(table.path, storage_options=through(proxy, bucket, timeout="1s"))
    for number in range(3):
        append(unlucky, "alone", number)
    append_side_by_side(table, unlucky)
    check_log(bucket)
    expected = [("alone", number) for number in range(3)] + [("many", number) for number in range(16)]
    assert acknowledged(bucket) == expected


@pytest.mark.parametrize("status", [500, 503, "close"])
def test_no_fault_of_any_other_request_loses_or_doubles_rows(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], status: Fault
) -> None:
    table = create(bucket)
    counted, in_a_row = 0, collections.Counter[tuple[str, str]]()
    turn = threading.Lock()

    def every_third(request: Request) -> Fault:
        """Fails every third request, and none six times in a row, after which the client gives up."""
        nonlocal counted
        if request.is_version:
            return None
        key = request.method, request.path
        with turn:
            counted += 1
            fails = counted % 3 == 0 and in_a_row[key] < 5
            in_a_row[key] = in_a_row[key] + 1 if fails else 0
        return status if fails else None

    unlucky = spillway.delta.open(table.path, storage_options=through(faulty(every_third), bucket))
    append_side_by_side(table, unlucky)
    check_log(bucket)
    assert acknowledged(bucket) == [("many", number) for number in range(16)]


def test_an_announcement_is_sent_once_though_its_answer_is_lost(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    table = create(bucket)
    # A process that finds an intent of another one announces its own.
    bucket.put(f"table/_spillway/intents/{1:020}-{uuid4().hex}-0.json", b"of no known format")

    def is_announcement(request: Request) -> bool:
        return request.method == "PUT" and "/_spillway/intents/" in request.path

    proxy = faulty(lambda request: Instead(500) if is_announcement(request) else None)
    unlucky = spillway.delta.open(table.path, storage_options=through(proxy, bucket))
    assert append(unlucky, "a", 0) == 1
    sent = [request.path for request in proxy.seen if is_announcement(request)]
    assert len(sent) == len(set(sent)) > 0


def test_the_clock_of_a_listing_is_that_of_its_own_answer(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    table = create(bucket)

    def is_listing_of_intents(request: Request) -> bool:
        return "list-type" in request.path and "_spillway/intents" in unquote(request.path)

    proxy = faulty(lambda request: Undated() if is_listing_of_intents(request) else None)
    undated = spillway.delta.open(table.path, storage_options=through(proxy, bucket))
    with pytest.raises(DeltaError, match="_spillway/intents has no Date"):
        append(undated, "a", 0)
    assert table.version == 0


def test_a_commit_in_doubt_is_settled(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    table = create(bucket)
    fail = threading.Event()
    fail.set()

    def reply_lost(request: Request) -> Fault:
        if not fail.is_set():
            return None
        # It lands, and nobody hears of it: the log cannot be read either.
        if request.is_version:
            return Instead(500)
        return 500 if "_delta_log/0" in request.path and request.method == "GET" and landed() else None

    def landed() -> bool:
        return f"table/_delta_log/{1:020}.json" in all_keys(bucket)

    options = through(faulty(reply_lost), bucket, max_retries="0")
    unlucky = spillway.delta.open(table.path, storage_options=options)

    def doubt(timeout: float) -> CommitUnknown | CommitTimeoutError:
        doubtful = unlucky.append(timeout=timeout)
        doubtful.write(batch("a", 0))
        with pytest.raises((CommitUnknown, CommitTimeoutError)) as caught:
            doubtful.commit()
        return caught.value

    # On a busy machine, a commit may not have come to its first attempt in a few seconds.
    doubted = next(error for error in map(doubt, (4, 60)) if isinstance(error, CommitUnknown))
    fail.clear()
    assert unlucky.outcome(doubted.token).status == "committed"
    assert table.outcome(doubted.token) == spillway.delta.Outcome("committed", 1)
    assert acknowledged(bucket) == [("a", 0)]


@pytest.mark.parametrize("status", [400, 403, 501])
def test_a_refused_commit_is_an_error_and_leaves_nothing(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], status: int
) -> None:
    table = create(bucket)
    before = all_keys(bucket)
    proxy = faulty(lambda request: status if request.is_version else None)
    refused = spillway.delta.open(table.path, storage_options=through(proxy, bucket))
    with pytest.raises(OSError, match=rf"_delta_log/{1:020}\.json.*{status}") as caught:
        append(refused, "a", 0)
    assert isinstance(caught.value, PermissionError) == (status == 403)
    assert all_keys(bucket) == before


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where nobody answers."""
    with refusing_port() as port:
        yield f"http://127.0.0.1:{port}"


def test_errors_say_what_is_wrong_with_the_store(bucket: Bucket, nowhere: str) -> None:
    wrong = bucket.options() | {"AWS_SECRET_ACCESS_KEY": "wrong-and-secret"}
    unknown = wrong | {"AWS_ACCESS_KEY_ID": "nobody"}
    refusing = bucket.options(AWS_ENDPOINT_URL=nowhere, max_retries="1")
    create(bucket)
    # MinIO looks at the secret, ministack at the key alone.
    refused = [(bucket.url("table"), wrong, PermissionError, "SignatureDoesNotMatch")] if SOAK else []
    for url, options, kind, says in [
        *refused,
        (bucket.url("table"), unknown, PermissionError, "InvalidAccessKeyId"),
        ("s3://no-such-bucket/table", bucket.options(), FileNotFoundError, "NoSuchBucket"),
        (bucket.url("other"), bucket.options(), TableNotFoundError, "other: not a Delta table"),
        (bucket.url("table"), refusing, OSError, "refused"),
        (bucket.url("table"), {"AWS_REIGON": "x"}, OptionError, "AWS_REIGON"),
        ("s3://user:secret@bucket/table", {}, OptionError, "password"),
        ("ftp://host/table", None, OptionError, "choose a path, or s3://"),
    ]:
        with pytest.raises(kind, match=says) as caught:
            spillway.delta.open(url, storage_options=options)
        assert SECRET not in f"{caught.value!r}"
        assert "wrong-and-secret" not in f"{caught.value!r}"
        if kind is not TableNotFoundError:
            with pytest.raises(kind, match=says):
                spillway.delta.create(url, SCHEMA, storage_options=options)
    with pytest.raises(TableExistsError, match=bucket.url("table")):
        create(bucket)


def test_a_store_that_replaces_what_it_should_only_create_is_refused(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    # What such a store would say to the second of two creations.
    proxy = faulty(lambda request: Instead(200) if "_spillway/probe-" in request.path else None)
    options = through(proxy, bucket)
    with pytest.raises(DeltaError, match="conditional PUT"):
        spillway.delta.create(bucket.url("table"), SCHEMA, storage_options=options)
    assert all_keys(bucket) == []
    made_elsewhere = create(bucket)
    with pytest.raises(DeltaError, match="conditional PUT"):
        append(spillway.delta.open(made_elsewhere.path, storage_options=options), "a", 0)
    assert made_elsewhere.version == 0


def test_a_lost_answer_is_not_held_against_a_store(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    lost = iter([503])
    proxy = faulty(lambda request: next(lost, None) if "_spillway/probe-" in request.path else None)
    table = spillway.delta.create(bucket.url("table"), SCHEMA, storage_options=through(proxy, bucket))
    assert append(table, "a", 0) == 1


@pytest.mark.parametrize(
    ("lost", "says", "then"),
    [
        # A commit tries again until its time is up, and waits between the tries of a probe no longer.
        ("all", "not known if the store has conditional PUT", "nothing was written"),
        ("the first of each", "replaces objects", "replaces objects"),
    ],
)
def test_nothing_is_committed_to_a_store_that_was_not_proven(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy], lost: str, says: str, then: str
) -> None:
    met: collections.Counter[str] = collections.Counter()

    def fault(request: Request) -> Fault:
        if request.method != "PUT" or "_spillway/probe-" not in request.path:
            return None
        met[request.path] += 1
        if lost == "all":
            return 503
        # The store replaces what it should only create, and the answer that would show it is lost.
        return 503 if met[request.path] == 1 else Instead(200)

    options = through(faulty(fault), bucket)
    with pytest.raises((OSError, spillway.SpillwayError), match=says):
        spillway.delta.create(bucket.url("table"), SCHEMA, storage_options=options)
    assert met.total() > 1
    assert not [key for key in all_keys(bucket) if "_delta_log" in key]
    made_elsewhere = create(bucket)
    refused = spillway.delta.open(made_elsewhere.path, storage_options=options).append(timeout=1)
    refused.write(batch("a", 0))
    began = time.monotonic()
    with pytest.raises((OSError, spillway.SpillwayError), match=then):
        refused.commit()
    # The waits of one probe are more than five seconds.
    assert time.monotonic() - began < 4
    assert made_elsewhere.version == 0


@pytest.mark.parametrize(("what", "coalesce"), [("version", False), ("version", True), ("every", False)])
def test_a_store_that_hangs_keeps_nobody_beyond_the_timeout(
    bucket: Bucket,
    faulty: Callable[[Callable[[Request], Fault]], Proxy],
    what: str,
    coalesce: bool,  # noqa: FBT001
) -> None:
    table = create(bucket)
    hang = threading.Event()
    proxy = faulty(
        lambda request: "hang" if hang.is_set() and (what == "every" or request.is_version) else None
    )
    unlucky = spillway.delta.open(table.path, storage_options=through(proxy, bucket))
    late = unlucky.append(timeout=2, coalesce=coalesce)
    late.write(batch("a", 0))
    hang.set()
    # The store answers no more as long as the test goes on: what ends here did not wait for it.
    if what == "version":
        with pytest.raises((CommitTimeoutError, CommitUnknown)) as raised:
            late.commit()
        was_tried = any(request.is_version for request in proxy.seen)
        assert was_tried or isinstance(raised.value, CommitTimeoutError)
    else:
        late.abort()
        with pytest.raises((CommitTimeoutError, OSError)):
            unlucky.truncate(timeout=1)
    hang.clear()
    assert append(table, "b", 0) in {1, 2}


def test_a_signal_ends_the_wait_for_a_store_that_hangs(
    bucket: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    create(bucket)

    once = iter([signal.SIGINT])

    def interrupt(_: Request) -> Fault:
        for number in once:
            signal.raise_signal(number)
        return "hang"

    proxy = faulty(interrupt)
    with pytest.raises(KeyboardInterrupt):
        spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket))


def test_options_of_a_store_do_not_go_with_a_path(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="leave them out"):
        spillway.delta.open(tmp_path, storage_options={})


def test_who_may_not_write_hears_it_though_another_handle_may(bucket: Bucket) -> None:
    table = create(bucket)
    with pytest.raises(PermissionError):
        spillway.delta.open(table.path, storage_options=bucket.options(AWS_ACCESS_KEY_ID="nobodys-key"))
    assert append(table, "a", 0) == 1


def test_parts_of_an_append_are_committed_and_removed_on_a_store(bucket: Bucket) -> None:
    table = create(bucket)

    def part(number: int) -> bytes:
        append = table._append(folder="job")
        append.write(batch("w", number))
        return append.detach()

    with table.append() as append:
        for number in range(3):
            append.attach(part(number))
    for read in READERS.values():
        assert sorted(read(bucket)["number"].to_pylist()) == [0, 1, 2]
    given_up = table.append()
    given_up.attach(part(3))
    given_up.abort()
    keys = bucket.keys()
    assert len([name for name in keys if name.startswith("table/job/")]) == 3
