"""The record of a pipeline: a line of ``pipeline.jsonl``."""

from typing import Annotated, Any, Literal, TypedDict

from spillway.bench.record import Failure
from spillway.harness.host import HostReading
from spillway.harness.records import RecordSchema
from spillway.harness.schema import Keywords, Signed
from spillway.pipeline.driver import DriverMemory
from spillway.pipeline.plan import Cell
from spillway.pipeline.summary import RowSummary

__all__ = ["PIPELINE", "SCHEMA", "SCHEMA_VERSION", "Outcome", "Output", "PipelineRecord", "Validation"]

PIPELINE = "pipeline.jsonl"
SCHEMA_VERSION: Literal[1] = 1

Outcome = Literal["ok", "wrong_output", "failed", "interrupted"]
Stage = Literal["start", "read", "count", "write", "validate", "summarise"]


class StageLength(TypedDict):
    """One stage of the pipeline."""

    phase: Stage
    seconds: float


class Throughput(TypedDict):
    """The speed of making, checking and writing the rows.

    Attributes:
        megabytes_per_second: Megabytes of Arrow data.
        make_seconds: The time that making the rows took, summed over tasks.
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


class Validation(TypedDict):
    """The reading of what was written.

    Attributes:
        reader: The reader, as `spillway validate` names it.
        rows: The rows that it read.
        row_checksum: The checksum of whole rows, whatever their order; null where they could not be compared.
        expected_checksum: The one made where the rows were made.
        problem: The difference; null without one.
    """

    reader: str
    rows: int
    row_checksum: str | None
    expected_checksum: str
    problem: str | None


class PipelineRecord(TypedDict):
    """One pipeline: a line of pipeline.jsonl. Times are seconds, sizes bytes, a MB is 10^6 of them.

    Attributes:
        run_id: The run's name.
        seed: The seed of generated rows.
        started_at: The time in UTC.
        cell: The rows and what is made of them.
        outcome: "ok"; "wrong_output": what Spark read differs from what was made; "failed"; "interrupted".
        died_in: The stage in which it failed or was interrupted.
        process_seconds: The whole pipeline, from before Spark starts.
        phases: The stages that were over, in their order.
        tasks: Their tasks.
        output: The files; null if nothing was committed.
        driver: The memory of the driver; null if Spark did not start.
        host: The driver's host during the run.
    """

    schema_version: Literal[1]
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
    validation: Validation | None
    summary: RowSummary | None
    driver: DriverMemory | None
    host: HostReading


SCHEMA = RecordSchema(PipelineRecord)
