"""Wall and processor time, page faults, context switches and bytes written, between two points.

Two counters of ``/proc/self/io`` say what was written. ``wchar`` has every byte that a call handed to the
kernel, so also a spilled page whose file is gone before it reaches a disk, which a group's ``io.stat`` never
sees. ``write_bytes`` has the pages that became dirty in a file on a disk, so also writes through a mapping.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.harness.probes.readings import UsageReading

__all__ = ["Usage", "read_usage", "usage_between"]


@dataclass(frozen=True)
class Usage:
    """One reading; only differences mean something."""

    wall_ns: int
    user_seconds: float
    system_seconds: float
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    bytes_written: int
    write_calls: int
    storage_bytes: int
    cancelled_bytes: int


def read_usage() -> Usage:
    """Read the counters of this process; threads are included."""
    io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    counters = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        wall_ns=time.perf_counter_ns(),
        user_seconds=counters.ru_utime,
        system_seconds=counters.ru_stime,
        minor_faults=counters.ru_minflt,
        major_faults=counters.ru_majflt,
        voluntary_switches=counters.ru_nvcsw,
        involuntary_switches=counters.ru_nivcsw,
        bytes_written=int(io["wchar"]),
        write_calls=int(io["syscw"]),
        storage_bytes=int(io["write_bytes"]),
        cancelled_bytes=int(io["cancelled_write_bytes"]),
    )


def usage_between(before: Usage, after: Usage) -> UsageReading:
    """Subtract one reading from the next."""
    return {
        "wall_seconds": (after.wall_ns - before.wall_ns) / 1e9,
        "user_seconds": after.user_seconds - before.user_seconds,
        "system_seconds": after.system_seconds - before.system_seconds,
        "minor_faults": after.minor_faults - before.minor_faults,
        "major_faults": after.major_faults - before.major_faults,
        "voluntary_switches": after.voluntary_switches - before.voluntary_switches,
        "involuntary_switches": after.involuntary_switches - before.involuntary_switches,
        "bytes_written": after.bytes_written - before.bytes_written,
        "write_calls": after.write_calls - before.write_calls,
        "storage_bytes": after.storage_bytes - before.storage_bytes,
        "cancelled_bytes": after.cancelled_bytes - before.cancelled_bytes,
    }
