"""The record of a pipeline: a line of ``pipeline.jsonl``."""

from typing import Annotated, Any, Literal, TypedDict

from spillway.bench.record import Failure
from spillway.harness.host import HostReading
from spillway.harness.records import RecordSchema
from spillway.harness.schema import Keywords, Signed
from spillway.pipeline.driver import DriverMemory
from spillway.pipeline.plan import Cell
from spillway.pipeline.summary import RowSummary

__all__ = ["PIPELINE", "READER", "SCHEMA", "SCHEMA_VERSION", "Outcome", "Output", "PipelineRecord"]

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
        seed: The seed of generated rows.
        started_at: The time in UTC.
        cell: The rows and what is made of them.
        outcome: "ok"; "wrong_output": what Spark read differs from what was written; "failed"; "interrupted".
        died_in: The stage in which it failed or was interrupted.
        process_seconds: The whole pipeline, from before Spark starts.
        phases: The stages that were over, in their order.
        tasks: Their tasks; those of "write" are all from the writing to the publication.
        output: The files; null if nothing was committed.
        driver: The memory of the driver; null if Spark did not start.
        host: The driver's host during the run.
    """

    schema_version: Literal[2]
    run_id: str
    seed: Signed
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
