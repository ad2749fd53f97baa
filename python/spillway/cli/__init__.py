"""The ``spillway`` command: its subcommands are functions of the modules here, and found by name."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Run the ``spillway`` command line; the entry point of the installed script."""
    closed = _open_streams()
    try:
        from spillway.cli.app import app
    except ModuleNotFoundError as error:
        if error.name in {"typer", "rich"}:
            sys.exit(f"spillway: {error.name} is needed for the command line: pip install 'spillway[bench]'")
        raise
    try:
        app()
    finally:
        if closed is not None:
            # What is left in its buffer would fail once more, at the end of the process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), closed)


def _open_streams() -> int | None:
    """Have all three standard streams, whatever a shell closed.

    What is written to a closed standard output fails as it does where the reader of a pipe is gone. Its
    descriptor is returned.
    """
    closed = None
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        read, closed = os.pipe()
        os.close(read)
        sys.stdout = os.fdopen(closed, "w")
    sys.stderr = _Messages(sys.stderr)
    return closed


class _Messages:
    """Standard error. A message that cannot be written is dropped: what was done does not fail by it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, AttributeError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, AttributeError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
