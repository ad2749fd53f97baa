"""Columns encoded side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_the_file_is_the_same_with_any_number_of_threads(
    table: pa.Table, threads: int, tmp_path: Path
) -> None:
    alone, together = tmp_path / "1.parquet", tmp_path / "n.parquet"
    spillway.write_parquet(table, alone, row_group_rows=9_000)
    spillway.write_parquet(table, together, row_group_rows=9_000, threads=threads)
    assert together.read_bytes() == alone.read_bytes()


@pytest.mark.parametrize("threads", [0, -1, 5_000])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads: int) -> None:
    with pytest.raises(
        spillway.OptionError, match=r"threads=-?\d+ is not accepted: give an integer from 1 to 1024"
    ):
        spillway.WriterOptions(threads=threads)
