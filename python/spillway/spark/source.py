"""The data source ``spillway``: ``df.write.format("spillway")`` runs the native writer on executors."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from spillway.errors import OptionError, SpillwayError
from spillway.spark.options import parsed
from spillway.spark.run import job_of
from spillway.spark.schema import arrow_schema, check_names
from spillway.spark.settings import of_environment, of_task
from spillway.spark.write import FrameTask
from spillway.spark.write_job import Job, Target, TaskResult, described, messages_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spillway.spark.stream import SpillwayStreamWriter

__all__ = ["DefaultSource", "SpillwayWriter", "TaskMessage"]

_log = logging.getLogger("spillway.spark")


class DefaultSource(DataSource):
    """The data source that Spark finds by the name ``spillway``.

    ``df.write.format("spillway").mode("append").save(path)`` writes a folder of Parquet files, or a Delta
    table with ``.option("table", "delta")`` or if one exists. Options are those of `WriterOptions`, by the
    same names but ``encryption``: numbers and booleans as text, lists and mappings as JSON. Beside them are
    ``partition_by`` (names with commas between them, or a JSON list), ``max_file_bytes``, ``max_file_rows``,
    ``table`` (``parquet`` or ``delta``), ``app_id``, ``app_version``, ``run_id``, ``schema_mode``, and the
    settings of an object store by their names, such as ``AWS_REGION``. Credentials are refused, as Spark
    shows options: the environment has them.

    The modes are ``append`` and ``overwrite``. Spark refuses ``errorifexists``, which is its default, and
    ``ignore`` before it asks a source written in Python. ``overwrite`` replaces all rows; or those for which
    the option ``where`` is true; or only partitions with new rows, if
    ``spark.sql.sources.partitionOverwriteMode`` or the option ``partitionOverwriteMode`` is ``dynamic``.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "spillway"

    def schema(self) -> NoReturn:
        """Refuse to be read: Spark's own readers can read the files."""
        raise OptionError(
            'the format "spillway" only writes: read the folder with format("parquet"), and a Delta table '
            'with format("delta")'
        )

    def writer(self, schema: StructType, overwrite: bool) -> SpillwayWriter:  # noqa: FBT001 - Spark's signature
        """Begin a job: everything that can be refused is refused here, before the first task.

        Raises:
            OptionError: An option is unknown, or has a value that is not accepted.
            SchemaError: A column has a type that cannot be written.
        """
        job = job_of(self._target(schema, overwrite=overwrite))
        is_repeated = job.is_repeated()
        if not is_repeated:
            job.begin()
        return SpillwayWriter(job, is_repeated=is_repeated)

    def streamWriter(self, schema: StructType, overwrite: bool) -> SpillwayStreamWriter:  # noqa: FBT001, N802 - Spark's signature
        """Return the sink of a query. The output mode ``complete`` overwrites with each micro-batch.

        Raises:
            OptionError: As `writer`; or ``app_id`` is given, which is the id of the query.
            SchemaError: As `writer`.
            SpillwayError: This Spark is 4.0, whose streams give no Arrow batches to Python.
        """
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise SpillwayError(
                f"PySpark {pyspark.__version__} has no streaming sinks that take Arrow batches, and 4.1 is "
                "the oldest that has them: update Spark, or write each micro-batch with "
                'format("spillway") in '
                "foreachBatch"
            )
        from spillway.spark.stream import SpillwayStreamWriter

        return SpillwayStreamWriter(self._target(schema, overwrite=overwrite))

    def _target(self, schema: StructType, *, overwrite: bool) -> Target:
        target = Target.of(
            schema=arrow_schema(schema),
            overwrite=overwrite,
            settings=of_environment(),
            **parsed(self.options),
        )
        return described(target, schema)


@dataclass
class TaskMessage(WriterCommitMessage):
    """The message of a task to the driver.

    Args:
        result: Its files and its measures.
    """

    result: TaskResult


class SpillwayWriter(DataSourceArrowWriter):
    """The writer of one job. It is made on the driver and pickled for tasks, and for the commit.

    Args:
        job: The job.
        is_repeated: True if the destination has its rows already: tasks write none.
    """

    def __init__(self, job: Job, *, is_repeated: bool = False) -> None:
        self._job = job
        self._is_repeated = is_repeated

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:  # type: ignore[override]  # PySpark overrides it so too
        """Write the rows of a task."""
        if self._is_repeated:
            for _ in iterator:
                pass
            return TaskMessage(TaskResult())
        told = of_task()
        self._job.check_task(told)
        if not told.is_case_sensitive:
            check_names(self._job.target.schema)
        (result,) = FrameTask(self._job)(iterator)
        # The process that commits has no session to ask.
        return TaskMessage(replace(result, partition_overwrite=told.partition_overwrite))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of the tasks that count."""
        if self._is_repeated:
            _log.info("%s already has the rows of this run", self._job.target.path)
            return
        self._job.commit([message.result for message in messages_of(TaskMessage, messages)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - the job's folder has all
        """Remove the files of all tasks."""
        if not self._is_repeated:
            self._job.abort()
