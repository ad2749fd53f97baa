"""Fixtures for tests of tables: other engines as readers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta

from ..stores.server import minio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..stores.server import Server


def rows(table: pa.Table) -> list[str]:
    """The rows of a table in an order of their own, columns by name."""
    names = sorted(table.column_names)
    return sorted(repr([row[name] for name in names]) for row in table.select(names).to_pylist())


def read_deltalake(path: Path) -> pa.Table:
    return pa.table(deltalake.DeltaTable(str(path)).to_pyarrow_table())


def read_polars(path: Path) -> pa.Table:
    return pl.read_delta(str(path)).to_arrow()


def read_spillway(path: Path) -> pa.Table:
    return pa.table(spillway.delta.open(path).scan())


READERS = {"delta-rs": read_deltalake, "polars": read_polars, "spillway": read_spillway}


def interrupted_in_an_attempt(
    table: spillway.delta.Table, append: spillway.delta.Append
) -> KeyboardInterrupt:
    """The exception of a commit that Ctrl-C interrupts once it has tried to write a version."""
    before = table.commit_stats().attempts

    def interrupt() -> None:
        while table.commit_stats().attempts == before:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as raised:  # noqa: PT012 - the signal must come inside
        threading.Thread(target=interrupt, daemon=True).start()
        append.commit(timeout=120)
    return raised.value


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with minio(tmp_path_factory.mktemp("minio")) as server:
        yield server


class Spark:
    """Spark with Delta, in a process of its own: its jars must be there when its JVM starts."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, **command: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)
        reply = json.loads(self.process.stdout.readline() or '{"error": "Spark is gone"}')
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["answer"]

    def sql(self, text: str) -> list[list[Any]]:
        answer: list[list[Any]] = self.ask(sql=text)
        return answer

    def read(self, path: Path, scratch: Path) -> pa.Table:
        self.ask(read=str(path), into=str(scratch))
        return pq.read_table(scratch)


@pytest.fixture(scope="session")
def delta_spark() -> Iterator[Spark]:
    worker = [sys.executable, str(Path(__file__).with_name("spark_worker.py"))]
    with subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.strip() == '"ready"', first
        yield Spark(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
