"""Probes of the interpreter, for writes that are not timed: the garbage collector and the GIL."""

from __future__ import annotations

import gc
import math
import threading
import time
from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.harness.probes.readings import GarbageReading, GilReading


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


INTERVAL_SECONDS = 0.001
_MOST = 0.99  # the share of gaps that the percentile is no shorter than


def idle_gap(seconds: float) -> float:
    """The longest gap of the same ticker while the main thread only sleeps: the machine's own share."""
    ticker = GilTicker()
    ticker.start()
    time.sleep(seconds)
    return ticker.stop()["longest_gap_seconds"]


class GilTicker:
    """Ticks every millisecond from `start` to `stop`.

    A gap runs from one tick to the next. It holds the wait for the GIL, and on a shared core also the wait
    for the processor, so a few milliseconds are the floor when the writer keeps its one core busy.
    """

    def __init__(self) -> None:
        self._last_ns = 0
        self._gaps_ns: list[int] = []
        self._running = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="spillway-gil-ticker", daemon=True)

    def start(self) -> None:
        """Start ticking, and return once the thread runs."""
        self._thread.start()
        self._running.wait()
        self._last_ns = time.perf_counter_ns()
        self._gaps_ns = []

    def stop(self) -> GilReading:
        """Stop ticking; gaps in seconds, a last one that is still open included."""
        open_ns, gaps = time.perf_counter_ns() - self._last_ns, sorted(self._gaps_ns)
        self._stop.set()
        self._thread.join()
        ticks = len(gaps)
        insort(gaps, open_ns)
        rank = math.ceil(_MOST * len(gaps))
        return {
            "longest_gap_seconds": gaps[-1] / 1e9,
            "p99_gap_seconds": gaps[rank - 1] / 1e9,
            "ticks": ticks,
        }

    def _tick(self) -> None:
        self._running.set()
        while not self._stop.is_set():
            time.sleep(INTERVAL_SECONDS)
            now = time.perf_counter_ns()
            self._gaps_ns.append(now - self._last_ns)
            self._last_ns = now
