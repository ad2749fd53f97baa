"""The folders that runs write to: made, checked to lie on a disk, and written back."""

from __future__ import annotations

import ctypes
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["on_disk", "require_disk", "run_folder", "sync_filesystem"]

_MEMORY_FILESYSTEMS = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


@contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """Make `folder` and check it as `require_disk` does; what was made goes again if it stays empty.

    Raises:
        OptionError: As `require_disk`.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        require_disk(folder)
        yield
    finally:
        with suppress(OSError):  # something lies in it
            for place in made:
                place.rmdir()


@contextmanager
def run_folder(folder: Path, *, worth: str) -> Iterator[None]:
    """Make a run's folder, which goes again if the run ends before there is a file named `worth` in it."""
    folder.mkdir()
    try:
        yield
    finally:
        if not (folder / worth).exists():
            shutil.rmtree(folder)


def require_disk(folder: Path) -> None:
    """Make `folder`, and check that files in it can be written and reach a disk.

    Raises:
        OptionError: It cannot be written, or it lies in memory, where output would count as memory.
    """
    kind = _filesystem(
        next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    )
    if kind in _MEMORY_FILESYSTEMS:
        raise OptionError(
            f"--out {folder} lies on {kind}, which is memory and would be counted as the writer's: "
            f"choose a folder on a disk"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OptionError(f"--out {folder}: {error.strerror}; choose a folder that can be written") from error


def sync_filesystem(folder: Path) -> None:
    """Write back the dirty pages of the filesystem that `folder` is on."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", folder.name)
    finally:
        os.close(descriptor)


def _filesystem(folder: Path) -> str:
    """The type of the filesystem that `folder` is on: that of the longest mount point above it."""
    folder = folder.resolve()
    best, kind = Path("/"), ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4].replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= len(best.parts):
            best, kind = point, right.split()[0]
    return kind
