"""The input as the parent sees it: one Arrow IPC file, warm in the page cache before each sample."""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["resident_share", "warm"]

_READ_BYTES = 1 << 20


def resident_share(path: Path) -> float:
    """The share of a file's pages that are in the page cache, by ``mincore``; 1.0 for an empty file.

    Raises:
        OSError: The kernel refuses to say.
    """
    size = path.stat().st_size
    if size == 0:
        return 1.0
    pages = -(-size // mmap.PAGESIZE)
    flags = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file:
        address = _map(libc, file.fileno(), size)
    try:
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), flags) != 0:
            raise OSError(ctypes.get_errno(), "mincore failed", path.name)
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return sum(flag & 1 for flag in bytes(flags)) / pages


def warm(path: Path) -> float:
    """Read the file if any page of it is cold; the share that was resident before.

    Pages that a measured process had to read would count towards its limit.
    """
    share = resident_share(path)
    if share < 1.0:
        with path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
    return share


def _map(libc: ctypes.CDLL, descriptor: int, size: int) -> int:
    libc.mmap.restype = ctypes.c_void_p
    length, offset = ctypes.c_size_t(size), ctypes.c_long(0)
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, offset)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap failed")
    return int(address)
