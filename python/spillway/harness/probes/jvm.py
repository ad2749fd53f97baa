"""The JVM that a backend writes in, from its management beans and procfs: heap, collections, resident memory.

The JVM is another process than the measured one: nothing that the other probes read covers it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from spillway.harness.probes.process import difference, kib_fields, total, written_by

if TYPE_CHECKING:
    from spillway.harness.probes.readings import Counters, UsageReading

_TICKS = os.sysconf("SC_CLK_TCK")
_HEAP = "HEAP"


class Collector(TypedDict):
    """One garbage collector of a JVM during the write."""

    name: str
    runs: int
    seconds: float


class WarmUp(TypedDict):
    """Writes before the measured one, which no figure counts.

    Attributes:
        rows: Rows of each of them.
        seconds: The time of each; the last ones show how warm the JVM is.
    """

    rows: int
    seconds: list[float]


class HeapReading(TypedDict):
    """The heap of a JVM during the write.

    Attributes:
        limit_bytes: Its maximum size.
        live_before_bytes: Bytes that a collection before the write left.
        peak_bytes: The peaks of its pools added up, which is never below the true peak.
        live_after_bytes: Bytes that a collection after the write left.
    """

    limit_bytes: int
    live_before_bytes: int
    peak_bytes: int
    live_after_bytes: int


class JvmReading(TypedDict):
    """The JVM of a backend during the write: a separate process.

    Attributes:
        version: Java's.
        warm_up: The writes that came before.
        compilation_seconds: Time of the just-in-time compiler during the write, whether in parallel with the
            code or blocking it.
        hand_over_seconds: Time in which rows went from Python to the JVM, in the write too.
        heap: Its heap.
        collectors: Its garbage collectors.
        rss_before_bytes: Resident memory of the JVM before the write.
        rss_peak_bytes: Its peak resident memory during the write, from the kernel's high-water mark.
        both_peak_bytes: The peaks of the JVM and of Python added up, never below the true peak of both.
    """

    version: str
    warm_up: WarmUp
    compilation_seconds: float
    hand_over_seconds: float
    heap: HeapReading
    collectors: list[Collector]
    rss_before_bytes: int
    rss_peak_bytes: int
    both_peak_bytes: int


class JvmProbe:
    """Watches a JVM from construction to `stop`.

    Args:
        gateway: py4j's way to the JVM, with its process as `proc`.
    """

    def __init__(self, gateway: Any) -> None:
        self._pid: int = gateway.proc.pid
        self._lang = gateway.jvm.java.lang
        self._beans = gateway.jvm.java.lang.management.ManagementFactory
        self._live_before = self._collect()
        for pool in self._beans.getMemoryPoolMXBeans():
            pool.resetPeakUsage()
        self._collected = self._collections()
        self._compiled = self._compilation_seconds()
        # The JVM is a child of this process: what this one may reset of itself, it may of the child.
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")
        self._rss_before = _status(self._pid)["VmRSS"]
        self._began = _use(self._pid)
        self._ended = self._began
        self._rss_peak = 0

    def stop(self) -> None:
        """Stop counting, before any other call to the JVM."""
        self._ended = _use(self._pid)
        self._rss_peak = _status(self._pid)["VmHWM"]

    def add_to(self, use: UsageReading) -> UsageReading:
        """The use of this process with that of the JVM: both work for the write."""
        of_jvm = difference(self._began, self._ended)
        return {"wall_seconds": use["wall_seconds"], **total(use, of_jvm)}

    def read(self, *, warm_up: WarmUp, hand_over_seconds: float, python_peak_bytes: int) -> JvmReading:
        """The reading of what was counted; it collects the heap once more.

        Args:
            warm_up: The writes before the measured one.
            hand_over_seconds: Time in which rows went to the JVM.
            python_peak_bytes: Peak resident memory of this process.
        """
        collected, compiled = self._collections(), self._compilation_seconds()
        peak = sum(pool.getPeakUsage().getUsed() for pool in self._heap_pools())
        return {
            "version": str(self._lang.System.getProperty("java.version")),
            "warm_up": warm_up,
            "compilation_seconds": max(0.0, compiled - self._compiled),
            "hand_over_seconds": hand_over_seconds,
            "heap": {
                "limit_bytes": int(self._lang.Runtime.getRuntime().maxMemory()),
                "live_before_bytes": self._live_before,
                "peak_bytes": int(peak),
                "live_after_bytes": self._collect(),
            },
            "collectors": [
                {
                    "name": name,
                    "runs": runs - self._collected.get(name, (0, 0.0))[0],
                    "seconds": seconds - self._collected.get(name, (0, 0.0))[1],
                }
                for name, (runs, seconds) in collected.items()
            ],
            "rss_before_bytes": self._rss_before,
            "rss_peak_bytes": self._rss_peak,
            "both_peak_bytes": self._rss_peak + python_peak_bytes,
        }

    def _collect(self) -> int:
        """Collect the heap; the bytes that stay in use."""
        self._lang.System.gc()
        return int(self._beans.getMemoryMXBean().getHeapMemoryUsage().getUsed())

    def _heap_pools(self) -> list[Any]:
        return [pool for pool in self._beans.getMemoryPoolMXBeans() if pool.getType().name() == _HEAP]

    def _collections(self) -> dict[str, tuple[int, float]]:
        """Runs and seconds of each collector since the JVM began."""
        return {
            str(bean.getName()): (int(bean.getCollectionCount()), bean.getCollectionTime() / 1e3)
            for bean in self._beans.getGarbageCollectorMXBeans()
        }

    def _compilation_seconds(self) -> float:
        return float(self._beans.getCompilationMXBean().getTotalCompilationTime() / 1e3)


def _use(pid: int) -> Counters:
    """Counters of a process; see proc_pid_stat(5) for the fields, which begin behind the name."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    voluntary, involuntary = _switches(pid)
    return {
        "user_seconds": int(fields[11]) / _TICKS,
        "system_seconds": int(fields[12]) / _TICKS,
        "minor_faults": int(fields[7]),
        "major_faults": int(fields[9]),
        "voluntary_switches": voluntary,
        "involuntary_switches": involuntary,
        **written_by(pid),
    }


def _switches(pid: int) -> tuple[int, int]:
    """Context switches of all threads that run now; the process itself counts those of its first alone."""
    voluntary = involuntary = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            for line in (thread / "status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "voluntary_ctxt_switches":
                    voluntary += int(value)
                elif name == "nonvoluntary_ctxt_switches":
                    involuntary += int(value)
    return voluntary, involuntary


def _status(pid: int) -> dict[str, int]:
    """Sizes of a process, in bytes."""
    return kib_fields(Path(f"/proc/{pid}/status"))
