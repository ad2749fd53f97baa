"""A file as an object of S3: when it appears, and that it is the file."""

from __future__ import annotations

import gc
import io
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import spillway

from ..faults.programs import run
from .server import KEY, SECRET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .server import Bucket, Proxy

TABLE = pa.table({"n": range(1_000)})
# Uncompressed row groups of half a part, so that parts go out while rows come in.
PARTS: dict[str, Any] = {"compression": "uncompressed", "row_group_rows": 100_000, "dictionary": False}


def local(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    spillway.write_parquet(table, file, **options)
    return file.getvalue()


def test_a_small_file_is_one_request(bucket: Bucket, faulty: Callable[..., Proxy]) -> None:
    proxy = faulty(lambda _: None)
    options = bucket.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    result = spillway.write_parquet(TABLE, bucket.url("a/small.parquet"), storage_options=options)
    assert [request.method for request in proxy.seen] == ["PUT"]
    assert bucket.keys() == ["a/small.parquet"]
    assert bucket.read("a/small.parquet") == local(TABLE)
    assert result.bytes == len(local(TABLE))


def test_a_large_file_goes_in_parts_and_is_read_by_pyarrow(
    bucket: Bucket, large: pa.Table, faulty: Callable[..., Proxy]
) -> None:
    proxy = faulty(lambda _: None)
    options = bucket.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    with spillway.ParquetWriter(bucket.url("large.parquet"), storage_options=options, **PARTS) as writer:
        writer.write(large)
        assert bucket.keys() == []
        assert bucket.uploads() == ["large.parquet"]
    assert sum(request.is_part for request in proxy.seen) == 5
    assert bucket.uploads() == []
    assert bucket.read("large.parquet") == local(large, **PARTS)
    store = pyarrow.fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        region="us-east-1",
        scheme="http",
        endpoint_override=f"127.0.0.1:{bucket.port}",
    )
    assert pq.read_table(f"{bucket.name}/large.parquet", filesystem=store).equals(large)


def test_an_old_object_stays_until_the_new_one_is_whole(bucket: Bucket) -> None:
    bucket.put("data.parquet", b"old")
    with spillway.ParquetWriter(bucket.url("data.parquet"), storage_options=bucket.options()) as writer:
        writer.write(TABLE)
        assert bucket.read("data.parquet") == b"old"
    assert bucket.read("data.parquet") == local(TABLE)


@pytest.mark.parametrize("key", ["sp ace.parquet", "żółć/🦀.parquet", "a=b/c+d&e.parquet", "100%25.parquet"])
def test_any_key_can_be_written(bucket: Bucket, key: str) -> None:
    spillway.write_parquet(TABLE, bucket.url(key), storage_options=bucket.options())
    assert bucket.keys() == [key.replace("%25", "%")]


def test_an_exception_in_the_block_leaves_neither_object_nor_upload(bucket: Bucket, large: pa.Table) -> None:
    def fail() -> None:
        with spillway.ParquetWriter(
            bucket.url("large.parquet"), storage_options=bucket.options(), **PARTS
        ) as writer:
            writer.write(large)
            assert bucket.uploads() == ["large.parquet"]
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fail()
    assert bucket.keys() == []
    assert bucket.uploads() == []


def test_a_writer_that_is_forgotten_leaves_neither_object_nor_upload(bucket: Bucket, large: pa.Table) -> None:
    writer = spillway.ParquetWriter(bucket.url("x.parquet"), storage_options=bucket.options(), **PARTS)
    writer.write(large)
    assert bucket.uploads() == ["x.parquet"]
    del writer
    gc.collect()
    assert bucket.keys() == []
    assert bucket.uploads() == []


def test_what_the_options_leave_out_comes_from_the_environment(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.options().items():
        monkeypatch.setenv(name, value)
    spillway.write_parquet(TABLE, bucket.url("a.parquet"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    spillway.write_parquet(TABLE, bucket.url("b.parquet"), storage_options={"aws_access_key_id": KEY})
    assert bucket.keys() == ["a.parquet", "b.parquet"]


def test_a_forked_child_uploads_with_threads_of_its_own(bucket: Bucket) -> None:
    found = run(
        """
        import json, os, sys
        import pyarrow as pa, spillway
        folder, options = sys.argv[1], json.loads(sys.argv[2])
        table = pa.table({"n": range(10)})
        spillway.write_parquet(table, f"{folder}/parent.parquet", storage_options=options)
        path = f"{folder}/inherited.parquet"
        inherited = spillway.ParquetWriter(path, table.schema, storage_options=options)
        pid = os.fork()
        if pid == 0:
            try:
                inherited.write(table)
                os._exit(3)
            except spillway.ClosedError:
                pass
            del inherited
            spillway.write_parquet(table, f"{folder}/child.parquet", storage_options=options)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        inherited.write(table)
        inherited.close()
        print(json.dumps(os.waitstatus_to_exitcode(status)))
        """,
        bucket.url("forks"),
        json_of(bucket.options()),
    )
    assert found == 0
    assert bucket.keys() == ["forks/child.parquet", "forks/inherited.parquet", "forks/parent.parquet"]


def test_memory_is_bounded_by_the_parts(bucket: Bucket) -> None:
    """256 MB go out; three parts, a row group and the batch are all that is held."""
    found = run(
        """
        import json, os, resource, sys
        import numpy as np, pyarrow as pa, spillway
        url, options = sys.argv[1], json.loads(sys.argv[2])
        batch = pa.record_batch({"n": np.random.default_rng(1).integers(0, 2**63, 131_072)})
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        most = 0
        with spillway.ParquetWriter(
            url, batch.schema, storage_options=options, compression="uncompressed",
            dictionary=False, row_group_rows=131_072,
        ) as writer:
            writer.write(batch)
            before = resident()
            for _ in range(255):
                writer.write(batch)
                most = max(most, resident() - before)
        print(json.dumps({"growth": most, "bytes": writer.result.bytes}))
        """,
        bucket.url("big.parquet"),
        json_of(bucket.options()),
    )
    assert found["bytes"] > 256 << 20
    assert found["growth"] < 64 << 20
    assert bucket.keys() == ["big.parquet"]


def test_a_url_of_this_machine_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "żółć and 100%.parquet"
    spillway.write_parquet(TABLE, path.as_uri())
    assert path.read_bytes() == local(TABLE)
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208 - names as the system has them


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("ftp://host/a", None, "choose s3://"),
        ("s3://bucket", None, "names no object"),
        ("s3://bucket/folder/", None, "names no object"),
        ("s3://bucket/a?versionId=1", None, "%3F"),
        ("s3://bucket/a", {"aws_reigon": "x"}, "aws_reigon"),
        ("file://elsewhere/a", None, "not name a file on this machine"),
        ("a/path.parquet", {"AWS_REGION": "x"}, "need a URL"),
        ("az://container/a", {"max_retries": "many"}, "whole number"),
    ],
)
def test_what_is_no_destination_is_an_option_error(
    url: str, options: dict[str, str] | None, says: str
) -> None:
    with pytest.raises(spillway.OptionError, match=says):
        spillway.ParquetWriter(url, storage_options=options)


def test_a_file_object_takes_no_storage_options() -> None:
    with pytest.raises(spillway.OptionError, match="is a file object"):
        spillway.ParquetWriter(io.BytesIO(), storage_options={})


def json_of(options: dict[str, str]) -> str:
    import json  # noqa: PLC0415 - for programs' arguments only

    return json.dumps(options)
