"""Rows that Spark read, written by the native writer in the workers that Spark hands them to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spillway.pipeline.tally import Tallied
from spillway.spark.write import attempt_number, partition_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillway.spark.write_job import Job, TaskResult

__all__ = ["FrameTask"]


class FrameTask:
    """The work of a task: it writes its rows of a frame, whose checksums are made before.

    Args:
        job: The job.
        schema: The schema of the rows.
        accumulator: That of a `Tally`.
    """

    def __init__(self, job: Job, schema: pa.Schema, accumulator: Any) -> None:
        self._job = job
        self._schema = schema
        self._accumulator = accumulator

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[TaskResult]:
        """Write the rows."""
        number = partition_number()
        made = Tallied(_Given(batches, self._schema), self._schema, self._accumulator)
        yield self._job.write(made(number), number, attempt_number())


@dataclass(frozen=True)
class _Given:
    """The batches of a task, with the schema of all tasks."""

    batches: Iterator[pa.RecordBatch]
    schema: pa.Schema

    def __call__(self, _number: int) -> Iterator[pa.RecordBatch]:
        """The rows of the task."""
        for batch in self.batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
