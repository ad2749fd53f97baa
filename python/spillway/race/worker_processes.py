"""The processes of one race, from their start to their end."""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spillway.harness.processes import Lines, feed, kill_group, read_tail, redact, start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

# The message that starts a worker: the monotonic time of the start, which all processes of a machine share.
START = struct.Struct("d")

_WORKER = str(Path(__file__).with_name("worker.py"))
_PIPE_BYTES = 1 << 20
_EXIT_SECONDS = 10.0
_TICK_SECONDS = 0.25


class WorkerProcesses:
    """Worker processes, as a context manager: none of them runs after its block.

    Each runs in a separate session, so that Ctrl-C reaches only the race, and each exits by itself when the
    race ends, because it holds one end of a pipe.

    Args:
        jobs: The job of each worker.
    """

    def __init__(self, jobs: Sequence[dict[str, Any]]) -> None:
        self._jobs = jobs
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lines = Lines()

    def __enter__(self) -> Self:
        begin, self._go = os.pipe()
        self._results, results = os.pipe()
        with suppress(OSError):  # a smaller one only makes writers wait
            fcntl.fcntl(self._results, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._stderr = tempfile.TemporaryFile()
        try:
            for job in self._jobs:
                command = [sys.executable, "-P", _WORKER, str(begin), str(results)]
                process = start(command, descriptors=(begin, results), output=self._stderr)
                self._processes.append(process)
                feed(process, json.dumps(job))
        except BaseException:
            os.close(begin)
            os.close(results)
            self._end()
            raise
        os.close(begin)
        os.close(results)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def go(self) -> float:
        """Tell all workers the monotonic time of the start, which is now; return it."""
        begun = time.monotonic()
        with suppress(BrokenPipeError):  # all are dead: the end says so
            os.write(self._go, START.pack(begun) * len(self._processes))
        return begun

    def finish(self) -> None:
        """Stop the one process that runs until it is stopped."""
        with suppress(BrokenPipeError):
            os.write(self._go, b"f")

    def messages(self, deadline: float) -> Iterator[dict[str, Any] | None]:
        """The messages of the workers, with None from time to time, until all have exited or time is up."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._results, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if not selector.select(min(left, _TICK_SECONDS)):
                    yield None
                    continue
                chunk = os.read(self._results, _PIPE_BYTES)
                if not chunk:
                    return
                yield from self._lines.of(chunk)

    def stop(self) -> Iterator[dict[str, Any]]:
        """Kill all processes, and return the messages that they had sent."""
        self._kill()
        while chunk := os.read(self._results, _PIPE_BYTES):
            yield from self._lines.of(chunk)

    def wait(self) -> str | None:
        """Wait until all end by themselves; return the failure of one that did not end well."""
        deadline = time.monotonic() + _EXIT_SECONDS
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        return self.problem()

    def problem(self) -> str | None:
        """Why a process that has ended failed; None if no process has failed."""
        codes = [process.poll() for process in self._processes]
        if not any(codes):
            return None
        bad = next(filter(None, codes))
        how = f"ended with {signal.Signals(-bad).name}" if bad < 0 else f"ended with status {bad}"
        return f"a process {how}: {redact(read_tail(self._stderr))}"

    def _kill(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                kill_group(process)
        for process in self._processes:
            process.wait()

    def _end(self) -> None:
        self._kill()
        for descriptor in (self._go, self._results):
            os.close(descriptor)
        self._stderr.close()
