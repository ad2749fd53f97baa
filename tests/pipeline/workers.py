"""The Python worker of a task that is in the middle of its file, found and killed there."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable

__all__ = ["kill_a_writer", "lives"]


def lives(process: psutil.Process, name: str | None = None) -> bool:
    """Return True for a process that runs and is no zombie; with `name`, only if it is called so."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            return name is None or process.name() == name
    return False


def kill_a_writer(
    program: subprocess.Popen[str],
    folder: Path,
    roots: Callable[[], Iterable[psutil.Process]],
    *,
    root_too: bool = False,
) -> None:
    """Kill the first worker that is seen with a file of a job in `folder` open.

    It is stopped first and looked at again, so its task cannot have ended.

    Args:
        program: The pipeline, which must not end before.
        folder: The destination.
        roots: The processes whose descendants are workers, as they are now.
        root_too: True if the process that the worker descends from is killed, before it.
    """
    while True:
        assert program.poll() is None, program.communicate()
        for root in roots() if _is_begun(folder) else ():  # looking at all processes is dear
            for worker in _descendants(root):
                if not _writes(worker, folder):
                    continue
                worker.suspend()
                if _writes(worker, folder):
                    if root_too:
                        root.kill()
                    worker.kill()
                    return
                worker.resume()
        time.sleep(0.005)


def _is_begun(folder: Path) -> bool:
    """Return True if an attempt has anything in the folder of a job."""
    found = (*folder.glob("_spillway_jobs/*/*"), *folder.glob("spillway-*/*"))
    return any(not each.name.startswith("_") for each in found)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _writes(process: psutil.Process, folder: Path) -> bool:
    """Return True for a Python process with an open file in the folder of a job."""
    staging = (f"{folder.resolve()}/_spillway_jobs/", f"{folder.resolve()}/spillway-")
    with contextlib.suppress(OSError, psutil.NoSuchProcess):
        if process.name() == "java":
            return False
        for handle in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(handle.readlink()).startswith(staging):
                    return True
    return False
