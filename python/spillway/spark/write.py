"""`write` for the rows of a DataFrame, and `write_generated` for rows that executors generate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spillway._options import checks_arguments, shows_options
from spillway.errors import OptionError
from spillway.spark.location import scheme_of
from spillway.spark.run import check_mode, driver_of, job_of, run, tasks_of_frame, tasks_of_partitions
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
    """Write the rows of a DataFrame with the native writer on executors, and commit them once.

    Each task passes the rows of its partition to the writer as Arrow batches (``DataFrame.mapInArrow``), and
    the driver commits the files of all tasks at once. A repeated or killed task leaves no rows and no files.
    This works on Spark 3.5 and later, and from a Spark Connect client, whose server commits; executors need
    this package and pyarrow, for the driver's minor version of Python.

    Each task sorts its rows by the partition columns, as Spark's own writer does, and by ``sorting_columns``,
    which the files then declare.

    Args:
        df: The rows.
        path: A folder that driver and executors can access, or ``s3://bucket/folder``; for a Delta table, any
            location that `spillway.delta.create` accepts. The path means the same as for Spark's own writers:
            nothing in it is decoded. With Spark Connect, it must be absolute.
        table: ``"parquet"`` for a folder of files, ``"delta"`` for a Delta table. By default, whatever exists
            at `path`: a Delta table, or else a folder.
        mode: ``"append"`` adds rows; ``"overwrite"`` replaces rows; ``"error"`` and ``"ignore"`` write only
            to a destination that does not exist or has no files of data.
        partition_by: One or several columns, outermost first, whose values divide rows into partitions; an
            existing Delta table keeps its own partition columns.
        where: The rows that an overwrite replaces: conditions on partition columns, which the new rows must
            also satisfy, such as ``"day = DATE '2026-11-20'"`` or ``[("day", "=", "2026-11-20")]``.
        partition_overwrite: ``"static"`` makes an overwrite replace all rows, ``"dynamic"`` only those of
            partitions with new rows, which excludes `where`; by default,
            ``spark.sql.sources.partitionOverwriteMode`` applies.
        run_id: A name for the run. If a write to the same destination is repeated under the same name, after
            any failure, its rows are added only once.
        schema_mode: ``"merge"`` adds columns that a Delta table lacks.
        max_file_bytes: Maximum size of a file.
        max_file_rows: Rows of a file.
        storage_options: Settings and credentials of the object store, as in `spillway.delta.create`.
        **options: The fields of `WriterOptions`, for the files.

    Returns:
        The counts of rows, bytes and files written. They are zero if the destination already has the rows of
        `run_id`, or if ``mode="ignore"`` wrote nothing.

    Raises:
        OptionError: An option has a value that is not accepted; or Spark would resolve the path differently;
            or the folder contains a list of its files, or files that an overwrite would leave visible.
        SchemaError: The rows do not fit the table, or cannot be written.
        FileExistsError: `path` exists and is not empty, and ``mode="error"``.
        CommitConflict: Another transaction on the Delta table conflicts with the write.
        SpillwayError: The Python of executors lacks Spillway or pyarrow, or has a different minor version.
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
    """Write rows that executors generate, without moving any row into the JVM.

    One task for each partition calls `make` on an executor, and passes its batches to the native writer
    there. Otherwise this is like `write`. In a Delta table on ``gs://`` or ``az://``, files of a killed task
    stay until a vacuum, and no version references them.

    Args:
        session: The Spark session, which cannot be a Spark Connect session.
        make: A function that returns the batches of the partition with the given number. It is pickled. A
            repeated task calls it again, so it must return the same rows each time.
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
        OptionError: As `write`; or the session is a Spark Connect session.
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
            "a Spark Connect session has no context to run tasks without a DataFrame: write a DataFrame "
            "with spillway.spark.write, such as session.range(partitions).mapInArrow(...)"
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
    """Check everything that needs no access to the destination; return a function that creates the job.

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
        message = f"the Spark Connect server cannot resolve the relative path {path!r}: pass an absolute path"
        raise OptionError(message, "path")
    return partial(_planned, path, schema, None, rows, options=options, **target)


def _planned(
    path: str, schema: pa.Schema, known: Settings | None, rows: StructType | None, **given: Any
) -> Job:
    settings = known or of_task()
    check_names(schema, is_case_sensitive=bool(settings.is_case_sensitive))
    target = Target.of(path, schema, settings=settings, **given)
    return job_of(described(target, rows))


def sorted_for(job: Job, df: DataFrame) -> DataFrame:
    """Return the rows with columns named by position, sorted within each partition as in the files of a job.

    The job records this: if Spark does not sort, tasks with many partitions sort the rows themselves. The
    columns are ``c0``, ``c1`` and so on, as `DataFrame.mapInArrow` finds none whose name has a dot.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
    from pyspark.sql.types import StringType

    names = {name: f"c{place}" for place, name in enumerate(df.columns)}
    # Files are sorted by bytes, and Spark by collations; null and the empty string are one partition.
    types = {field.name: field.dataType for field in df.schema.fields}

    def comparable(name: str) -> Column:
        column = F.col(names[name])
        if not isinstance(types[name], StringType):
            return column
        plain = column.cast("string")
        return F.nullif(plain, F.lit("")) if name in job.partition_columns else plain

    parts: list[SortKey] = [(name, "ascending", "nulls_first") for name in job.partition_columns]
    keys: list[SortKey] = [*parts, *job.target.options.get("sorting_columns", ())]
    by_place = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
    if not keys:
        return by_place
    job.is_sorted = True

    def order(key: SortKey) -> Column:
        name, *told = (key,) if isinstance(key, str) else key
        direction, nulls = [*map(str, told), *("ascending", "nulls_last")[len(told) :]]
        return _ORDERS[direction, nulls](comparable(name))

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
