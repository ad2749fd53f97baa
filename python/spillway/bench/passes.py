"""The passes after the samples: pairs, probes, the search for the least memory, traces, and validation.

A probe that takes time during the write would tax those who release the GIL. So the samples of the tables are
taken without probes, and each probe has separate writes, in shuffled blocks with writes without a probe.

The speed of a shared host varies by some per cent from one second to the next. Samples that are taken one
after the other show that as a difference of writers. Two processes that share a core change places every few
milliseconds: what slows the core down slows both, and the ratio of their processor time hardly varies.

Near the limit a write survives at times and dies at times. So the end of the search is proved from both
sides: at the limit that is found every one of several writes survives, at the one below every one dies. Where
a write breaks the rule, its side moves on by a step: what lies between the two is the interval. A write that
neither survives nor dies, such as a timeout, says nothing about memory: it ends the search of its cell.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import defaultdict, deque
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from spillway._wording import counted, joined
from spillway.backends import SPARK_LIBRARY, library
from spillway.bench.plan import Cell, base_of, largest_cells
from spillway.bench.record import (
    ALLOCATION_SCHEMA,
    ALLOCATIONS,
    LEAST_MEMORY,
    LIMIT_TRIAL_SCHEMA,
    PAIR_SCHEMA,
    PAIRS,
    PROBE_SCHEMA,
    PROBES,
    SAMPLES,
    SCHEMA_VERSION,
    VALIDATION,
    Probe,
)
from spillway.bench.sample import Meeting, OutputFiles, limits_of, outcome_of, result_of
from spillway.bench.summary import outcome_words
from spillway.errors import MissingExtraError, OptionError
from spillway.harness import records
from spillway.harness.limits import Unlimited, choose_limiter, free_memory
from spillway.harness.probes.curve import ENVIRONMENT, INVISIBLE, read_curve
from spillway.harness.processes import redact
from spillway.harness.schedule import Slot, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from spillway.bench.progress import Progress
    from spillway.bench.record import Allocations, LimitTrial, PairSample, ProbeSample
    from spillway.bench.sample import SampleTaker
    from spillway.harness.limits import Limiter
    from spillway.harness.probes.curve import AllocationCurve
    from spillway.harness.processes import ProcessResult
    from spillway.validation import Verdict

Item = TypeVar("Item")

_KINDS: tuple[Probe, ...] = get_args(Probe)


def probe_backends(
    folder: Path, taker: SampleTaker, cells: Sequence[Cell], blocks: int, progress: Progress
) -> None:
    """Write the largest cells with each probe and without one, once per block; append the missing records.

    Writers in a JVM are left out: Python waits for them, and has nothing to collect.
    """
    in_python = [cell for cell in cells if library(cell.backend) != SPARK_LIBRARY]
    pairs = [(cell, probe) for cell in largest_cells(in_python) for probe in _KINDS]
    slots = _lacking(folder / PROBES, schedule(pairs, blocks=blocks, seed=taker.seed))
    line = f"probing GIL and garbage collector: {counted(len(slots), 'write')}"
    progress.follows("probing", line, len(slots))
    for slot in slots:
        cell, probe = slot.cell
        progress.step(f"probing ({probe}): {cell.backend}, {cell.mode}")
        PROBE_SCHEMA.append(folder / PROBES, probe_once(taker, slot))
        progress.stepped()


def _lacking(path: Path, slots: Iterable[Slot[Item]]) -> list[Slot[Item]]:
    """The slots of a schedule of which a file has no record yet."""
    done = {(each["block"], each["position"]) for each in records.read_lines(path)}
    return [slot for slot in slots if (slot.block, slot.position) not in done]


def probe_once(taker: SampleTaker, slot: Slot[tuple[Cell, Probe]]) -> ProbeSample:
    """Write once with one probe and without a limit; the tables do not use the time of this write."""
    cell, probe = slot.cell
    with Unlimited().limit(0) as memory_limit:
        ended, _ = taker.run_worker(cell, memory_limit, probe=probe)
    taker.files.discard_fresh()
    outcome, result = outcome_of(ended), result_of(ended)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": taker.run_id,
        "block": slot.block,
        "position": slot.position,
        "cell": asdict(cell),
        "probe": probe,
        "outcome": outcome,
        "wall_seconds": result["wall_seconds"] if outcome == "ok" else None,
        "gil": result["gil"] if outcome == "ok" else None,
        "gc": result["gc"] if outcome == "ok" else None,
    }


_FOLDER = "outputs-beside"
_MEETING = "meeting"


def measure_pairs(
    folder: Path, taker: SampleTaker, cells: Sequence[Cell], blocks: int, progress: Progress
) -> None:
    """Write each largest cell beside the base on one core, once per block; append the missing records.

    Writers in a JVM are left out: their compiler and collector work in threads that outlast a write.
    """
    slots = _lacking(folder / PAIRS, schedule(_pairs(cells), blocks=blocks, seed=taker.seed))
    progress.follows("pairs", f"writing in pairs on one core: {counted(len(slots), 'pair')}", len(slots))
    # Two on a core take twice the time of one.
    taker = replace(taker, timeout=2 * taker.timeout)
    with _beside(taker, folder / _FOLDER) as other:
        for slot in slots:
            base, cell = slot.cell
            progress.step(f"pairs: {cell.words}, beside {base.backend}")
            PAIR_SCHEMA.append(folder / PAIRS, _take(taker, other, slot))
            progress.stepped()


def _pairs(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """The cell of the base and another one of its setting, for each of the others."""
    of_one_core = [cell for cell in cells if cell.threads == 1 and library(cell.backend) != SPARK_LIBRARY]
    largest = largest_cells(of_one_core)
    base = base_of([cell.backend for cell in largest])
    return [
        (same, cell)
        for cell in largest
        if base not in {None, cell.backend} and (same := replace(cell, backend=str(base))) in largest
    ]


@contextmanager
def _beside(taker: SampleTaker, folder: Path) -> Iterator[SampleTaker]:
    """The same taker for the other process of a pair, whose files are in a folder of their own."""
    files = OutputFiles(folder)
    try:
        yield replace(taker, files=files)
    finally:
        files.remove()


def _take(taker: SampleTaker, other: SampleTaker, slot: Slot[tuple[Cell, Cell]]) -> PairSample:
    base, cell = slot.cell
    # Folders may differ, too: each writes into either.
    places = (taker, other) if slot.block // 2 % 2 == 0 else (other, taker)
    pair = list(zip(places, (base, cell), strict=True))
    # The first one sleeps until the other is there, and wakes with colder caches: each in turn.
    order = slice(None, None, -1 if slot.block % 2 else 1)
    ended = _write_both(*pair[order])[order]
    for each in (taker, other):
        each.files.discard_fresh()
    outcomes = [outcome_of(each) for each in ended]
    results = [result_of(each) for each in ended]
    # One that failed left the core to the other.
    seconds = [result["processor_seconds"] if outcomes == ["ok", "ok"] else None for result in results]
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": taker.run_id,
        "block": slot.block,
        "position": slot.position,
        "cell": asdict(cell),
        "base": base.backend,
        "outcome": outcomes[1],
        "base_outcome": outcomes[0],
        "processor_seconds": seconds[1],
        "base_processor_seconds": seconds[0],
    }


def _write_both(*both: tuple[SampleTaker, Cell]) -> list[ProcessResult]:
    """Two processes that begin their writes at the same moment, to their ends."""
    called_off = Event()
    with ThreadPoolExecutor(len(both)) as threads, _fifo(both[0][0].files.fresh) as place:
        try:
            running = [
                threads.submit(_write, taker, cell, Meeting(place, index == 0, called_off))
                for index, (taker, cell) in enumerate(both)
            ]
            wait(running, return_when=FIRST_COMPLETED)
            # One that comes to meet another that has failed meets the bench.
            with os.fdopen(os.open(place, os.O_RDWR | os.O_NONBLOCK), "rb"):
                return [each.result() for each in running]
        except BaseException:
            called_off.set()
            raise


@contextmanager
def _fifo(beside: Path) -> Iterator[Path]:
    place = beside.with_name(_MEETING)
    os.mkfifo(place)
    try:
        yield place
    finally:
        place.unlink()


def _write(taker: SampleTaker, cell: Cell, meeting: Meeting) -> ProcessResult:
    with Unlimited().limit(0) as memory_limit:
        ended, _ = taker.run_worker(cell, memory_limit, meeting=meeting)
    return ended


STEP = 1.02
"""The ratio of neighbouring limits in a search."""
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


def refuse_other_search(folder: Path, limiter: Limiter) -> None:
    """Refuse to continue a search with another kind of limit, which counts other memory.

    Raises:
        OptionError: The limits on record are of another kind than those to be had.
    """
    begun = {trial["cell"]["limit_kind"] for trial in records.read_lines(folder / LEAST_MEMORY)}
    kind = limiter_of_search(limiter).kind
    if begun - {kind}:
        raise OptionError(
            f"--resume {folder.name}: its search for the least memory began with {joined(sorted(begun))}, "
            f"and here limits are set by {kind}: have the same kind, or remove {LEAST_MEMORY} from its folder"
        )


def find_least_memory(  # noqa: PLR0913 - the parts of a run
    folder: Path,
    taker: SampleTaker,
    cells: Sequence[Cell],
    writes: int,
    progress: Progress,
    *,
    step: float = STEP,
) -> None:
    """Search the least limit of each backend and setting at its most rows; append the missing writes.

    Args:
        folder: The run's folder.
        taker: Takes the writes, under limits of `limiter_of_search`.
        cells: The cells of the run.
        writes: Writes that prove each side.
        progress: Told of each write.
        step: The ratio of neighbouring limits in the search.
    """
    limiter = limiter_of_search(taker.limiter)
    known = _by_cell(records.read_lines(folder / LEAST_MEMORY))
    searched = _cells_without_limit(cells)
    largest = largest_limit()
    line = f"looking for the least memory limit: {counted(len(searched), 'cell')}"
    progress.follows("least memory", line, len(searched))
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
                "cell": asdict(limited),
                "most_bytes": most,
                "outcome": sample["outcome"],
                "died_in": sample["died_in"],
                "wall_seconds": None if sample["use"] is None else sample["use"]["wall_seconds"],
            }
            LIMIT_TRIAL_SCHEMA.append(folder / LEAST_MEMORY, trial)
            ended = outcome_words(sample["outcome"])
            progress.step(f"least memory: {cell.words} at {limit / 1e6:,.1f} MB: {ended}")
            return _survived(trial)

        with suppress(_UnclearError):
            search(survives, writes=writes, most=most, step=step)
        progress.stepped()


def limiter_of_search(limiter: Limiter) -> Limiter:
    """The limiter of a run's samples, or the best available one if they have no limit."""
    return choose_limiter(None if limiter.kind == "none" else limiter.kind)


def search(survives: Callable[[int], bool], *, writes: int, most: int, step: float = STEP) -> None:
    """Try limits until both sides of the least survived one are confirmed, or none up to `most` is.

    Args:
        survives: Writes once under a limit; true if the write survived. `bounds_of` reads what it has tried.
        writes: Writes that prove each side.
        most: The largest limit to try.
        step: The ratio of neighbouring limits.
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
    """The largest limit to try: most of the memory that is free and that surrounding groups allow."""
    return max(_START, int(free_memory() * _SHARE_OF_FREE) // _UNIT * _UNIT)


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
    most: dict[Cell, Cell] = {}
    for cell in (each.without_limit for each in cells):
        setting = replace(cell, rows=1)
        if setting not in most or cell.rows > most[setting].rows:
            most[setting] = cell
    return list(most.values())


def _by_cell(trials: Sequence[dict[str, Any]]) -> dict[Cell, list[dict[str, Any]]]:
    found: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for trial in trials:
        found[Cell(**trial["cell"]).without_limit].append(trial)
    return found


class _UnclearError(Exception):
    """A write said nothing of memory."""


def _survived(trial: dict[str, Any] | LimitTrial) -> bool:
    if is_unclear(trial):
        raise _UnclearError
    return trial["outcome"] == "ok"


_TRACER = "memray"


def trace_backends(folder: Path, taker: SampleTaker, cells: Sequence[Cell], progress: Progress) -> None:
    """Trace the largest cells, without a limit, and append the curves that lack."""
    names = ("backend", "mode", "dataset", "codec", "python")
    done = {tuple(each.get(name, "") for name in names) for each in records.read_lines(folder / ALLOCATIONS)}
    # A tracer sees the same allocations whatever the process setting, and in the pool of its own choice.
    as_they_are = [cell for cell in cells if cell.arm == cells[0].arm]
    largest = [
        cell
        for cell in largest_cells(as_they_are)
        if tuple(getattr(cell, name) for name in names) not in done
    ]
    stage = "tracing allocations"
    progress.follows(stage, f"{stage}: {counted(len(largest), 'write')}", len(largest))
    for cell in largest:
        progress.step(f"{stage}: {cell.backend}, {cell.mode}")
        ALLOCATION_SCHEMA.append(folder / ALLOCATIONS, _trace_record(taker, cell))
        progress.stepped()


def _trace_record(taker: SampleTaker, cell: Cell) -> Allocations:
    seconds, curve = None, None
    reason = INVISIBLE.get(cell.backend) or INVISIBLE.get(library(cell.backend)) or _cannot_trace(taker, cell)
    if reason is None:
        seconds, curve, reason = _trace(taker, cell)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": taker.run_id,
        "backend": cell.backend,
        "mode": cell.mode,
        "dataset": cell.dataset,
        "codec": cell.codec,
        "rows": cell.rows,
        "chunk_rows": cell.chunk_rows,
        "row_group_rows": cell.row_group_rows,
        "python": cell.python,
        "reason": reason,
        "wall_seconds": seconds,
        "curve": curve,
    }


def _cannot_trace(taker: SampleTaker, cell: Cell) -> str | None:
    """Why the environment of a cell cannot trace for this one; None if it can. A trace's form varies."""
    if not cell.python:
        return None
    found, own = taker.pythons[cell.python].version_of(_TRACER), version(_TRACER)
    if found is None:
        return f"{_TRACER} is not installed in the environment {cell.python}"
    return None if found == own else f"the environment {cell.python} has {_TRACER} {found}, and not {own}"


def _trace(taker: SampleTaker, cell: Cell) -> tuple[float | None, AllocationCurve | None, str | None]:
    """The seconds and the allocation curve of a traced write, or why the write failed."""
    with (
        tempfile.TemporaryDirectory(prefix="spillway-trace-") as scratch,
        Unlimited().limit(0) as memory_limit,
    ):
        trace = Path(scratch) / "trace.bin"
        ended, _ = taker.run_worker(cell, memory_limit, memray=trace, environment=ENVIRONMENT)
        taker.files.discard_fresh()
        outcome = outcome_of(ended)
        if outcome != "ok":
            return None, None, f"the traced write ended as {outcome}"
        return result_of(ended)["wall_seconds"], read_curve(trace), None


def require_engines(engines: Sequence[str]) -> None:
    """Check before a run what validation will need after it.

    Raises:
        JavaError: Spark is among the engines and there is no Java for it.
        MissingExtraError: An engine is not installed.
    """
    for engine in engines:
        package, extra = ("pyspark", "spark") if engine == "spark" else (engine, "bench")
        if find_spec(package) is None:
            raise MissingExtraError(package, extra, f"validate with {engine}")
    if "spark" in engines:
        from spillway.spark.session import find_java

        find_java()


def validate_outputs(
    folder: Path, taker: SampleTaker, engines: Sequence[str], progress: Progress
) -> list[str]:
    """Validate each distinct content once with each engine and append the verdicts that lack.

    Returns:
        A line per engine that says how many files held.
    """
    from spillway.validation import Source, Validator, summary

    contents = _distinct_contents(folder)
    known = {(each["content_hash"], each["engine"]) for each in records.read_lines(folder / VALIDATION)}
    wanted = [each for each in contents if any((each, engine) not in known for engine in engines)]
    there = [each for each in wanted if taker.files.path_of(each).exists()]
    if len(there) < len(wanted):
        gone = counted(len(wanted) - len(there), "distinct output")
        progress.say(f"{gone} of samples before the run was resumed went with its end: nobody reads it back")
    if not there:
        return []
    paths = {taker.files.path_of(content_hash): content_hash for content_hash in there}
    jobs = [
        (path, Source(taker.inputs[contents[content_hash].input], contents[content_hash].rows))
        for path, content_hash in paths.items()
    ]
    progress.validating(len(jobs), engines)
    with Validator(engines, progress=progress.validated) as validator:
        verdicts = validator.validate(jobs)
    for verdict in verdicts:
        content_hash = paths[verdict.file]
        if (content_hash, verdict.engine) in known:
            continue
        record = _verdict_record(taker.run_id, content_hash, contents[content_hash], verdict)
        records.append(folder / VALIDATION, record)
    return summary(verdicts)


class _Content(NamedTuple):
    """The rows that a file should hold, the key of their input, and the number of samples that wrote it."""

    input: tuple[str, int]
    rows: int
    samples: int


def _distinct_contents(folder: Path) -> dict[str, _Content]:
    """Each content by its hash, from the samples on disk."""
    contents: dict[str, _Content] = {}
    for sample in records.read_lines(folder / SAMPLES):
        if sample["outcome"] == "ok":
            content_hash, cell = sample["output"]["content_hash"], sample["cell"]
            before = contents.get(content_hash)
            count = 1 if before is None else before.samples + 1
            contents[content_hash] = _Content((cell["dataset"], cell["chunk_rows"]), cell["rows"], count)
    return contents


def _verdict_record(run_id: str, content_hash: str, content: _Content, verdict: Verdict) -> dict[str, Any]:
    mismatch = verdict.mismatch
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "content_hash": content_hash,
        "file": verdict.file.name,
        "rows": content.rows,
        "samples": content.samples,
        "engine": verdict.engine,
        "outcome": "ok" if verdict.ok else "excused" if verdict.excused else "wrong_output",
        "seconds": verdict.seconds,
        "mismatch": None
        if mismatch is None
        else {
            "kind": mismatch.kind,
            "column": mismatch.column,
            "row": mismatch.row,
            "expected": None if mismatch.expected is None else str(mismatch.expected),
            "actual": None if mismatch.actual is None else str(mismatch.actual),
            "message": redact(mismatch.message),
        },
    }
