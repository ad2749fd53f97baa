"""Memory over time: resident pages, read from outside, and memray's allocations of a traced write."""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from spillway.harness.probes.readings import Curve


class CurveProbe:
    """Samples another process's resident bytes."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []

    def sample(self, pid: int) -> None:
        """Add a point, unless the process has ended."""
        try:
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return
        if resident:
            self._points.append((time.monotonic(), resident * mmap.PAGESIZE))

    def between(self, begin: float, end: float, *, most: int) -> Curve:
        """The points of one phase, thinned to at most `most` while each interval keeps its highest.

        Args:
            begin: Monotonic seconds; the curve's time starts here.
            end: Monotonic seconds.
            most: Most points to return.
        """
        points = [(at, value) for at, value in self._points if begin <= at <= end]
        stride = -(-len(points) // most) if points else 1
        kept = [
            max(points[first : first + stride], key=lambda point: point[1])
            for first in range(0, len(points), stride)
        ]
        return {
            "seconds": [round(at - begin, 4) for at, _ in kept],
            "rss_bytes": [value for _, value in kept],
        }


ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "SPILLWAY_HUGE_PAGES": "0"}
"""Mimalloc and Spillway's heap reserve addresses at once, and a tracer counts what is reserved."""

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
        peak_bytes: Peak of allocated bytes.
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
