"""The memory of the driver: its Python process and its JVM."""

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from spillway.harness.probes.rss import read_memory, reset_high_water

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DriverMemory", "DriverWatch"]

_KIB = 1024
_COLLECTION_SECONDS = 0.5


class DriverMemory(TypedDict):
    """The memory of the driver's two processes. With a local master the JVM runs the tasks too.

    Attributes:
        python_peak_bytes: The most that was resident of the Python process.
        python_growth_bytes: That over what was resident before the first stage.
        jvm_peak_bytes: The most that was resident of the JVM.
        jvm_live_bytes: Of its heap, what a collection at the end leaves.
    """

    python_peak_bytes: int
    python_growth_bytes: int
    jvm_peak_bytes: int
    jvm_live_bytes: int


class DriverWatch:
    """Watches the driver's memory from construction to `read`.

    Args:
        session: A running session.
    """

    def __init__(self, session: "SparkSession") -> None:
        self._gateway: Any = session.sparkContext._gateway  # noqa: SLF001  # no public way to the JVM's process
        # Some kernels keep the mark for themselves: then it is that of the whole process.
        with suppress(OSError):
            reset_high_water()
        self._before = read_memory().rss

    def read(self) -> DriverMemory:
        """The peaks until now, and the heap that is in use."""
        peak = read_memory().high_water
        return {
            "python_peak_bytes": peak,
            "python_growth_bytes": max(0, peak - self._before),
            "jvm_peak_bytes": _high_water(self._gateway.proc.pid),
            "jvm_live_bytes": self._live_heap(),
        }

    def _live_heap(self) -> int:
        jvm = self._gateway.jvm
        jvm.java.lang.System.gc()
        time.sleep(_COLLECTION_SECONDS)
        runtime = jvm.java.lang.Runtime.getRuntime()
        return int(runtime.totalMemory() - runtime.freeMemory())


def _high_water(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * _KIB
    return 0
