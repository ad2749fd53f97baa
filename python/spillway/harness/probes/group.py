"""Memory of the control group that this process is in alone. Standard library only.

A group's memory has page cache and kernel memory too, so also what a writer spills to a file. Its peak
is set back where the write begins: on v1 by writing to the counter, on v2 (Linux 6.12) by writing to an open
``memory.peak``, which sets it back for that descriptor alone. An older kernel refuses: there the peak of the
write is known where it is the highest that the group has ever had.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.harness.probes.readings import GroupReading

__all__ = ["GroupProbe"]

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

    def start(self) -> None:
        """Read the group, and set its peak back to what it has now, if the kernel lets it."""
        if self._usage is None:
            return
        self._before = int(self._usage.read_text())
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
