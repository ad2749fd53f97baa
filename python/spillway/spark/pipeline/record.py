"""The record of a pipeline: a line of ``pipeline.jsonl``."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypedDict

from spillway.bench.record import Failure
from spillway.harness.host import HostReading, HostWatch
from spillway.harness.records import RecordSchema
from spillway.harness.schema import Keywords, Signed
from spillway.spark.pipeline.cell import Cell
from spillway.spark.pipeline.driver_memory import DriverMemory
from spillway.spark.pipeline.result import PipelineResult
from spillway.spark.pipeline.summary import RowSummary
from spillway.spark.write_job import SparkWriteResult

__all__ = [
    "PIPELINE",
    "READER",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Outcome",
    "PipelineRecord",
    "RunWatch",
    "Stage",
    "StageTasks",
]

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
    """The reading of what was written, before it was published.

    Attributes:
        reader: The reader, as `spillway validate` names it.
        files: The files that it read.
        rows: Their rows.
        row_checksum: The checksum of these rows, whatever their order; null where none was read.
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
        cell: The rows and what is made of them.
        outcome: "ok"; "wrong_output": what Spark read differs from what was written; "failed"; "interrupted".
        died_in: The stage in which it failed or was interrupted.
        process_seconds: The whole pipeline, from before Spark starts.
        phases: The stages that were over, in their order.
        tasks: Their tasks, where the command counted them; those of "write" are all from the writing to the
            publication.
        output: The files; null if nothing was committed.
        summary: The summary of generated rows.
        driver: The memory of the driver, where the command read it.
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
