"""Fixtures for tests of tables: other engines as readers."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import polars as pl
import pyarrow as pa
import pytest

import spillway.delta

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


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that others may look into, other than the one a test gets: root refuses itself nothing."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for path in Path(name).rglob("*"):
            path.chmod(0o755)


@pytest.fixture(scope="session")
def server(table_server: Server) -> Server:
    return table_server
