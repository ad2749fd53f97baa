"""Backends of the study: Spillway's writer under other names, as it is and slowed down by a known share.

A slowed sink spins after `close` for a share of the processor time since it was opened, so that the slow-down
is that share whatever the machine, and whatever else is on its core.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from spillway.backends.spillway import Spillway

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends import Settings, Sink

__all__ = ["ALL", "BASE", "Again", "Once", "Slower", "Slower2", "Slower5"]


class Once(Spillway):
    """The writer itself, that others are compared with; found by its entry point as they are."""

    name = "once"


class Again(Spillway):
    """The writer itself: equal to `Once` in all but its name."""

    name = "again"


class Slower(Spillway):
    """The writer, slowed down."""

    share = 0.0

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Any:
        """Start a file, and the clock."""
        begin = time.process_time()
        return _Slowed(super().open(path, schema, settings), begin, self.share)

    def peak_account(self) -> dict[str, int]:
        """Nothing: what the sink kept is not looked at."""
        return {}


class Slower2(Slower):
    """Slower by 2 %."""

    name = "slower-2"
    share = 0.02


class Slower5(Slower):
    """Slower by 5 %."""

    name = "slower-5"
    share = 0.05


class _Slowed:
    def __init__(self, sink: Sink, begin: float, share: float) -> None:
        self._sink = sink
        self._begin = begin
        self._share = share

    def write(self, data: Any) -> None:
        self._sink.write(data)

    def close(self) -> None:
        self._sink.close()
        now = time.process_time()
        end = now + self._share * (now - self._begin)
        while time.process_time() < end:
            pass


BASE = Once.name
ALL = (Once, Again, Slower2, Slower5)
