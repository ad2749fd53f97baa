"""The records of races: each is a line of ``races.jsonl``. A run of them is read, and summed up by cell.

A run that is read is independent of runs that go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from spillway._wording import counted
from spillway.harness import records
from spillway.harness.environment import HostReading, noise_warnings
from spillway.harness.records import (
    CellOfRun,
    Instant,
    Keywords,
    RecordSchema,
    RunOfCells,
    outcomes,
    records_by_cell,
)
from spillway.harness.statistics import estimate_of
from spillway.race import committers
from spillway.race.check import Verdict
from spillway.race.model import WORKS, Cell, EffectTimes, Work
from spillway.race.open_loop import OpenLoop  # noqa: TC001 - the type of a field, looked up at run time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spillway.harness.statistics import Estimate

RACES = "races.jsonl"
SCHEMA_VERSION: Literal[1] = 1

Outcome = Literal["ok", "conflicts", "incomplete", "stalled", "failed", "wrong_output"]
_Quantiles = Annotated[list[float], Keywords(minItems=101, maxItems=101)]


class ErrorCount(TypedDict):
    """An error, and the number of operations that ended with it."""

    error: str
    count: int


class _ConflictCount(TypedDict):
    """A conflict by the name that delta-spark has for it, and the number of operations that ended with it."""

    operation: str
    conflict: str
    count: int


class Compactions(TypedDict):
    """The calls of the optimiser during the race.

    Attributes:
        finished: Calls that wrote files again.
        idle: Calls that found nothing to do.
        failed: Calls that ended with an error or a conflict.
        errors: The errors that were raised most; a conflict is its name.
    """

    finished: int
    idle: int
    failed: int
    errors: list[ErrorCount]


class Measures(TypedDict):
    """The figures of a race. An operation is an append, or what else the race's work is.

    Attributes:
        acknowledged: Operations that were acknowledged as committed.
        still_waiting: Operations without an answer when the time was up.
        seconds: From the start to the last acknowledgement, or to the time limit.
        answered_seconds: From the start to the last answer, also of conflicts and errors, or to the time
            limit.
        appends_per_second: Acknowledged operations, whatever the race's work is, over the seconds.
        rows_per_second: Rows of these.
        each_second: Acknowledged operations in each second of a race with a fixed time; null if the number of
            operations is fixed.
        attempts: Attempts to write a version, by all writers; null if the library does not report them.
        most_lost: The largest number of races that one operation lost; null if this is not counted.
        effects: The times of the committers' steps in all processes, by kind; null if this is not counted.
        processor_seconds: Processor time of the writers' processes from the start to their last answer; null
            where none of them came to its end.
        wait_seconds: Service times, from the call of an operation (of a writer's first one from the start of
            the race) to its acknowledgement: quantiles 0 to 100 %.
        errors: The errors that were raised most.
        failed: Operations that ended with an error.
        conflicts: Conflicts, which are no errors, by kind of operation.
        compactions: The calls of the optimiser; null for work without one.
        open_loop: The rates and the response times; null in a closed loop.
    """

    acknowledged: int
    still_waiting: int
    seconds: float | None
    answered_seconds: NotRequired[float | None]
    appends_per_second: float | None
    rows_per_second: float | None
    each_second: NotRequired[list[int] | None]
    attempts: int | None
    most_lost: int | None
    effects: NotRequired[dict[str, EffectTimes] | None]
    processor_seconds: NotRequired[float | None]
    wait_seconds: _Quantiles | None
    errors: list[ErrorCount]
    failed: int
    conflicts: NotRequired[list[_ConflictCount]]
    compactions: NotRequired[Compactions | None]
    open_loop: NotRequired[OpenLoop | None]


class RaceRecord(Measures):
    """One race: a line of races.jsonl.

    Attributes:
        run_id: The run's name.
        block: The pass over all cells.
        position: The position within the block.
        started_at: The time in UTC.
        cell: The committer and its setting.
        outcome: "ok": every operation committed; "conflicts": all committed or had a conflict; "incomplete":
            writers gave up; "stalled": the race ran out of time; "failed": a process died; "wrong_output":
            the table contradicts the acknowledgements.
        problem: The end of a process that died.
        table: The table after the race, as the check found it.
        host: The host during the race.
        creation_seconds: The median time of creating a file on the disk before the race; null on an object
            store.
        process_seconds: From the start of the processes to their end.
    """

    schema_version: Literal[1]
    run_id: str
    block: int
    position: int
    started_at: Instant
    cell: Annotated[dict[str, Any], Cell]
    outcome: Outcome
    problem: str | None
    table: Annotated[dict[str, Any], Verdict]
    host: HostReading
    creation_seconds: NotRequired[float | None]
    process_seconds: float


SCHEMA = RecordSchema(RaceRecord)


_SLOWED = 3
"""The smallest ratio of two times of the same work that indicates a disturbance."""


@dataclass(frozen=True)
class Setting:
    """The setting that the cells of one table share: all but the committer and the number of writers.

    Attributes:
        work: The operations of writers.
        name: The workload of appends; any other work's own name.
        partitions: Of appends; None where each committer has its own.
    """

    work: str
    name: str
    rows: int
    appends: int
    partitions: str | None
    spread: str
    file_rows: int
    seconds: float | None = None
    noise: bool = False
    rate: float | None = None

    @classmethod
    def of(cls, cell: Cell) -> Setting:
        """The setting of a cell."""
        if cell.processes == 1:
            spread = "threads of one process"
        elif cell.processes == cell.writers:
            spread = "a process each"
        else:
            spread = f"threads of {cell.processes:,} processes"
        partitions = cell.partitions if cell.only_appends else None
        name = cell.workload or cell.work
        return cls(
            cell.work,
            name,
            cell.rows,
            cell.appends,
            partitions,
            spread,
            cell.file_rows,
            cell.seconds,
            cell.noise,
            cell.rate,
        )

    @property
    def kind(self) -> Work:
        """The work."""
        return WORKS[self.work]

    @property
    def table_words(self) -> str:
        """The table of the race, for people."""
        if self.partitions is None:
            return f"{self.file_rows:,} rows in the table"
        return "own partitions" if self.partitions == "own" else "one partition"

    @property
    def words(self) -> str:
        """The setting for people."""
        rows = f"{counted(self.rows, 'row')} {self.kind.one_operation}"
        many = f"{self.appends:,} {self.kind.noun}s each, in sequence"
        each = f"one {self.kind.noun} each" if self.appends == 1 else many
        if self.seconds is not None:
            each = f"{self.kind.noun}s for {self.seconds:g} s, in sequence"
        if self.rate is not None:
            each = (
                f"open loop: {self.rate:g} {self.kind.noun}s/s are due for {self.seconds:g} s, of all writers"
            )
        noise = ", beside a process that writes and syncs" if self.noise else ""
        return f"{self.name}, {rows}, {each}, {self.table_words}, {self.spread}{noise}"


@dataclass(frozen=True)
class CellSummary(CellOfRun[Setting]):
    """All races of one cell.

    Attributes:
        cell: The cell.
        races: Their records, in the order they were run.
    """

    cell: Cell
    races: Sequence[dict[str, Any]]

    @property
    def setting(self) -> Setting:
        """All of the cell but its committer and writers."""
        return Setting.of(self.cell)

    @property
    def outcome(self) -> str:
        """The outcomes of its races."""
        return outcomes(self.races)

    def estimate(self, metric: Callable[[dict[str, Any]], float | None]) -> Estimate | None:
        """The estimate of a metric over the races that have it; None if none has."""
        return estimate_of(self.races, metric)

    def median(self, metric: Callable[[dict[str, Any]], float | None]) -> float | None:
        """Its median."""
        found = self.estimate(metric)
        return None if found is None else found.median

    @property
    def speed(self) -> float | None:
        """Operations that were acknowledged in a second."""
        return self.median(lambda race: race["appends_per_second"])

    def most(self, metric: Callable[[dict[str, Any]], float | None]) -> float | None:
        """The maximum of a metric; None if no race has it."""
        return max((value for race in self.races if (value := metric(race)) is not None), default=None)

    def wait(self, percent: int) -> float | None:
        """The percentile of service times, in seconds."""
        return self.median(lambda race: race["wait_seconds"] and race["wait_seconds"][percent])

    def response(self, percent: int) -> float | None:
        """The percentile of response times, in seconds; None in a closed loop."""
        return self.median(lambda race: (_open(race).get("response_seconds") or {percent: None})[percent])

    @property
    def is_overloaded(self) -> bool:
        """True if the offered rate was not sustained in a race."""
        return any(not _open(race).get("sustained", True) for race in self.races)


def _open(race: dict[str, Any]) -> dict[str, Any]:
    return race.get("open_loop") or {}


class RunSummary(RunOfCells[CellSummary, Setting]):
    """One run's folder."""

    @property
    def works(self) -> list[str]:
        """The works of its races."""
        return [name for name in WORKS if any(each.cell.work == name for each in self.cells)]

    def find(self, cell: Cell) -> CellSummary | None:
        """A cell, if it was run."""
        return next((each for each in self.cells if each.cell == cell), None)

    def wrong(self) -> list[str]:
        """Problems of tables, in words."""
        return [
            f"{each.cell.words}: {problem}"
            for each in self.cells
            for race in each.races
            for problem in race["table"]["problems"]
        ]

    def warnings(self) -> list[str]:
        """Caveats that a reader has to know before believing the figures."""
        races = [race for each in self.cells for race in each.races]
        seconds = sum(race["process_seconds"] for race in races)
        hosts = [race["host"] for race in races]
        cores = self.environment["cores"]
        warnings = noise_warnings(self.environment["load_before"], hosts, seconds, cores=cores)
        creations = [time for race in races if (time := race.get("creation_seconds"))]
        if creations and max(creations) > _SLOWED * min(creations):
            warnings.append(
                f"creating a file took {min(creations) * 1e6:,.0f} us before one race, and"
                f" {max(creations) * 1e6:,.0f} before another: some file systems are slow for minutes after"
                " many files were deleted"
            )
        if races and min(len(each.races) for each in self.cells) == 1:
            warnings.append(
                "one race a cell shows no spread: --samples 5 for a rough figure, 12 for one to quote"
            )
        warnings += [
            f"{each.cell.words}: the offered rate was not sustained. The backlog grew to the end of the"
            " schedule, so response times say how long the race was, not how fast the committer is"
            for each in self.cells
            if each.is_overloaded
        ]
        if (
            self.environment["store"] == "local disk"
            and len({each.cell.committer for each in self.cells}) > 1
        ):
            warnings.append(
                "on a local disk the committers do not promise the same: see below what each has synced"
            )
        return warnings


def read_run(folder: Path) -> RunSummary:
    """Read a run's folder, whole or cut short.

    Raises:
        FileNotFoundError: The folder is not a run's.
        CorruptFileError: A line in it is damaged.
        SpillwayError: A later version of Spillway held the races.
    """
    environment = records.read_environment(folder, SCHEMA_VERSION)
    grouped = records_by_cell(folder / RACES, Cell)
    cells = [CellSummary(cell, races) for cell, races in grouped.items()]
    cells.sort(
        key=lambda each: (
            each.setting.work,
            each.setting.name,
            each.setting.partitions or "",
            each.cell.processes > 1,
            each.cell.appends,
            each.cell.rate or 0.0,
            each.cell.writers,
            committers.able(each.cell.work).index(each.cell.committer),
        )
    )
    return RunSummary(folder, environment, cells)
