"""Rows that Spark read, written by the native writer in the workers that Spark hands them to."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spillway.pipeline.tally import Tallied
from spillway.spark.job import job_of
from spillway.spark.write import attempt_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from spillway.pipeline.tally import Tally
    from spillway.spark.job import Job, SparkWriteResult, Target, TaskResult

__all__ = ["frame_schema", "write_frame"]


def frame_schema(frame: DataFrame) -> pa.Schema:
    """The schema of a frame's rows as they come to Python."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    return schema


def write_frame(frame: DataFrame, target: Target, tally: Tally) -> SparkWriteResult:
    """Write the rows of a frame where Spark hands them to Python, and commit them once.

    Rows cross from the JVM once, and their checksums are made before they are written.
    """
    job = job_of(target)
    job.begin()
    try:
        task = _frame_task(job, target.schema, tally.accumulator)
        answers = frame.mapInArrow(task, "result binary").collect()
    except BaseException:
        job.abort()
        raise
    results: list[TaskResult] = [pickle.loads(each.result) for each in answers]  # noqa: S301 - of its own tasks
    return job.commit(results)


def _frame_task(
    job: Job, schema: pa.Schema, accumulator: Any
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        number = int(context.partitionId())
        made = Tallied(_Given(batches, schema), schema, accumulator)
        result = job.write(made(number), number, attempt_number())
        yield pa.record_batch({"result": pa.array([pickle.dumps(result)], pa.binary())})

    return task


@dataclass(frozen=True)
class _Given:
    """The batches of a task, with the schema of all tasks."""

    batches: Iterator[pa.RecordBatch]
    schema: pa.Schema

    def __call__(self, _number: int) -> Iterator[pa.RecordBatch]:
        """The rows of the task."""
        for batch in self.batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
