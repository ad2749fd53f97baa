"""Resident memory of this process, exactly, from procfs. Standard library only.

The kernel keeps the high-water mark ``VmHWM``; writing ``5`` to ``clear_refs`` sets it back to what is
resident now, so a phase's peak is read without any sampling. ``ru_maxrss`` would not do: it survives fork and
exec.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

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
