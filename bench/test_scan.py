"""Reading some rows of a Delta table of logs into Arrow, beside DuckDB on the same files.

Each sample is a process, which has as many processors as threads. It reads once, and then some times more.
``scan_once.py`` has questions and readers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import spillway.delta
from spillway import datasets
from spillway.harness.environment import SampleWatch

from . import scan_once

if TYPE_CHECKING:
    from pathlib import Path

    from .side_by_side import SideBySide

CHECKED_ROWS = [10_000]
MEASURED_ROWS = [10_000, 1_000_000]
FILES = 10
SEED = 1
MIDDLE = 475_000
"""The row of the moment that the questions are about."""
THREADS = [threads for threads in (1, 2) if threads <= len(os.sched_getaffinity(0))]


@pytest.fixture(scope="module")
def table(rows: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of log lines in the order of their times, in some files."""
    folder = tmp_path_factory.mktemp("scans") / "table"
    made = spillway.delta.create(folder, datasets.schema("logs"))
    first, share = max(0, MIDDLE - rows // 2), rows // FILES
    for start in range(first, first + rows, share):
        with made.append() as append:
            for batch in datasets.row_range("logs", SEED, start, start + share):
                append.write(batch)
    return folder


def taken(table: Path, question: str, reader: str, threads: int) -> dict[str, Any]:
    """The readings of a process."""
    command = [sys.executable, scan_once.__file__, reader, question, str(threads), str(table)]
    watch = SampleWatch()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return {
        "question": question,
        "reader": reader,
        "threads": threads,
        **answer,
        "host": watch.read(),
    }


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("question", scan_once.QUESTIONS)
def test_a_scan_has_the_rows_that_duckdb_has(
    side_by_side: SideBySide, table: Path, rows: int, question: str, threads: int
) -> None:
    # A process takes half a second, which reading this one here does not.
    samples = side_by_side(
        lambda reader: (
            scan_once.answer(reader, question, table, again=1)
            if side_by_side.is_checked
            else taken(table, question, reader, threads)
        ),
        list(scan_once.READERS),
        against="duckdb",
        seconds=("again", "first"),
        rows=rows,
    )
    ((found, _),) = {(sample["rows"], sample["checksum"]) for sample in samples}
    assert found > 0


@pytest.mark.parametrize("reader", scan_once.READERS)
def test_a_process_reads_what_this_one_does(table: Path, reader: str) -> None:
    found, expected = taken(table, "service", reader, 1), scan_once.answer(reader, "service", table)
    assert (found["rows"], found["checksum"]) == (expected["rows"], expected["checksum"])
