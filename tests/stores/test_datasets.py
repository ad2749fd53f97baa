"""Folders of files in an object store: they appear together, and writers never replace each other's files."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples
from ..faults.programs import run, start
from .server import KEY, SECRET, Instead
from .test_failures import no_secret
from .test_failures import options as proxy_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from .server import Bucket, Fault, Proxy, Request

    Faulty = Callable[[Callable[[Request], Fault]], Proxy]

TABLE = pa.table({"day": ["mon", "tue", None, "mon"], "n": [1, 2, 3, 4]})
BY_DAY: dict[str, Any] = {"partition_by": "day"}


def written(bucket: Bucket, table: pa.Table = TABLE, key: str = "d", **others: Any) -> spillway.DatasetResult:
    return spillway.write_dataset(table, bucket.url(key), storage_options=bucket.options(), **others)


def proxied(proxy: Proxy, bucket: Bucket, **others: str) -> dict[str, str]:
    return proxy_options(bucket, proxy.port, **others)


def numbers(bucket: Bucket, under: str = "d/") -> list[int]:
    """The values of ``n`` in all data files under a prefix, sorted."""
    keys = bucket.keys()
    keys = [key for key in keys if key.startswith(under) and key.endswith(".parquet")]
    tables = [pq.ParquetFile(io.BytesIO(bucket.read(key))).read() for key in keys]
    return sorted(value for table in tables for value in table.column("n").to_pylist())


def key_of(bucket: Bucket, url: object) -> str:
    """The key that a URL names."""
    prefix = bucket.url("")
    assert isinstance(url, str)
    assert url.startswith(prefix)
    return unquote(url.removeprefix(prefix))


def store_of(bucket: Bucket) -> pyarrow.fs.S3FileSystem:
    return pyarrow.fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        region="us-east-1",
        scheme="http",
        endpoint_override=f"127.0.0.1:{bucket.port}",
    )


def test_nothing_is_visible_before_the_writer_is_closed_and_all_of_it_after(bucket: Bucket) -> None:
    with spillway.DatasetWriter(
        bucket.url("a b/d"), TABLE.schema, storage_options=bucket.options(), max_open_files=1, **BY_DAY
    ) as writer:
        writer.write(TABLE)
        assert bucket.keys() == []
        assert bucket.uploads() != [], "files that are complete are uploaded before the end"
    files = writer.result.files
    folders = [Path(key_of(bucket, file.path)).parent.relative_to("a b/d") for file in files]
    assert folders == [Path("day=mon"), Path("day=tue"), Path("day=__HIVE_DEFAULT_PARTITION__")]
    assert [file.partition for file in files] == [{"day": "mon"}, {"day": "tue"}, {"day": None}]
    assert sorted(key_of(bucket, file.path) for file in files) == bucket.keys()
    assert bucket.uploads() == []
    assert [file.result.path for file in files] == [file.path for file in files]
    for file in files:
        body = bucket.read(key_of(bucket, file.path))
        assert len(body) == file.result.bytes
        assert pq.ParquetFile(io.BytesIO(body)).metadata.num_rows == file.result.rows
    assert writer.left_behind == ()


def test_large_files_and_small_ones_are_those_of_a_local_dataset(
    bucket: Bucket, large: pa.Table, tmp_path: Path
) -> None:
    """The parts of several files that are open at once do not get into each other's files."""
    parts = np.arange(large.num_rows) % 1_000
    keys = pa.array(np.where(parts == 0, 9, parts % 3))
    table = large.append_column("k", keys)
    chosen: dict[str, Any] = {
        "partition_by": "k",
        "compression": "uncompressed",
        "row_group_rows": 50_000,
        "dictionary": False,
    }
    local = spillway.write_dataset(table, tmp_path / "d", **chosen)
    result = written(bucket, table, **chosen)
    assert [file.partition for file in result.files] == [file.partition for file in local.files]
    for ours, theirs in zip(result.files, local.files, strict=True):
        assert bucket.read(key_of(bucket, ours.path)) == theirs.path.read_bytes()


def test_a_small_dataset_asks_the_store_for_little(bucket: Bucket, faulty: Faulty) -> None:
    proxy = faulty(lambda _: None)
    spillway.write_dataset(TABLE, bucket.url("d"), storage_options=proxied(proxy, bucket), **BY_DAY)
    seen = [
        "list" if request.method == "GET" else "begin" if request.is_begin else request.method
        for request in proxy.seen
    ]
    # The log of a table and the prefix; the uploads; the prefix again, and the completions.
    assert seen[:2] == ["list", "list"]
    assert sorted(seen[2:8]) == ["PUT"] * 3 + ["begin"] * 3
    assert seen[8:] == ["list", "POST", "POST", "POST"]


VALUES = st.none() | st.text(st.sampled_from("aż🦀%4/=:?# ~+.-_,;&|<>`!@$()'\"\\{}[]^*"), max_size=6)


@given(rows=st.lists(st.tuples(VALUES, st.integers(0, 2)), min_size=1, max_size=20), files=st.integers(1, 4))
@settings(
    max_examples=examples(0.3),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_other_engines_read_every_row_of_any_partitions(
    rows: list[tuple[str | None, int]],
    files: int,
    bucket: Bucket,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    old = bucket.keys()
    for key in old:
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    table = pa.table(
        {
            "text": pa.array([text for text, _ in rows], pa.string()),
            "number": pa.array([number for _, number in rows], pa.int64()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    result = written(bucket, table, partition_by=["text", "number"], max_open_files=files, max_file_rows=3)
    assert sorted(key_of(bucket, file.path) for file in result.files) == bucket.keys()
    expected = [(text or None, number, n) for n, (text, number) in enumerate(rows)]
    schema = pa.schema({"text": pa.string(), "number": pa.int64()})
    found = ds.dataset(
        f"{bucket.name}/d", filesystem=store_of(bucket), partitioning=ds.partitioning(schema, flavor="hive")
    )
    assert in_order(found.to_table()) == expected
    copy = copied(bucket, tmp_path_factory.mktemp("copy")) / "d"
    types = {"text": pl.String, "number": pl.Int64}
    by_polars = pl.scan_parquet(copy, hive_partitioning=True, hive_schema=types).collect()
    assert in_order(by_polars.to_arrow()) == expected
    options = "hive_partitioning = true, hive_types = {'text': 'VARCHAR', 'number': 'BIGINT'}"
    query = f"SELECT * FROM read_parquet($files, {options})"  # noqa: S608 - of this test's own words
    found_by_duckdb = duckdb.connect().sql(query, params={"files": f"{copy}/*/*/*.parquet"})
    assert in_order(found_by_duckdb.to_arrow_table()) == expected


def in_order(table: pa.Table) -> list[tuple[str | None, int, int]]:
    rows = table.select(["text", "number", "n"]).to_pylist()
    return sorted(((row["text"], row["number"], row["n"]) for row in rows), key=lambda row: row[2])


def copied(bucket: Bucket, folder: Path) -> Path:
    """The objects of a bucket as files."""
    keys = bucket.keys()
    for key in keys:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.read(key))
    return folder


def test_the_url_of_a_file_is_taken_by_a_writer(bucket: Bucket) -> None:
    (file,) = written(bucket, pa.table({"k": ["50% of a/b?#c"], "n": [1]}), partition_by="k").files
    (key,) = bucket.keys()
    spillway.write_parquet(TABLE, file.path, storage_options=bucket.options())
    assert bucket.keys() == [key]
    assert pq.ParquetFile(io.BytesIO(bucket.read(key))).metadata.num_rows == TABLE.num_rows


def test_a_prefix_with_objects_is_refused_unless_asked(bucket: Bucket) -> None:
    bucket.put("d/note.txt", b"mine")
    with pytest.raises(FileExistsError) as caught:
        written(bucket)
    assert caught.value.filename == bucket.url("d")
    assert bucket.keys() == ["d/note.txt"]
    assert bucket.uploads() == []


@pytest.mark.parametrize("key", ["d/", "d/.hidden", "different/x.parquet", "d.parquet"])
def test_what_no_reader_finds_in_a_prefix_is_in_nobodys_way(bucket: Bucket, key: str) -> None:
    bucket.put(key, b"")
    written(bucket, **BY_DAY)
    assert numbers(bucket) == [1, 2, 3, 4]


def test_appending_adds_files_of_names_of_their_own(bucket: Bucket) -> None:
    first = written(bucket, mode="append", max_file_rows=3)
    second = written(bucket, mode="append", max_file_rows=3)
    names = [[Path(key_of(bucket, file.path)).name for file in result.files] for result in (first, second)]
    assert [[name[:11] for name in each] for each in names] == [["part-00000-", "part-00001-"]] * 2
    assert len({name for each in names for name in each}) == 4
    assert numbers(bucket) == sorted([1, 2, 3, 4] * 2)


@pytest.mark.parametrize("mode", ["append", "error"])
def test_writers_of_one_prefix_at_once_lose_nothing(bucket: Bucket, mode: Any) -> None:
    """Two that want it alone may both get it; rows are there if their writer was told so, and then alone."""
    done: list[int] = []
    together = threading.Barrier(4)

    def write(number: int) -> None:
        table = pa.table({"k": [0, 1], "n": [10 * number, 10 * number + 1]})
        with spillway.DatasetWriter(
            bucket.url("d"), storage_options=bucket.options(), partition_by="k", mode=mode
        ) as writer:
            writer.write(table)
            together.wait()
            try:
                writer.close()
            except FileExistsError:
                assert mode == "error"
                writer.abort()
            else:
                done.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done
    assert mode == "error" or len(done) == 4
    assert numbers(bucket) == sorted(10 * number + each for number in done for each in (0, 1))
    assert bucket.uploads() == []


def test_of_two_that_want_the_prefix_alone_the_later_one_fails_whole(bucket: Bucket) -> None:
    first, second = (
        spillway.DatasetWriter(bucket.url("d"), storage_options=bucket.options()) for _ in range(2)
    )
    for writer in (first, second):
        writer.write(TABLE)
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    assert numbers(bucket) == [1, 2, 3, 4]
    assert bucket.uploads() == []


def test_overwriting_replaces_data_files_only_and_those_last(bucket: Bucket, faulty: Faulty) -> None:
    written(bucket, **BY_DAY)
    others = ["d/day=mon/note.txt", "d/_keep.parquet", "e/part-00000.parquet"]
    for key in others:
        bucket.put(key, b"mine")
    proxy = faulty(lambda _: None)
    with spillway.DatasetWriter(
        bucket.url("d"), storage_options=proxied(proxy, bucket), mode="overwrite", **BY_DAY
    ) as writer:
        writer.write(pa.table({"day": ["mon"], "n": [5]}))
        assert numbers(bucket, "d/day=") == [1, 2, 3, 4]
    ends = [request.is_completion for request in proxy.seen if request.is_completion or is_delete(request)]
    # One request deletes all old files.
    assert ends == [True, False]
    (file,) = writer.result.files
    assert bucket.keys() == sorted([*others, key_of(bucket, file.path)])
    assert numbers(bucket, "d/day=") == [5]


def test_its_metadata_lists_the_files_and_replaces_that_of_old_ones(bucket: Bucket) -> None:
    written(bucket, metadata_file=True, **BY_DAY)
    bucket.put("d/_common_metadata", b"of another tool")
    result = written(bucket, mode="overwrite", metadata_file=True, **BY_DAY)
    name = bucket.url("d/_metadata").removeprefix("s3://")
    found = ds.parquet_dataset(name, filesystem=store_of(bucket), partitioning="hive")
    urls = {bucket.url("").removeprefix("s3://") + key_of(bucket, file.path) for file in result.files}
    assert set(found.files) == urls
    assert sorted(found.to_table()["n"].to_pylist()) == [1, 2, 3, 4]
    assert "d/_common_metadata" not in set(bucket.keys())
    with pytest.raises(spillway.OptionError, match="_metadata lists the files"):
        written(bucket, mode="append", **BY_DAY)
    written(bucket, mode="overwrite", **BY_DAY)
    assert "d/_metadata" not in set(bucket.keys())


def test_its_metadata_goes_where_no_file_replaces_the_old_ones(bucket: Bucket) -> None:
    written(bucket, metadata_file=True, **BY_DAY)
    written(bucket, TABLE.slice(0, 0), mode="overwrite", metadata_file=True, **BY_DAY)
    assert bucket.keys() == []


def test_metadata_that_the_store_refuses_leaves_old_files_and_is_an_error(
    bucket: Bucket, faulty: Faulty
) -> None:
    written(bucket, metadata_file=True, **BY_DAY)
    before = bucket.keys()
    proxy = faulty(lambda request: 403 if request.method == "PUT" and "_metadata" in request.path else None)
    writer = spillway.DatasetWriter(
        bucket.url("d"),
        storage_options=proxied(proxy, bucket),
        mode="overwrite",
        metadata_file=True,
        **BY_DAY,
    )
    writer.write(TABLE)
    with pytest.raises(PermissionError, match="_metadata does not list them"):
        writer.close()
    assert writer.result.rows == 4
    assert set(bucket.keys()) > set(before)
    written(bucket, mode="overwrite", metadata_file=True, **BY_DAY)
    assert numbers(bucket) == [1, 2, 3, 4]


def is_delete(request: Request) -> bool:
    """True if the request deletes objects, and not an upload."""
    return (request.method == "DELETE" and not request.is_abort) or "delete" in request.path.partition("?")[2]


def test_a_delta_table_is_no_place_for_a_dataset(bucket: Bucket) -> None:
    bucket.put("d/_delta_log/00000000000000000000.json", b"{}")
    for mode in ("error", "append", "overwrite"):
        with pytest.raises(spillway.OptionError, match="Delta table"):
            written(bucket, mode=mode)


@pytest.mark.parametrize(
    ("log", "what"),
    [
        ("_delta_log/00000000000000000000.json", "a Delta table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        ("metadata/00000-a.metadata.json", "an Iceberg table"),
    ],
)
def test_an_overwrite_removes_no_file_that_a_log_lists(bucket: Bucket, log: str, what: str) -> None:
    bucket.put(f"above/table/{log}", b"{}")
    bucket.put("above/table/day=1/old.parquet", b"")
    before = bucket.keys()
    for mode in ("error", "append", "overwrite"):
        with pytest.raises(spillway.OptionError, match=f"table is {what}: files beside its log"):
            written(bucket, key="above/table/day=1", mode=mode)
    with pytest.raises(spillway.OptionError, match=f"table is {what}, and an overwrite of"):
        written(bucket, key="above", mode="overwrite")
    with pytest.raises(spillway.OptionError, match=f"is {what}"):
        written(bucket, key="above/table", mode="overwrite")
    assert bucket.keys() == before


def test_an_overwrite_takes_no_file_of_a_delta_table_below(bucket: Bucket) -> None:
    bucket.put("d/a/table/_delta_log/00000000000000000000.json", b"{}")
    bucket.put("d/a/table/part-0.parquet", b"")
    before = bucket.keys()
    with pytest.raises(spillway.OptionError, match="a/table is a Delta table, and an overwrite of"):
        written(bucket, mode="overwrite")
    assert bucket.keys() == before


def test_a_dataset_of_no_rows_has_its_schema(bucket: Bucket) -> None:
    (file,) = written(bucket, TABLE.schema.empty_table()).files
    body = bucket.read(key_of(bucket, file.path))
    assert pq.ParquetFile(io.BytesIO(body)).schema_arrow == TABLE.schema
    assert written(bucket, TABLE.schema.empty_table(), key="parts", **BY_DAY).files == ()


def fail_within(bucket: Bucket, table: pa.Table) -> None:
    with spillway.DatasetWriter(
        bucket.url("d"), storage_options=bucket.options(), max_open_files=2, **BY_DAY
    ) as writer:
        writer.write(table)
        assert bucket.uploads() != []
        raise RuntimeError("enough")


def test_an_exception_in_the_block_leaves_neither_objects_nor_uploads(bucket: Bucket) -> None:
    with pytest.raises(RuntimeError, match="enough"):
        fail_within(bucket, TABLE)
    assert bucket.keys() == []
    assert bucket.uploads() == []


def test_a_writer_that_is_forgotten_or_aborted_leaves_neither(bucket: Bucket) -> None:
    writer = spillway.DatasetWriter(
        bucket.url("d"), storage_options=bucket.options(), max_open_files=1, **BY_DAY
    )
    writer.write(TABLE)
    assert bucket.uploads() != []
    del writer
    gc.collect()
    assert bucket.uploads() == []
    with spillway.DatasetWriter(
        bucket.url("d"), storage_options=bucket.options(), max_open_files=1, **BY_DAY
    ) as writer:
        writer.write(TABLE)
        writer.abort()
        assert bucket.uploads() == []
    with pytest.raises(spillway.ClosedError, match="aborted"):
        _ = writer.result
    assert bucket.keys() == []


def test_a_missing_bucket_is_file_not_found(bucket: Bucket) -> None:
    with pytest.raises(FileNotFoundError, match="NoSuchBucket") as caught:
        spillway.DatasetWriter("s3://nowhere/d", storage_options=bucket.options())
    assert caught.value.filename == "s3://nowhere/d"
    assert no_secret(caught.value)


@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_wrong_credentials_are_a_permission_error(bucket: Bucket, mode: Any) -> None:
    with pytest.raises(PermissionError, match="InvalidAccessKeyId") as caught:
        spillway.write_dataset(
            TABLE,
            bucket.url("d"),
            storage_options=bucket.options(AWS_ACCESS_KEY_ID="nobodys-key"),
            mode=mode,
        )
    assert no_secret(caught.value)
    assert "nobodys-key" not in str(caught.value)


def test_credentials_that_may_not_list_are_enough_to_append(bucket: Bucket, faulty: Faulty) -> None:
    proxy = faulty(lambda request: 403 if request.method == "GET" else None)
    for mode in ("error", "overwrite"):
        with pytest.raises(PermissionError):
            spillway.DatasetWriter(bucket.url("d"), storage_options=proxied(proxy, bucket), mode=mode)
    spillway.write_dataset(TABLE, bucket.url("d"), storage_options=proxied(proxy, bucket), mode="append")
    assert numbers(bucket) == [1, 2, 3, 4]


def nth(number: int, kind: Callable[[Request], bool], fault: Fault) -> Callable[[Request], Fault]:
    """A fault of the request of a kind that comes as the so manieth, and of that alone."""
    seen: list[Request] = []

    def answer(request: Request) -> Fault:
        if not kind(request):
            return None
        seen.append(request)
        return fault if len(seen) == number else None

    return answer


FAULTS: dict[str, Callable[[], Callable[[Request], Fault]]] = {
    "first upload": lambda: nth(1, lambda request: request.is_begin, 500),
    "third upload": lambda: nth(3, lambda request: request.is_begin, 503),
    "first part": lambda: nth(1, lambda request: request.is_part, 503),
    "last part": lambda: nth(3, lambda request: request.is_part, 500),
    "refused part": lambda: nth(2, lambda request: request.is_part, 403),
    "cut part": lambda: nth(2, lambda request: request.is_part, "close"),
    "cut answer of a part": lambda: nth(2, lambda request: request.is_part, Instead()),
    "first completion": lambda: nth(1, lambda request: request.is_completion, 500),
    "last completion": lambda: nth(3, lambda request: request.is_completion, 500),
    "refused completion": lambda: nth(2, lambda request: request.is_completion, 403),
    "cut completion": lambda: nth(2, lambda request: request.is_completion, "close"),
    "all completions": lambda: lambda request: 503 if request.is_completion else None,
    "listing at the end": lambda: nth(3, lambda request: request.method == "GET", 500),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_store_that_fails_is_an_error_and_leaves_nothing(bucket: Bucket, faulty: Faulty, name: str) -> None:
    bucket.put("other", b"old")
    proxy = faulty(FAULTS[name]())
    writer = spillway.DatasetWriter(
        bucket.url("d"), TABLE.schema, storage_options=proxied(proxy, bucket), **BY_DAY
    )
    with pytest.raises(OSError, match=bucket.url("d")) as caught:  # noqa: PT012 - any step may be the one
        writer.write(TABLE)
        writer.close()
    assert no_secret(caught.value)
    assert writer.left_behind == ()
    assert bucket.keys() == ["other"]
    assert bucket.uploads() == []
    with pytest.raises(spillway.ClosedError, match="failed before"):
        writer.write(TABLE)
    with pytest.raises(spillway.ClosedError):
        _ = writer.result


def test_the_error_of_a_part_names_its_own_file(bucket: Bucket, faulty: Faulty) -> None:
    proxy = faulty(lambda request: 500 if request.is_part and "tue" in request.path else None)
    with pytest.raises(OSError, match="day=tue"):
        spillway.write_dataset(TABLE, bucket.url("d"), storage_options=proxied(proxy, bucket), **BY_DAY)


def test_a_store_that_fails_once_is_asked_again(bucket: Bucket, faulty: Faulty) -> None:
    failed: set[str] = set()

    def once(request: Request) -> int | None:
        key = f"{request.method} {request.path}"
        if key in failed:
            return None
        failed.add(key)
        return 503

    proxy = faulty(once)
    spillway.write_dataset(
        TABLE, bucket.url("d"), storage_options=proxied(proxy, bucket, max_retries="3"), **BY_DAY
    )
    assert numbers(bucket) == [1, 2, 3, 4]
    assert bucket.uploads() == []


@pytest.mark.parametrize("lost", [Instead(500), Instead()], ids=["500", "cut"])
@pytest.mark.parametrize("retries", ["0", "2"])
def test_a_completion_whose_answer_is_lost_is_one(
    bucket: Bucket, faulty: Faulty, lost: Fault, retries: str
) -> None:
    proxy = faulty(nth(2, lambda request: request.is_completion, lost))
    result = spillway.write_dataset(
        TABLE, bucket.url("d"), storage_options=proxied(proxy, bucket, max_retries=retries), **BY_DAY
    )
    assert sorted(key_of(bucket, file.path) for file in result.files) == bucket.keys()
    assert numbers(bucket) == [1, 2, 3, 4]
    assert bucket.uploads() == []


def test_files_that_cannot_be_taken_back_are_named(bucket: Bucket, faulty: Faulty) -> None:
    last = nth(3, lambda request: request.is_completion, 500)
    proxy = faulty(lambda request: 403 if is_delete(request) else last(request))
    writer = spillway.DatasetWriter(
        bucket.url("d"), TABLE.schema, storage_options=proxied(proxy, bucket), **BY_DAY
    )
    writer.write(TABLE)
    with pytest.raises(OSError, match="2 of 3 files may be there") as caught:
        writer.close()
    left = bucket.keys()
    assert sorted(key_of(bucket, url) for url in writer.left_behind) == left
    assert len(left) == 2
    assert bucket.uploads() == []
    (mark,) = {Path(key).stem.removeprefix("part-00000-") for key in left}
    assert f"whose names hold {mark}" in str(caught.value)
    assert no_secret(caught.value)
    with pytest.raises(spillway.ClosedError):
        _ = writer.result


def test_old_files_that_cannot_be_removed_are_counted_and_new_ones_stay(
    bucket: Bucket, faulty: Faulty
) -> None:
    written(bucket, **BY_DAY)
    # That for all of them is refused, and then one of those for each.
    faults = [nth(1, is_delete, 403), nth(3, is_delete, 403)]
    proxy = faulty(lambda request: next(filter(None, [fault(request) for fault in faults]), None))
    writer = spillway.DatasetWriter(bucket.url("d"), storage_options=proxied(proxy, bucket), mode="overwrite")
    writer.write(pa.table({"n": [5, 6]}))
    with pytest.raises(PermissionError, match=r"all new files are there, and 1 of 3 old ones may be"):
        writer.close()
    assert writer.closed
    assert writer.result.rows == 2
    assert len(bucket.keys()) == 2
    assert set(numbers(bucket)) > {5, 6}
    written(bucket, pa.table({"n": [7]}), mode="overwrite")
    assert numbers(bucket) == [7]


UPLOAD = """
    import json, sys
    import numpy as np, pyarrow as pa, spillway
    url, options = sys.argv[1], json.loads(sys.argv[2])
    rng = np.random.default_rng(0)
    rounds = 1000
    try:
        with spillway.DatasetWriter(
            url, storage_options=options, partition_by="k", max_open_files=4, mode="append"
        ) as writer:
            for round in range(rounds):
                writer.write(pa.table({"k": np.arange(8), "n": rng.integers(0, 9, 8)}))
                if round == 3:
                    print("writing", flush=True)
    except BaseException as error:
        print(json.dumps(type(error).__name__), flush=True)
"""


def test_control_c_ends_a_wait_for_the_store_and_aborts_every_upload(bucket: Bucket, faulty: Faulty) -> None:
    """All parts hang after the first hundred: the writer waits for them."""
    parts: list[Request] = []
    hangs = threading.Semaphore(0)

    def hang(request: Request) -> str | None:
        if not request.is_part:
            return None
        parts.append(request)
        if len(parts) <= 100:
            return None
        hangs.release()
        return "hang"

    proxy = faulty(hang)
    program = start(UPLOAD, bucket.url("d"), json.dumps(proxied(proxy, bucket, timeout="100s")))
    assert program.stdout is not None
    assert program.stdout.readline() == "writing\n"
    for _ in range(16):
        assert hangs.acquire(timeout=60)
    program.send_signal(signal.SIGINT)
    out, errors = program.communicate(timeout=60)
    assert json.loads(out) == "KeyboardInterrupt", errors
    assert bucket.keys() == []
    assert bucket.uploads() == []


def interrupted_at_completions(bucket: Bucket, faulty: Faulty, files: int) -> spillway.DatasetWriter:
    """A writer whose close is interrupted while its first completions are under way."""
    sent = threading.Event()

    def interrupt(request: Request) -> None:
        if request.is_completion:
            if not sent.is_set():
                sent.set()
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)

    proxy = faulty(interrupt)
    writer = spillway.DatasetWriter(bucket.url("d"), storage_options=proxied(proxy, bucket), partition_by="n")
    writer.write(pa.table({"n": range(files), "m": range(files)}))
    with pytest.raises(KeyboardInterrupt):
        writer.close()
    assert bucket.uploads() == []
    return writer


def test_control_c_during_the_completions_takes_them_back(bucket: Bucket, faulty: Faulty) -> None:
    writer = interrupted_at_completions(bucket, faulty, 60)
    assert bucket.keys() == []
    assert writer.left_behind == ()
    with pytest.raises(spillway.ClosedError):
        _ = writer.result


def test_control_c_when_all_completions_are_under_way_loses_nothing(bucket: Bucket, faulty: Faulty) -> None:
    writer = interrupted_at_completions(bucket, faulty, 3)
    assert sorted(key_of(bucket, file.path) for file in writer.result.files) == bucket.keys()
    assert len(bucket.keys()) == 3


def test_a_killed_writer_leaves_no_object_and_is_in_nobodys_way(bucket: Bucket) -> None:
    program = start(UPLOAD, bucket.url("d"), json.dumps(bucket.options()))
    assert program.stdout is not None
    assert program.stdout.readline() == "writing\n"
    program.kill()
    program.communicate()
    assert bucket.keys() == []
    assert bucket.uploads() != [], "what the store's own rule removes"
    written(bucket, **BY_DAY)
    assert numbers(bucket) == [1, 2, 3, 4]


def test_a_forked_child_takes_nothing_away(bucket: Bucket) -> None:
    found = run(
        """
        import json, os, sys
        import pyarrow as pa, spillway
        table = pa.table({"k": [1, 2], "n": [1, 2]})
        writer = spillway.DatasetWriter(
            sys.argv[1], table.schema, storage_options=json.loads(sys.argv[2]), partition_by="k",
            max_open_files=1,
        )
        writer.write(table)
        pid = os.fork()
        if pid == 0:
            try:
                writer.write(table)
                os._exit(3)
            except spillway.ClosedError:
                writer.abort()
            del writer
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        writer.write(table)
        writer.close()
        print(json.dumps([status, writer.result.rows]))
        """,
        bucket.url("d"),
        json.dumps(bucket.options()),
    )
    assert found == [0, 4]
    assert numbers(bucket) == [1, 1, 2, 2]


def test_memory_is_shared_by_the_files_that_are_open(bucket: Bucket) -> None:
    """Forty files are open, each with megabytes of a part that is not full."""
    found = run(
        """
        import json, os, resource, sys
        import numpy as np, pyarrow as pa, spillway
        url, options = sys.argv[1], json.loads(sys.argv[2])
        rows = 65_536
        rng = np.random.default_rng(1)
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        def write(number):
            writer.write(pa.table({"k": np.full(rows, number), "n": rng.integers(0, 2**62, rows)}))
        most = 0
        with spillway.DatasetWriter(
            url, storage_options=options, partition_by="k", compression="uncompressed",
            dictionary=False, row_group_rows=rows, memory_limit=2 << 20,
        ) as writer:
            for number in range(40):
                write(number)
            before = resident()
            for _ in range(12):
                for number in range(40):
                    write(number)
                    most = max(most, resident() - before)
        print(json.dumps({"growth": most, "bytes": writer.result.bytes, "files": len(writer.result.files)}))
        """,
        bucket.url("d"),
        json.dumps(bucket.options()),
    )
    assert found["files"] == 40
    assert found["bytes"] > 256 << 20
    assert found["growth"] < 96 << 20


@pytest.mark.parametrize(
    ("url", "chosen", "says"),
    [
        ("ftp://host/d", None, "choose a path, or s3://"),
        ("s3://bucket/d?versionId=1", None, "%3F"),
        ("s3://bucket/d", {"aws_reigon": "x"}, "aws_reigon"),
        ("file://elsewhere/d", None, "not name a file on this machine"),
        ("a/path", {"AWS_REGION": "x"}, "need the URL of an object store"),
    ],
)
def test_what_is_no_place_for_a_dataset_is_an_option_error(
    url: str, chosen: dict[str, str] | None, says: str
) -> None:
    with pytest.raises(spillway.OptionError, match=says):
        spillway.DatasetWriter(url, storage_options=chosen)


def test_a_url_of_this_machine_is_a_path(tmp_path: Path) -> None:
    (file,) = spillway.write_dataset(TABLE, (tmp_path / "a b").as_uri()).files
    assert file.path == tmp_path / "a b" / "part-00000.parquet"
