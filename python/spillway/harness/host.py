"""The noise of the host: load, stolen time, throttling."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from spillway._wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HostReading", "HostWatch", "SampleWatch", "is_disturbed", "noise_warnings", "read_load"]

_LOAD_PER_CORE = 0.5
_DISTURBED_SHARE = 0.05  # of the samples, which the medians of cells stand
_STEAL_SHARE = 0.02
_BUSY_FIELDS = (0, 1, 2, 5, 6)  # of the line "cpu" in /proc/stat: user, nice, system, irq, softirq
_STEAL_FIELD = 7
_OTHERS_SHARE = 0.05  # of the time of all cores, in which others slow a sample
_TICKS_OFF = 2  # by which a difference of two readings of /proc/stat may be off: user and system time


class HostReading(TypedDict):
    """The host during a sample.

    Attributes:
        load: Processes that ran or wanted to in the last minute.
        steal_seconds: Processor time that a hypervisor gave to others, of all cores.
        throttled_seconds: Processor time that a quota denied.
        wall_seconds: Length of the watch.
        others_seconds: Processor time of all cores that went to other processes than the bench and its own.
    """

    load: float
    steal_seconds: float
    throttled_seconds: float
    wall_seconds: NotRequired[float]
    others_seconds: NotRequired[float]


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


class SampleWatch:
    """A `HostWatch` that counts the time of other processes, too.

    Processes below this one are not others, whether they have ended or not: a JVM lives on after a sample.
    """

    def __init__(self) -> None:
        self._host = HostWatch()
        self._begin = time.monotonic()
        self._others = _busy_seconds() - _own_seconds()

    def read(self) -> HostReading:
        """The readings of a `HostWatch`, the length of the watch, and the time that went to others in it."""
        return {
            **self._host.read(),
            "wall_seconds": time.monotonic() - self._begin,
            "others_seconds": max(0.0, _busy_seconds() - _own_seconds() - self._others),
        }


def read_load() -> float:
    """The load of the last minute: processes that ran or wanted to."""
    return os.getloadavg()[0]


def noise_warnings(
    load_before: float, samples: Sequence[HostReading], seconds: float, *, cores: int | None = None
) -> list[str]:
    """Say in words why a run's figures are doubtful.

    Args:
        load_before: The load before the run began.
        samples: The `HostWatch` readings of the run's samples.
        seconds: How long these samples took together.
        cores: Cores of the host that they were taken on; those of this one by default.
    """
    cores = cores or os.cpu_count() or 1
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
    disturbed = sum(is_disturbed(sample, cores) for sample in samples)
    if disturbed > _DISTURBED_SHARE * len(samples):
        share = f"{disturbed:,} of {counted(len(samples), 'sample')}"
        warnings.append(f"other processes took over {_OTHERS_SHARE:.0%} of the processor time during {share}")
        return warnings
    # What cannot be told of one short sample can be told of all of them.
    others = sum(sample.get("others_seconds", 0.0) for sample in samples)
    whole = sum(sample.get("wall_seconds", 0.0) for sample in samples) * cores
    if others > _OTHERS_SHARE * whole:
        share = f"{others / whole:.0%}" if whole else "all"
        warnings.append(f"other processes took {share} of the processor time during all samples together")
    return warnings


def is_disturbed(reading: HostReading, cores: int) -> bool:
    """Return true if other processes took a noticeable share of all `cores` during a sample.

    The kernel counts their time in ticks, mostly of 10 ms: as much as a short sample has.
    """
    least = _OTHERS_SHARE * reading.get("wall_seconds", 0.0) * cores
    return reading.get("others_seconds", 0.0) > least + _TICKS_OFF / os.sysconf("SC_CLK_TCK")


def _steal_seconds() -> float:
    fields = _ticks()
    return (fields[_STEAL_FIELD] if len(fields) > _STEAL_FIELD else 0) / os.sysconf("SC_CLK_TCK")


def _busy_seconds() -> float:
    """Time in which any core ran a process or the kernel, since the machine was started."""
    fields = _ticks()
    return sum(fields[place] for place in _BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Processor time of this process and of those below it.

    The kernel adds the time of a child that has ended to the account of the parent that has waited for it.
    `/proc` has whole ticks, an error that grows with the number of processes: their clocks are read instead.
    Only the time of children that descendants have waited for is counted in ticks.
    """
    children: dict[int, list[int]] = defaultdict(list)
    seconds: dict[int, float] = {}
    tick = 1 / os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").glob("[0-9]*"):
        # One that ends meanwhile is in its parent's account, now or at the next reading.
        with contextlib.suppress(OSError):
            # The name in brackets may have anything in it; see proc_pid_stat(5) for the fields behind.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(folder.name))
            seconds[int(folder.name)] = sum(map(int, fields[13:15])) * tick
    own = os.getpid()
    waited_for = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds[own] = waited_for.ru_utime + waited_for.ru_stime
    total, below = 0.0, [own]
    while below:
        each = below.pop()
        # Reading its clock fails for one that has ended since.
        with contextlib.suppress(OSError):
            total += seconds.get(each, 0.0) + time.clock_gettime(_clock_of(each))
        below += children[each]
    return total


def _clock_of(process: int) -> int:
    """The clock of the processor time of a process, the same as `clock_getcpuclockid` of libc returns."""
    return (~process << 3) | 2


def _ticks() -> list[int]:
    """The counters of all cores in ``/proc/stat``, in ticks of the clock; see proc_stat(5)."""
    return [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]


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
