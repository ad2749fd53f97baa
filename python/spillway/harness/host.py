"""The noise of the host: load, stolen time, throttling."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from spillway._wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HostReading", "HostWatch", "noise_warnings", "read_load"]

_LOAD_PER_CORE = 0.5
_STEAL_SHARE = 0.02
_STEAL_FIELD = 8  # of the line "cpu" in /proc/stat, counted from 1 after the name


class HostReading(TypedDict):
    """The host during a sample.

    Attributes:
        load: Processes that ran or wanted to in the last minute.
        steal_seconds: Processor time that a hypervisor gave to others, of all cores.
        throttled_seconds: Processor time that a quota denied.
    """

    load: float
    steal_seconds: float
    throttled_seconds: float


class HostWatch:
    """Counts stolen and throttled time from construction to `read`."""

    def __init__(self) -> None:
        self._steal = _steal_seconds()
        self._throttled = _throttled_seconds()

    def read(self) -> HostReading:
        """Load of the last minute now, and seconds stolen from or denied to all cores since construction."""
        return {
            "load": read_load(),
            "steal_seconds": max(0.0, _steal_seconds() - self._steal),
            "throttled_seconds": max(0.0, _throttled_seconds() - self._throttled),
        }


def read_load() -> float:
    """The load of the last minute: processes that ran or wanted to."""
    return os.getloadavg()[0]


def noise_warnings(load_before: float, samples: Sequence[HostReading], seconds: float) -> list[str]:
    """Say in words why a run's figures are doubtful.

    Args:
        load_before: The load before the run began.
        samples: The `HostWatch` readings of the run's samples.
        seconds: How long these samples took together.
    """
    cores = os.cpu_count() or 1
    warnings = []
    if load_before > _LOAD_PER_CORE * cores:
        warnings.append(
            f"the host was busy before the run: load {load_before:.1f} on {counted(cores, 'core')}"
        )
    steal = sum(sample["steal_seconds"] for sample in samples)
    if seconds and steal / (seconds * cores) > _STEAL_SHARE:
        warnings.append(f"{steal:.1f} s of processor time were stolen by the hypervisor")
    throttled = sum(sample["throttled_seconds"] for sample in samples)
    if throttled > 0:
        warnings.append(f"processes were throttled for {throttled:.1f} s by a processor quota")
    return warnings


def _steal_seconds() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    ticks = int(fields[_STEAL_FIELD]) if len(fields) > _STEAL_FIELD else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _throttled_seconds() -> float:
    """Throttled time of the own v2 or v1 group, 0 where no quota is kept."""
    for path, unit in (
        (Path("/sys/fs/cgroup/cpu.stat"), 1e6),
        (Path("/sys/fs/cgroup/cpu/cpu.stat"), 1e9),
    ):
        if not path.exists():
            continue
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key in {"throttled_usec", "throttled_time"}:
                return int(value) / unit
    return 0.0
