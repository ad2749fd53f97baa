"""Resident memory over time, read from outside, so that a writer that holds the GIL is seen too."""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.harness.probes.readings import Curve

__all__ = ["CurveProbe"]


class CurveProbe:
    """Samples another process's resident bytes."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []

    def sample(self, pid: int) -> None:
        """Add a point; nothing is added for a process that has gone."""
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
