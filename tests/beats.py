"""Another thread that runs during an action, which thereby does not keep the interpreter to itself."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["lets_others_run"]

TRIES = 20


def lets_others_run(action: Callable[[], object]) -> bool:
    """True if another thread runs in both halves of an action, or in the middle of it.

    A busy machine can only hold that thread up, so the action is repeated until one is seen that does not.
    """
    return any(_longest_gap(action) < 1 / 2 for _ in range(TRIES))


def _longest_gap(action: Callable[[], object]) -> float:
    """The longest time between two beats of another thread, as a share of the action."""
    stop, beats = threading.Event(), [0.0]

    def beat() -> None:
        while not stop.is_set():
            beats.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=beat)
    thread.start()
    start = time.perf_counter()
    try:
        action()
    finally:
        end = time.perf_counter()
        stop.set()
        thread.join()
    during = [start, *(moment for moment in beats if start < moment < end), end]
    return max(later - earlier for earlier, later in pairwise(during)) / (end - start)
