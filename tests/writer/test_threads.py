"""Columns encoded side by side."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.counts import examples

import spillway

PROGRAMS = Path(__file__).with_name("thread_programs.py")
CORES = len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rows = 30_000
    columns: dict[str, list[object]] = {
        "id": list(range(rows)),
        "word": [f"word {row % 700}" for row in range(rows)],
        "flag": [None if row % 5 == 0 else row % 3 == 0 for row in range(rows)],
        "text": [f"line {row * 7919} of the log" for row in range(rows)],
        "list": [[row, row + 1] if row % 4 else None for row in range(rows)],
    }
    return pa.table(columns)


def file_of(batches: list[pa.Table], **options: Any) -> bytes:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, batches[0].schema, **options) as writer:
        for batch in batches:
            writer.write(batch)
    return file.getvalue()


def said_by(program: str, *arguments: str) -> list[Any]:
    """What a program of `thread_programs.py` prints."""
    command = [sys.executable, "-X", "dev", str(PROGRAMS), program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said: list[Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_one_long_column_is_the_same_with_any_number_of_threads(table: pa.Table, threads: int) -> None:
    # Pages so small that idle threads compress many of them.
    long = pa.concat_tables([table.select(["text"])] * 4)
    options: dict[str, Any] = {"page_bytes": 8_192, "page_checksums": True}
    assert file_of([long], **options, threads=threads) == file_of([long], **options, threads=1)


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_the_file_is_the_same_with_any_number_of_threads(
    table: pa.Table, threads: int, tmp_path: Path
) -> None:
    alone, together = tmp_path / "1.parquet", tmp_path / "n.parquet"
    spillway.write_parquet(table, alone, row_group_rows=9_000, threads=1)
    spillway.write_parquet(table, together, row_group_rows=9_000, threads=threads)
    assert together.read_bytes() == alone.read_bytes()


@settings(max_examples=examples(0.05), deadline=None)
@given(cuts=st.lists(st.integers(0, 360_000), max_size=3), row_group_rows=st.integers(100_000, 400_000))
def test_the_file_is_the_same_with_the_default_number_of_threads(
    table: pa.Table, cuts: list[int], row_group_rows: int
) -> None:
    # 33 MB of values: enough for four helpers, where there are cores for them.
    table = pa.concat_tables([table] * 12)
    ends = [0, *sorted(cuts), table.num_rows]
    batches = [table.slice(start, end - start) for start, end in pairwise(ends)]
    alone = file_of([table], threads=1, row_group_rows=row_group_rows)
    assert file_of(batches, row_group_rows=row_group_rows) == alone
    assert file_of(batches, row_group_rows=row_group_rows, threads=3) == alone


def test_a_large_table_is_written_by_all_cores_and_a_small_one_by_one() -> None:
    small, large = said_by("one_writer")
    assert small == 0
    assert large == min(CORES - 1, 5)


def test_a_process_with_one_core_has_no_helpers() -> None:
    assert said_by("on_one_core") == [0]


def test_fewer_threads_work_where_there_is_no_room_for_the_compressors_of_all() -> None:
    assert said_by("under_limits") == [0, 3]


def test_sixteen_writers_use_no_more_threads_than_there_are_cores() -> None:
    (helpers,) = said_by("many_writers")
    assert helpers < CORES


def test_a_forked_child_and_its_parent_write_on() -> None:
    assert said_by("forked") == [True, 0]


def test_a_signal_ends_a_write_of_many_threads(tmp_path: Path) -> None:
    assert said_by("interrupted", str(tmp_path / "a.parquet")) == ["KeyboardInterrupt"]


@pytest.mark.parametrize("threads", [0, -1, 5_000])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads: int) -> None:
    with pytest.raises(
        spillway.OptionError, match=r"threads=-?\d+ is not accepted: give an integer from 1 to 1024"
    ):
        spillway.WriterOptions(threads=threads)
