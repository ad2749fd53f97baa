"""Wall and processor time, page faults, context switches and bytes written, between two points.

Two counters of ``/proc/PID/io`` say what was written. ``wchar`` has every byte that a call handed to the
kernel, so also a spilled page whose file is gone before it reaches a disk, which a group's ``io.stat`` never
sees. ``write_bytes`` has the pages that became dirty in a file on a disk, so also writes through a mapping.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from spillway.harness.probes.readings import Counters, UsageReading, Written

__all__ = ["Usage", "difference", "read_usage", "total", "usage_between", "written_by"]

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
