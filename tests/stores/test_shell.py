"""`spillway write` to an object store, and what an input that is cut off leaves there."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from typer.testing import CliRunner

from spillway.cli.app import app

if TYPE_CHECKING:
    from .server import Bucket

ROWS = [{"id": number, "name": f"name {number % 7}"} for number in range(1_000)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def test_rows_go_to_a_url_with_the_options_of_its_store(bucket: Bucket) -> None:
    options = [part for pair in bucket.options().items() for part in ("--storage-option", "=".join(pair))]
    command = ["write", "-", bucket.url("a/rows.parquet"), *options]
    cut = CliRunner().invoke(app, command, input=LINES[:-5])
    assert cut.exit_code == 2, cut.output
    assert "standard input, line 1,000" in " ".join(cut.stderr.split())
    assert bucket.keys() == []
    assert bucket.uploads() == []
    done = CliRunner().invoke(app, command, input=LINES)
    assert done.exit_code == 0, done.output
    assert bucket.url("a/rows.parquet") in done.stderr
    assert pq.ParquetFile(io.BytesIO(bucket.read("a/rows.parquet"))).read().to_pylist() == ROWS
