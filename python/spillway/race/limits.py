"""Races that are beyond this machine, with the reasons."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.race import committers

if TYPE_CHECKING:
    from spillway.race.plan import Cell

__all__ = ["reason_to_skip"]

# What a process that has imported pyarrow and a committer keeps for itself, and a thread that writes a file.
_PROCESS_BYTES = 80 << 20
_THREAD_BYTES = 512 << 10
# A row of a file, as a thread has it that writes the file again: 15 MB for 100,000 rows of a race.
_ROW_BYTES = 150
# Who marks rows reads a few columns of them, and writes none again.
_MARKS = "row-level"
# A stack and its guard page; the rest of a process has some hundreds.
_MAPS_PER_THREAD = 2
_SPARE_MAPS = 5_000
_MOST_PROCESSES = 512
_MERGES_NONE = ("put-if-absent", *committers.OWN_TABLES)


def reason_to_skip(cell: Cell) -> str | None:
    """The reason why a race is not run here; None where it is."""
    absent = committers.missing(cell.committer)
    if absent is not None:
        return absent
    if cell.committer in _MERGES_NONE and cell.merges:
        return "it merges no schemas"
    if cell.committer == "partition-level" and cell.partitions != "own":
        return "its writers have a partition each: --partitions own"
    return _beyond_memory(cell) or _beyond_threads(cell)


def _beyond_memory(cell: Cell) -> str | None:
    if cell.processes > _MOST_PROCESSES:
        return f"{cell.processes:,} processes: their start alone would take minutes; --spread processes:64"
    free = _available_bytes()
    thread = _THREAD_BYTES + (0 if cell.committer == _MARKS else _rows_of_file(cell) * _ROW_BYTES)
    wanted = cell.processes * _PROCESS_BYTES + cell.writers * thread
    if wanted > free:
        return f"it would want {wanted / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
    return None


def _rows_of_file(cell: Cell) -> int:
    return cell.file_rows // cell.writers if cell.partitions == "own" else cell.file_rows


def _beyond_threads(cell: Cell) -> str | None:
    threads = -(-cell.writers // cell.processes)
    maps = _number(Path("/proc/sys/vm/max_map_count"))
    if maps is not None and threads * _MAPS_PER_THREAD + _SPARE_MAPS > maps:
        return f"{threads:,} threads in a process want more maps than vm.max_map_count = {maps:,} allows"
    most = _number(Path("/proc/sys/kernel/threads-max"))
    if most is not None and cell.writers > most // 2:
        return f"{cell.writers:,} threads are too many for kernel.threads-max = {most:,}"
    return None


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
