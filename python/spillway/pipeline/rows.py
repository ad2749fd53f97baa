"""Rows by partition: the calls that executors make them with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway import datasets
from spillway.datasets.lineitem import LINEITEM_SCHEMA, open_lineitem
from spillway.pipeline.plan import partition_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["GeneratedRows", "LineitemRows", "count_lineitem", "count_rows"]


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
        counts: The rows of each part, which only making them tells.
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
