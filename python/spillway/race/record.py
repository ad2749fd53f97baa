"""The record of a race: a line of ``races.jsonl``."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from spillway.harness.environment import HostReading
from spillway.harness.records import Instant, Keywords, RecordSchema
from spillway.race.check import Verdict
from spillway.race.model import Cell, EffectTimes
from spillway.race.open_loop import OpenLoop

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
        wait_seconds: Service times, from handing over all rows to the acknowledgement: quantiles 0 to 100 %.
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
