"""The measured phase of a backend that writes in a JVM, which is warmed up and measured as well."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from spillway.harness.probes.jvm import JvmProbe

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.backends.protocol import JvmBackend
    from spillway.harness.probes.jvm import JvmReading, WarmUp
    from spillway.harness.probes.readings import UsageReading

_FEWEST, _MOST = 2, 10


def warm_up(backend: Any, rows: int, write: Callable[[], object]) -> WarmUp:
    """Write all rows of the cell repeatedly, at least twice, until the backend has written enough.

    Rows take other ways through a library when they are many, so that a part of them would warm less.

    Args:
        backend: A `JvmBackend`, which says how many are enough.
        rows: Rows that `write` writes.
        write: Writes all rows of the cell.
    """
    seconds = []
    for _ in range(min(_MOST, max(_FEWEST, -(-backend.warm_up_rows // rows)))):
        begin = time.perf_counter()
        write()
        seconds.append(time.perf_counter() - begin)
    return {"rows": rows, "seconds": seconds}


class JvmPhase:
    """Watches a backend's JVM from construction to `end`.

    Args:
        backend: A `JvmBackend`, whose JVM runs.
        warmed: The writes that came before.
    """

    def __init__(self, backend: Any, warmed: WarmUp) -> None:
        self._backend: JvmBackend = backend
        self._warmed = warmed
        self._probe = JvmProbe(backend.gateway)

    def end(self) -> None:
        """End the counting, right after the write."""
        self._probe.stop()

    def add_to(self, use: UsageReading) -> UsageReading:
        """The resource use of this process and of the JVM together."""
        return self._probe.add_to(use)

    def read(self, python_peak_bytes: int) -> JvmReading:
        """The reading of the JVM.

        Args:
            python_peak_bytes: Peak resident memory of this process during the write.
        """
        return self._probe.read(
            warm_up=self._warmed,
            hand_over_seconds=self._backend.hand_over_seconds,
            python_peak_bytes=python_peak_bytes,
        )
