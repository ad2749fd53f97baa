"""What the logger ``spillway.delta`` says of a commit."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway import _native

__all__ = ["BegunCommit"]

_log = logging.getLogger("spillway.delta")


class BegunCommit:
    """A commit from its call on.

    Args:
        table: Its table.
        level: The level of its record: ``DEBUG`` for appends, of which there may be hundreds a second.
    """

    def __init__(self, table: _native.DeltaTable, level: int = logging.INFO) -> None:
        self._table = table
        self._level = level
        # Nothing is counted for a record that nobody reads.
        self._is_logged = _log.isEnabledFor(level)
        if self._is_logged:
            self._attempts = table.commit_stats()[0]
            self._started = time.perf_counter()

    def ended(self, operation: str, version: int) -> None:
        """Log the version, the attempts of this process to write one meanwhile, and the time that it took.

        All threads of a process try as one, and another process may write a version for it: then there may be
        no attempt.
        """
        if not self._is_logged:
            return
        waited = time.perf_counter() - self._started
        attempts = self._table.commit_stats()[0] - self._attempts
        _log.log(
            self._level,
            "%s committed to %s in version %d after %d attempts and %.4f s",
            operation,
            self._table.root,
            version,
            attempts,
            waited,
        )
