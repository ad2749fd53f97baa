"""Pauses between attempts: exponential, with full jitter."""

from __future__ import annotations

import random
import time

__all__ = ["Backoff"]


class Backoff:
    """Sleeps a random time of up to `first` seconds, then of twice as many, and so on up to `most`."""

    def __init__(self, first: float, most: float) -> None:
        self._next = first
        self._most = most

    def sleep(self) -> None:
        """Wait before the next attempt."""
        time.sleep(random.uniform(0, self._next))  # noqa: S311 - a pause, not a secret
        self._next = min(self._next * 2, self._most)
