"""One pipeline from its options to its folder: rows made, written, validated, summarised, recorded."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spillway import datasets
from spillway._wording import counted, shortened
from spillway.datasets import FileSource
from spillway.datasets.lineitem import LINEITEM
from spillway.errors import OptionError
from spillway.harness import records
from spillway.harness.disk import on_disk, run_folder
from spillway.harness.environment import describe_run
from spillway.harness.host import HostWatch
from spillway.harness.redaction import redact
from spillway.pipeline.destination import Destination
from spillway.pipeline.driver import DriverWatch
from spillway.pipeline.input import find_input, read_input
from spillway.pipeline.jobs import StageRunner
from spillway.pipeline.plan import MODES, Cell, partitions_for
from spillway.pipeline.record import PIPELINE, SCHEMA, SCHEMA_VERSION
from spillway.pipeline.rows import GeneratedRows
from spillway.pipeline.steps import Steps, Written, count_rows
from spillway.spark.master import cores_of, open_session, require_spark
from spillway.spark.pack import pack
from spillway.spark.session import stop_session
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from spillway.pipeline.plan import Mode, Table
    from spillway.pipeline.progress import Progress
    from spillway.pipeline.record import Outcome, PipelineRecord, Stage
    from spillway.pipeline.rows import RowSource

__all__ = ["Finished", "Options", "run_pipeline"]

Result = TypeVar("Result")

_MESSAGE = 500
_TIDYING = "interrupted: Spark is being stopped, and what was begun is removed"
_CLUSTER_CORES = 8  # for the number of tasks, before any executor is known


@dataclass(frozen=True)
class Options:
    """The options of a pipeline.

    Attributes:
        source: A dataset's name, or the user's own files.
        rows: The number of rows of a dataset.
        seed: Its seed.
        to: The destination: a folder or a URL.
        master: The address of Spark's master.
        table: "parquet" or "delta"; None for what is there.
        mode: The treatment of a destination that is there.
        partitions: Tasks that make rows; None for as many as suit rows and cores.
        partition_by: Columns that rows are stored apart by.
        codec: The codec of pages.
        level: Its level.
        row_group_rows: Most rows per row group.
        max_file_bytes: Bytes of a file after which the next begins.
        memory: The heap of the driver's JVM, as Spark spells sizes.
        settings: Settings of Spark.
        storage_options: Endpoint and credentials of an object store.
        pack: True if executors get this package and what it needs as an archive.
    """

    source: str | FileSource
    to: str
    rows: int | None = None
    seed: int = 1
    master: str = "local[*]"
    table: Table | None = None
    mode: Mode = "error"
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
        if self.mode not in MODES:
            raise OptionError(f"--mode {self.mode!r}: choose from {', '.join(MODES)}")
        if self.table not in {None, "parquet", "delta"}:
            raise OptionError(f"--table {self.table!r}: choose from parquet, delta")
        if self.partitions is not None and self.partitions < 1:
            raise OptionError(f"--partitions {self.partitions}: at least 1 is needed")
        if isinstance(self.source, FileSource):
            if self.rows is not None or self.partitions is not None:
                raise OptionError(
                    "--rows and --partitions are for a dataset: of --input all rows are written"
                )
        elif not datasets.is_dataset(self.source):
            known = ", ".join((*datasets.names(), LINEITEM, "wide:N"))
            raise OptionError(f"--dataset {self.source}: choose from {known}, or name files with --input")
        elif self.rows is None:
            raise OptionError(f"--rows is needed: the dataset {self.source} has no end")
        if cores_of(self.master) is not None and self.pack:
            raise OptionError(f"--pack is for executors elsewhere, and those of {self.master} are here")
        if self.pack and self.source == LINEITEM:
            raise OptionError("--pack holds no program that makes lineitem: install tpchgen-cli on executors")
        WriterOptions(**self.writer_options)

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

    def cell(self, destination: Destination) -> Cell:
        """The part of them that a record has: no paths, no names of hosts, no credentials."""
        cores = cores_of(self.master)
        return Cell(
            source="files" if isinstance(self.source, FileSource) else self.source,
            rows=self.rows,
            partitions=self.tasks,
            table=destination.table,
            mode=self.mode,
            partition_by=list(self.partition_by),
            codec=self.codec,
            level=self.level,
            row_group_rows=self.row_group_rows,
            max_file_bytes=self.max_file_bytes,
            master=self.master.partition(":")[0] if cores is None else f"local[{cores}]",
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
    """Make, write, validate and summarise rows on Spark; leave a record in a new folder below `out`.

    Ctrl-C before the commit leaves neither files nor a version; after it the rows stay.

    Raises:
        OptionError: It cannot be run as asked.
        JavaError: There is no Java for Spark.
        MissingExtraError: PySpark is not installed.
        KeyboardInterrupt: Ctrl-C came before there was anything to record.
        OSError: The user's files cannot be read.
    """
    require_spark()
    if isinstance(options.source, FileSource):
        find_input(options.source)
    destination = Destination.of(
        options.to,
        table=options.table,
        mode=options.mode,
        partition_by=options.partition_by,
        storage_options=options.storage_options,
    )
    run_id = records.new_run_id()
    folder = out / run_id
    with ExitStack() as stack:
        stack.enter_context(on_disk(out))
        stack.enter_context(run_folder(folder, worth=PIPELINE))
        stack.callback(progress.stop)
        cell = options.cell(destination)
        environment = describe_run(run_id, cell, schema_version=SCHEMA_VERSION)
        records.write_json(folder / records.ENVIRONMENT, environment)
        run = _Run(run_id, options, destination, cell, progress)
        stack.callback(run.tidy)  # after Spark has stopped
        try:
            run.start(stack)
        except KeyboardInterrupt:
            progress.say(_TIDYING)
            raise
        run.work()
        record = run.record()
        SCHEMA.check(record)
        records.append(folder / PIPELINE, record)
        return Finished(folder, record, run.error)


class _Run:
    """A run and what is known of it so far."""

    def __init__(
        self, run_id: str, options: Options, destination: Destination, cell: Cell, progress: Progress
    ) -> None:
        self._run_id, self._options, self._destination, self._cell = run_id, options, destination, cell
        self._progress = progress
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._began = time.perf_counter()
        self._host = HostWatch()
        self._phases: list[dict[str, Any]] = []
        self._tasks: list[dict[str, Any]] = []
        self._steps: Steps | None = None
        self._written: Written | None = None
        self._found: dict[str, Any] = {"validation": None, "summary": None}
        self._stage: Stage = "start"
        self.error: BaseException | None = None

    def start(self, stack: ExitStack) -> None:
        """Start Spark; leaving the stack stops it."""
        options = self._options
        settings = dict(options.settings)
        if options.pack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spillway-pack-"))
            archive = pack(Path(folder, "spillway.tar.gz"), also=["numpy"], say=self._progress.say)
            settings = {**archive.settings, **settings}
        self._session = open_session(
            options.master,
            name="spillway-pipeline",
            memory=options.memory,
            delta=self._destination.table == "delta",
            settings=settings,
            say=self._progress.say,
        )
        stack.callback(stop_session, self._session)
        self._driver = DriverWatch(self._session)
        self._runner = StageRunner(self._session, self._progress)
        self._phases.append({"phase": "start", "seconds": time.perf_counter() - self._began})

    def tidy(self) -> None:
        """Remove what is left of a write that was not committed."""
        if self._written is None and self._steps is not None:
            self._steps.forget()

    def work(self) -> None:
        """Go through all stages, up to the first that fails or is interrupted."""
        try:
            rows = self._rows()
            self._steps = steps = Steps(
                self._session,
                rows,
                self._destination,
                self._options.writer_options,
                max_file_bytes=self._options.max_file_bytes,
            )
            written = self._write(steps)
            self._validate(steps, written)
            summary = self._do("summarise", "summarising with Spark SQL", lambda: steps.summarise(written))
            self._found["summary"] = summary
        except KeyboardInterrupt as error:
            self._progress.say(_TIDYING)
            self.error = error
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends in the record and on the terminal
            self.error = error

    def _rows(self) -> RowSource | DataFrame:
        options = self._options
        if isinstance(options.source, FileSource):
            source = options.source
            files = find_input(source)
            return self._do("read", "looking at the files", lambda: read_input(self._session, source, files))
        rows, tasks = options.rows or 0, options.tasks or 1
        if options.source == LINEITEM:
            return self._do(
                "count",
                "counting the rows of lineitem's parts",
                lambda: count_rows(self._session, rows, tasks),
            )
        return GeneratedRows(options.source, options.seed, rows, tasks)

    def _write(self, steps: Steps) -> Written:
        cell = self._cell
        what = "the files' rows" if cell.rows is None else f"{counted(cell.rows, 'row')} of {cell.source}"

        def write() -> Written:
            # Noted by the thread that commits: an interrupt reaches only the thread that waits for it.
            self._written = written = steps.write()
            return written

        written = self._do("write", f"writing {what}", write)
        output = written.output
        version = "" if output["version"] is None else f", version {output['version']}"
        self._progress.say(
            f"committed {counted(output['rows'], 'row')} in {counted(output['files'], 'file')}, "
            f"{output['bytes'] / 1e6:,.1f} MB{version}"
        )
        return written

    def _validate(self, steps: Steps, written: Written) -> None:
        self._found["validation"] = found = self._do(
            "validate", "validating by an independent reading", lambda: steps.validate(written)
        )
        if found["problem"] is None:
            self._progress.say(
                f"validated: {found['reader']} read the {counted(found['rows'], 'row')} that were made"
            )

    def _do(self, stage: Stage, title: str, work: Callable[[], Result]) -> Result:
        self._stage = stage
        started = time.perf_counter()
        result, tasks = self._runner.run(title, work)
        seconds = time.perf_counter() - started
        self._phases.append({"phase": stage, "seconds": seconds})
        self._tasks.append({"stage": stage, "tasks": tasks.total, "failed": tasks.failed})
        self._progress.ended(f"{title}: {counted(tasks.total, 'task')} in {seconds:,.1f} s")
        return result

    def record(self) -> PipelineRecord:
        """The record of what was done."""
        outcome = self._outcome()
        ended = outcome in {"failed", "interrupted"}
        driver = None
        with suppress(Exception):  # of a JVM that is gone there is nothing to read
            driver = self._driver.read()
        seconds = {each["phase"]: each["seconds"] for each in self._phases}
        written = self._written
        return {
            "schema_version": SCHEMA_VERSION,
            "run_id": self._run_id,
            "seed": self._options.seed,
            "started_at": self._started_at,
            "cell": asdict(self._cell),
            "outcome": outcome,
            "died_in": self._stage if ended else None,
            "error": self._failure() if outcome == "failed" else None,
            "process_seconds": time.perf_counter() - self._began,
            "phases": self._phases,  # type: ignore[typeddict-item]  # made above, and checked against the schema
            "tasks": self._tasks,  # type: ignore[typeddict-item]  # as above
            "throughput": written.throughput(seconds["write"]) if written and "write" in seconds else None,
            "output": written.output if written else None,
            "validation": self._found["validation"],
            "summary": self._found["summary"],
            "driver": driver,
            "host": self._host.read(),
        }

    def _outcome(self) -> Outcome:
        if isinstance(self.error, KeyboardInterrupt):
            return "interrupted"
        if self.error is not None:
            return "failed"
        return "ok" if self._found["validation"]["problem"] is None else "wrong_output"

    def _failure(self) -> Any:
        message = redact(shortened(str(self.error)))[:_MESSAGE]
        return {"type": type(self.error).__name__, "message": message}
