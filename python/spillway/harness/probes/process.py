"""Readings of the measured process: time, counters and memory, its control group, the pools of its libraries.

Two counters of ``/proc/PID/io`` say what was written. ``wchar`` counts every byte handed to the kernel,
including a spilled page whose file is deleted before it reaches a disk, which a group's ``io.stat`` never
counts. ``write_bytes`` has the pages that became dirty in a file on a disk, so also writes through a mapping.

A group's memory has page cache and kernel memory too, so also what a writer spills to a file. Its peak is
reset when the write begins: on v1 by writing to the counter, on v2 (Linux 6.12) by writing to an open
``memory.peak``, which resets it only for that descriptor. An older kernel refuses: there the peak of the
write is known where it is the highest that the group has ever had.

Resident memory is exact, from procfs. The kernel keeps the high-water mark ``VmHWM``; writing ``5`` to
``clear_refs`` sets it back to what is resident now, so a phase's peak is read without any sampling.
``ru_maxrss`` would not do: it survives fork and exec.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, cast

if TYPE_CHECKING:
    from spillway.harness.probes.readings import (
        Counters,
        GroupReading,
        Pool,
        PoolReading,
        UsageReading,
        Written,
    )

_Name = Literal["user_seconds", "minor_faults"]  # two of them, for the type checker: all are numbers


@dataclass(frozen=True)
class Usage:
    """One reading; only differences mean something."""

    wall_ns: int
    counters: Counters


def read_usage() -> Usage:
    """Read the counters of this process; threads are included."""
    written = written_by("self")
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        wall_ns=time.perf_counter_ns(),
        counters={
            "user_seconds": used.ru_utime,
            "system_seconds": used.ru_stime,
            "minor_faults": used.ru_minflt,
            "major_faults": used.ru_majflt,
            "voluntary_switches": used.ru_nvcsw,
            "involuntary_switches": used.ru_nivcsw,
            **written,
        },
    )


def written_by(pid: int | str) -> Written:
    """The counters of what a process has written, by their names in a reading."""
    io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return {
        "bytes_written": int(io["wchar"]),
        "write_calls": int(io["syscw"]),
        "storage_bytes": int(io["write_bytes"]),
        "cancelled_bytes": int(io["cancelled_write_bytes"]),
    }


def usage_between(before: Usage, after: Usage) -> UsageReading:
    """Subtract one reading from the next."""
    wall = (after.wall_ns - before.wall_ns) / 1e9
    return {"wall_seconds": wall, **difference(before.counters, after.counters)}


def difference(before: Counters, after: Counters) -> Counters:
    """The counts between two points, never below 0: some counters forget threads that have ended."""
    return cast("Counters", {name: max(0, after[name] - before[name]) for name in _names(after)})


def total(one: Counters, other: Counters) -> Counters:
    """The counts of two processes."""
    return cast("Counters", {name: one[name] + other[name] for name in _names(other)})


def _names(counters: Counters) -> tuple[_Name, ...]:
    return cast("tuple[_Name, ...]", tuple(counters))


_SELF = "self"
_MOUNT = "/sys/fs/cgroup"


class GroupProbe:
    """Reads a group's memory before and after a phase.

    Args:
        group: Its folder; "self" for the v2 group that this process is in; None for none, and no reading.
    """

    def __init__(self, group: str | None) -> None:
        folder = _own_v2() if group == _SELF else None if group is None else Path(group)
        self._usage, self._peak = _files(folder)
        self._descriptor: int | None = None
        self._before = self._peak_before = 0

    def start(self, ready: int = 0) -> None:
        """Read the group, and set its peak back to what it has now, if the kernel lets it.

        Args:
            ready: Bytes that count as growth once more (`ready_bytes`).
        """
        if self._usage is None:
            return
        self._before = int(self._usage.read_text()) - ready
        if self._peak is None:
            return
        self._peak_before = int(self._peak.read_text())
        try:
            self._descriptor = os.open(self._peak, os.O_RDWR)
            os.write(self._descriptor, b"0")
        except OSError:
            self._close()

    def stop(self) -> GroupReading | None:
        """Read it again: bytes before, after, and the most between; None without a group."""
        if self._usage is None:
            return None
        after = int(self._usage.read_text())
        peak = self._peak_of_phase()
        self._close()
        return {
            "before_bytes": self._before,
            "after_bytes": after,
            "write_peak_bytes": peak,
            "peak_bytes": max(self._peak_before, peak or 0, after),
        }

    def _peak_of_phase(self) -> int | None:
        """The most since `start`; None where the kernel has no counter, or one that rose before alone."""
        if self._descriptor is not None:
            return int(os.pread(self._descriptor, 32, 0))
        peak = self._peak_before if self._peak is None else int(self._peak.read_text())
        return peak if peak > self._peak_before else None

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _files(folder: Path | None) -> tuple[Path | None, Path | None]:
    """The files with a group's usage and peak, by either version's names; None for what there is not."""
    for usage, peak in (
        ("memory.current", "memory.peak"),
        ("memory.usage_in_bytes", "memory.max_usage_in_bytes"),
    ):
        if folder is not None and (folder / usage).exists():
            return folder / usage, (folder / peak if (folder / peak).exists() else None)
    return None, None


def _own_v2() -> Path | None:
    """The v2 group of this process, where the hierarchy is mounted at its usual place."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::/"):
            return Path(_MOUNT) / line.removeprefix("0::/")
    return None


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


def ready_bytes() -> int:
    """Resident memory from which Spillway cuts its buffers: a write may fill it without growing.

    It belongs to no baseline, therefore. Of pyarrow's and malloc's, `release_memory` leaves next to nothing.
    """
    native = sys.modules.get("spillway._native")
    return 0 if native is None else int(native.huge_page_bytes())


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


_KIB = 1024


@dataclass(frozen=True)
class Memory:
    """One reading of ``/proc/self/status``, in bytes.

    Attributes:
        rss: All that is resident.
        anon: Of it, anonymous memory: heaps and stacks.
        file: Of it, mapped files: code, and the mapped input.
        high_water: Peak resident memory since the last reset.
        data: Private writable address space, which ``RLIMIT_DATA`` counts, resident or not.
    """

    rss: int
    anon: int
    file: int
    high_water: int
    data: int

    def as_dict(self) -> dict[str, int]:
        """The fields as a plain dict, for the record."""
        return asdict(self)


class Rollup(TypedDict):
    """The page tables' own view, as a cross-check.

    Attributes:
        huge: Anonymous memory in huge pages.
    """

    rss: int
    anon: int
    huge: int


def read_baseline() -> Memory:
    """Read what a write begins with: this process's memory now, but for `ready_bytes`."""
    memory, ready = read_memory(), ready_bytes()
    return replace(memory, rss=memory.rss - ready, anon=memory.anon - ready)


def read_memory() -> Memory:
    """Read this process's memory now."""
    fields = kib_fields(Path("/proc/self/status"))
    return Memory(
        rss=fields["VmRSS"],
        anon=fields["RssAnon"],
        file=fields["RssFile"],
        high_water=fields["VmHWM"],
        data=fields["VmData"],
    )


def reset_high_water() -> None:
    """Set ``VmHWM`` back to what is resident now.

    Raises:
        OSError: The kernel does not offer ``clear_refs`` to this process.
    """
    Path("/proc/self/clear_refs").write_text("5")


def read_rollup() -> Rollup:
    """Resident bytes according to the page tables (``smaps_rollup``): a check of the counters above."""
    fields = kib_fields(Path("/proc/self/smaps_rollup"))
    return {"rss": fields["Rss"], "anon": fields["Anonymous"], "huge": fields["AnonHugePages"]}


def kib_fields(path: Path) -> dict[str, int]:
    """The sizes in a file of procfs, in bytes, by their names there."""
    fields = {}
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            fields[name] = int(value.split()[0]) * _KIB
    return fields
