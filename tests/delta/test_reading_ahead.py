"""Threads that read ahead for a stream: a fork and a signal find it as if there were none."""

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


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="no thread reads ahead for one processor")
@pytest.mark.parametrize(("sign", "raised"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "ToldError")])
def test_a_signal_ends_the_wait_for_a_thread_and_its_exception_is_raised_once(
    tmp_path: Path, sign: str, raised: str
) -> None:
    command = [sys.executable, str(PROGRAMS), "reads_a_pipe", str(tmp_path / "table"), sign]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, f"0 {raised}\n"), done.stderr


@pytest.mark.parametrize("processors", ["one", "all"])
def test_threads_pass_over_pages_and_deleted_rows_of_texts_with_a_dictionary(
    tmp_path: Path, processors: str
) -> None:
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    table = spillway.delta.create(tmp_path / "table", schema, properties=properties)
    rows = 40_000
    texts = [f"text {number // 1_000 % 8}" for number in range(rows)]
    with table.append(page_rows=500, row_group_rows=10_000, encoding={"text": "dictionary"}) as append:
        append.write(pa.table({"id": range(rows), "text": texts}, schema))
    table.delete("id IN (" + ", ".join(str(number) for number in range(0, rows, 997)) + ")")
    scan = table.scan(["id", "_metadata.row_id"], where="text = 'text 3' AND id >= 2500")
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:1] if processors == "one" else usable)
    try:
        found = pa.table(scan)
    finally:
        os.sched_setaffinity(0, usable)
    expected = [number for number in range(2_500, rows) if texts[number] == "text 3" and number % 997 != 0]
    assert found["id"].to_pylist() == expected
    assert found["_metadata.row_id"].to_pylist() == expected
