"""The steps of a pipeline on a running session: write, validate, summarise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway._native import Digest
from spillway.pipeline.check import READER, check_rows
from spillway.pipeline.frame import FrameTask
from spillway.pipeline.rows import LineitemRows, count_lineitem
from spillway.pipeline.summary import summarise
from spillway.pipeline.tally import Tallied, Tally
from spillway.spark.driver import driver_of
from spillway.spark.run import run, tasks_of_frame, tasks_of_partitions
from spillway.spark.schema import exchanged_schema
from spillway.spark.settings import of_session
from spillway.spark.write import MakingTask, sorted_for
from spillway.spark.write_job import Target, job_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from spillway.pipeline.destination import Destination
    from spillway.pipeline.record import Output, Throughput, Validation
    from spillway.pipeline.rows import RowSource
    from spillway.pipeline.summary import RowSummary
    from spillway.spark.write_job import Job, SparkWriteResult, TaskResult

__all__ = ["Steps", "Written", "count_rows"]


@dataclass(frozen=True)
class Written:
    """Rows that were committed.

    Attributes:
        output: The files.
        schema: The schema of the rows.
        digest: The checksums of all rows, made where the rows were.
        parts: Those of each partition.
        arrow_bytes: The size of the rows in Arrow's layout.
        make_seconds: The time that making them took, summed over tasks.
    """

    output: Output
    schema: pa.Schema
    digest: Digest
    parts: tuple[Digest, ...]
    arrow_bytes: int
    make_seconds: float

    @property
    def row_bytes(self) -> float:
        """The average size of a row in Arrow's layout."""
        return self.arrow_bytes / max(1, self.output["rows"])

    def throughput(self, seconds: float) -> Throughput:
        """The speed, given the seconds of the stage."""
        return {
            "rows_per_second": self.output["rows"] / seconds,
            "megabytes_per_second": self.arrow_bytes / 1e6 / seconds,
            "arrow_bytes": self.arrow_bytes,
            "make_seconds": self.make_seconds,
        }


def count_rows(session: SparkSession, rows: int, partitions: int) -> LineitemRows:
    """The rows of lineitem, whose parts are counted on executors."""
    numbers = session.sparkContext.parallelize(range(partitions), partitions)
    counts = numbers.map(lambda number: count_lineitem(rows, partitions, number)).collect()
    return LineitemRows(rows, tuple(counts))


class Steps:
    """A pipeline's steps, each of which needs the result of the one before.

    Args:
        session: A running session.
        rows: The rows: a source of them by partition, or a frame.
        destination: The place that is written to.
        options: Options of the native writer.
        max_file_bytes: Bytes of a file after which the next begins.
    """

    def __init__(
        self,
        session: SparkSession,
        rows: RowSource | DataFrame,
        destination: Destination,
        options: Mapping[str, Any],
        *,
        max_file_bytes: int | None = None,
    ) -> None:
        self._session = session
        self._rows = rows
        self._destination = destination
        self._options = dict(options)
        self._max_file_bytes = max_file_bytes
        self._job: Job | None = None

    def write(self) -> Written:
        """Write the rows by the native writer on executors, and commit them once.

        Raises:
            SpillwayError: They cannot be written as asked; nothing is left.
        """
        tally = Tally(self._session.sparkContext)
        schema, result = self._write(tally)
        parts = tally.parts.values()
        return Written(
            output={
                "rows": result.rows,
                "bytes": result.bytes,
                "files": result.files,
                "version": result.version,
                "writer_seconds": result.writer_seconds,
            },
            schema=schema,
            digest=tally.total(schema),
            parts=tuple(Digest.from_bytes(part.digest) for part in parts),
            arrow_bytes=sum(part.arrow_bytes for part in parts),
            make_seconds=sum(part.seconds for part in parts),
        )

    def _write(self, tally: Tally) -> tuple[pa.Schema, SparkWriteResult]:
        from pyspark.sql import DataFrame

        rows = self._rows
        schema = exchanged_schema(rows.schema) if isinstance(rows, DataFrame) else rows.schema

        def plan() -> Job:
            self._job = self._job_of(schema)
            return self._job

        def tasks(job: Job) -> list[TaskResult]:
            if isinstance(rows, DataFrame):
                return tasks_of_frame(sorted_for(job, rows), FrameTask(job, schema, tally.accumulator))
            task = MakingTask(job, Tallied(rows.make, schema, tally.accumulator))
            return tasks_of_partitions(self._session.sparkContext, rows.partitions, task)

        return schema, run(plan, tasks, self._destination.mode, driver_of(self._session))

    def _job_of(self, schema: pa.Schema) -> Job:
        destination = self._destination
        target = Target.of(
            destination.uri,
            schema,
            table=destination.table,
            overwrite=destination.mode == "overwrite",
            partition_by=destination.partition_by,
            max_file_bytes=self._max_file_bytes,
            storage_options=destination.storage_options,
            settings=of_session(self._session),
            options=self._options,
        )
        return job_of(target)

    def forget(self) -> None:
        """Remove what is left of a write that was not committed, when no task runs any more."""
        if self._job is not None:
            self._destination.forget(self._job.id)

    def validate(self, written: Written) -> Validation:
        """Read what was written by Spark, and compare it with the checksums made where the rows were."""
        checked = check_rows(
            self._written(written),
            written.schema,
            written.digest,
            parts=written.parts,
            row_bytes=written.row_bytes,
        )
        made, committed = written.digest.rows, written.output["rows"]
        counts = None if made == committed else f"{made:,} rows were made, and {committed:,} committed"
        return {
            "reader": READER,
            "rows": checked.rows,
            "row_checksum": checked.row_checksum,
            "expected_checksum": written.digest.row_checksum,
            "problem": counts or checked.problem,
        }

    def summarise(self, written: Written) -> RowSummary:
        """Sum up what was written by Spark SQL."""
        return summarise(self._written(written))

    def _written(self, written: Written) -> DataFrame:
        assert self._job is not None  # noqa: S101 - it has written
        version = written.output["version"]
        return self._destination.written(self._session, written.schema, self._job.id, version)
