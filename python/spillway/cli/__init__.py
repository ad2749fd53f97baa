"""The ``spillway`` command: its subcommands are functions of the modules here, and found by name."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["main"]


def main() -> None:
    """Run the ``spillway`` command line; the entry point of the installed script."""
    is_closed = _open_streams()
    try:
        from spillway.cli.app import app
    except ModuleNotFoundError as error:
        if error.name in {"typer", "rich"}:
            sys.exit(f"spillway: {error.name} is needed for the command line: pip install 'spillway[bench]'")
        raise
    try:
        app()
    finally:
        if is_closed:
            # What is left in the buffer would fail once more, at the end of the process.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _open_streams() -> bool:
    """Replace the standard streams that the shell closed; return True if standard output is one of them.

    What is written to it fails as it does where the reader of a pipe is gone. A file that is opened later
    must not take the place of a stream: what a library prints would be in it.
    """
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - standard error
        pass
    os.close(spare)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0)
    is_closed = sys.stdout is None
    if is_closed:
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
        os.close(write)
        sys.stdout = os.fdopen(1, "w")
    sys.stderr = _Messages(os.fdopen(2, "w") if sys.stderr is None else sys.stderr)
    return is_closed


class _Messages:
    """Standard error. A message that cannot be written is dropped: what was done must not fail by it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
