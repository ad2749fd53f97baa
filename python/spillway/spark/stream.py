"""The streaming sink ``spillway``: each micro-batch is in the destination once, whatever is killed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spillway.errors import OptionError, SpillwayError
from spillway.spark.folder_job import FolderJob
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.schema import check_names
from spillway.spark.settings import of_task
from spillway.spark.stream_jobs import batch_of, check_store
from spillway.spark.write import attempt_number, partition_number
from spillway.spark.write_job import messages_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from spillway.spark.write_job import Target, TaskResult

__all__ = ["BatchMessage", "SpillwayStreamWriter"]

# The names by which Spark tells tasks of a micro-batch which query and batch they are of.
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


@dataclass
class BatchMessage(WriterCommitMessage):
    """The message of a task of a micro-batch to the driver.

    Args:
        result: Its files and its measures.
        query: The id of the query, which Spark does not pass to the driver's side of a Python sink.
    """

    result: TaskResult
    query: str


class SpillwayStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a query. Spark creates one for the tasks of each micro-batch, and another for its commit.

    A query keeps its id in its checkpoint, so one that is started again from there replays its last batch by
    the same id and number. With a new checkpoint it is another query, whose rows are added.
    """

    def __init__(self, target: Target) -> None:
        given = {"app_id": target.app_id, "app_version": target.app_version, "run_id": target.run_id}
        for name, value in given.items():
            if value is not None:
                message = f"{name} is the query's id or the batch's number in a stream: leave it out"
                raise OptionError(message, name)
        # Each batch of the mode `complete` has all rows.
        if target.overwrite and target.partition_overwrite == "dynamic":
            message = "a stream that overwrites replaces all rows with each batch: leave it out"
            raise OptionError(message, "partition_overwrite")
        self._target = target
        if target.table == "parquet":
            FolderJob(target).check()
            check_store(FolderStorage(target.path, target.storage_options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchMessage:  # type: ignore[override]  # PySpark overrides it so too
        """Write the rows of a task."""
        query, batch = _micro_batch()
        schema = self._target.schema
        batches = (batch.cast(schema) for batch in iterator)
        job = batch_of(self._target, query, batch)
        settings = of_task()
        job.check_task(settings)
        check_names(schema, is_case_sensitive=bool(settings.is_case_sensitive))
        return BatchMessage(job.write(batches, partition_number(), attempt_number()), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the files of the batch, unless an earlier commit did."""
        found = messages_of(BatchMessage, messages)
        if found:
            batch_of(self._target, found[0].query, batchId).commit([message.result for message in found])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Leave the batch to its replay, which removes its leftover files.

        The commit may have reached any stage, so nothing can be removed here.
        """


def _micro_batch() -> tuple[str, int]:
    """The query and the number of the batch that this task is of."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query, batch = (None, None) if context is None else map(context.getLocalProperty, (_QUERY, _BATCH))
    if query is None or batch is None:
        raise SpillwayError(
            f"Spark did not tell this task its query and micro-batch ({_QUERY}, {_BATCH}): the sink is for "
            'queries of micro-batches; use format("spillway") in a batch job elsewhere'
        )
    return query, int(batch)
