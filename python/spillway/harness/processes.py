"""Worker processes as their parent sees them: started, fed, read and killed; and redaction of their text."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_STDERR_TAIL_BYTES = 2_000


def start(
    command: Sequence[str],
    *,
    descriptors: Sequence[int],
    output: IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a new session, so that Ctrl-C reaches only its parent.

    Args:
        command: The program and its arguments.
        descriptors: File descriptors that it inherits in addition to the standard ones.
        output: Where what it prints goes, and its errors.
        environment: Its whole environment; the parent's by default.

    Raises:
        KeyboardInterrupt: Ctrl-C came, and the process was killed.
    """
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=descriptors,
            env=environment,
            start_new_session=True,
        )
        started.append(process)

    # Ctrl-C interrupts only the main thread. There, between the fork and the return of `Popen`, it would
    # leave a process that nobody knows.
    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(begin).result()
    except KeyboardInterrupt:
        for process in started:
            with process:
                kill_group(process)
        raise
    return started[0]


def feed(process: subprocess.Popen[bytes], text: str) -> None:
    """Give a process all that it will read from standard input."""
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin:  # it may be dead: how it ended says so
            process.stdin.write(text.encode())


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that `start` has started, and whatever it has started; `wait` for it afterwards."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Lines:
    """JSON lines out of the chunks in which a pipe gives them."""

    def __init__(self) -> None:
        self._pending = b""

    def of(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The lines that are whole with this chunk."""
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


def read_tail(stream: IO[bytes]) -> str:
    """The end of what processes have printed."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _STDERR_TAIL_BYTES))
    return stream.read().decode(errors="replace").strip()


_PATH = re.compile(r"(?:\bfile:/*|(?<![\w.:/]))/(?:[\w.@+~-]+/)+")

# Buckets by their URLs, and accounts.
_BUCKET = re.compile(
    r"\b(?:s3a?://|https?://[\w.-]*\.amazonaws\.com/)(?:[^\s/\"']+/)*|(?<=<BucketName>)[^<]*"
)
_ACCOUNT = re.compile(r"\barn:aws[^\s\"']*")


def redact(text: str) -> str:
    """`text` without AWS accounts and this host's name; paths and URLs of S3 are cut to their last part."""
    host = platform.node()
    text = _ACCOUNT.sub("arn", _BUCKET.sub("", _PATH.sub("", text)))
    return re.sub(rf"\b{re.escape(host)}\b", "host", text) if host else text
