"""`write`: the rows of a DataFrame; `write_generated`: rows that executors make. Both are committed once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spillway._options import checks_arguments, shows_options
from spillway.errors import OptionError
from spillway.spark.driver import driver_of
from spillway.spark.location import scheme_of
from spillway.spark.run import check_mode, job_of, run, tasks_of_frame, tasks_of_partitions
from spillway.spark.schema import arrow_schema, check_names
from spillway.spark.settings import is_connect, of_session, of_task
from spillway.spark.workers import check_workers
from spillway.spark.write_job import Job, SparkWriteResult, Target, TaskResult, described
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Literal, Unpack

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spillway.spark.settings import Settings
    from spillway.types import Condition, SortKey, WriteMode, WriterKeywords

__all__ = [
    "FrameTask",
    "MakingTask",
    "attempt_number",
    "partition_number",
    "plan_of",
    "sorted_for",
    "write",
    "write_generated",
]


@checks_arguments
@shows_options(WriterOptions)
def write(  # noqa: PLR0913 - what a write is
    df: DataFrame,
    path: str,
    *,
    table: Literal["parquet", "delta"] | None = None,
    mode: WriteMode = "error",
    partition_by: str | Sequence[str] = (),
    where: str | Sequence[Condition] | None = None,
    partition_overwrite: Literal["static", "dynamic"] | None = None,
    run_id: str | None = None,
    schema_mode: Literal["merge"] | None = None,
    max_file_bytes: int | None = None,
    max_file_rows: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[WriterKeywords],
) -> SparkWriteResult:
    """Write the rows of a DataFrame by the native writer on executors, and commit them once.

    Each task hands the rows of its partition to the writer as Arrow batches (``DataFrame.mapInArrow``), and
    the driver commits the files of all tasks at once. A task that is repeated or killed leaves no row and no
    file. It runs on Spark 3.5 and newer, and from a client of Spark Connect, whose server commits; the
    executors need this package and pyarrow, in a Python of the driver's minor version.

    Rows are sorted within each task by the columns that they are partitioned by, as Spark's own writer does,
    and by ``sorting_columns``, which the files then declare.

    Args:
        df: The rows.
        path: A folder that driver and executors see, or ``s3://bucket/folder``; for a Delta table, any
            location of `spillway.delta.create`. It means what it means to Spark's own writers: nothing in it
            is decoded. Under Spark Connect it must be absolute.
        table: ``"parquet"`` for a folder of files, ``"delta"`` for a Delta table. By default what `path` is
            already: a Delta table, or else a folder.
        mode: ``"append"`` adds rows; ``"overwrite"`` replaces rows; ``"error"`` and ``"ignore"`` write only
            to a destination that does not exist or is empty.
        partition_by: A column, or several from the outermost in, whose values divide rows into partitions; an
            existing Delta table keeps its own.
        where: The rows that an overwrite replaces: conditions on partition columns, which the new rows must
            meet, such as ``"day = DATE '2026-11-20'"`` or ``[("day", "=", "2026-11-20")]``.
        partition_overwrite: ``"static"`` lets an overwrite replace all rows, ``"dynamic"`` those of the
            partitions that have new rows; without it, ``spark.sql.sources.partitionOverwriteMode`` applies.
        run_id: A name for the run. A write to the same destination that is repeated under the same name,
            after any failure, adds its rows once.
        schema_mode: ``"merge"`` adds columns that a Delta table lacks.
        max_file_bytes: Bytes that a file has at most.
        max_file_rows: Rows of a file.
        storage_options: Settings and credentials of the object store, as for `spillway.delta.create`.
        **options: The fields of `WriterOptions`, for the files.

    Returns:
        Counts of what was written. They are zero where the destination has the rows of `run_id` already, and
        where ``mode="ignore"`` left it as it was.

    Raises:
        OptionError: An option has a value that is not accepted; or Spark would resolve the path differently;
            or the folder has a list of its files, or files that an overwrite would leave visible.
        SchemaError: The rows do not fit the table, or cannot be written.
        FileExistsError: There is something at `path`, and ``mode="error"``.
        CommitConflict: The Delta table was changed by another transaction that is in the way.
        SpillwayError: The Python of executors has no Spillway, no pyarrow or another minor version.
        pyspark.errors.PySparkException: A task failed more often than Spark repeats it; nothing is written.

    Example:
        >>> events = session.read.json("events.json")  # doctest: +SKIP
        >>> spillway.spark.write(events, "/lake/events", table="delta", partition_by="day")  # doctest: +SKIP
        SparkWriteResult(rows=4000, bytes=31872, files=4, version=0, writer_seconds=0.01)
    """
    check_mode(mode)
    session = df.sparkSession
    plan = plan_of(
        session,
        path,
        arrow_schema(df.schema),
        rows=df.schema,
        table=table,
        overwrite=mode == "overwrite",
        partition_by=partition_by,
        where=where,
        partition_overwrite=partition_overwrite,
        run_id=run_id,
        schema_mode=schema_mode,
        max_file_bytes=max_file_bytes,
        max_file_rows=max_file_rows,
        storage_options=storage_options,
        options=options,
    )
    return run(
        plan, lambda job: tasks_of_frame(sorted_for(job, df), FrameTask(job)), mode, driver_of(session)
    )


@checks_arguments
@shows_options(WriterOptions)
def write_generated(  # noqa: PLR0913 - what a write is
    session: SparkSession,
    make: Callable[[int], Iterable[pa.RecordBatch]],
    partitions: int,
    path: str,
    *,
    schema: pa.Schema,
    table: Literal["parquet", "delta"] | None = None,
    mode: WriteMode = "error",
    partition_by: str | Sequence[str] = (),
    where: str | Sequence[Condition] | None = None,
    partition_overwrite: Literal["static", "dynamic"] | None = None,
    run_id: str | None = None,
    max_file_bytes: int | None = None,
    max_file_rows: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[WriterKeywords],
) -> SparkWriteResult:
    """Write rows that executors make, without a row crossing into the JVM.

    One task for each partition calls `make` on an executor, and gives its batches to the native writer
    there. The rest is as `write`. In a Delta table on ``gs://`` or ``az://``, the files of a task that was
    killed wait for a vacuum, and no version names them.

    Args:
        session: The Spark session; not one of Spark Connect.
        make: Returns the batches of the partition with this number. It is pickled. A task that is repeated
            calls it again, so it returns the same rows each time.
        partitions: The number of partitions.
        path: As `write`.
        schema: The schema of the batches.
        table: As `write`.
        mode: As `write`.
        partition_by: As `write`.
        where: As `write`.
        partition_overwrite: As `write`.
        run_id: As `write`.
        max_file_bytes: As `write`.
        max_file_rows: As `write`.
        storage_options: As `write`.
        **options: The fields of `WriterOptions`, for the files.

    Returns:
        As `write`.

    Raises:
        OptionError: As `write`; or the session is one of Spark Connect.
        SpillwayError: As `write`.
        FileExistsError: As `write`.
        pyspark.errors.PySparkException: As `write`.

    Example:
        >>> def numbers(partition: int):  # doctest: +SKIP
        ...     yield pa.record_batch({"id": range(partition * 1000, partition * 1000 + 1000)})
        >>> spillway.spark.write_generated(  # doctest: +SKIP
        ...     session, numbers, 4, "numbers", schema=pa.schema({"id": pa.int64()})
        ... ).rows
        4000
    """
    check_mode(mode)
    if partitions < 1:
        raise OptionError(f"partitions={partitions} is not accepted: choose 1 or more", "partitions")
    if is_connect(session):
        message = (
            "a session of Spark Connect has no context to run tasks without a DataFrame: write a DataFrame "
            "by spillway.spark.write, such as session.range(partitions).mapInArrow(...)"
        )
        raise OptionError(message, "session")
    plan = plan_of(
        session,
        path,
        schema,
        table=table,
        overwrite=mode == "overwrite",
        partition_by=partition_by,
        where=where,
        partition_overwrite=partition_overwrite,
        run_id=run_id,
        max_file_bytes=max_file_bytes,
        max_file_rows=max_file_rows,
        storage_options=storage_options,
        options=options,
    )
    context = session.sparkContext
    return run(
        plan,
        lambda job: tasks_of_partitions(context, partitions, MakingTask(job, make)),
        mode,
        driver_of(session),
    )


def plan_of(
    session: SparkSession,
    path: str,
    schema: pa.Schema,
    *,
    options: Mapping[str, Any],
    rows: StructType | None = None,
    **target: Any,
) -> Callable[[], Job]:
    """Check what can be checked without the destination, and return what makes the job where it is visible.

    Args:
        session: The session of the write.
        path: The destination.
        schema: The schema of the rows.
        options: The fields of `WriterOptions`.
        rows: Spark's schema of the rows of a DataFrame.
        **target: The other arguments of `Target.of`.

    Raises:
        OptionError: A value is not accepted; or the path is relative, and the session one of Spark Connect.
        SpillwayError: The Python of Spark's workers cannot write.
    """
    WriterOptions(**options)
    check_workers(session)
    if not is_connect(session):
        return partial(_planned, path, schema, of_session(session), rows, options=options, **target)
    if scheme_of(path) is None and not path.startswith("/"):
        message = (
            f"the relative path {path!r} means nothing to the server of Spark Connect: write it absolute"
        )
        raise OptionError(message, "path")
    return partial(_planned, path, schema, None, rows, options=options, **target)


def _planned(
    path: str, schema: pa.Schema, known: Settings | None, rows: StructType | None, **given: Any
) -> Job:
    settings = known or of_task()
    if not settings.is_case_sensitive:
        check_names(schema)
    target = Target.of(path, schema, settings=settings, **given)
    return job_of(target if rows is None else described(target, rows))


def sorted_for(job: Job, df: DataFrame) -> DataFrame:
    """Return the rows with columns by their places, sorted in each partition as the files of a job have them.

    The job notes it: tasks put rows of many partitions in order themselves where Spark does not. The columns
    are ``c0``, ``c1`` and so on, as `DataFrame.mapInArrow` finds none whose name has a dot.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    names = {name: f"c{place}" for place, name in enumerate(df.columns)}
    # Null and the empty string are one partition.
    parts: list[SortKey] = [(name, "ascending", "nulls_first") for name in job.partition_columns]
    keys: list[SortKey] = [*parts, *job.target.options.get("sorting_columns", ())]
    by_place = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
    if not keys:
        return by_place
    job.is_sorted = True

    def order(key: SortKey) -> Column:
        name, *told = (key,) if isinstance(key, str) else key
        direction, nulls = [*map(str, told), *("ascending", "nulls_last")[len(told) :]]
        return _ORDERS[direction, nulls](F.col(names[name]))

    return by_place.sortWithinPartitions(*(order(key) for key in keys))


_ORDERS: dict[tuple[str, str], Callable[[Column], Column]] = {
    ("ascending", "nulls_first"): lambda column: column.asc_nulls_first(),
    ("ascending", "nulls_last"): lambda column: column.asc_nulls_last(),
    ("descending", "nulls_first"): lambda column: column.desc_nulls_first(),
    ("descending", "nulls_last"): lambda column: column.desc_nulls_last(),
}


class FrameTask:
    """The work of a task: it writes the rows of its partition of a frame.

    Args:
        job: The job.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[TaskResult]:
        """Write the rows."""
        schema = self._job.target.schema
        # Spark's timestamps have the time zone of the session. The conversion copies nothing.
        rows = (batch.rename_columns(schema.names).cast(schema) for batch in batches)
        yield self._job.write(rows, partition_number(), attempt_number())


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
