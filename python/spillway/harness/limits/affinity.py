"""The cores that measure, and those that watch."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["choose_cores", "stepping_aside"]


def choose_cores(count: int) -> tuple[int, ...]:
    """The last `count` cores this process may use; interrupts tend to land on the first.

    Raises:
        OptionError: There are not so many.
    """
    available = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(available):
        raise OptionError(
            f"--cores {count}: this process may use {counted(len(available), 'core')}; "
            f"give {'1' if len(available) == 1 else f'1 to {len(available)}'}"
        )
    return tuple(available[-count:])


@contextmanager
def stepping_aside(cores: tuple[int, ...]) -> Iterator[bool]:
    """Keep this process off the measured cores, as long as that leaves it one; True if it is off them."""
    before = os.sched_getaffinity(0)
    others = before - set(cores)
    if others:
        os.sched_setaffinity(0, others)
    try:
        yield bool(others)
    finally:
        os.sched_setaffinity(0, before)
