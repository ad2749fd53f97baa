"""The result of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spillway.spark.pipeline.audit import AuditOutcome
    from spillway.spark.pipeline.record import Stage

__all__ = ["PipelineResult"]


@dataclass(frozen=True)
class PipelineResult:
    """A pipeline that was published.

    Args:
        run_id: The name of the run; of a stream, the id of its query.
        repeated: True if the destination had the rows of the run before: then nothing was done.
        rows_read: Rows after the transformation.
        rows_written: Rows that were published.
        rows_dropped: Rows that failed a check, and were left out.
        rows_quarantined: Rows that failed a check, and are in the table next to the destination.
        checks: The rows that failed each check.
        files: Files that were published.
        bytes: Their bytes.
        version: The version of the Delta table; None for a folder of files.
        audit: What was read back before it was published.
        arrow_bytes: The size of the rows in Arrow's layout.
        make_seconds: The time that tasks waited for rows, summed over them.
        writer_seconds: The time inside the native writer, summed over tasks.
        seconds: The time of each stage: ``read`` until the rows are planned, ``write``, ``audit``,
            ``publish``.
        batches: The results of the micro-batches of a stream, in their order: each was published by itself.
        record: The run as `spillway pipeline` records it, and as JSON can hold it. Its JSON Schema is in
            ``results/schemas``.
    """

    run_id: str
    repeated: bool
    rows_read: int
    rows_written: int
    rows_dropped: int
    rows_quarantined: int
    checks: Mapping[str, int]
    files: int
    bytes: int
    version: int | None
    audit: AuditOutcome
    arrow_bytes: int = field(repr=False)
    make_seconds: float = field(repr=False)
    writer_seconds: float = field(repr=False)
    seconds: Mapping[Stage, float]
    batches: tuple[PipelineResult, ...] = field(default=(), repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
