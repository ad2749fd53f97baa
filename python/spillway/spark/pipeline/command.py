"""One pipeline from its options to its folder: rows made or read, published by `Pipeline`, and recorded."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway import datasets, delta
from spillway._wording import counted, shortened
from spillway.datasets.packaged import LINEITEM
from spillway.errors import AuditError, OptionError, SpillwayError, TableNotFoundError
from spillway.harness import records
from spillway.harness.environment import describe_environment, on_disk, run_folder
from spillway.harness.processes import redact
from spillway.spark.location import absolute, is_local, scheme_of
from spillway.spark.pipeline.progress import StageRunner
from spillway.spark.pipeline.record import (
    PIPELINE,
    READER,
    SCHEMA,
    SCHEMA_VERSION,
    DriverWatch,
    RunWatch,
    cell_of,
    summarise,
)
from spillway.spark.pipeline.rows import GeneratedRows, count_rows, partitions_for
from spillway.spark.pipeline.run import Pipeline, Run
from spillway.spark.pipeline.source_and_sink import Sink, format_of, read_path
from spillway.spark.session import cores_of, open_session, require_spark, stop_session
from spillway.spark.status import Tasks
from spillway.spark.workers import pack
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from spillway.spark.pipeline.checks import AuditKind, BadRows, Check, PipelineResult
    from spillway.spark.pipeline.progress import Progress
    from spillway.spark.pipeline.record import Cell, Outcome, PipelineRecord, RowSummary, Stage, StageTasks
    from spillway.spark.pipeline.rows import LineitemRows
    from spillway.spark.status import Tasks
    from spillway.spark.write_job import TableKind
    from spillway.types import WriteMode

_MODES = ("error", "append", "overwrite")
_MESSAGE = 500
_TIDYING = "interrupted: Spark is being stopped, and what was begun is removed"
_CLUSTER_CORES = 8  # for the number of tasks, before any executor is known


@dataclass(frozen=True)
class Options:
    """The options of a pipeline.

    Attributes:
        dataset: The dataset whose rows are generated if there is no input.
        input: The user's own files: a path or URL that Spark reads.
        schema: The columns of text files, in Spark's DDL; None to infer them.
        multi_line: True if values of CSV may have line breaks.
        delimiter: What separates the values of CSV.
        encoding: The encoding of text.
        transform: Makes of the frame that was read the one that is written.
        checks: The checks of rows.
        bad_rows: What becomes of rows that fail one.
        audit: What is read back before it is published.
        run_id: The name of the run.
        where: The rows that are replaced.
        rows: The number of rows of a dataset.
        seed: Its seed.
        to: The destination: a folder or a URL.
        master: The address of Spark's master.
        table: "parquet" or "delta"; None for the kind of the existing destination.
        mode: What to do with an existing destination.
        partitions: Tasks that make rows; None for as many as suit rows and cores.
        partition_by: Columns that rows are stored apart by.
        codec: The codec of pages.
        level: Its level.
        row_group_rows: Maximum rows per row group.
        max_file_bytes: Bytes of a file after which the next begins.
        memory: The heap of the driver's JVM, as Spark spells sizes.
        settings: Settings of Spark.
        storage_options: Endpoint and credentials of an object store.
        pack: True if executors get this package and what it needs as an archive.
    """

    to: str
    dataset: str = "logs"
    input: str | None = None
    schema: str | None = None
    multi_line: bool = False
    delimiter: str | None = None
    encoding: str | None = None
    transform: Callable[[DataFrame], DataFrame] | None = None
    checks: tuple[Check, ...] = ()
    bad_rows: BadRows = "fail"
    audit: AuditKind = "full"
    run_id: str | None = None
    where: str | None = None
    rows: int | None = None
    seed: int = 1
    master: str = "local[*]"
    table: TableKind | None = None
    mode: WriteMode = "error"
    partitions: int | None = None
    partition_by: tuple[str, ...] = ()
    codec: str = "zstd"
    level: int | None = None
    row_group_rows: int = 1_048_576
    max_file_bytes: int | None = None
    memory: str = "2g"
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    pack: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked without Spark.

        Raises:
            OptionError: An option has a value that is not accepted.
        """
        if self.mode not in _MODES:
            raise OptionError(f"--mode {self.mode!r}: choose from {', '.join(_MODES)}")
        if self.table not in {None, "parquet", "delta"}:
            raise OptionError(f"--table {self.table!r}: choose from parquet, delta")
        if self.partitions is not None and self.partitions < 1:
            raise OptionError(f"--partitions {self.partitions}: at least 1 is needed")
        self._check_source()
        if cores_of(self.master) is not None and self.pack:
            raise OptionError(
                f"--pack is for executors elsewhere, and those of {self.master} run on this machine"
            )
        if self.pack and self.dataset == LINEITEM and self.input is None:
            raise OptionError(
                "--pack does not include the program that generates lineitem: install tpchgen-cli "
                "on executors"
            )
        WriterOptions(**self.writer_options)
        self.pipeline(None)

    def _check_source(self) -> None:
        """Check the rows that are made or read."""
        if self.input is not None:
            if self.rows is not None or self.partitions is not None:
                raise OptionError(
                    "--rows and --partitions are for a dataset: with --input, all rows are written"
                )
            _check_input(self.input)
        elif not datasets.is_dataset(self.dataset):
            known = ", ".join((*datasets.names(), LINEITEM, "wide:N"))
            raise OptionError(f"--dataset {self.dataset}: choose from {known}, or name files with --input")
        elif self.rows is None:
            raise OptionError(f"--rows is needed: the dataset {self.dataset} is unlimited")
        elif self.checks or self.transform is not None or self.schema is not None:
            raise OptionError(
                "--check, --transform and --schema are for --input: datasets are written unchanged"
            )

    @property
    def writer_options(self) -> dict[str, Any]:
        """The options of the native writer."""
        return {
            "compression": self.codec,
            "compression_level": self.level,
            "row_group_rows": self.row_group_rows,
        }

    @property
    def tasks(self) -> int | None:
        """Tasks that make the rows of a dataset."""
        if self.rows is None:
            return None
        return self.partitions or partitions_for(self.rows, cores_of(self.master) or _CLUSTER_CORES)

    def pipeline(self, rows: GeneratedRows | LineitemRows | None) -> Pipeline:
        """The pipeline; with generated rows if there is no input.

        Raises:
            OptionError: An option has a value that is not accepted.
        """
        source: Any = rows
        if rows is None:
            source = self._read
        return Pipeline(
            source=source,
            transform=self.transform,
            checks=self.checks,
            bad_rows=self.bad_rows,
            audit=self.audit,
            run_id=self.run_id,
            sink=Sink(
                self.to,
                table=self.table,
                mode=self.mode,
                partition_by=self.partition_by,
                where=self.where,
                max_file_bytes=self.max_file_bytes,
                storage_options=self.storage_options or None,
                **self.writer_options,
            ),
        )

    def _read(self, session: SparkSession) -> DataFrame:
        return read_path(
            session,
            self.input or "",
            schema=self.schema,
            multi_line=self.multi_line,
            delimiter=self.delimiter,
            encoding=self.encoding,
        )

    def cell(self, table: TableKind) -> Cell:
        """The part of them that a record has."""
        return cell_of(
            self.pipeline(None),
            source=self.dataset if self.input is None else "files",
            table=table,
            master=self.master,
            rows=self.rows,
            partitions=self.tasks,
        )


@dataclass(frozen=True)
class Finished:
    """The result of a pipeline.

    Attributes:
        folder: The run's folder.
        record: Its record.
        error: The error that ended it; None without one.
    """

    folder: Path
    record: PipelineRecord
    error: BaseException | None


def run_pipeline(options: Options, *, out: Path, progress: Progress) -> Finished:
    """Run a pipeline on Spark, and leave a record in a new folder below `out`.

    Ctrl-C before the commit leaves neither files nor a version; after it the rows stay.

    Raises:
        OptionError: The run cannot be carried out.
        JavaError: There is no Java for Spark.
        MissingExtraError: PySpark is not installed.
        KeyboardInterrupt: Ctrl-C came before there was anything to record.
        OSError: The user's files cannot be read.
    """
    if not _is_submitted():
        require_spark()
    table = _kind(options)
    run_id = records.new_run_id()
    folder = out / run_id
    with ExitStack() as stack:
        stack.enter_context(on_disk(out))
        stack.enter_context(run_folder(folder, PIPELINE))
        stack.callback(progress.stop)
        cell = options.cell(table)
        environment = describe_environment(run_id, cell, schema_version=SCHEMA_VERSION)
        records.write_json(folder / records.ENVIRONMENT, environment)
        run = _Run(run_id, options, cell, progress)
        stack.callback(run.tidy)  # after Spark has stopped
        try:
            run.start(stack)
        except KeyboardInterrupt:
            progress.say(_TIDYING)
            raise
        run.work()
        record = run.record()
        SCHEMA.append(folder / PIPELINE, record)
        return Finished(folder, record, run.error)


class _Run:
    """A run and what is known of it so far."""

    def __init__(self, run_id: str, options: Options, cell: Cell, progress: Progress) -> None:
        self._run_id, self._options, self._cell, self._progress = run_id, options, cell, progress
        self._watch = RunWatch()
        self._phases: list[tuple[Stage, float]] = []
        self._tasks: list[StageTasks] = []
        self._run: Run | None = None
        self._result: PipelineResult | None = None
        self._summary: RowSummary | None = None
        self._stage: Stage = "start"
        self.error: BaseException | None = None

    def start(self, stack: ExitStack) -> None:
        """Take the session that is there, or start Spark, which leaving the stack stops."""
        self._session = _session_of_submit() or self._started(stack)
        self._driver = DriverWatch(self._session)
        self._runner = StageRunner(self._session, self._progress)
        self._phases.append(("start", self._watch.seconds))

    def _started(self, stack: ExitStack) -> SparkSession:
        options = self._options
        settings = dict(options.settings)
        if options.pack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spillway-pack-"))
            archive = pack(Path(folder, "spillway.tar.gz"), also=["numpy"], say=self._progress.say)
            settings = {**archive.settings, **settings}
        session = open_session(
            options.master,
            name="spillway-pipeline",
            memory=options.memory,
            delta=False,
            settings=settings,
            say=self._progress.say,
        )
        stack.callback(stop_session, session)
        return session

    def tidy(self) -> None:
        """Remove what tasks that were under way at the end have left of a write that was not published."""
        if self._run is None or self._run.published is not None:
            return
        for job in self._run.jobs:
            with suppress(OSError, SpillwayError):
                job.abort()

    def work(self) -> None:
        """Go through all stages, up to the first that fails or is interrupted."""
        try:
            rows = self._rows()
            look = self._look if self._options.input is None else None
            self._run = run = Run(self._options.pipeline(rows), self._session, look)
            self._result = self._published(run)
        except KeyboardInterrupt as error:
            self._progress.say(_TIDYING)
            self.error = error
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends in the record and on the terminal
            self.error = error

    def _look(self, frame: DataFrame) -> None:
        """Sum up the rows of the demo."""
        self._summary = summarise(frame)

    def _rows(self) -> GeneratedRows | LineitemRows | None:
        options = self._options
        if options.input is not None:
            return None
        rows, tasks = options.rows or 0, options.tasks or 1
        if options.dataset != LINEITEM:
            return GeneratedRows(options.dataset, options.seed, rows, tasks)
        self._stage = "count"
        started = time.perf_counter()
        counting = "counting the rows of lineitem's parts"
        found, counted_by = self._runner.run(counting, lambda: count_rows(self._session, rows, tasks))
        self._ended("count", counting, counted_by, time.perf_counter() - started)
        return found

    def _published(self, run: Run) -> PipelineResult:
        cell = self._cell
        what = "the files' rows" if cell.rows is None else f"{counted(cell.rows, 'row')} of {cell.source}"
        title = f"writing {what}"
        started = time.perf_counter()
        self._stage = "write"
        try:
            result, tasks = self._runner.run(title, run.result)
        except BaseException:
            self._stage = run.stage
            raise
        finally:
            self._phases += run.seconds.items()
        self._ended("write", title, tasks, time.perf_counter() - started)
        version = "" if result.version is None else f", version {result.version}"
        if result.repeated:
            self._progress.say(f"the run {result.run_id} was already published: nothing was done")
            return result
        if result.audit.files:
            self._progress.say(
                f"audited: {READER} read {counted(result.audit.rows, 'row')} without a difference"
            )
        for name, rows in result.checks.items():
            self._progress.say(f"{name}: {counted(rows, 'row')} failed")
        self._progress.say(
            f"published {counted(result.rows_written, 'row')} in {counted(result.files, 'file')}, "
            f"{result.bytes / 1e6:,.1f} MB{version}"
        )
        return result

    def _ended(self, stage: Stage, title: str, tasks: Tasks, seconds: float) -> None:
        if stage == "count":
            self._phases.append((stage, seconds))
        self._tasks.append({"stage": stage, "tasks": tasks.total, "failed": tasks.failed})
        self._progress.ended(f"{title}: {counted(tasks.total, 'task')} in {seconds:,.1f} s")

    def record(self) -> PipelineRecord:
        """The record of what was done."""
        outcome = self._outcome()
        driver = None
        with suppress(Exception):  # of a JVM that is gone, or that is not this process's, there is nothing
            driver = self._driver.read()
        return self._watch.record(
            self._run_id,
            self._cell,
            self._phases,
            outcome=outcome,
            died_in=None if outcome == "ok" else self._stage,
            error=self._failure() if outcome in {"failed", "wrong_output"} else None,
            seed=self._options.seed,
            tasks=self._tasks,
            published=None if self._run is None else self._run.published,
            result=self._result,
            summary=self._summary,
            driver=driver,
        )

    def _outcome(self) -> Outcome:
        if isinstance(self.error, KeyboardInterrupt):
            return "interrupted"
        if self.error is None:
            return "ok"
        return "wrong_output" if isinstance(self.error, AuditError) else "failed"

    def _failure(self) -> Any:
        message = redact(shortened(str(self.error)))[:_MESSAGE]
        return {"type": type(self.error).__name__, "message": message}


def _is_submitted() -> bool:
    """Return True under ``spark-submit``, which has started a JVM for this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _session_of_submit() -> SparkSession | None:
    """The session of ``spark-submit``, or the one that this process has; None without."""
    from pyspark.sql import SparkSession

    if _is_submitted():
        return SparkSession.builder.getOrCreate()
    return SparkSession.getActiveSession()


def _check_input(path: str) -> None:
    """Refuse files that are not there, or that Spark does not read.

    Raises:
        OptionError: The suffix is that of another format.
        FileNotFoundError: No file or folder has this name.
    """
    format_of(path)
    if scheme_of(path) is None and not glob(path):  # noqa: PTH207 - absolute patterns, too
        raise FileNotFoundError(f"{path}: no such file or folder")


def _kind(options: Options) -> TableKind:
    """The kind of the destination, which is looked at before Spark starts.

    Raises:
        OptionError: It is there, and the mode is "error"; or it is no folder, or another kind of table.
    """
    location = absolute(options.to)
    path = Path(location) if is_local(location) else None
    if path is not None and path.exists() and not path.is_dir():
        raise OptionError(f"--to {options.to} is a file: name a folder")
    try:
        delta.open(location, storage_options=options.storage_options or None)
    except TableNotFoundError:
        is_table = False
    else:
        is_table = True
    if is_table and options.table == "parquet":
        raise OptionError(f"--to {options.to} is a Delta table: --table delta writes to it")
    is_full = is_table or (path is not None and path.is_dir() and any(path.iterdir()))
    if options.mode == "error" and options.run_id is None and is_full:
        raise OptionError(
            f"--to {options.to} exists: choose another place, or say with --mode append or overwrite what "
            f"becomes of what is there"
        )
    return options.table or ("delta" if is_table else "parquet")
