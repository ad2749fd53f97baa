"""The end of a process with its parent's, so that nothing is left of a bench that is killed."""

from __future__ import annotations

import ctypes
import os
import signal

__all__ = ["die_with_parent", "kill_with_parent"]

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: another thread may hold the loader's lock, and would for ever in the child.
_LIBC = ctypes.CDLL(None)


def kill_with_parent() -> None:
    """Have the kernel kill this process when its parent ends: one call, fit for the child of a fork."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def die_with_parent(parent: int) -> None:
    """Not outlive a parent that is killed without a chance to clean up.

    Args:
        parent: The parent's number, as it said itself.

    Raises:
        RuntimeError: It has ended already.
    """
    kill_with_parent()
    if os.getppid() != parent:
        raise RuntimeError("the process that started this one has ended")
