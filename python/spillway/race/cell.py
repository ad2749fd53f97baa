"""One race: a fresh table, fresh processes, the outcome, the record, and its progress on a terminal.

ext4 without a journal does not use inodes again that were freed in the last minutes, and looks at each of
them when it creates a file. So a table that is removed makes the next race slower, and tables on a disk are
removed after the last race.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.errors import SpillwayError
from spillway.harness.environment import HostWatch, sync_filesystem
from spillway.harness.processes import redact
from spillway.harness.progress import ProgressLine
from spillway.race.check import Verdict
from spillway.race.model import merged
from spillway.race.open_loop import Responses, percentiles
from spillway.race.record import SCHEMA_VERSION
from spillway.race.worker import WorkerProcesses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from spillway.harness.schedule import Slot
    from spillway.race.check import Step
    from spillway.race.location import Location
    from spillway.race.model import Cell, EffectTimes
    from spillway.race.record import Compactions, ErrorCount, Measures, Outcome, RaceRecord


class Progress(ProgressLine):
    """One line while a race is on, and one that stays for each that is over."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, refreshes=4)
        self._title = ""
        self._done = 0
        self._of = 0

    def racing(self, slots: Sequence[Slot[Cell]]) -> None:
        """The races that will be run."""
        self._of = len(slots)

    def begins(self, slot: Slot[Cell]) -> None:
        """Note that processes start and open the table."""
        self._title = f"[{self._done + 1}/{self._of}] {slot.cell.words}"
        self._begin(f"{self._title}: getting ready", total=None)

    def started(self) -> None:
        """Note that all writers were started."""
        self._begin(self._title, total=None)

    def acknowledged(self, count: int, seconds: float) -> None:
        """Update the number of acknowledged operations."""
        speed = f"{count / seconds:,.0f}/s" if seconds > 0 else ""
        self._update(completed=count, count=f"{count:,} acknowledged, {speed}")

    def checking(self, slot: Slot[Cell]) -> None:
        """Note that the table is being checked."""
        self._update(description=f"{self._title}: checking", total=slot.cell.expected)

    def removing(self, tables: int) -> None:
        """Note that the tables of all races are being removed."""
        self._begin(f"removing {counted(tables, 'table')}", total=None)

    def ended(self, slot: Slot[Cell], record: RaceRecord) -> None:
        """Note that a race is over."""
        self._done += 1
        self._end()
        self.say(f"{slot.cell.words}: {result_line(slot.cell, record)}")


def result_line(cell: Cell, record: RaceRecord) -> str:
    """The result of a race, in one line."""
    of = "" if cell.expected is None else f" of {cell.expected:,}"
    parts = [record["outcome"], f"{record['acknowledged']:,}{of} acknowledged"]
    if conflicts := sum(each["count"] for each in record.get("conflicts", [])):
        parts.append(counted(conflicts, "conflict"))
    if record["appends_per_second"] is not None:
        parts.append(f"{record['appends_per_second']:,.1f} {cell.kind.noun}s/s in {record['seconds']:,.2f} s")
    if record["wait_seconds"] is not None:
        over = "more than " if record["still_waiting"] else ""
        parts.append(f"longest wait {over}{record['wait_seconds'][-1]:,.2f} s")
    parts.append(counted(record["table"]["versions"], "version"))
    if (compactions := record.get("compactions")) is not None:
        parts.append(f"{counted(compactions['finished'], 'compaction')}, {compactions['failed']:,} failed")
    parts += record["table"]["problems"]
    if record["problem"] is not None:
        parts.append(record["problem"])
    parts += [f"{each['count']:,} x {each['error']}" for each in record["errors"][:1]]
    return "; ".join(parts)


_FREE_SHARE = 0.25
"""The least share of the disk that is free where tables wait for the end."""
_CREATED = 64


@dataclass(frozen=True)
class DoneTables:
    """Tables to be removed.

    Attributes:
        progress: The line that shows the run's progress.
    """

    progress: Progress
    _waiting: list[Location] = field(default_factory=list)

    def add(self, table: Location) -> None:
        """Remove a table after the last race, or now: from an object store, and from a disk that fills up."""
        if table.is_local and _has_room(Path(table.uri)):
            self._waiting.append(table)
        else:
            self._remove(table)

    def remove(self) -> None:
        """Remove those that wait."""
        if not self._waiting:
            return
        self.progress.removing(len(self._waiting))
        try:
            while self._waiting:
                self._remove(self._waiting[-1])
                self._waiting.pop()
        except KeyboardInterrupt:
            folder = Path(self._waiting[0].uri).parent
            self.progress.say(f"interrupted: {counted(len(self._waiting), 'table')} left in {folder}")
        finally:
            self.progress.stop()

    def _remove(self, table: Location) -> None:
        try:
            table.files().remove()
        except Exception as error:  # noqa: BLE001 - what is left behind must not hide what happened
            self.progress.say(f"{table.uri} could not be removed: {redact(str(error))}")


def _has_room(folder: Path) -> bool:
    try:
        disk = shutil.disk_usage(folder.parent)
    except OSError:
        return False
    return disk.free >= _FREE_SHARE * disk.total


def creation_seconds(folder: Path) -> float:
    """The median time of creating an empty file below a folder."""
    times = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="probe-") as place:
        for number in range(_CREATED):
            began = time.perf_counter()
            Path(place, str(number)).touch(exist_ok=False)
            times.append(time.perf_counter() - began)
    return statistics.median(times)


# Opening a table costs a thread milliseconds and a process half a second of a core.
_READY_SECONDS = 120.0
_READY_SECONDS_PER_WRITER = 0.05
_READY_SECONDS_PER_PROCESS = 2.0
_CREATE_SECONDS = 60.0
_CHECK_SECONDS = 600.0
# The optimiser ends the compaction that it is at when the last writer is done.
_LAST_COMPACTION_SECONDS = 60.0
_MOST_ERRORS = 5


@dataclass
class _Heard:
    """Messages of a race's writers, added up."""

    # In an open loop alone.
    responses: Responses | None = None
    begun: float = 0.0
    ended: float = 0.0
    ready: int = 0
    done: int = 0
    answered: float = 0.0
    acknowledged: list[Step] = field(default_factory=list)
    refused: list[Step] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    # The writers that are done, and of each one the time since when it has been at its next operation.
    finished: set[int] = field(default_factory=set)
    since: dict[int, float] = field(default_factory=dict)
    # Acknowledgements in each second.
    each_second: Counter[int] = field(default_factory=Counter)
    attempts: int | None = None
    most_lost: int | None = None
    effects: dict[str, EffectTimes] | None = None
    processor: float | None = None
    errors: Counter[str] = field(default_factory=Counter)
    # Of each kind of operation and of conflict.
    conflicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Calls of the optimiser by what came of them, and the errors of those that failed.
    compactions: Counter[str] = field(default_factory=Counter)
    compaction_errors: Counter[str] = field(default_factory=Counter)

    def waiting(self, cell: Cell, until: float) -> list[float]:
        """The time that each writer has spent in its current operation, without writers that are done."""
        return [
            until - self.since.get(writer, self.begun)
            for writer in range(cell.writers)
            if writer not in self.finished
        ]

    def unsettled(self, cell: Cell) -> int:
        """Operations without an answer. A writer that goes on for a time has one under way."""
        if self.responses is not None:
            return self.responses.unanswered
        if cell.expected is None:
            return cell.writers - len(self.finished)
        return cell.expected - self.settled

    def _note(self, message: dict[str, Any], *, acknowledged: bool = False) -> None:
        if self.responses is not None:
            at = message["at"] - self.begun
            self.responses.answer(message["writer"], message["number"], at, acknowledged=acknowledged)
        if message["last"]:
            self.finished.add(message["writer"])
        self.since[message["writer"]] = message["at"]
        self.answered = max(self.answered, message["at"])

    def hear(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self.ready += 1
        elif "tally" in message:
            self.done += 1
            self.processor = (self.processor or 0.0) + message["processor"]
            if (tally := message["tally"]) is not None:
                self.attempts = (self.attempts or 0) + tally["attempts"]
                self.most_lost = max(self.most_lost or 0, tally["most_lost"])
                self.effects = merged(self.effects or {}, tally["effects"])
        elif "compaction" in message:
            self.compactions[message["compaction"]] += 1
            if "error" in message:
                self.compaction_errors[message["error"]] += 1
        elif "error" in message:
            self._note(message)
            self.errors[message["error"]] += 1
        elif "conflict" in message:
            self._note(message)
            self.conflicts[message["operation"], message["conflict"]] += 1
            self.refused.append((message["writer"], message["number"]))
        else:
            self._note(message, acknowledged=True)
            self.acknowledged.append((message["writer"], message["number"]))
            self.waits.append(message["at"] - message["called"])
            self.each_second[int(message["at"] - self.begun)] += 1
            self.ended = max(self.ended, message["at"])
            if message["attempts"] is not None:
                self.attempts = (self.attempts or 0) + message["attempts"]

    @property
    def settled(self) -> int:
        return len(self.acknowledged) + len(self.refused) + self.errors.total()


@dataclass(frozen=True)
class Race:
    """Settings that all races of a run share.

    Attributes:
        run_id: The run's name.
        seed: The seed of the run.
        location: The folder or bucket for tables.
        scratch: A folder on the disk that tables are on, or None.
        time_limit: Seconds after which a race is stopped. Those for which writers go on come before them.
        keep: True if tables are kept.
        progress: The line that shows the run's progress.
        done: Tables that are to be removed.
    """

    run_id: str
    seed: int
    location: Location
    scratch: Path | None
    time_limit: float
    keep: bool
    progress: Progress
    done: DoneTables

    def run(self, slot: Slot[Cell]) -> RaceRecord:
        """Run one race; its record, whatever the outcome.

        Raises:
            SpillwayError: The table could not be made.
        """
        cell = slot.cell
        location = self.location.below(f"{self.run_id}-{slot.block}-{slot.position}-{cell.committer}")
        started = datetime.now(UTC)
        keep = self.keep
        try:
            self._create(cell, location)
            creation = None
            if self.scratch is not None:
                sync_filesystem(self.scratch)
                creation = creation_seconds(self.scratch)
            watch, begun = HostWatch(), time.monotonic()
            with self._noise(cell, location):
                # Of the block: all committers of a block have the same arrivals.
                heard, problem, stalled = self._race(cell, location, f"{self.seed}-{slot.block}")
            host = watch.read()
            process_seconds = time.monotonic() - begun
            self.progress.checking(slot)
            verdict = self._check(cell, location, heard)
            # A table that is wrong is the evidence.
            keep |= bool(verdict["problems"])
        finally:
            self.done.add(location.for_warming_up())
            if not keep:
                self.done.add(location)
        return {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "block": slot.block,
            "position": slot.position,
            "started_at": started.isoformat(timespec="milliseconds"),
            "cell": asdict(cell),
            "outcome": _outcome(cell, heard, verdict, problem=problem, stalled=stalled),
            "problem": problem,
            **_measures(cell, heard, self._limit(cell) if stalled else None),
            "table": verdict,
            "host": host,
            "creation_seconds": creation,
            "process_seconds": process_seconds,
        }

    def _job(self, role: str, cell: Cell, location: Location, **more: Any) -> dict[str, Any]:
        return {"role": role, "cell": asdict(cell), "location": asdict(location), **more}

    def _create(self, cell: Cell, location: Location) -> None:
        with WorkerProcesses([self._job("create", cell, location)]) as workers:
            for _ in workers.messages(time.monotonic() + _CREATE_SECONDS):
                pass
            problem = workers.wait()
            if problem is None and workers.is_running:
                problem = f"it was not done in {_CREATE_SECONDS:g} s"
        if problem is not None:
            raise SpillwayError(f"{cell.committer} cannot make a table: {problem}")

    def _limit(self, cell: Cell) -> float:
        return (cell.seconds or 0.0) + self.time_limit

    @contextmanager
    def _noise(self, cell: Cell, location: Location) -> Iterator[None]:
        """Have a process write and sync during the block, if the cell asks for it."""
        if not cell.noise:
            yield
            return
        with WorkerProcesses([self._job("noise", cell, location)]) as noise:
            for message in noise.messages(time.monotonic() + _CREATE_SECONDS):
                if message is not None:
                    break
            else:
                raise SpillwayError(f"no noise can be made: {noise.wait() or 'it is not ready in time'}")
            yield

    def _race(self, cell: Cell, location: Location, seed: str) -> tuple[_Heard, str | None, bool]:
        """Run the writers; return their messages, the problem of a process, and True if time ran out."""
        heard = _Heard(None if cell.rate is None else Responses(cell, seed))
        jobs = [
            self._job("write", cell, location, process=process, seed=seed)
            for process in range(cell.processes)
        ]
        if cell.kind.optimizes:
            jobs.append(self._job("optimize", cell, location, process=cell.processes))
        patience = (
            _READY_SECONDS
            + cell.writers * _READY_SECONDS_PER_WRITER
            + cell.processes * _READY_SECONDS_PER_PROCESS
        )
        with WorkerProcesses(jobs) as workers:
            problem = _make_ready(workers, heard, len(jobs), time.monotonic() + patience)
            if problem is not None:
                return heard, problem, False
            self.progress.started()
            heard.begun = workers.go()
            deadline = heard.begun + self._limit(cell)
            for message in workers.messages(deadline):
                if message is not None:
                    heard.hear(message)
                self.progress.acknowledged(len(heard.acknowledged), time.monotonic() - heard.begun)
                if heard.done == cell.processes:
                    break
            stalled = time.monotonic() >= deadline and heard.unsettled(cell) > 0
            if stalled:
                problem = workers.problem()
                for message in workers.stop():
                    heard.hear(message)
                return heard, problem, heard.unsettled(cell) > 0
            if cell.kind.optimizes:
                _end_optimiser(workers, heard)
            return heard, workers.wait(), False

    def _check(self, cell: Cell, location: Location, heard: _Heard) -> dict[str, Any]:
        job = self._job("check", cell, location, acknowledged=heard.acknowledged, refused=heard.refused)
        with WorkerProcesses([job]) as workers:
            for message in workers.messages(time.monotonic() + _CHECK_SECONDS):
                if message is not None and "verdict" in message:
                    verdict: dict[str, Any] = message["verdict"]
                    return verdict
            reason = workers.wait() or "it takes too long"
            return asdict(Verdict(problems=[f"the table cannot be checked: {reason}"]))


def _make_ready(workers: WorkerProcesses, heard: _Heard, count: int, deadline: float) -> str | None:
    """Wait until `count` processes are ready; return why they never will be, or None."""
    for message in workers.messages(deadline):
        if message is not None:
            heard.hear(message)
        elif (problem := workers.problem()) is not None:
            return problem
        if heard.ready == count:
            return None
    return workers.wait() or "the processes were not ready in time"


def _end_optimiser(workers: WorkerProcesses, heard: _Heard) -> None:
    """Tell the optimiser that the writers are done, and count the compaction that it is at."""
    workers.finish()
    for message in workers.messages(time.monotonic() + _LAST_COMPACTION_SECONDS):
        if message is not None:
            heard.hear(message)


def _outcome(
    cell: Cell, heard: _Heard, verdict: dict[str, Any], *, problem: str | None, stalled: bool
) -> Outcome:
    if verdict["problems"]:
        return "wrong_output"
    if stalled:
        return "stalled"
    if problem is not None:
        return "failed"
    if heard.errors or heard.unsettled(cell) > 0:
        return "incomplete"
    return "conflicts" if heard.refused else "ok"


def _measures(cell: Cell, heard: _Heard, limit: float | None) -> Measures:
    """The figures of a race. Writers that still waited at its limit count as having waited until then."""
    unsettled = 0 if limit is None else heard.unsettled(cell)
    whole_seconds = range(int(cell.seconds or 0))
    count = len(heard.acknowledged)
    seconds = limit if limit is not None else (heard.ended - heard.begun if count else None)
    answered = limit if limit is not None else (heard.answered - heard.begun if heard.settled else None)
    # In an open loop what was not answered may not have begun: it counts as a response alone.
    is_cut = limit is not None and heard.responses is None
    waiting = heard.waiting(cell, heard.begun + (limit or 0.0)) if is_cut else []
    return {
        "acknowledged": count,
        "still_waiting": unsettled,
        "seconds": seconds,
        "answered_seconds": answered,
        "appends_per_second": None if not seconds else count / seconds,
        "rows_per_second": None if not seconds else count * cell.rows / seconds,
        "each_second": [heard.each_second[second] for second in whole_seconds] or None,
        "attempts": heard.attempts,
        "most_lost": heard.most_lost,
        "effects": heard.effects,
        "processor_seconds": heard.processor,
        "wait_seconds": percentiles(heard.waits + [max(0.0, wait) for wait in waiting]),
        "errors": _most_common(heard.errors),
        "failed": heard.errors.total(),
        "conflicts": [
            {"operation": operation, "conflict": conflict, "count": number}
            for (operation, conflict), number in sorted(heard.conflicts.items())
        ],
        "compactions": _compactions(heard) if cell.kind.optimizes else None,
        "open_loop": None if heard.responses is None else heard.responses.measured(limit),
    }


def _compactions(heard: _Heard) -> Compactions:
    return {
        "finished": heard.compactions["finished"],
        "idle": heard.compactions["idle"],
        "failed": heard.compactions["failed"],
        "errors": _most_common(heard.compaction_errors),
    }


def _most_common(errors: Counter[str]) -> list[ErrorCount]:
    return [{"error": text, "count": number} for text, number in errors.most_common(_MOST_ERRORS)]
