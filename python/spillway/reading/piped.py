"""Bytes that come once, whose first ones may be looked at before they are read."""

from __future__ import annotations

import io
import os
import select
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spillway.reading.text import Readable

__all__ = ["Piped", "interruptible"]

_SIGNALS = 64
_WOKEN = 0
# The numbers of signals that end a command, as Python hands them on.
_ENDING = {_WOKEN, signal.SIGINT, signal.SIGTERM}


class Piped(io.RawIOBase):
    """The bytes of a pipe.

    Args:
        source: The pipe.
        path: Its name, for messages.

    Attributes:
        taken: Bytes that were taken from it so far.
    """

    def __init__(self, source: Readable, path: Path) -> None:
        self._source = source
        self._ready = b""
        self.path = path
        self.taken = 0

    def readable(self) -> bool:
        """It is for nothing else."""
        return True

    def head(self, size: int) -> bytes:
        """The next bytes, `size` of them unless the pipe ends before; `read` gives them again."""
        pieces, held = [self._ready], len(self._ready)
        while held < size:
            data = self._source.read(size - held)
            if not data:
                break
            pieces.append(data)
            held += len(data)
            self.taken += len(data)
        self._ready = b"".join(pieces)
        return self._ready[:size]

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, `size` at most; none at the end."""
        if size < 0:
            raise io.UnsupportedOperation("a pipe is read in pieces, of a size that is given")
        # Arrow takes fewer bytes than it asked for as the end.
        taken = self.head(size)
        self._ready = self._ready[len(taken) :]
        return taken

    def end(self) -> None:
        """End a thread's wait for bytes. No more are to be read, unless the source never waits."""
        if isinstance(self._source, _Waiting):
            self._source.end()


class _Waiting:
    """A pipe that any thread reads, and whose wait ends when a signal comes.

    Args:
        descriptor: The pipe.
        signals: Has bytes to read once a signal came.
        wakeup: Bytes written to it are read from `signals`.
    """

    def __init__(self, descriptor: int, signals: int, wakeup: int) -> None:
        self._descriptor = descriptor
        self._signals = signals
        self._wakeup = wakeup
        self._reading = threading.Lock()
        self._is_over = False

    def read(self, size: int, /) -> bytes:
        with self._reading:
            if self._is_over:
                return b""
            while self._descriptor not in (ready := self._ready()):
                if not _ENDING.isdisjoint(os.read(ready[0], _SIGNALS)):
                    # Also where the exception of Python's own handler went under in a finalizer.
                    raise KeyboardInterrupt
            return os.read(self._descriptor, size)

    def _ready(self) -> list[int]:
        """The descriptors that can be read: that of signals alone, if any came."""
        ready, _, _ = select.select([self._descriptor, self._signals], [], [])
        return [self._signals] if self._signals in ready else ready

    def end(self) -> None:
        """Wake a thread that reads ahead, and have it find the end. Ending again does nothing."""
        if self._is_over:
            return
        os.write(self._wakeup, bytes([_WOKEN]))
        with self._reading:
            self._is_over = True


@contextmanager
def interruptible(file: BinaryIO) -> Iterator[Readable]:
    """Have a signal end the wait for a pipe, also where a thread of Arrow waits.

    Python's handlers run in its main thread, which waits for that one. To be used there.

    Args:
        file: The pipe, of which nothing was read; what is no file of the system is returned as it is.
    """
    try:
        descriptor = file.fileno()
    except OSError:
        yield file
        return
    signals, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    # Arrow would put a handler of its own in the place of Python's.
    pa.enable_signal_handlers(False)  # noqa: FBT003 - pyarrow's own
    waiting = _Waiting(descriptor, signals, written)
    try:
        yield waiting
    finally:
        waiting.end()
        pa.enable_signal_handlers(True)  # noqa: FBT003 - pyarrow's own
        signal.set_wakeup_fd(before)
        os.close(written)
        os.close(signals)
