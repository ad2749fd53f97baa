"""Readings of the probes, as they are in a sample's record.

The measured process does not import these types: its probes name them only for the type checker.
"""

from typing import Annotated, NotRequired, TypedDict

from spillway.harness.probes.process import Memory, Rollup


class Written(TypedDict):
    """Counters of what a process has written.

    Attributes:
        bytes_written: Bytes handed to the kernel, whether or not they have reached a disk.
        storage_bytes: Bytes of pages that became dirty in files on a disk, by calls or through a mapping.
        cancelled_bytes: Of these, bytes of pages that were given up before they reached the disk.
    """

    bytes_written: int
    write_calls: int
    storage_bytes: int
    cancelled_bytes: int


class Counters(Written):
    """Counters of a process: of one point in time, or the difference of two.

    Attributes:
        minor_faults: Pages that were mapped without reading a disk.
        major_faults: Pages that a disk was read for.
        voluntary_switches: Times that a thread waited for something.
        involuntary_switches: Times that the kernel took a core from a thread.
    """

    user_seconds: float
    system_seconds: float
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int


class UsageReading(Counters):
    """The write, from the constructor call to the return of close()."""

    wall_seconds: float


class MemoryReading(TypedDict):
    """Memory of the measured process, before the write and after it."""

    before: Annotated[dict[str, int], Memory]
    after: Annotated[dict[str, int], Memory]
    rollup_after: Rollup


class GroupReading(TypedDict):
    """Memory of the sample's control group: page cache and kernel memory are in it.

    Attributes:
        before_bytes: Right before the write; null if the process ended before it could report it.
        after_bytes: Right after it.
        write_peak_bytes: The most during the write, where the kernel lets the peak be set back.
        peak_bytes: Peak of the whole process, including imports: the limit applies to it.
    """

    before_bytes: int | None
    after_bytes: int | None
    write_peak_bytes: int | None
    peak_bytes: int


class GarbageReading(TypedDict):
    """Python's garbage collector during the write, of a pass that is not timed."""

    runs: int
    pause_seconds: float
    longest_pause_seconds: float
    runs_by_generation: list[int]
    pause_seconds_by_generation: list[float]


class GilReading(TypedDict):
    """The longest time during the write that another Python thread could not run.

    Attributes:
        p99_gap_seconds: The gap that 99 of 100 gaps of the write are no longer than; early records lack it.
        idle_gap_seconds: The same ticker's longest gap while the main thread sleeps.
    """

    longest_gap_seconds: float
    p99_gap_seconds: NotRequired[float]
    ticks: int
    idle_gap_seconds: NotRequired[float]


class Pool(TypedDict):
    """One thread pool, as its library reports it."""

    pool: str
    threads: int


class PoolReading(TypedDict):
    """pyarrow's default memory pool during the write.

    Attributes:
        peak_bytes: The most since the process began.
    """

    backend: str
    held_before_bytes: int
    allocated_bytes: int
    allocations: int
    peak_bytes: int


class Account(TypedDict):
    """One line of a library's own account of memory."""

    name: str
    bytes: int


class Curve(TypedDict):
    """Resident memory during the write, sampled from outside."""

    seconds: list[float]
    rss_bytes: list[int]
