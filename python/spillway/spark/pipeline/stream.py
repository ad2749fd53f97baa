"""Streams of a pipeline: each micro-batch is written, audited and published by itself."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError
from spillway.spark.driver import activate, interrupt_behind
from spillway.spark.pipeline.audit import AuditOutcome
from spillway.spark.pipeline.cell import cell_of
from spillway.spark.pipeline.result import PipelineResult
from spillway.spark.pipeline.run import MicroBatch, Run
from spillway.spark.settings import is_connect
from spillway.spark.write_job import SparkWriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spillway.spark.pipeline.record import RunWatch, Stage
    from spillway.spark.pipeline.run import Pipeline

__all__ = ["run_stream"]


def run_stream(
    pipeline: Pipeline, session: SparkSession, frame: DataFrame, watch: RunWatch
) -> PipelineResult:
    """Run a pipeline over what its stream has now.

    Args:
        pipeline: The pipeline.
        session: Its session.
        frame: The stream, after the transformation.
        watch: The watch of the run.

    Raises:
        OptionError: The session is one of Spark Connect, whose server would run the batches.
        Exception: What ended a micro-batch, or the query.
        KeyboardInterrupt: Ctrl-C came: the query was stopped, and nothing of its batch was published.
    """
    if is_connect(session):
        message = (
            "a stream is published by the driver of its query, which a client of Spark Connect is not: run "
            "the pipeline in a classic session"
        )
        raise OptionError(message, "source")
    batches = _Batches(pipeline)
    writer = frame.writeStream.foreachBatch(batches.publish).trigger(availableNow=True)
    query = None
    try:
        query = writer.option("checkpointLocation", str(pipeline.checkpoint_location)).start()
        batches.query.set_result(str(query.id))
        query.awaitTermination()
    except BaseException as failure:
        if query is None:
            batches.query.cancel()
        else:
            with contextlib.suppress(Exception):  # what ended the query is the error to raise
                query.stop()
            # The thread of Spark ends before that of Python, which removes what was begun.
            with batches.busy:
                pass
        interrupt = interrupt_behind(failure)
        if interrupt is not None or isinstance(failure, KeyboardInterrupt):
            activate(session)
        if interrupt is not None:
            raise interrupt from failure
        if batches.error is not None and isinstance(failure, Exception):
            # Spark's own error has it as text, with the stacks of both languages.
            raise batches.error from None
        raise
    return _summed(pipeline, session, str(query.id), batches.done, watch)


class _Batches:
    """The micro-batches of a query.

    Args:
        pipeline: The pipeline.

    Attributes:
        query: The id of the query, which is known once the query has started.
        done: The results of those that were published.
        error: What ended one.
        busy: Held while one is published.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.query: Future[str] = Future()
        self.done: list[PipelineResult] = []
        self.error: BaseException | None = None
        self.busy = threading.Lock()

    def publish(self, frame: DataFrame, number: int) -> None:
        """Write, audit and publish a micro-batch, unless it was published before."""
        with self.busy:
            try:
                batch = MicroBatch(frame, self.query.result(), number)
                result = Run(self._pipeline, frame.sparkSession, batch=batch).result()
                if result.repeated:
                    # Spark keeps the state of a query (of dropDuplicates, say) only of rows that were read.
                    frame.write.format("noop").mode("append").save()
            except BaseException as error:
                self.error = error
                raise
            self.done.append(result)


def _summed(
    pipeline: Pipeline, session: SparkSession, query: str, done: list[PipelineResult], watch: RunWatch
) -> PipelineResult:
    """The result of a stream: sums over its micro-batches, and the version of the last one."""

    def total(name: str) -> Any:
        return sum(getattr(each, name) for each in done)

    seconds: dict[Stage, float] = {}
    names = [check.name for check in pipeline.row_checks] + [check.name for check in pipeline.set_checks]
    checks = dict.fromkeys(names, 0)
    for each in done:
        for stage, spent in each.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
        for name, rows in each.checks.items():
            checks[name] = checks.get(name, 0) + rows
    audits = [each.audit for each in done]
    sums = ("rows_read", "rows_written", "rows_dropped", "rows_quarantined", "files", "bytes")
    result = PipelineResult(
        run_id=query,
        repeated=bool(done) and all(each.repeated for each in done),
        **{name: total(name) for name in (*sums, "arrow_bytes", "make_seconds", "writer_seconds")},
        checks=checks,
        version=done[-1].version if done else None,
        audit=AuditOutcome(pipeline.audit, sum(a.files for a in audits), sum(a.rows for a in audits)),
        seconds=seconds,
        batches=tuple(done),
    )
    cell = cell_of(
        pipeline,
        table="delta" if result.version is not None or pipeline.sink.table == "delta" else "parquet",
        master=session.conf.get("spark.master") or "",
    )
    published = SparkWriteResult(
        result.rows_written, result.bytes, result.files, result.version, result.writer_seconds
    )
    record = watch.record(query, cell, list(seconds.items()), published=published, result=result)
    return replace(result, record=record)
