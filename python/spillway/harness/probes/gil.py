"""The longest time another Python thread could not run: a thread that ticks, and notices what it missed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.harness.probes.readings import GilReading

__all__ = ["INTERVAL_SECONDS", "GilTicker", "idle_gap"]

INTERVAL_SECONDS = 0.001


def idle_gap(seconds: float) -> float:
    """The longest gap of the same ticker while the main thread only sleeps: what the machine alone costs."""
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
        self._longest_ns = 0
        self._ticks = 0
        self._running = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="spillway-gil-ticker", daemon=True)

    def start(self) -> None:
        """Start ticking, and return once the thread runs."""
        self._thread.start()
        self._running.wait()
        self._last_ns = time.perf_counter_ns()
        self._longest_ns = 0
        self._ticks = 0

    def stop(self) -> GilReading:
        """Stop ticking; the longest gap in seconds, a last one that is still open included."""
        longest_ns = max(self._longest_ns, time.perf_counter_ns() - self._last_ns)
        ticks = self._ticks
        self._stop.set()
        self._thread.join()
        return {"longest_gap_seconds": longest_ns / 1e9, "ticks": ticks}

    def _tick(self) -> None:
        self._running.set()
        while not self._stop.is_set():
            time.sleep(INTERVAL_SECONDS)
            now = time.perf_counter_ns()
            self._longest_ns = max(self._longest_ns, now - self._last_ns)
            self._last_ns = now
            self._ticks += 1
