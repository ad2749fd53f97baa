"""`Pipeline`: a source, a transformation, checks and a destination, run on the user's Spark session."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spillway._wording import counted
from spillway.errors import CheckFailedError, OptionError
from spillway.spark.pipeline.checks import AuditKind, BadRows, PipelineResult, RowCheck, Unique, column_of
from spillway.spark.pipeline.source_and_sink import RunName, read_path
from spillway.spark.run import activate, answers_of, driver_of, interrupt_behind, run, tasks_of_partitions
from spillway.spark.schema import arrow_schema, quoted
from spillway.spark.settings import is_connect
from spillway.spark.write import sorted_for
from spillway.spark.write_job import SparkWriteResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spillway.spark.pipeline.audit import AuditOutcome, Staged
    from spillway.spark.pipeline.checks import Check
    from spillway.spark.pipeline.record import PipelineRecord, RunWatch, Stage
    from spillway.spark.pipeline.source_and_sink import Sink
    from spillway.spark.pipeline.tasks import Answer
    from spillway.spark.run import Driver
    from spillway.spark.write_job import Job, TaskResult

_BAD_ROWS = ("fail", "drop", "quarantine")
_AUDITS = ("full", "sample", "none")
#: The bits of a number of 64, without its sign and that of records that could not be parsed.
_MOST_CHECKS = 62
#: The setting that names the column in which Spark's readers of text leave such records.
_CORRUPT = "spark.sql.columnNameOfCorruptRecord"


class MadeRows(Protocol):
    """Rows that executors generate, by partition. It is pickled."""

    @property
    def partitions(self) -> int:
        """The number of partitions."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of all rows."""

    def make(self, number: int) -> Iterable[pa.RecordBatch]:
        """The rows of one partition."""


class Pipeline:
    """A pipeline from a source to a destination that writes, audits, and then publishes.

    Tasks read the source, apply the transformation, check each row, compute checksums, and write files that
    no reader sees. Spark's own Parquet reader then reads these files back, and must find the same checksums;
    checks of all rows together are also made on these files. Only then are the files published, all at once.
    A failed run publishes nothing.

    The source may be a stream (``spark.readStream``). Its query processes the available data (the trigger
    ``availableNow``), and each micro-batch is such a run, identified by the query's id and the batch's
    number: if a query is killed and run again from its checkpoint, the rows of each batch are published once.
    A failed batch publishes nothing and ends the query; earlier batches stay published.

    Args:
        source: A function that takes the session and returns a DataFrame; a DataFrame; or a path or URL of
            Parquet, CSV or NDJSON that Spark reads.
        transform: A function that takes the DataFrame of the source and returns the one to write.
        checks: `not_null`, `between` and `unique`.
        bad_rows: What to do with rows that fail `not_null` or `between`, or have a value in
            ``_corrupt_record``, the column in which Spark's CSV and JSON readers store a record that they
            cannot parse (it is not written to the sink): ``"fail"`` fails the run, ``"drop"`` leaves the rows
            out, and ``"quarantine"`` appends them to a table of the sink's kind, at the sink's path plus
            ``__quarantine``. The quarantine is published before the sink.
        audit: ``"full"`` reads all files back, ``"sample"`` reads all files of every tenth task that wrote
            any, and ``"none"`` reads none.
        sink: The destination.
        run_id: The name of the run. A run that is repeated under this name, after any failure, publishes its
            rows once; a run that was already published does nothing. Streams cannot have one.
        checkpoint_location: The folder or URL of a stream's checkpoint, which Spark reads and writes. With a
            new location, a stream starts from the beginning and adds its rows again.

    Raises:
        OptionError: An option has a value that is not accepted.

    Example:
        >>> from spillway.spark import Pipeline, Sink, between, not_null
        >>> result = Pipeline(  # doctest: +SKIP
        ...     source="raw/2026-11-27/*.csv",
        ...     checks=[not_null("id"), between("latency_ms", 0, 60_000)],
        ...     bad_rows="quarantine",
        ...     sink=Sink("/lake/events", table="delta"),
        ...     run_id="2026-11-27",
        ... ).run(spark)
    """

    def __init__(  # noqa: PLR0913 - what a pipeline is
        self,
        *,
        source: Callable[[SparkSession], DataFrame] | DataFrame | str,
        sink: Sink,
        transform: Callable[[DataFrame], DataFrame] | None = None,
        checks: Sequence[Check] = (),
        bad_rows: BadRows = "fail",
        audit: AuditKind = "full",
        run_id: str | None = None,
        checkpoint_location: str | None = None,
    ) -> None:
        for name, value, accepted in (("bad_rows", bad_rows, _BAD_ROWS), ("audit", audit, _AUDITS)):
            if value not in accepted:
                message = f"{name}={value!r} is not accepted: choose one of {', '.join(map(repr, accepted))}"
                raise OptionError(message, name, accepted)
        self.source, self.transform, self.sink = source, transform, sink
        self.row_checks = [check for check in checks if isinstance(check, RowCheck)]
        self.set_checks = [check for check in checks if isinstance(check, Unique)]
        if len(self.row_checks) + len(self.set_checks) < len(checks):
            strange = next(check for check in checks if not isinstance(check, (RowCheck, Unique)))
            raise OptionError(f"{strange!r} is not a check: use not_null, between or unique", "checks")
        if len(self.row_checks) > _MOST_CHECKS:
            message = f"{len(self.row_checks)} row checks are not accepted: give at most {_MOST_CHECKS}"
            raise OptionError(message, "checks")
        if run_id == "":
            raise OptionError("run_id is empty: give the run a name, or leave it out", "run_id")
        self.bad_rows: BadRows = bad_rows
        self.audit: AuditKind = audit
        self.run_id = run_id
        self.checkpoint_location = checkpoint_location
        if checkpoint_location is not None:
            self._check_stream()

    def _check_stream(self) -> None:
        """Refuse options that streams do not support.

        Raises:
            OptionError: There is such an option.
        """
        if self.run_id is not None:
            message = (
                "run_id cannot be combined with checkpoint_location: a stream's rows are identified by its "
                "query, whose id the checkpoint stores. Leave one of the two out"
            )
            raise OptionError(message, "run_id")
        if self.sink.mode != "append":
            message = (
                f'mode="{self.sink.mode}" is not accepted with checkpoint_location: each micro-batch would '
                'replace the rows of the previous one, or refuse to write. Use mode="append"'
            )
            raise OptionError(message, "mode", ("append",))

    def run(self, spark: SparkSession) -> PipelineResult:
        """Run the pipeline on a session, which it neither starts nor stops.

        Args:
            spark: The session; Spark Connect sessions are supported, too.

        Returns:
            The numbers of rows that were read, written and refused, and the outcome of the audit.

        Raises:
            CheckFailedError: Rows fail a `unique` check, or another check and `bad_rows` is ``"fail"``.
                Nothing is published.
            AuditError: Spark reads other values than were written. Nothing is published.
            SchemaError: A check names a column that the rows lack; or the rows do not fit the destination.
            OptionError: As `spillway.spark.write`.
            FileExistsError: The destination exists, and its mode is ``"error"``.
            SpillwayError: As `spillway.spark.write`.
            pyspark.errors.PySparkException: Spark cannot read the source, or a task failed more often than
                Spark repeats it. Nothing is published; in a stream, nothing of this batch.
        """
        return Run(self, spark).result()

    def rows(self, spark: SparkSession) -> _Rows:
        """The rows as they are planned."""
        source: Any = self.source
        # A column of a frame may have the name, too.
        if hasattr(type(source), "make"):
            if self.row_checks or self.transform is not None:
                raise OptionError("rows that executors generate allow no checks or transformation", "checks")
            return _Rows(None, source, source.schema, None, ())
        if isinstance(source, str):
            frame: Any = read_path(spark, source)
        else:
            frame = source(spark) if callable(source) else source
        if self.transform is not None:
            frame = self.transform(frame)
        if frame.isStreaming and self.checkpoint_location is None:
            message = "the source is a stream: pass checkpoint_location, or read it with spark.read"
            raise OptionError(message, "checkpoint_location")
        if not frame.isStreaming and self.checkpoint_location is not None:
            message = "checkpoint_location needs a stream: read with spark.readStream, or leave it out"
            raise OptionError(message, "checkpoint_location")
        return _rows_of(frame, self.row_checks)


class _Rows(NamedTuple):
    """The rows of a run: a frame, or what executors make; and their schema.

    Args:
        frame: The rows. Behind the columns that are written it has that of corrupt records, if there is one.
        made: What executors make.
        schema: The schema of the rows that are written.
        spark_schema: The same as Spark has it.
        checks: The checks of each row.
        corrupt: The name of the column of corrupt records.
    """

    frame: DataFrame | None
    made: MadeRows | None
    schema: pa.Schema
    spark_schema: StructType | None
    checks: tuple[RowCheck, ...]
    corrupt: str | None = None


def _rows_of(frame: DataFrame, checks: Sequence[RowCheck]) -> _Rows:
    """The rows of a frame, whose column of corrupt records is checked and not written."""
    from pyspark.sql.types import StringType, StructType

    name = frame.sparkSession.conf.get(_CORRUPT) or ""
    found = [each for each in frame.schema if each.name == name and isinstance(each.dataType, StringType)]
    if not found:
        return _Rows(frame, None, arrow_schema(frame.schema), frame.schema, tuple(checks))
    schema = StructType([each for each in frame.schema if each.name != name])
    ordered = frame.select(*(quoted(each.name) for each in schema), quoted(name))
    corrupt = RowCheck(name, name, is_corrupt=True)
    return _Rows(ordered, None, arrow_schema(schema), schema, (corrupt, *checks), name)


class MicroBatch(NamedTuple):
    """A micro-batch of a stream.

    Args:
        frame: Its rows.
        query: The id of the query.
        number: Its number.
        stopped: Set when the query is stopped: the batch is not to be published any more.
    """

    frame: DataFrame
    query: str
    number: int
    stopped: threading.Event


class _StoppedError(Exception):
    """The query was stopped before its batch was published."""


class _NothingToKeepError(Exception):
    """No row failed a check: the table of such rows stays as it is."""


class Run:
    """One run of a pipeline.

    Args:
        pipeline: The pipeline.
        session: Its session.
        look: Called with all rows that are about to be published.
        batch: The micro-batch whose rows these are, in place of the pipeline's source.

    Attributes:
        jobs: The jobs that were begun.
        published: What was published; None before.
        stage: The stage that the run is in.
        seconds: The time of each stage that is over.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        session: SparkSession,
        look: Callable[[DataFrame], None] | None = None,
        *,
        batch: MicroBatch | None = None,
    ) -> None:
        self._pipeline, self._session, self._look = pipeline, session, look
        from spillway.spark.pipeline.record import RunWatch

        self._watch = RunWatch()
        self._driver: Driver = driver_of(session)
        self._answers: list[Answer] | None = None
        self._row_checks: Sequence[RowCheck] = pipeline.row_checks
        self._audited: AuditOutcome | None = None
        self._batch = batch
        if batch is None:
            self._name = RunName(pipeline.run_id)
            self._run_id = pipeline.run_id or uuid.uuid4().hex
        else:
            self._name = RunName(batch.query, batch.number)
            self._run_id = f"{batch.query}/{batch.number}"
        self.jobs: list[Job] = []
        self.published: SparkWriteResult | None = None
        self.stage: Stage = "read"
        self.seconds: dict[Stage, float] = {}

    def result(self) -> PipelineResult:
        """Run it, and return its result. The errors are those of `Pipeline.run`."""
        from spillway.spark.pipeline.tasks import quarantine_schema

        pipeline = self._pipeline
        sink = pipeline.sink
        with self._staged("read", "plans its rows"):
            batch = self._batch
            rows = (
                pipeline.rows(self._session) if batch is None else _rows_of(batch.frame, pipeline.row_checks)
            )
            self._row_checks = rows.checks
            for check in self._set_checks:
                for name in check.columns:
                    column_of(rows.schema.names, name, check.name)
            if pipeline.bad_rows == "quarantine" and rows.checks:
                quarantine_schema(rows.schema, rows.corrupt)
            plan = sink.plan(self._session, rows.schema, rows.spark_schema, self._name)
        if rows.frame is not None and rows.frame.isStreaming:
            return run_stream(pipeline, self._session, rows.frame, self._watch)
        started = time.perf_counter()
        self.published = run(
            partial(_job, plan, readable=self._reads),
            partial(self._written, rows),
            sink.mode,
            self._driver,
            audit=partial(self._accept, rows),
        )
        if self._answers is not None:
            spent = sum(seconds for stage, seconds in self.seconds.items() if stage != "read")
            self.seconds["publish"] = time.perf_counter() - started - spent
        return self._summary(self.published)

    @property
    def _reads(self) -> bool:
        """True if files are read before they are published."""
        return self._pipeline.audit != "none" or bool(self._set_checks) or self._look is not None

    @property
    def _set_checks(self) -> Sequence[Unique]:
        return self._pipeline.set_checks

    def _written(self, rows: _Rows, job: Job) -> list[TaskResult]:
        """Write the rows; those that failed a check are published when the others were audited."""
        self.jobs.append(job)
        if self._pipeline.bad_rows == "quarantine" and self._row_checks:
            self._write_both(rows, job)
        if self._answers is None:
            # There is no quarantine, or it has the rows of this run already.
            self._answers = self._tasks(rows, job, None)
        return [answer.result for answer in self._answers]

    def _write_both(self, rows: _Rows, job: Job) -> None:
        """Write the rows, and publish those that failed a check."""
        from spillway.spark.pipeline.tasks import quarantine_schema

        pipeline = self._pipeline
        plan = pipeline.sink.plan_quarantine(
            self._session, quarantine_schema(rows.schema, rows.corrupt), job.target.table, self._name
        )

        def tasks(quarantine: Job) -> list[TaskResult]:
            self.jobs.append(quarantine)
            self._answers = answers = self._tasks(rows, job, quarantine)
            return [answer.quarantined for answer in answers if answer.quarantined is not None]

        def audit(quarantine: Job, results: Sequence[TaskResult]) -> None:
            self._accept(rows, job, [answer.result for answer in self._answers or ()])
            if not any(result.rows for result in results):
                raise _NothingToKeepError
            self._audit(self._files(quarantine, results, None))

        with contextlib.suppress(_NothingToKeepError):
            run(partial(_job, plan, readable=self._reads), tasks, "append", self._driver, audit=audit)

    def _tasks(self, rows: _Rows, job: Job, quarantine: Job | None) -> list[Answer]:
        from spillway.spark.pipeline.tasks import CheckedTask, MadeTask

        sums = self._pipeline.audit != "none"
        with self._staged("write", f"writes to {job.target.path}"):
            if rows.made is not None:
                task = MadeTask(job, rows.made.make, sums=sums)
                context = self._session.sparkContext
                answers: list[Any] = tasks_of_partitions(context, rows.made.partitions, task)  # type: ignore[arg-type]  # what the task returns
                return answers
            assert rows.frame is not None  # noqa: S101 - one of both is there
            names = [*rows.schema.names, *([rows.corrupt] if rows.corrupt else [])]
            checks = [
                replace(check, column=column_of(names, check.column, check.name))
                for check in self._row_checks
            ]
            frame = sorted_for(job, _flagged(rows.frame, checks))
            work = CheckedTask(job, checks, quarantine, self._run_id, corrupt=rows.corrupt, sums=sums)
            return answers_of(frame, work)

    def _accept(self, rows: _Rows, job: Job, results: Sequence[TaskResult]) -> None:
        """Refuse rows that fail a check, files that differ, and those of a query that was stopped."""
        if self._audited is None:
            self._audited = self._checked(rows, job, results)
        self.stage = "publish"
        # Stopping a query interrupts its thread and cancels its jobs. Neither ends a batch between two jobs,
        # or one whose interrupt was dropped by what it interrupted.
        if self._batch is not None and self._batch.stopped.is_set():
            raise _StoppedError

    def _checked(self, rows: _Rows, job: Job, results: Sequence[TaskResult]) -> AuditOutcome:
        """Make all checks of rows that were written, and audit their files."""
        self._refuse_bad_rows()
        staged = self._files(job, results, rows.spark_schema)
        audited = self._audit(staged)
        with self._staged("audit", f"checks {job.target.path}"):
            for check in self._set_checks:
                staged.check_unique(check)
        if self._look is not None and any(result.rows for result in results):
            with self._staged("summarise", f"sums up {job.target.path}"), staged.rows() as frame:
                self._look(frame)
        return audited

    def _files(self, job: Job, results: Sequence[TaskResult], schema: StructType | None) -> Staged:
        from spillway.spark.pipeline.audit import Staged

        return Staged(self._session, job, results, schema)

    def _audit(self, staged: Staged) -> AuditOutcome:
        kind = self._pipeline.audit
        with self._staged("audit", f"audits {self._pipeline.sink.path}"):
            return staged.audited(kind)

    def _refuse_bad_rows(self) -> None:
        if self._pipeline.bad_rows != "fail":
            return
        counts = {name: rows for name, rows in self._counts().items() if rows}
        if not counts:
            return
        said = []
        for place, check in enumerate(self._row_checks):
            if check.name in counts:
                found = [value for answer in self._answers or () for value in answer.examples[place]]
                is_null = check.bounds is None and not check.is_corrupt
                shown = "null" if is_null else ", ".join(found[:3])
                said.append(
                    f"{check.name}: {counted(counts[check.name], 'row')} in which {check.column} is {shown}"
                )
        raise CheckFailedError(f"{'; '.join(said)}. Nothing was published", counts)

    def _counts(self) -> dict[str, int]:
        """The rows that failed each check of rows."""
        checks: list[Check] = [*self._row_checks, *self._set_checks]
        counts = dict.fromkeys((check.name for check in checks), 0)
        for answer in self._answers or ():
            for check, rows in zip(self._row_checks, answer.failed, strict=False):
                counts[check.name] += rows
        return counts

    def _summary(self, done: SparkWriteResult) -> PipelineResult:
        from spillway.spark.pipeline.audit import AuditOutcome

        pipeline, answers = self._pipeline, self._answers or []
        read = sum(answer.read for answer in answers)
        bad = read - sum(answer.result.rows for answer in answers)
        keeps = pipeline.bad_rows == "quarantine"
        result = PipelineResult(
            run_id=self._run_id,
            repeated=self._answers is None and self._name.run_id is not None,
            rows_read=read,
            rows_written=done.rows,
            rows_dropped=0 if keeps else bad,
            rows_quarantined=bad if keeps else 0,
            checks=self._counts(),
            files=done.files,
            bytes=done.bytes,
            version=done.version,
            audit=self._audited or AuditOutcome(pipeline.audit),
            arrow_bytes=sum(answer.arrow_bytes for answer in answers),
            make_seconds=sum(answer.seconds for answer in answers),
            writer_seconds=done.writer_seconds,
            seconds=self.seconds,
        )
        return replace(result, record=self._record(result, done))

    def _record(self, result: PipelineResult, done: SparkWriteResult) -> PipelineRecord:
        from spillway.spark.pipeline.record import cell_of

        cell = cell_of(
            self._pipeline,
            table="parquet" if done.version is None else "delta",
            master=self._session.conf.get("spark.master", "connect") or "",
        )
        phases = list(self.seconds.items())
        return self._watch.record(self._run_id, cell, phases, published=done, result=result)

    @contextlib.contextmanager
    def _staged(self, stage: Stage, does: str) -> Iterator[None]:
        """Take the time of a block, and describe its jobs in Spark's UI."""
        self.stage = stage
        started = time.perf_counter()
        with _described(self._session, f"spillway pipeline {self._run_id}: {does}"):
            yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started


def _job(plan: Callable[[], Job], *, readable: bool) -> Job:
    """The job of a plan, whose files can be read before it commits if they have to be."""
    job = plan()
    job.readable = readable
    return job


def _flagged(frame: DataFrame, checks: Sequence[RowCheck]) -> DataFrame:
    """The frame with a last column that has a bit for each check that a row fails."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    if not checks:
        return frame
    flags = F.lit(0).cast("long")
    for place, check in enumerate(checks):
        column = F.col(quoted(check.column))
        flags = flags + F.when(check.failed(column), F.lit(1 << place)).otherwise(F.lit(0)).cast("long")
    return frame.select("*", flags.alias("_spillway_failed"))


@contextlib.contextmanager
def _described(session: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs of a block; Spark Connect describes operations itself."""
    if is_connect(session):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setLocalProperty("spark.job.description", text)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]  # null unsets it


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
        KeyboardInterrupt: Ctrl-C came: the query was stopped, and nothing of its batch was published, unless
            its commit had begun.
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
        batches.stopped.set()
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
        stopped: Set when the query is stopped.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.query: Future[str] = Future()
        self.done: list[PipelineResult] = []
        self.error: BaseException | None = None
        self.busy = threading.Lock()
        self.stopped = threading.Event()

    def publish(self, frame: DataFrame, number: int) -> None:
        """Write, audit and publish a micro-batch, unless it was published before."""
        with self.busy:
            try:
                batch = MicroBatch(frame, self.query.result(), number, self.stopped)
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
    from spillway.spark.pipeline.audit import AuditOutcome
    from spillway.spark.pipeline.record import cell_of

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
