"""What the logger ``spillway.delta`` says of a commit."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway import _native

__all__ = ["CommitTimer"]

_log = logging.getLogger("spillway.delta")


class CommitTimer:
    """The time and the attempts of a commit. Nothing of it does I/O: a commit that is done cannot fail by it.

    Args:
        native: What commits.
        root: The table's path or URL.
        level: The level of the record: ``DEBUG`` for appends, since there may be hundreds a second.
    """

    def __init__(
        self, native: _native.DeltaTable | _native.DeltaAppend, root: str, level: int = logging.INFO
    ) -> None:
        self._native = native
        self._root = root
        self._level = level
        # Nothing is counted for a record that nobody reads.
        self._is_logged = _log.isEnabledFor(level)
        if self._is_logged:
            self._counter = native.commit_counter()
            self._before = 0 if self._counter is None else self._counter.attempts
            self._started = time.perf_counter()

    def log(self, operation: str, version: int) -> None:
        """Log the version, the attempts of this process to write one meanwhile, and the time that it took.

        All threads of a process try as one, and another process may write a version for it: then there may be
        no attempt.
        """
        if not self._is_logged:
            return
        waited = time.perf_counter() - self._started
        # A forked child has one only after its first commit.
        counter = self._counter or self._native.commit_counter()
        attempts = 0 if counter is None else counter.attempts - self._before
        _log.log(
            self._level,
            "%s committed to %s in version %d after %d attempts and %.4f s",
            operation,
            self._root,
            version,
            attempts,
            waited,
        )
