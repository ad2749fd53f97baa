"""Stores that refuse, fail, hang or are not there: a clear error, no object, and no upload left behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

import spillway

from ..faults.programs import start
from .server import SECRET, Instead, refusing_port
from .test_uploads import PARTS, TABLE, local

if TYPE_CHECKING:
    from collections.abc import Callable

    from .server import Bucket, Proxy, Request

    Fault = Callable[[Request], int | str | Instead | None]


def options(bucket: Bucket, port: int, **others: str) -> dict[str, str]:
    return bucket.options(
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", **{"max_retries": "0", "timeout": "5s", **others}
    )


def no_secret(error: BaseException) -> bool:
    return SECRET not in f"{error} {error!r} {error.args}"


def test_a_missing_bucket_is_file_not_found(bucket: Bucket, large: pa.Table) -> None:
    for table in (TABLE, large):
        with pytest.raises(FileNotFoundError, match="nowhere") as caught:
            spillway.write_parquet(table, "s3://nowhere/a.parquet", storage_options=bucket.options(), **PARTS)
        assert caught.value.filename == "s3://nowhere/a.parquet"
        assert "NoSuchBucket" in str(caught.value)
        assert no_secret(caught.value)


def test_wrong_credentials_are_a_permission_error(bucket: Bucket, large: pa.Table) -> None:
    for table in (TABLE, large):
        with pytest.raises(PermissionError, match="InvalidAccessKeyId") as caught:
            spillway.write_parquet(
                table,
                bucket.url("a.parquet"),
                storage_options=bucket.options(AWS_ACCESS_KEY_ID="nobodys-key"),
                **PARTS,
            )
        assert caught.value.filename == bucket.url("a.parquet")
        assert no_secret(caught.value)
        assert "nobodys-key" not in str(caught.value)
    assert bucket.keys() == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_a_permission_error(
    bucket: Bucket, faulty: Callable[[Fault], Proxy], status: int
) -> None:
    proxy = faulty(lambda _: status)
    with pytest.raises(PermissionError, match=str(status)):
        spillway.write_parquet(TABLE, bucket.url("a"), storage_options=options(bucket, proxy.port))


def test_a_server_that_is_not_there_is_an_error_that_names_the_url(bucket: Bucket) -> None:
    with (
        refusing_port() as port,
        pytest.raises(OSError, match=r"s3://bucket.*a\.parquet.*refused") as caught,
    ):
        spillway.write_parquet(
            TABLE, bucket.url("a.parquet"), storage_options=options(bucket, port, max_retries="1")
        )
    assert no_secret(caught.value)


FAULTS: dict[str, Fault] = {
    "small file": lambda request: 503 if request.method == "PUT" else None,
    "begin": lambda request: 500 if request.is_begin else None,
    "part": lambda request: 503 if request.is_part else None,
    "third part": lambda request: 500 if "partNumber=3" in request.path else None,
    "completion": lambda request: 500 if request.is_completion else None,
    "closed connections": lambda request: "close" if request.is_part else None,
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_server_that_fails_is_an_error_and_leaves_nothing(
    bucket: Bucket, large: pa.Table, faulty: Callable[[Fault], Proxy], name: str
) -> None:
    proxy = faulty(FAULTS[name])
    writer = spillway.ParquetWriter(
        bucket.url("a.parquet"), storage_options=options(bucket, proxy.port), **PARTS
    )
    with pytest.raises(OSError, match=r"a\.parquet") as caught:  # noqa: PT012 - any step may be the one
        writer.write(TABLE if name == "small file" else pa.table({"n": large.column(0)}))
        if name != "small file":
            for index in (1, 2, 3):
                writer.write(pa.table({"n": large.column(index)}))
        writer.close()
    assert no_secret(caught.value)
    assert bucket.keys() == []
    assert bucket.uploads() == []
    with pytest.raises(spillway.ClosedError, match="failed before"):
        writer.write(TABLE)
    with pytest.raises(spillway.ClosedError):
        _ = writer.result


def test_a_server_that_fails_once_is_asked_again(
    bucket: Bucket, large: pa.Table, faulty: Callable[[Fault], Proxy]
) -> None:
    failed: set[str] = set()

    def once(request: Request) -> int | None:
        key = f"{request.method} {request.path}"
        if key in failed:
            return None
        failed.add(key)
        return 503

    proxy = faulty(once)
    spillway.write_parquet(
        large,
        bucket.url("a.parquet"),
        storage_options=options(bucket, proxy.port, max_retries="3"),
        **PARTS,
    )
    assert bucket.keys() == ["a.parquet"]
    assert bucket.uploads() == []


def is_replaced(bucket: Bucket, large: pa.Table, proxy: Proxy, retries: str = "0") -> bool:
    """Replace an object of the same size, and say whether the writer says that it is."""
    table = large.select(["c0", "c1"])
    expected = local(table, **PARTS)
    old = bytes(len(expected))
    bucket.put("a.parquet", old)
    try:
        spillway.write_parquet(
            table,
            bucket.url("a.parquet"),
            storage_options=options(bucket, proxy.port, max_retries=retries),
            **PARTS,
        )
    except OSError:
        assert bucket.read("a.parquet") == old
        return False
    assert bucket.read("a.parquet") == expected
    return True


@pytest.mark.parametrize("lost", [Instead(500), Instead()], ids=["500", "cut"])
@pytest.mark.parametrize("retries", ["0", "2"])
def test_an_object_whose_completion_got_no_answer_is_known_by_its_entity_tag(
    bucket: Bucket, large: pa.Table, faulty: Callable[[Fault], Proxy], lost: Instead, retries: str
) -> None:
    completions = itertools.count()
    proxy = faulty(lambda request: lost if request.is_completion and next(completions) == 0 else None)
    assert is_replaced(bucket, large, proxy, retries)
    assert bucket.uploads() == []


def test_another_object_of_the_same_size_is_not_taken_for_the_upload(
    bucket: Bucket, large: pa.Table, faulty: Callable[[Fault], Proxy]
) -> None:
    proxy = faulty(lambda request: 500 if request.is_completion else None)
    assert not is_replaced(bucket, large, proxy)
    assert bucket.uploads() == []


def test_no_message_has_the_password_of_an_endpoint() -> None:
    with refusing_port() as port:
        for password in ("hunter2hunter2", "p)w'd@hunter2", "x"):
            given = {
                "AWS_ENDPOINT_URL": f"http://somebody:{password}@127.0.0.1:{port}",
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": "anybody",
                "AWS_SECRET_ACCESS_KEY": SECRET,
                "max_retries": "0",
            }
            with pytest.raises((OSError, spillway.OptionError)) as caught:
                spillway.write_parquet(TABLE, "s3://bucket/a.parquet", storage_options=given)
            assert no_secret(caught.value)
            assert f":{password}" not in str(caught.value)
            assert "hunter2" not in f"{caught.value} {caught.value!r}"
            assert "somebody" not in str(caught.value)


def test_a_server_that_hangs_is_given_up_in_time(bucket: Bucket, faulty: Callable[[Fault], Proxy]) -> None:
    # It does not answer as long as the test goes on: the writer did not wait for that.
    proxy = faulty(lambda _: "hang")
    with pytest.raises(OSError, match=r"a\.parquet"):
        spillway.write_parquet(
            TABLE, bucket.url("a.parquet"), storage_options=options(bucket, proxy.port, timeout="1s")
        )
    assert not proxy.finished.is_set()


UPLOAD = """
    import json, sys, time
    import numpy as np, pyarrow as pa, spillway
    url, options, row_group_rows = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    table = pa.table({"n": np.random.default_rng(0).integers(0, 2**63, 1_000_000)})
    started = None
    try:
        with spillway.ParquetWriter(
            url, table.schema, storage_options=options, compression="uncompressed",
            dictionary=False, row_group_rows=row_group_rows,
        ) as writer:
            for round in range(1000):
                writer.write(table)
                if round == 3:
                    print("writing", flush=True)
    except BaseException as error:
        print(json.dumps(type(error).__name__), flush=True)
"""


def part_number(request: Request) -> int:
    return int(parse_qs(urlsplit(request.path).query)["partNumber"][0])


def test_control_c_ends_a_wait_for_the_store_and_aborts_the_upload(
    bucket: Bucket, faulty: Callable[[Fault], Proxy]
) -> None:
    """Parts hang from the fifth on, and two are under way at once: the writer waits for them."""
    hangs = threading.Semaphore(0)

    def hang(request: Request) -> str | None:
        if not request.is_part or part_number(request) < 5:
            return None
        hangs.release()
        return "hang"

    proxy = faulty(hang)
    program = start(
        UPLOAD,
        bucket.url("a.parquet"),
        json.dumps(options(bucket, proxy.port, timeout="100s")),
        100_000,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "writing\n"
    for _ in range(2):
        assert hangs.acquire(timeout=60)
    program.send_signal(signal.SIGINT)
    out, errors = program.communicate(timeout=60)
    assert json.loads(out) == "KeyboardInterrupt", errors
    assert bucket.keys() == []
    assert bucket.uploads() == []


def test_control_c_while_an_upload_begins_aborts_it(
    bucket: Bucket, large: pa.Table, faulty: Callable[[Fault], Proxy]
) -> None:
    def interrupt(request: Request) -> None:
        if request.is_begin:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    proxy = faulty(interrupt)
    with pytest.raises(KeyboardInterrupt):
        spillway.write_parquet(
            large, bucket.url("a.parquet"), storage_options=options(bucket, proxy.port), **PARTS
        )
    assert any(request.is_abort for request in proxy.seen)
    assert bucket.keys() == []
    assert bucket.uploads() == []


@pytest.mark.parametrize("kind", ["file", "dataset"])
def test_a_dropped_writer_stops_no_other_thread_and_keeps_control_c(
    bucket: Bucket, large: pa.Table, faulty: Callable[[Fault], Proxy], kind: str
) -> None:
    """A drop raises nothing: Ctrl-C, which comes while the store takes its time, is raised after it."""
    beats: list[float] = []
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.01):
            beats.append(time.monotonic())

    def interrupt(request: Request) -> None:
        if request.is_abort:
            os.kill(os.getpid(), signal.SIGINT)
            # Longer than a busy machine keeps a thread waiting.
            time.sleep(4)

    proxy = faulty(interrupt)
    given: dict[str, Any] = {"storage_options": options(bucket, proxy.port), **PARTS}
    held: list[Any] = [
        spillway.ParquetWriter(bucket.url("a.parquet"), large.schema, **given)
        if kind == "file"
        else spillway.DatasetWriter(bucket.url("a"), large.schema, mode="append", **given)
    ]
    held[0].write(large)

    def drop() -> None:
        held.clear()
        for _ in range(100):
            time.sleep(0.01)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            drop()
    finally:
        ended.set()
        thread.join()
    assert max(after - before for before, after in itertools.pairwise(beats)) < 3
    assert any(request.is_abort for request in proxy.seen)


def test_a_killed_writer_leaves_no_object(bucket: Bucket) -> None:
    bucket.put("a.parquet", b"old")
    program = start(UPLOAD, bucket.url("a.parquet"), json.dumps(bucket.options()), 100_000)
    assert program.stdout is not None
    assert program.stdout.readline() == "writing\n"
    program.kill()
    program.communicate()
    assert bucket.read("a.parquet") == b"old"
    assert bucket.keys() == ["a.parquet"]
