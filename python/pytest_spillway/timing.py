"""The clock that pytest-benchmark reads in tests that measure in processes of their own."""

from __future__ import annotations

PROPERTY = "parquet_benchmark"
"""The property of a test's report that holds the lines of its terminal summary."""


class Clock:
    """A clock that moves by the seconds that measured processes report, and by nothing else."""

    def __init__(self) -> None:
        self._seconds = self._processor_seconds = 0.0

    def advance(self, seconds: float, processor_seconds: float = 0.0) -> None:
        """Move on by the seconds of a write, and by the processor time that it took."""
        self._seconds += seconds
        self._processor_seconds += processor_seconds

    def measured_seconds(self) -> float:
        """The seconds of all writes so far."""
        return self._seconds

    def processor_seconds(self) -> float:
        """The processor time of all writes so far, in seconds, of user and kernel."""
        return self._processor_seconds


clock = Clock()
