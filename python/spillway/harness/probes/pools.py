"""Thread and memory pools: set, read back, released. Looks only at libraries that are imported already."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.harness.probes.readings import Pool, PoolReading

__all__ = ["PoolTotals", "release_memory", "set_threads", "thread_environment", "threads_in_force"]


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables that size the pools of libraries which read them once, on import."""
    variables = (
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "TOKIO_WORKER_THREADS",
        "ARROW_IO_THREADS",
    )
    return dict.fromkeys(variables, str(threads))


def set_threads(threads: int) -> None:
    """Size pyarrow's two pools, which look at neither affinity nor, for I/O, the number of cores."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.set_cpu_count(threads)
        pyarrow.set_io_thread_count(threads)


def threads_in_force(backend: object) -> list[Pool]:
    """Each pool's size as its library reports it now, by name."""
    pools: dict[str, int] = {}
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pools["pyarrow-cpu"] = pyarrow.cpu_count()
        pools["pyarrow-io"] = pyarrow.io_thread_count()
    own = getattr(backend, "threads_in_force", None)
    if own is not None:
        pools |= own()
    return [{"pool": name, "threads": threads} for name, threads in sorted(pools.items())]


def release_memory() -> None:
    """Give freed memory back to the system: pyarrow's pool, then malloc's."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


class PoolTotals:
    """Counts what pyarrow's default pool allocates from construction to `read`."""

    def __init__(self) -> None:
        pyarrow = sys.modules.get("pyarrow")
        pool = None if pyarrow is None else pyarrow.default_memory_pool()
        # Early releases do not count.
        self._pool = pool if hasattr(pool, "total_bytes_allocated") else None
        if self._pool is not None:
            self._held = self._pool.bytes_allocated()
            self._bytes = self._pool.total_bytes_allocated()
            self._count = self._pool.num_allocations()

    def read(self) -> PoolReading | None:
        """Totals of the phase, and the pool's peak since the process began; None without one that counts."""
        if self._pool is None:
            return None
        return {
            "backend": self._pool.backend_name,
            "held_before_bytes": self._held,
            "allocated_bytes": self._pool.total_bytes_allocated() - self._bytes,
            "allocations": self._pool.num_allocations() - self._count,
            "peak_bytes": self._pool.max_memory(),
        }
