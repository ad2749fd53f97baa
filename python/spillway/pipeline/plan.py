"""The options of a pipeline, and how its rows are cut into partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from spillway import datasets
from spillway.errors import OptionError

__all__ = ["MODES", "Cell", "parse_rows", "partition_bounds", "partitions_for"]

MODES = ("error", "append", "overwrite")
"""The treatments of a destination that is there already."""

Table = Literal["parquet", "delta"]
Mode = Literal["error", "append", "overwrite"]

# The most rows of a partition, so that no executor holds more, however many rows there are.
MOST_ROWS = 500_000
# A task of fewer rows would cost more to start than to run; several for each core show how far a stage is.
_FEWEST_ROWS = 50_000
_TASKS_PER_CORE = 4
_COUNT = re.compile(r"(\d[\d_]*(?:\.\d+)?)([KM]?)", re.IGNORECASE)
_UNITS = {"": 1, "K": 1_000, "M": 1_000_000}


@dataclass(frozen=True)
class Cell:
    """A pipeline: its rows and what is made of them.

    Attributes:
        source: The dataset's name, or "files".
        rows: The number of rows; null for files, which say themselves.
        partitions: Tasks that make rows; null where Spark cuts files.
        table: "parquet": a folder of files; "delta": a Delta table.
        mode: The treatment of a destination that is there: "error", "append" or "overwrite".
        bad_rows: What becomes of rows that fail a check.
        audit: What is read back: "full", "sample" or "none".
        partition_by: Columns that rows are stored apart by.
        codec: The codec of pages.
        level: Its level; null for the codec's own.
        row_group_rows: Most rows per row group.
        max_file_bytes: Bytes of a file after which the next begins; null for one file a task.
        master: "local" with its cores, or the kind of cluster.
    """

    source: str
    rows: int | None
    partitions: int | None
    table: Table
    mode: Mode
    bad_rows: Literal["fail", "drop", "quarantine"]
    audit: Literal["full", "sample", "none"]
    partition_by: list[str]
    codec: str
    level: int | None
    row_group_rows: int
    max_file_bytes: int | None
    master: str


def parse_rows(text: str) -> int:
    """A number of rows: 250000, 250K, 1.5M.

    Raises:
        OptionError: It is no such number, or not a whole one above 0.
    """
    match = _COUNT.fullmatch(text.strip())
    rows = float(match[1].replace("_", "")) * _UNITS[match[2].upper()] if match else 0
    if rows < 1 or rows != int(rows):
        raise OptionError(f"--rows {text!r}: give a whole number from 1 up, such as 250000, 250K or 1.5M")
    return int(rows)


def partitions_for(rows: int, cores: int) -> int:
    """Tasks for rows: several for each core unless they became small, and none over `MOST_ROWS`."""
    spread = min(cores * _TASKS_PER_CORE, max(1, rows // _FEWEST_ROWS))
    return max(spread, -(-rows // MOST_ROWS), 1)


def partition_bounds(rows: int, partitions: int, number: int) -> tuple[int, int]:
    """The first row of a partition and that behind its last; borders fall between chunks if they can."""
    chunks = -(-rows // datasets.CHUNK_ROWS)
    if chunks < partitions:
        return number * rows // partitions, (number + 1) * rows // partitions
    start, stop = (at * chunks // partitions * datasets.CHUNK_ROWS for at in (number, number + 1))
    return start, min(stop, rows)
