"""One process of a race: makes the table, works on it, compacts it, makes noise, or checks it. A script.

It reads its job as JSON from standard input, and says what happens as JSON lines on a descriptor that all
processes of the race share: a line is one write, so lines do not mix. Another descriptor gives the start: its
time for each process, and a byte when the optimiser is to end. When its other end is closed, the race has
ended, and the process exits immediately.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import resource
import select
import sys
import tempfile
import termios
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spillway.harness.processes import redact
from spillway.race.check import check
from spillway.race.location import Location
from spillway.race.model import FILE_ROWS, Cell, load
from spillway.race.open_loop import arrivals
from spillway.race.operations import OPERATIONS, Compaction
from spillway.race.worker_processes import START

if TYPE_CHECKING:
    from spillway.race.model import Committer, Operation, Writer

# Enough for a writer; ten thousand of the usual size would not fit below common limits on memory.
_STACK_BYTES = 1 << 20
_ERROR_CHARACTERS = 600
_ORPHANED = 3
# A mebibyte for each sync, in a file of 64.
_NOISE_BYTES = 1 << 20
_NOISE_TURNS = 64
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
        first = self._operation(name, 0)
        self._ready.release()
        self._gate.wait()
        # Of the race, not of this process, which heard of the start a little later.
        until = self._begun + (self._cell.seconds or 0.0)
        for number in itertools.count() if due is None else range(len(due)):
            operation = self._operation(name, number) if number else first
            if due is not None:
                # Who is late starts at once: nothing that was due is left out.
                time.sleep(max(0.0, self._begun + due[number] - time.monotonic()))
            told: dict[str, Any]
            try:
                receipt = operation.run(writer)
                told = {"left": receipt.left, "attempts": receipt.attempts}
            except BaseException as error:  # noqa: BLE001 - whatever a library raises is what it did, a panic too
                told = {**_told(committer, operation, error)}
            at = time.monotonic()
            if due is not None:
                last = number + 1 == len(due)
            elif self._cell.expected is None:
                last = at >= until
            else:
                last = number + 1 == self._cell.appends
            self.say(writer=name, number=number, at=at, last=last, **told)
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
        race.say(verdict=verdict.as_dict())
    # Threads that the checkpoint or a library left behind end by themselves, and are waited for.


if __name__ == "__main__":
    main()
