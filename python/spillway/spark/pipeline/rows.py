"""Rows of the demo by partition: how many each has, and the calls that executors make them with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway import datasets
from spillway.datasets.packaged import LINEITEM_SCHEMA, open_lineitem
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

# The most rows of a partition, so that no executor holds more, however many rows there are.
MOST_ROWS = 500_000
# A task of fewer rows would cost more to start than to run; several for each core show how far a stage is.
_FEWEST_ROWS = 50_000
_TASKS_PER_CORE = 4
_COUNT = re.compile(r"(\d[\d_]*(?:\.\d+)?)([KM]?)", re.IGNORECASE)
_UNITS = {"": 1, "K": 1_000, "M": 1_000_000}


@dataclass(frozen=True)
class GeneratedRows:
    """Rows of a generated dataset, each partition a range of them.

    Attributes:
        name: The dataset.
        seed: Its seed.
        rows: The number of rows.
        partitions: The number of partitions.
    """

    name: str
    seed: int
    rows: int
    partitions: int

    @property
    def schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return datasets.schema(self.name)

    def make(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, a chunk at a time."""
        start, stop = partition_bounds(self.rows, self.partitions, number)
        return datasets.row_range(self.name, self.seed, start, stop)


@dataclass(frozen=True)
class LineitemRows:
    """Rows of TPC-H's lineitem, each partition a part of its generator's.

    Attributes:
        rows: The number of rows.
        counts: The number of rows of each part, which is known only after generating them.
    """

    rows: int
    counts: tuple[int, ...]

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.counts)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return LINEITEM_SCHEMA

    def make(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of one part, as many of them as are wanted."""
        left = self.rows - sum(self.counts[:number])
        if left <= 0:
            return
        with open_lineitem(self.rows, part=number, parts=self.partitions) as stream:
            for batch in stream.batches:
                yield batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    return


def count_lineitem(rows: int, partitions: int, number: int) -> int:
    """The rows of one part of lineitem."""
    with open_lineitem(rows, part=number, parts=partitions) as stream:
        return stream.rows or 0


def count_rows(session: SparkSession, rows: int, partitions: int) -> LineitemRows:
    """The rows of lineitem, whose parts are counted on executors."""
    numbers = session.sparkContext.parallelize(range(partitions), partitions)
    counts = numbers.map(lambda number: count_lineitem(rows, partitions, number)).collect()
    return LineitemRows(rows, tuple(counts))


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
    """The first row of a partition and the one after its last; boundaries fall between chunks if possible."""
    chunks = -(-rows // datasets.CHUNK_ROWS)
    if chunks < partitions:
        return number * rows // partitions, (number + 1) * rows // partitions
    start, stop = (at * chunks // partitions * datasets.CHUNK_ROWS for at in (number, number + 1))
    return start, min(stop, rows)
