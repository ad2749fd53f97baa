"""`spillway write` to an object store, and what an input that is cut off leaves there."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from typer.testing import CliRunner

from spillway.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable

    from .server import Bucket, Proxy, Request

ROWS = [{"id": number, "name": f"name {number % 7}"} for number in range(1_000)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def command_for(bucket: Bucket, key: str, **others: str) -> list[str]:
    """The command that writes standard input to an object, with the options of its store."""
    options = bucket.options(**others).items()
    given = (part for pair in options for part in ("--storage-option", "=".join(pair)))
    return ["write", "-", bucket.url(key), *given]


def rows_of(bucket: Bucket, key: str) -> list[dict[str, object]]:
    return pq.ParquetFile(io.BytesIO(bucket.read(key))).read().to_pylist()


def test_rows_go_to_a_url_with_the_options_of_its_store(bucket: Bucket) -> None:
    command = command_for(bucket, "a/rows.parquet")
    cut = CliRunner().invoke(app, command, input=LINES[:-5])
    assert cut.exit_code == 2, cut.output
    assert "standard input, line 1,000" in " ".join(cut.stderr.split())
    assert bucket.keys() == []
    assert bucket.uploads() == []
    done = CliRunner().invoke(app, command, input=LINES)
    assert done.exit_code == 0, done.output
    assert bucket.url("a/rows.parquet") in done.stderr
    assert rows_of(bucket, "a/rows.parquet") == ROWS


def test_an_object_that_is_there_is_replaced_where_that_is_said_alone(bucket: Bucket) -> None:
    bucket.put("a b/rows.parquet", b"old")
    command = command_for(bucket, "a%20b/rows.parquet")
    refused = CliRunner().invoke(app, command, input=LINES)
    assert refused.exit_code == 2, refused.output
    assert "already exists: pass --mode overwrite" in " ".join(refused.stderr.split())
    assert bucket.read("a b/rows.parquet") == b"old"
    done = CliRunner().invoke(app, [*command, "--mode", "overwrite"], input=LINES)
    assert done.exit_code == 0, done.output
    assert rows_of(bucket, "a b/rows.parquet") == ROWS


def test_credentials_that_may_only_write_are_enough(
    bucket: Bucket, faulty: Callable[[Callable[[Request], int | None]], Proxy]
) -> None:
    proxy = faulty(lambda request: 403 if request.method == "HEAD" else None)
    command = command_for(bucket, "rows.parquet", AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    done = CliRunner().invoke(app, command, input=LINES)
    assert done.exit_code == 0, done.output
    # Asked before and after the rows are read: another object may have appeared meanwhile.
    assert [request.method for request in proxy.seen] == ["HEAD", "HEAD", "PUT"]
    assert rows_of(bucket, "rows.parquet") == ROWS


def test_partitions_go_below_a_url_and_are_replaced_where_that_is_said_alone(bucket: Bucket) -> None:
    command = [*command_for(bucket, "days"), "--partition-by", "name"]
    done = CliRunner().invoke(app, command, input=LINES)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert "in 7 files" in said
    assert bucket.url("days") in said
    keys = bucket.keys()
    assert {key.split("/")[1] for key in keys} == {f"name=name {number}" for number in range(7)}
    assert ids_of(bucket) == [row["id"] for row in ROWS]
    refused = CliRunner().invoke(app, command, input=LINES)
    assert refused.exit_code == 2, refused.output
    assert f"{bucket.url('days')} is not empty: pass --mode append" in " ".join(refused.stderr.split())
    assert bucket.keys() == keys
    cut = CliRunner().invoke(app, [*command, "--mode", "overwrite"], input=LINES[:-5])
    assert cut.exit_code == 2, cut.output
    assert bucket.keys() == keys
    assert bucket.uploads() == []
    done = CliRunner().invoke(app, [*command, "--mode", "overwrite"], input=LINES)
    assert done.exit_code == 0, done.output
    assert not set(keys) & set(bucket.keys())
    assert ids_of(bucket) == [row["id"] for row in ROWS]


def ids_of(bucket: Bucket) -> list[int]:
    keys = bucket.keys()
    return sorted(int(str(row["id"])) for key in keys for row in rows_of(bucket, key))
