"""Python's garbage collector during a phase: runs and pauses per generation, by our own clock."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.harness.probes.readings import GarbageReading

__all__ = ["GarbageProbe"]


class GarbageProbe:
    """Counts collections between `start` and `stop`."""

    def __init__(self) -> None:
        self._runs = [0, 0, 0]
        self._pause_ns = [0, 0, 0]
        self._longest_ns = 0
        self._began = 0

    def start(self) -> None:
        """Begin to listen."""
        gc.callbacks.append(self._collected)

    def stop(self) -> GarbageReading:
        """Stop listening; runs and pauses in seconds, the lists by generation."""
        gc.callbacks.remove(self._collected)
        return {
            "runs": sum(self._runs),
            "pause_seconds": sum(self._pause_ns) / 1e9,
            "longest_pause_seconds": self._longest_ns / 1e9,
            "runs_by_generation": list(self._runs),
            "pause_seconds_by_generation": [pause / 1e9 for pause in self._pause_ns],
        }

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        now = time.perf_counter_ns()
        if phase == "start":
            self._began = now
            return
        pause = now - self._began
        self._runs[info["generation"]] += 1
        self._pause_ns[info["generation"]] += pause
        self._longest_ns = max(self._longest_ns, pause)
