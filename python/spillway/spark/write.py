"""`write`: rows that are made on executors, written there, and committed once on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._options import shows_options
from spillway.errors import OptionError
from spillway.spark.run import check_mode, run, tasks_of_partitions
from spillway.spark.settings import of_session
from spillway.spark.write_job import Job, SparkWriteResult, Target, TaskResult, job_of
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Literal, Unpack

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spillway.types import WriteMode, WriterKeywords

__all__ = ["MakingTask", "attempt_number", "partition_number", "write"]


@shows_options(WriterOptions)
def write(  # noqa: PLR0913 - what a write is
    session: SparkSession,
    make: Callable[[int], Iterable[pa.RecordBatch]],
    partitions: int,
    path: str,
    *,
    schema: pa.Schema,
    table: Literal["parquet", "delta"] | None = None,
    mode: WriteMode = "error",
    partition_by: str | Sequence[str] = (),
    max_file_bytes: int | None = None,
    max_file_rows: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    app_id: str | None = None,
    app_version: int | None = None,
    **options: Unpack[WriterKeywords],
) -> SparkWriteResult:
    """Write rows that executors make, without a row crossing into the JVM.

    One task for each partition calls `make` on an executor, and gives its batches to the native writer
    there. The driver commits the files of all tasks at once. A task that is repeated or killed leaves no row
    and no file; in a Delta table on ``gs://`` or ``az://``, its files wait for a vacuum, and no version names
    them. Where a job there was to create the table and failed, remove its folder ``spillway-...``. The
    executors need this package and pyarrow, in a Python of the driver's minor version.

    Args:
        session: The Spark session.
        make: Returns the batches of the partition with this number. It is pickled. A task that is repeated
            calls it again, so it returns the same rows each time.
        partitions: The number of partitions.
        path: A folder that driver and executors see, or ``s3://bucket/folder``; for a Delta table, any
            location of `spillway.delta.create`. Spark's own writers take it for the same place: nothing in it
            is decoded.
        schema: The schema of the batches.
        table: ``"parquet"`` for a folder of files, ``"delta"`` for a Delta table. Without it, `path` is
            written as what it is: a Delta table, or else a folder.
        mode: ``"append"`` adds rows; ``"overwrite"`` puts them in the place of all others, and is refused for
            a destination with partitions where ``spark.sql.sources.partitionOverwriteMode`` is ``dynamic``;
            ``"error"`` and ``"ignore"`` are for a destination that is not there, or empty.
        partition_by: A column, or several from the outermost in, that rows are stored apart by; in a Delta
            table that is there, its own apply.
        max_file_bytes: Bytes that a file has at most.
        max_file_rows: Rows of a file.
        storage_options: Settings and credentials of the object store, as for `spillway.delta.create`.
        app_id: The application's id, for a Delta table. With `app_version` the write is idempotent.
        app_version: The application's version of these rows.
        **options: The fields of `WriterOptions`, for the files.

    Returns:
        Counts of what was written. They are zero where the table has `app_version` already, and where
        ``mode="ignore"`` left the destination as it was.

    Raises:
        OptionError: An option has a value that is not accepted; or Spark takes the path for another place; or
            the folder has a list of its files, or files that an overwrite would leave to readers.
        SchemaError: The rows do not fit the table, or cannot be written.
        FileExistsError: There is something at `path`, and ``mode="error"``.
        CommitConflict: The Delta table was changed by another transaction that is in the way.
        SpillwayError: Executors run another minor version of Python than the driver.
        pyspark.errors.PySparkException: A task failed more often than Spark repeats it; nothing is written.

    Example:
        >>> def numbers(partition: int):  # doctest: +SKIP
        ...     yield pa.record_batch({"id": range(partition * 1000, partition * 1000 + 1000)})
        >>> spillway.spark.write(  # doctest: +SKIP
        ...     session, numbers, 4, "numbers", schema=pa.schema({"id": pa.int64()})
        ... ).rows
        4000
    """
    check_mode(mode)
    if partitions < 1:
        raise OptionError(f"partitions={partitions} is not accepted: choose 1 or more", "partitions")
    WriterOptions(**options)
    target = Target.of(
        path,
        schema,
        table=table,
        overwrite=mode == "overwrite",
        partition_by=partition_by,
        max_file_bytes=max_file_bytes,
        max_file_rows=max_file_rows,
        storage_options=storage_options,
        app_id=app_id,
        app_version=app_version,
        settings=of_session(session),
        options=options,
    )
    job = job_of(target)
    task = MakingTask(job, make)
    return run(job, lambda: tasks_of_partitions(session.sparkContext, partitions, task), mode)


class MakingTask:
    """The work of a task: it makes the rows of its partition, and writes them.

    Args:
        job: The job.
        make: Returns the batches of the partition with this number.
    """

    def __init__(self, job: Job, make: Callable[[int], Iterable[pa.RecordBatch]]) -> None:
        self._job = job
        self._make = make

    def __call__(self, number: int) -> TaskResult:
        """Write the partition of this number."""
        return self._job.write(self._make(number), number, attempt_number())


def partition_number() -> int:
    """The number of this task's partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def attempt_number() -> int:
    """The number of this attempt, which no other of the application has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return -1 if context is None else int(context.taskAttemptId())
