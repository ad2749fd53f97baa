"""Checksums of rows, made on the executor that has them, by partition.

They come to the driver with the results of tasks, as updates of an accumulator. An update is kept under the
number of its partition: a task that runs twice, retried or speculative, counts once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spillway._native import Digest, digest
from spillway.validation.normalize import plan_source
from spillway.validation.source import empty_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark import Accumulator, SparkContext

__all__ = ["PartitionTally", "Tallied", "Tally"]


class PartitionTally(NamedTuple):
    """The rows of one partition, as the executor saw them.

    Attributes:
        digest: The checksums of its rows, as bytes.
        arrow_bytes: The size of its rows in Arrow's layout.
        seconds: The time that it took to make the rows.
    """

    digest: bytes
    arrow_bytes: int
    seconds: float


class Tally:
    """The partitions that were reported to the driver.

    Args:
        context: The context of the session.
    """

    def __init__(self, context: SparkContext) -> None:
        self.accumulator: Accumulator[dict[int, PartitionTally]] = context.accumulator({}, _by_number())

    @property
    def parts(self) -> dict[int, PartitionTally]:
        """The updates of each partition."""
        return self.accumulator.value

    def total(self, schema: pa.Schema) -> Digest:
        """The checksums of the rows of all partitions that were reported."""
        whole = empty_digest(plan_source(schema).schema)
        for part in self.parts.values():
            whole = whole.merge(Digest.from_bytes(part.digest))
        return whole


@dataclass(frozen=True)
class Tallied:
    """Rows by partition, whose checksums are reported when the last of a partition were taken.

    It is pickled, and called on executors.

    Attributes:
        make: Returns the rows of a partition.
        schema: Their schema.
        accumulator: That of a `Tally`.
    """

    make: Callable[[int], Iterable[pa.RecordBatch]]
    schema: pa.Schema
    accumulator: Any  # generic in the stubs only

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        plan = plan_source(self.schema)
        found = empty_digest(plan.schema)
        arrow_bytes, seconds = 0, 0.0
        batches = iter(self.make(number))
        while True:
            started = time.perf_counter()
            batch = next(batches, None)
            seconds += time.perf_counter() - started
            if batch is None:
                break
            found = found.merge(digest(plan.apply(batch), first_row=found.rows))
            arrow_bytes += batch.nbytes
            yield batch
        self.accumulator.add({number: PartitionTally(found.to_bytes(), arrow_bytes, seconds)})


def _by_number() -> Any:
    """The way in which updates come together, which PySpark asks for as a class of its own."""
    from pyspark import AccumulatorParam

    class ByNumber(AccumulatorParam[dict[int, PartitionTally]]):
        def zero(self, _value: dict[int, PartitionTally]) -> dict[int, PartitionTally]:
            """Return what a task begins with."""
            return {}

        def addInPlace(  # noqa: N802  # PySpark's name
            self, value1: dict[int, PartitionTally], value2: dict[int, PartitionTally]
        ) -> dict[int, PartitionTally]:
            """Take over the partitions of an update."""
            value1.update(value2)
            return value1

    return ByNumber()
