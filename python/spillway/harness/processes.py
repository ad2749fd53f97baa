"""Worker processes as their parent sees them: started, fed, watched until they end or a limit ends them."""

from __future__ import annotations

import json
import os
import platform
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from spillway.harness.probes.curve import CurveProbe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from threading import Event

    from spillway.harness.limits import MemoryLimit

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


_WATCH_SECONDS = 0.005
_IDLE_SECONDS = 1.0
_EXIT_SECONDS = 5.0
# A JVM takes some of them. A thread that a library left would take all that the process has.
_LEAVING_SECONDS = 30.0


@dataclass
class ProcessResult:
    """The end of a process, and the messages that it sent.

    Attributes:
        status: Its exit status, or None if a signal ended it.
        signal: The signal that ended it, or None.
        timed_out: It was killed here because its time was up.
        oom_kills: Number of processes that the kernel killed at the memory limit, or None if they are not
            counted.
        group_peak_bytes: Peak memory of its control group, or None without a separate group.
        phases: Name and monotonic time of each phase that began.
        messages: The other lines it sent, as they came.
        stderr: The end of its standard error.
        curve: Resident bytes over time, seen from outside.
        wall_seconds: From its start to its end.
    """

    status: int | None = None
    signal: int | None = None
    timed_out: bool = False
    oom_kills: int | None = 0
    group_peak_bytes: int | None = None
    phases: list[tuple[str, float]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    stderr: str = ""
    curve: CurveProbe = field(default_factory=CurveProbe)
    wall_seconds: float = 0.0


def run_limited(  # noqa: PLR0913 - options, by keyword only
    script: str,
    arguments: Sequence[str],
    memory_limit: MemoryLimit,
    *,
    stdin: str = "",
    environment: Mapping[str, str],
    timeout: float,
    interpreter: str = sys.executable,
    curve: bool = True,
    called_off: Event | None = None,
) -> ProcessResult:
    """Run a Python script by path under `memory_limit` and wait for it.

    The script gets the number of a descriptor as its first argument, and writes JSON lines there. It runs in
    a new session, so that Ctrl-C reaches only the bench. Its process group has always ended when this
    function returns or raises.

    Args:
        script: Path of the script.
        arguments: Further arguments.
        memory_limit: The memory limit it starts under, joined before the interpreter is loaded.
        stdin: Text it reads from standard input.
        environment: Its whole environment.
        timeout: Seconds after which it is killed.
        interpreter: The Python that runs it.
        curve: Read its memory every few milliseconds, which takes time on a core.
        called_off: Once set by another thread, the process is killed within a second, as if its time was up.
    """
    read_end, write_end = os.pipe()
    ended = ProcessResult()
    begin = time.monotonic()
    with tempfile.TemporaryFile() as stderr, os.fdopen(read_end, "rb", buffering=0) as channel:
        try:
            process = start(
                [*memory_limit.prefix, interpreter, "-P", script, str(write_end), *arguments],
                descriptors=(write_end,),
                output=stderr,
                environment=environment,
            )
        finally:
            os.close(write_end)
        patience = 0.0
        try:
            feed(process, stdin)
            seen = process.pid if curve else None
            ended.timed_out = not _watch(seen, channel, ended, begin + timeout, called_off)
            patience = 0.0 if ended.timed_out else _EXIT_SECONDS
        finally:
            _end_group(process, patience=patience)
        ended.wall_seconds = time.monotonic() - begin
        ended.stderr = read_tail(stderr)
    ended.status, ended.signal = _cause(process.returncode)
    ended.oom_kills = memory_limit.oom_kills()
    ended.group_peak_bytes = memory_limit.peak()
    return ended


def _watch(
    pid: int | None, channel: IO[bytes], ended: ProcessResult, deadline: float, called_off: Event | None
) -> bool:
    """Read what the process sends until it hangs up, and the memory of `pid`; False when it is to end."""
    lines = Lines()
    pause = _IDLE_SECONDS if pid is None else _WATCH_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while time.monotonic() < deadline and not (called_off is not None and called_off.is_set()):
            if not selector.select(min(pause, max(0.0, deadline - time.monotonic()))):
                if pid is not None:
                    ended.curve.sample(pid)
                continue
            chunk = channel.read(1 << 16)
            if not chunk:
                return True
            for message in lines.of(chunk):
                _hear(message, ended)
            if ended.phases and ended.phases[-1][0] == "exit":
                deadline = min(deadline, time.monotonic() + _LEAVING_SECONDS)
    return False


def _hear(message: dict[str, Any], ended: ProcessResult) -> None:
    if "phase" in message:
        ended.phases.append((message["phase"], message["at"]))
    else:
        ended.messages.append(message)


def _end_group(process: subprocess.Popen[bytes], *, patience: float) -> None:
    """Reap the group's leader, which has `patience` seconds to exit by itself, and kill whatever is left."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience)
    kill_group(process)
    process.wait()


def _cause(return_code: int) -> tuple[int | None, int | None]:
    return (None, -return_code) if return_code < 0 else (return_code, None)
