"""Readings of a Delta table's rows in a process of their own, for ``test_scan.py``.

    python bench/scan_once.py READER QUESTION THREADS TABLE

A reader has as many processors as threads. The line that is printed is an answer in JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

import spillway.delta
from spillway import datasets
from spillway._native import digest

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATED = 7
"""Readings after the first one."""
SOME = ("timestamp", "service", "level", "http_status", "message", "log_offset")


@dataclass(frozen=True)
class Question:
    """Rows that are asked for.

    Attributes:
        columns: The columns of the answer; None for all.
        where: The condition, in SQL that all readers understand.
    """

    columns: tuple[str, ...] | None
    where: str


def _within(first: str, end: str) -> str:
    """The rows of a span of the first day, from `first` on, of one service."""
    times = [f"TIMESTAMP '2026-01-01 {time}Z'" for time in (first, end)]
    return f"timestamp >= {times[0]} AND timestamp < {times[1]} AND service = 'cart-service'"


QUESTIONS = {
    "second": Question(SOME, _within("00:01:40", "00:01:41")),
    "second-wide": Question(None, _within("00:01:40", "00:01:41")),
    "minute": Question(SOME, _within("00:01:10", "00:02:10")),
    "service": Question(SOME, "service = 'cart-service'"),
    "all": Question(None, "timestamp >= TIMESTAMP '2000-01-01 00:00:00Z'"),
}


def by_spillway(path: Path, question: Question) -> Callable[[], pa.Table]:
    """Readings by `Table.scan`. Each opens the table anew."""

    def read() -> pa.Table:
        scan = spillway.delta.open(path).scan(question.columns, where=question.where)
        # Not pa.table(), which looks for a data frame first, and imports pandas for that.
        return pa.RecordBatchReader.from_stream(scan).read_all()

    return read


def by_duckdb(path: Path, question: Question) -> Callable[[], pa.Table]:
    """Readings of the table's files by DuckDB, which has to choose among them by their footers."""
    connection = duckdb.connect(config={"threads": len(os.sched_getaffinity(0))})
    columns = "*" if question.columns is None else ", ".join(question.columns)
    query = f"SELECT {columns} FROM read_parquet('{path}/*.parquet') WHERE {question.where}"  # noqa: S608
    query = query.replace("TIMESTAMP '", "TIMESTAMPTZ '")

    def read() -> pa.Table:
        table: pa.Table = connection.sql(query).to_arrow_table()
        return table

    return read


READERS = {"spillway": by_spillway, "duckdb": by_duckdb}


def checksum(table: pa.Table) -> str:
    """A sum of the hashes of all rows, in whichever order they come, and in the types of the dataset."""
    types = datasets.schema("logs")
    return digest(table.cast(pa.schema([types.field(name) for name in table.column_names]))).row_checksum


def timed(read: Callable[[], pa.Table]) -> tuple[float, pa.Table]:
    """Seconds of a reading, and its rows."""
    began = time.perf_counter()
    table = read()
    return time.perf_counter() - began, table


def answer(reader: str, question: str, path: Path, *, again: int = REPEATED) -> dict[str, Any]:
    """Read some times: the seconds of the first time and of the later ones, and what was read."""
    read = READERS[reader](path, QUESTIONS[question])
    first, table = timed(read)
    later = statistics.median([timed(read)[0] for _ in range(again)])
    return {"first": first, "again": later, "rows": table.num_rows, "checksum": checksum(table)}


def main() -> None:
    """Read, and print what it took."""
    reader, question, threads, path = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    sys.stdout.write(json.dumps(answer(reader, question, Path(path))) + "\n")


if __name__ == "__main__":
    main()
