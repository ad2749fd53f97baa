"""The record of a pipeline: a line of ``pipeline.jsonl``."""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from spillway.harness.environment import HostReading, HostWatch
from spillway.harness.probes.process import read_memory, reset_high_water
from spillway.harness.records import Failure, Keywords, RecordSchema, Signed
from spillway.spark.pipeline.checks import AuditKind, BadRows, PipelineResult
from spillway.spark.schema import quoted
from spillway.spark.session import kind_of
from spillway.spark.write_job import SparkWriteResult, TableKind
from spillway.types import WriteMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spillway.spark.pipeline.run import Pipeline


@dataclass(frozen=True)
class Cell:
    """A pipeline: its rows and their processing.

    Attributes:
        source: The dataset's name; "files" that Spark reads; "frame" of a program; "stream".
        rows: The number of rows of a dataset; null for others, which say themselves.
        partitions: Number of tasks that generate rows; null if Spark plans them.
        table: "parquet": a folder of files; "delta": a Delta table.
        mode: What to do with an existing destination: "error", "append", "overwrite" or "ignore".
        bad_rows: What becomes of rows that fail a check.
        audit: What is read back: "full", "sample" or "none".
        partition_by: Columns that rows are stored apart by.
        codec: The codec of pages; "by column" if columns have different codecs.
        level: Its level; null for the codec's own.
        row_group_rows: Maximum rows per row group.
        max_file_bytes: Bytes of a file after which the next begins; null for one file a task.
        master: "local" with its cores, or the kind of cluster.
    """

    source: str
    rows: int | None
    partitions: int | None
    table: TableKind
    mode: WriteMode
    bad_rows: BadRows
    audit: AuditKind
    partition_by: list[str]
    codec: str
    level: int | None
    row_group_rows: int
    max_file_bytes: int | None
    master: str


def cell_of(  # noqa: PLR0913 - what a pipeline does not say itself
    pipeline: "Pipeline",
    *,
    table: TableKind,
    master: str,
    source: str | None = None,
    rows: int | None = None,
    partitions: int | None = None,
) -> Cell:
    """The part of a pipeline that a record has: no paths, no names of hosts, no credentials.

    Args:
        pipeline: The pipeline.
        table: The kind of the destination.
        master: The address of Spark's master.
        source: The name of the source in the record; by default that of the pipeline's source.
        rows: The number of rows of a dataset.
        partitions: Tasks that make rows.
    """
    sink = pipeline.sink
    if source is None:
        is_stream = pipeline.checkpoint_location is not None
        source = "stream" if is_stream else "files" if isinstance(pipeline.source, str) else "frame"
    codec = sink.options.compression
    return Cell(
        source=source,
        rows=rows,
        partitions=partitions,
        table=table,
        mode=sink.mode,
        bad_rows=pipeline.bad_rows,
        audit=pipeline.audit,
        partition_by=list(sink.partition_by),
        codec=codec if isinstance(codec, str) else "by column",
        level=sink.options.compression_level,
        row_group_rows=sink.options.row_group_rows,
        max_file_bytes=sink.max_file_bytes,
        master=kind_of(master),
    )


_KIB = 1024
_COLLECTION_SECONDS = 0.5


class DriverMemory(TypedDict):
    """The memory of the driver's two processes. With a local master the JVM runs the tasks too.

    Attributes:
        python_peak_bytes: Peak resident memory of the Python process.
        python_growth_bytes: Its growth since before the first stage.
        jvm_peak_bytes: Peak resident memory of the JVM.
        jvm_live_bytes: Its heap after a collection at the end.
    """

    python_peak_bytes: int
    python_growth_bytes: int
    jvm_peak_bytes: int
    jvm_live_bytes: int


class DriverWatch:
    """Watches the driver's memory from construction to `read`.

    Args:
        session: A running session.
    """

    def __init__(self, session: "SparkSession") -> None:
        self._gateway: Any = session.sparkContext._gateway  # noqa: SLF001  # no public way to the JVM's process
        # Some kernels keep the mark for themselves: then it is that of the whole process.
        with suppress(OSError):
            reset_high_water()
        self._before = read_memory().rss

    def read(self) -> DriverMemory:
        """The peaks until now, and the heap that is in use."""
        peak = read_memory().high_water
        return {
            "python_peak_bytes": peak,
            "python_growth_bytes": max(0, peak - self._before),
            "jvm_peak_bytes": _high_water(self._gateway.proc.pid),
            "jvm_live_bytes": self._live_heap(),
        }

    def _live_heap(self) -> int:
        jvm = self._gateway.jvm
        jvm.java.lang.System.gc()
        time.sleep(_COLLECTION_SECONDS)
        runtime = jvm.java.lang.Runtime.getRuntime()
        return int(runtime.totalMemory() - runtime.freeMemory())


def _high_water(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * _KIB
    return 0


# What logs have, and whoever's rows are summarised as logs.
_LOG_COLUMNS = frozenset({"timestamp", "service", "level", "duration_ms"})
_LATENCY = "duration_ms"
_SHARES = (0.5, 0.9, 0.99)
_ACCURACY = 10_000
_MOST_COLUMNS = 8
_NUMERIC = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


_Value = Annotated[float, Keywords(minimum=None)] | None


class ErrorCount(TypedDict):
    """The rows of one service in one hour.

    Attributes:
        hour: The start of the hour in UTC.
        errors: Those of level ERROR.
    """

    service: str | None
    hour: str | None
    rows: int
    errors: int


class Percentiles(TypedDict):
    """The values of one column: percentiles within a ten-thousandth of the ranks; null without a value."""

    column: str
    p50: _Value
    p90: _Value
    p99: _Value
    max: _Value


class RowSummary(TypedDict):
    """The rows that were written.

    Attributes:
        percentiles: Percentiles of the latency for logs; for other rows, of their first numeric columns.
        errors: Errors of logs by service and hour.
    """

    rows: int
    percentiles: list[Percentiles]
    errors: NotRequired[list[ErrorCount]]


def summarise(frame: "DataFrame") -> RowSummary:
    """Count the rows, take percentiles, and count the errors of logs by service and hour."""
    is_logs = set(frame.columns) >= _LOG_COLUMNS
    measured = [_LATENCY] if is_logs else _numeric(frame)
    (whole,) = frame.selectExpr(*_totals(measured)).collect()
    summary: RowSummary = {
        "rows": whole["rows"],
        "percentiles": [
            _percentiles(name, whole[f"p{at}"], whole[f"m{at}"]) for at, name in enumerate(measured)
        ],
    }
    if is_logs:
        frame.createOrReplaceTempView("written")
        summary["errors"] = [
            {"service": row["service"], "hour": row["hour"], "rows": row["rows"], "errors": row["errors"]}
            for row in frame.sparkSession.sql(_ERRORS).collect()
        ]
    return summary


_ERRORS = """
    select service, date_format(date_trunc('hour', timestamp), "yyyy-MM-dd'T'HH:mm:ss'Z'") as hour,
           count(*) as rows, count_if(level = 'ERROR') as errors
    from written group by all order by service, hour
"""


def _totals(columns: list[str]) -> list[str]:
    shares = f"array({', '.join(map(str, _SHARES))})"
    parts = ["count(*) as rows"]
    for at, name in enumerate(columns):
        value = f"cast({quoted(name)} as double)"
        parts += [f"percentile_approx({value}, {shares}, {_ACCURACY}) as p{at}", f"max({value}) as m{at}"]
    return parts


def _percentiles(column: str, shares: list[float] | None, most: float | None) -> Percentiles:
    p50, p90, p99 = (_finite(each) for each in shares or (None, None, None))
    return {"column": column, "p50": p50, "p90": p90, "p99": p99, "max": _finite(most)}


def _finite(value: float | None) -> float | None:
    """A value that JSON can hold."""
    return value if value is not None and math.isfinite(value) else None


def _numeric(frame: "DataFrame") -> list[str]:
    """The first numeric columns, but those of a name that another one has."""
    names = [name for name, kind in frame.dtypes if kind.startswith(_NUMERIC)]
    return [name for name in names if frame.columns.count(name) == 1][:_MOST_COLUMNS]


PIPELINE = "pipeline.jsonl"
SCHEMA_VERSION: Literal[2] = 2
READER = "spark-vectorized"

Outcome = Literal["ok", "wrong_output", "failed", "interrupted"]
Stage = Literal["start", "read", "count", "write", "audit", "summarise", "publish"]


class StageLength(TypedDict):
    """One stage of the pipeline."""

    phase: Stage
    seconds: float


class Throughput(TypedDict):
    """The speed of the stage in which rows are read or made, checked and written.

    Attributes:
        megabytes_per_second: Megabytes of Arrow data.
        make_seconds: The time that tasks waited for rows, summed over them.
    """

    rows_per_second: float
    megabytes_per_second: float
    arrow_bytes: int
    make_seconds: float


class Output(TypedDict):
    """The files that were written, from the commit.

    Attributes:
        version: The version of the Delta table; null for a folder of files.
        writer_seconds: The time inside the native writer, summed over tasks.
    """

    rows: int
    bytes: int
    files: int
    version: int | None
    writer_seconds: float


class StageTasks(TypedDict):
    """The tasks of one stage.

    Attributes:
        failed: Attempts that failed, and were tried again.
    """

    stage: Stage
    tasks: int
    failed: int


class Checks(TypedDict):
    """The rows that were checked.

    Attributes:
        rows_read: Rows after the transformation.
        rows_dropped: Rows that failed a check, and were left out.
        rows_quarantined: Rows that failed a check, and are in the table next to the destination.
        failed: Rows that failed each check, by its name.
    """

    rows_read: int
    rows_dropped: int
    rows_quarantined: int
    failed: dict[str, int]


class Audit(TypedDict):
    """The result of reading the files back before publication.

    Attributes:
        reader: The reader, as `spillway validate` names it.
        files: The files that it read.
        rows: Their rows.
        row_checksum: The order-independent checksum of these rows; null if none was read.
    """

    reader: str
    files: int
    rows: int
    row_checksum: str | None


class PipelineRecord(TypedDict):
    """One pipeline: a line of pipeline.jsonl. Times are seconds, sizes bytes, a MB is 10^6 of them.

    Attributes:
        run_id: The run's name.
        seed: The seed of generated rows; null without such.
        started_at: The time in UTC.
        cell: The rows and their processing.
        outcome: "ok"; "wrong_output": what Spark read differs from what was written; "failed"; "interrupted".
        died_in: The stage in which it failed or was interrupted.
        process_seconds: The whole pipeline, from before Spark starts.
        phases: The stages that were over, in their order.
        tasks: Their tasks, if the command counted them; "write" includes all tasks from the write to the
            publication.
        output: The files; null if nothing was committed.
        summary: The summary of generated rows.
        driver: The memory of the driver, if the command read it.
        host: The driver's host during the run.
    """

    schema_version: Literal[2]
    run_id: str
    seed: Signed | None
    started_at: Annotated[str, Keywords(format="date-time")]
    cell: Annotated[dict[str, Any], Cell]
    outcome: Outcome
    died_in: Stage | None
    error: Failure | None
    process_seconds: float
    phases: list[StageLength]
    tasks: list[StageTasks]
    throughput: Throughput | None
    output: Output | None
    checks: Checks | None
    audit: Audit | None
    summary: RowSummary | None
    driver: DriverMemory | None
    host: HostReading


SCHEMA = RecordSchema(PipelineRecord)


class RunWatch:
    """Watches a run and its host from construction on, and makes the record."""

    def __init__(self) -> None:
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._began = time.perf_counter()
        self._host = HostWatch()

    @property
    def seconds(self) -> float:
        """The time since construction."""
        return time.perf_counter() - self._began

    def record(  # noqa: PLR0913 - what a record has
        self,
        run_id: str,
        cell: Cell,
        phases: Sequence[tuple[Stage, float]],
        *,
        outcome: Outcome = "ok",
        died_in: Stage | None = None,
        error: Failure | None = None,
        seed: int | None = None,
        tasks: Sequence[StageTasks] = (),
        published: SparkWriteResult | None = None,
        result: PipelineResult | None = None,
        summary: RowSummary | None = None,
        driver: DriverMemory | None = None,
    ) -> PipelineRecord:
        """Return the record of the run until now.

        Args:
            run_id: The run's name.
            cell: Its options.
            phases: The stages that are over, and their seconds.
            outcome: The outcome.
            died_in: The stage in which it ended early.
            error: What ended it.
            seed: The seed of generated rows.
            tasks: The tasks of stages.
            published: What was published; None for nothing.
            result: The result; None for a run that failed.
            summary: The summary of the rows.
            driver: The memory of the driver.
        """
        return {
            "schema_version": SCHEMA_VERSION,
            "run_id": run_id,
            "seed": seed,
            "started_at": self._started_at,
            "cell": asdict(cell),
            "outcome": outcome,
            "died_in": died_in,
            "error": error,
            "process_seconds": self.seconds,
            "phases": [{"phase": stage, "seconds": spent} for stage, spent in phases],
            "tasks": list(tasks),
            "throughput": _throughput(result),
            "output": None if published is None else asdict(published),  # type: ignore[typeddict-item]  # its fields
            "checks": None if result is None else _checks(result),
            "audit": None if result is None else _audit(result),
            "summary": summary,
            "driver": driver,
            "host": self._host.read(),
        }


def _throughput(result: PipelineResult | None) -> Throughput | None:
    seconds = 0.0 if result is None else result.seconds.get("write", 0.0)
    if result is None or not seconds:
        return None
    return {
        "rows_per_second": result.rows_written / seconds,
        "megabytes_per_second": result.arrow_bytes / 1e6 / seconds,
        "arrow_bytes": result.arrow_bytes,
        "make_seconds": result.make_seconds,
    }


def _checks(result: PipelineResult) -> Checks:
    return {
        "rows_read": result.rows_read,
        "rows_dropped": result.rows_dropped,
        "rows_quarantined": result.rows_quarantined,
        "failed": dict(result.checks),
    }


def _audit(result: PipelineResult) -> Audit:
    found = result.audit
    return {
        "reader": READER,
        "files": found.files,
        "rows": found.rows,
        "row_checksum": found.row_checksum,
    }
