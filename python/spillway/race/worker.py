"""Worker processes of a race: what starts and ends them, and the script that each of them runs.

A process makes the table, works on it, compacts it, makes noise, or checks it. It reads its job as JSON from
standard input, and says what happens as JSON lines on a descriptor that all processes of the race share: a
line is one write, so lines do not mix. Another descriptor gives the start: its time for each process, and a
byte when the optimiser is to end. When its other end is closed, the race has ended, and the process exits
immediately.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import resource
import select
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spillway.harness.processes import Lines, feed, kill_group, read_tail, redact, start
from spillway.race.check import check
from spillway.race.location import Location
from spillway.race.model import FILE_ROWS, OPERATIONS, Cell, Compaction, load
from spillway.race.open_loop import arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from spillway.race.model import Committer, Operation, Writer

# The message that starts a worker: the monotonic time of the start, which all processes of a machine share.
START = struct.Struct("d")

_WORKER = str(Path(__file__))
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

    @property
    def is_running(self) -> bool:
        """True if a process has not ended."""
        return any(process.poll() is None for process in self._processes)

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


# Enough for a writer; ten thousand of the usual size would not fit below common limits on memory.
_STACK_BYTES = 1 << 20
_ERROR_CHARACTERS = 600
_ORPHANED = 3
# A mebibyte for each sync, in a file of 64.
_NOISE_BYTES = 1 << 20
_NOISE_TURNS = 64
# Operations of a writer that are made before the start.
_MADE = 1_000
# An optimiser that found nothing to do looks again after this, unless it is told to end.
_IDLE_SECONDS = 0.01


class _Race:
    """The threads of this process and what they say."""

    def __init__(self, cell: Cell, start: int, results: int) -> None:
        self._cell = cell
        self._start = start
        self._results = results
        self._begun = 0.0
        self._gate = threading.Event()
        self._ready = threading.Semaphore(0)

    def say(self, **message: Any) -> None:
        os.write(self._results, (json.dumps(message) + "\n").encode())

    def write(self, location: Location, process: int, seed: str) -> None:
        """Open the table for each writer, wait for the start, and work."""
        committer = load(self._cell.committer)
        self._warm_up(committer, location.for_warming_up().below(str(process)))
        threads = []
        threading.stack_size(_STACK_BYTES)
        for number in self._cell.share(process):
            writer = committer.writer(location, self._cell)
            # A daemon: when the race is called off, nobody waits for it.
            due = None if self._cell.rate is None else arrivals(self._cell, number, seed)
            work = (committer, writer, number, due)
            threads.append(threading.Thread(target=self._run, args=work, daemon=True))
            threads[-1].start()
            self._ready.acquire()
        self._wait_for_start(process)
        begun = time.process_time()
        self._gate.set()
        for thread in threads:
            thread.join()
        processor = time.process_time() - begun
        tally = committer.tally()
        self.say(process=process, processor=processor, tally=None if tally is None else tally._asdict())

    def optimize(self, location: Location, process: int) -> None:
        """Open the table, wait for the start, and compact until the writers are done."""
        committer = load(self._cell.committer)
        self._warm_up(committer, location.for_warming_up().below(str(process)))
        writer = committer.writer(location, self._cell)
        self._wait_for_start(process)
        is_told = False
        while not is_told:
            compaction, pause = Compaction(), 0.0
            try:
                writer.change(compaction)
            except BaseException as error:  # noqa: BLE001 - as in `_run`
                self.say(compaction="failed", error=committer.conflict(error) or _words(error))
            else:
                pause = 0.0 if compaction.files else _IDLE_SECONDS
                self.say(compaction="finished" if compaction.files else "idle")
            is_told = self._is_told(pause)

    def _is_told(self, pause: float) -> bool:
        """True if the end was told. Other processes may not have read the start yet."""
        select.select([self._start], [], [], pause)
        unread = fcntl.ioctl(self._start, termios.FIONREAD, bytes(4))
        return int.from_bytes(unread, sys.byteorder) % START.size > 0

    def _wait_for_start(self, process: int) -> None:
        self.say(ready=process)
        message = os.read(self._start, START.size)
        if not message:
            os._exit(_ORPHANED)
        (self._begun,) = START.unpack(message)

    def _warm_up(self, committer: Committer, location: Location) -> None:
        """Work once on a table of this process' own: a library's first calls are not measured.

        The race removes it after its end: what was deleted shortly before slows down some file systems.
        """
        cell = replace(self._cell, file_rows=min(self._cell.file_rows, FILE_ROWS))
        committer.create(location, cell)
        writer = committer.writer(location, cell)
        # The first and the last writer of a race may have different operations.
        for number in {0} if cell.only_appends else {0, cell.writers - 1}:
            self._operation(number, 0).run(writer)
        if cell.kind.optimizes:
            writer.change(Compaction())

    def _operation(self, name: int, number: int) -> Operation:
        return OPERATIONS[self._cell.work](self._cell, name, number)

    def _run(self, committer: Committer, writer: Writer, name: int, due: list[float] | None = None) -> None:
        """Operate again and again: at the times that are due, or else when the last operation is answered."""
        known = self._cell.appends if due is None else len(due)
        # Making rows takes time and the GIL, which belong to no committer.
        made = [
            self._operation(name, number) for number in range(1 if self._cell.goes_on else min(known, _MADE))
        ]
        self._ready.release()
        self._gate.wait()
        # Of the race, not of this process, which heard of the start a little later.
        until = self._begun + (self._cell.seconds or 0.0)
        for number in itertools.count() if self._cell.goes_on else range(known):
            operation = made[number] if number < len(made) else self._operation(name, number)
            if due is not None:
                # A late writer starts at once; no append that is due is skipped.
                time.sleep(max(0.0, self._begun + due[number] - time.monotonic()))
            # The first one waits from the start on, also for its turn among the threads of its process.
            called = self._begun if due is None and number == 0 else time.monotonic()
            told: dict[str, Any]
            try:
                told = {"attempts": operation.run(writer)}
            except BaseException as error:  # noqa: BLE001 - whatever a library raises is what it did, a panic too
                told = {**_told(committer, operation, error)}
            at = time.monotonic()
            if due is not None:
                last = number + 1 == len(due)
            elif self._cell.expected is None:
                last = at >= until
            else:
                last = number + 1 == self._cell.appends
            self.say(writer=name, number=number, called=called, at=at, last=last, **told)
            if last:
                return


def _told(committer: Committer, operation: Operation, error: BaseException) -> dict[str, str]:
    """An error as a message has it: a conflict by its name, any other by its words."""
    conflict = committer.conflict(error)
    if conflict is not None:
        return {"operation": operation.kind, "conflict": conflict}
    return {"error": _words(error)}


def _words(error: BaseException) -> str:
    return redact(f"{type(error).__name__}: {error}")[:_ERROR_CHARACTERS]


def _make_noise(race: _Race, folder: str) -> None:
    """Write and sync, again and again, until this process is killed. The file has no name: none is left."""
    chunk = os.urandom(_NOISE_BYTES)
    with tempfile.TemporaryFile(dir=folder) as file:
        for turn in itertools.count():
            os.pwrite(file.fileno(), chunk, turn % _NOISE_TURNS * _NOISE_BYTES)
            os.fsync(file.fileno())
            if not turn:
                race.say(noise=folder)


def _end_with(parent: int) -> None:
    """End this process as soon as the other end of a pipe is closed."""
    watch = select.poll()
    watch.register(parent, 0)
    watch.poll()
    os._exit(_ORPHANED)


def _open_many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    """Do the job."""
    start, results = map(int, sys.argv[1:3])
    job = json.load(sys.stdin)
    threading.Thread(target=_end_with, args=(start,), daemon=True).start()
    _open_many_files()
    cell, location = Cell(**job["cell"]), Location(**job["location"])
    race = _Race(cell, start, results)
    if job["role"] == "create":
        load(cell.committer).create(location, cell)
    elif job["role"] == "write":
        race.write(location, job["process"], job["seed"])
    elif job["role"] == "noise":
        _make_noise(race, location.uri)
    elif job["role"] == "optimize":
        race.optimize(location, job["process"])
    else:
        heard = ([(writer, number) for writer, number in job[name]] for name in ("acknowledged", "refused"))
        verdict = check(location, cell, *heard)
        race.say(verdict=asdict(verdict))
    # Threads that the checkpoint or a library left behind end by themselves, and are waited for.


if __name__ == "__main__":
    main()
