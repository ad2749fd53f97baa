"""Threads that read ahead for a stream: a fork and Ctrl-C find it as if there were none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import spillway.delta

from .programs import SCHEMA, batch

PROGRAMS = Path(__file__).with_name("programs.py")
FILES = 6


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    table = spillway.delta.create(tmp_path / "table", SCHEMA)
    for number in range(FILES):
        with table.append(row_group_rows=2) as append:
            append.write(batch("a", number, rows=5))
    return table


def numbers(rows: pa.Table) -> list[int]:
    found: list[int] = rows["number"].to_pylist()
    return found


@pytest.mark.parametrize("taken", [0, 1, 4])
def test_a_stream_goes_on_in_a_forked_child_and_in_its_parent(
    table: spillway.delta.Table, tmp_path: Path, taken: int
) -> None:
    expected = numbers(pa.table(table.scan()))
    stream = pa.RecordBatchReader.from_stream(table.scan())
    first = [stream.read_next_batch() for _ in range(taken)]
    before = numbers(pa.Table.from_batches(first, SCHEMA))
    child = os.fork()
    if child == 0:
        try:
            (tmp_path / "child").write_text(json.dumps(numbers(stream.read_all())))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert before + numbers(stream.read_all()) == expected
    assert before + json.loads((tmp_path / "child").read_text()) == expected


def test_ctrl_c_ends_the_wait_for_a_thread_that_reads_ahead(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS), "reads_a_pipe", str(tmp_path / "table")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
