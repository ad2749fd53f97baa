"""The least memory limit that each backend survives, found by bisection after all timing, and proved.

Near the limit a write survives at times and dies at times. So the end of the search is proved from both
sides: at the limit that is found every one of several writes survives, at the one below every one dies. Where
a write breaks the rule, its side moves on by a step: what lies between the two is the interval. A write that
neither survives nor dies, as one whose time is up, says nothing of memory: it ends the search of its cell.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.bench.plan import Cell
from spillway.bench.record import LEAST_MEMORY, LIMIT_TRIAL_SCHEMA, SCHEMA_VERSION
from spillway.bench.sample import limits_of
from spillway.harness import records
from spillway.harness.limits import choose_limiter
from spillway.harness.limits.cgroup import enclosing_limit
from spillway.harness.schedule import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from spillway.bench.progress import Progress
    from spillway.bench.record import LimitTrial
    from spillway.bench.sample import SampleTaker
    from spillway.harness.limits import Limiter

__all__ = [
    "LEAST_PROVED",
    "Bounds",
    "bounds_of",
    "find_least_memory",
    "is_unclear",
    "largest_limit",
    "limiter_of_search",
    "search",
]

STEP = 1.02
"""The factor between limits that a search tells apart."""
_UNIT = 100_000  # bytes: limits are whole tenths of a megabyte
_START = 64_000_000
LEAST_PROVED = _START
"""The limit, in bytes, at which the kind of a search is proved: the first that it tries."""
_LEAST = 1_000_000  # no process starts in it
_SHARE_OF_FREE = 0.8
_DEATHS = frozenset({"memory_error", "oom_killed", "aborted", "segfault"})


@dataclass(frozen=True)
class Bounds:
    """The limits between which a write begins to survive.

    Attributes:
        dies_at: The largest limit that is proved at and below which every write died; 0 if none did.
        died: The writes that died at it.
        survives_from: The least such limit at and above which every write survived; None if none did.
        survived: The writes that survived at it.
    """

    dies_at: int
    died: int
    survives_from: int | None
    survived: int


def find_least_memory(  # noqa: PLR0913 - the parts of a run
    folder: Path,
    taker: SampleTaker,
    cells: Sequence[Cell],
    writes: int,
    progress: Progress,
    *,
    step: float = STEP,
) -> None:
    """Search the least limit of each backend and setting at its most rows, and append the writes that lack.

    Args:
        folder: The run's folder.
        taker: Takes the writes, under limits of `limiter_of_search`.
        cells: The cells of the run.
        writes: Writes that prove each side.
        progress: Told of each write.
        step: The factor between limits that the search tells apart.
    """
    limiter = limiter_of_search(taker.limiter)
    known = _by_cell(records.read_lines(folder / LEAST_MEMORY))
    searched = _cells_without_limit(cells)
    largest = largest_limit()
    progress.searching_limits(len(searched))
    for cell in searched:
        # A search depends on outcomes and its largest limit alone: resumed, it begins with those on record.
        most = next((trial["most_bytes"] for trial in known[cell] if "most_bytes" in trial), largest)
        earlier: dict[int, deque[dict[str, Any]]] = defaultdict(deque)
        for trial in known[cell]:
            earlier[trial["cell"]["memory_bytes"]].append(trial)

        def survives(
            limit: int,
            cell: Cell = cell,
            most: int = most,
            earlier: dict[int, deque[dict[str, Any]]] = earlier,
        ) -> bool:
            if earlier[limit]:
                return _survived(earlier[limit].popleft())
            limited = replace(cell, memory_bytes=limit, limit_kind=limiter.kind)
            with limits_of(limited, limiter) as memory_limit:
                sample = taker.take(Slot(0, 0, limited), memory_limit)
            trial: LimitTrial = {
                "schema_version": SCHEMA_VERSION,
                "run_id": taker.run_id,
                "cell": limited.as_dict(),
                "most_bytes": most,
                "outcome": sample["outcome"],
                "died_in": sample["died_in"],
                "wall_seconds": None if sample["use"] is None else sample["use"]["wall_seconds"],
            }
            LIMIT_TRIAL_SCHEMA.check(trial)
            records.append(folder / LEAST_MEMORY, trial)
            progress.limit_tried(cell, limit, sample["outcome"])
            return _survived(trial)

        with suppress(_UnclearError):
            search(survives, writes=writes, most=most, step=step)
        progress.limit_found()


def limiter_of_search(limiter: Limiter) -> Limiter:
    """The limiter of a run's samples, or the best there is where they have no limit."""
    return choose_limiter(None if limiter.kind == "none" else limiter.kind)


def search(survives: Callable[[int], bool], *, writes: int, most: int, step: float = STEP) -> None:
    """Try limits until both sides of the least that is survived are proved, or none up to `most` is survived.

    Args:
        survives: Writes once under a limit; true if the write survived. `bounds_of` reads what it has tried.
        writes: Writes that prove each side.
        most: The largest limit to try.
        step: The factor between limits that are told apart.
    """
    dies, lives = _bracket(survives, most)
    if lives is None:
        return
    while _between(dies, lives) not in {dies, lives} and lives > step * dies:
        middle = _between(dies, lives)
        if survives(middle):
            lives = middle
        else:
            dies = middle
    while not all(survives(lives) for _ in range(writes)):
        if lives == most:
            return
        lives = min(most, _next(lives, step, 1))
    while any(survives(dies) for _ in range(writes)):
        if dies <= _LEAST:
            return
        dies = _next(dies, step, -1)


def bounds_of(trials: Iterable[dict[str, Any]]) -> Bounds:
    """The bounds that the writes of one cell prove, whatever search they are of."""
    by_limit: dict[int, list[str]] = defaultdict(list)
    for trial in trials:
        by_limit[trial["cell"]["memory_bytes"]].append(trial["outcome"])
    ordered = sorted(by_limit)
    dying = _proved(ordered, by_limit, _DEATHS)
    living = _proved(ordered[::-1], by_limit, {"ok"})
    return Bounds(
        dies_at=dying or 0,
        died=len(by_limit[dying]) if dying is not None else 0,
        survives_from=living,
        survived=len(by_limit[living]) if living is not None else 0,
    )


def is_unclear(trial: dict[str, Any] | LimitTrial) -> bool:
    """Return true if a write ended neither well nor as one does for want of memory."""
    return trial["outcome"] != "ok" and trial["outcome"] not in _DEATHS


def largest_limit() -> int:
    """The largest limit that is tried: most of what is free now and groups around allow."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    allowed = enclosing_limit()
    most = free if allowed is None else min(free, allowed)
    return max(_START, int(most * _SHARE_OF_FREE) // _UNIT * _UNIT)


def _proved(limits: Sequence[int], by_limit: dict[int, list[str]], ends: Collection[str]) -> int | None:
    """The limit with most writes, and of those the last, before the first at which one ended otherwise."""
    same = list(takewhile(lambda limit: all(each in ends for each in by_limit[limit]), limits))
    return max(reversed(same), key=lambda limit: len(by_limit[limit]), default=None)


def _bracket(survives: Callable[[int], bool], most: int) -> tuple[int, int | None]:
    """A limit that a write died at, and twice it, at which one survived; None if none survives."""
    limit = min(_START, most)
    if survives(limit):
        while limit > _LEAST and survives(limit // 2 // _UNIT * _UNIT):
            limit = limit // 2 // _UNIT * _UNIT
        return max(_LEAST, limit // 2 // _UNIT * _UNIT), limit
    while limit < most:
        below, limit = limit, min(2 * limit, most)
        if survives(limit):
            return below, limit
    return limit, None


def _between(dies: int, lives: int) -> int:
    return round(math.sqrt(dies * lives) / _UNIT) * _UNIT


def _next(limit: int, step: float, direction: int) -> int:
    """The next limit up or down: a step away, and a unit at least."""
    return max(_UNIT, limit + direction * max(_UNIT, round(limit * (1 - 1 / step) / _UNIT) * _UNIT))


def _cells_without_limit(cells: Sequence[Cell]) -> list[Cell]:
    """Each backend and setting at its most rows once, whatever limits it was measured under."""
    free = [replace(cell, memory_bytes=None, limit_kind="none") for cell in cells]
    most: dict[Cell, Cell] = {}
    for cell in free:
        setting = replace(cell, rows=1)
        if setting not in most or cell.rows > most[setting].rows:
            most[setting] = cell
    return list(most.values())


def _by_cell(trials: Sequence[dict[str, Any]]) -> dict[Cell, list[dict[str, Any]]]:
    found: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for trial in trials:
        found[replace(Cell(**trial["cell"]), memory_bytes=None, limit_kind="none")].append(trial)
    return found


class _UnclearError(Exception):
    """A write said nothing of memory."""


def _survived(trial: dict[str, Any] | LimitTrial) -> bool:
    if is_unclear(trial):
        raise _UnclearError
    return trial["outcome"] == "ok"
