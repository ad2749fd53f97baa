"""The allocation curve of a backend, from one traced write that is never timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ENVIRONMENT", "INVISIBLE", "AllocationCurve", "read_curve"]

ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Mimalloc reserves a gibibyte at once, and a tracer counts what is reserved."""

_JVM = "it allocates in a JVM, which is another process than the traced one"
INVISIBLE = {
    "polars": "polars has jemalloc linked in, which a tracer of malloc cannot see",
    "spark-parquet": _JVM,
    "spark-delta": _JVM,
}
"""Backends whose allocations no tracer sees; a number for them would be wrong."""

_INTERVAL_SECONDS = 0.01  # memray's own
_MOST_POINTS = 400


class AllocationCurve(TypedDict):
    """Bytes allocated over time: the most of each interval.

    Attributes:
        peak_bytes: The most that was allocated at once.
        allocations: Calls that allocated.
    """

    seconds: list[float]
    allocated_bytes: list[int]
    peak_bytes: int
    allocations: int


def read_curve(trace: Path) -> AllocationCurve:
    """The envelope of bytes allocated over time: the highest of each interval of ten milliseconds."""
    try:
        import memray
    except ModuleNotFoundError as error:
        raise MissingExtraError("memray", "bench", "draw allocation curves") from error
    with memray.FileReader(trace) as reader:
        _, envelope = reader.get_temporal_high_water_mark_allocation_records()
        peak, count = reader.metadata.peak_memory, reader.metadata.total_allocations
    stride = max(1, -(-len(envelope) // _MOST_POINTS))
    starts = range(0, len(envelope), stride)
    return {
        "seconds": [round(start * _INTERVAL_SECONDS, 3) for start in starts],
        "allocated_bytes": [max(envelope[start : start + stride]) for start in starts],
        "peak_bytes": peak,
        "allocations": count,
    }
