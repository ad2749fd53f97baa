"""The search: it combines settings of columns, and compares whole files with the library's defaults.

Every measurement runs in its own process. Those that are compared take turns, so that drift hits all alike;
after each three rounds the worse half is left out.

The processor time and bytes of the columns add up to those of a file, except for its footer. So the best
settings of a file are the best settings of each of its columns.
"""

from __future__ import annotations

import io
import json
import math
import os
import random
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from spillway._wording import counted
from spillway.bench.tables import file_megabytes, megabytes
from spillway.errors import SpillwayError
from spillway.harness.limits import Unlimited, choose_cores, stepping_aside
from spillway.harness.probes.process import thread_environment
from spillway.harness.processes import run_limited
from spillway.harness.report import Entry, Table
from spillway.harness.statistics import ALPHA, change_of_pairs, holm
from spillway.tune.writers import WRITERS, Choice, Codec, ColumnChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import CodeType

    from spillway.datasets import PreparedInput
    from spillway.harness.statistics import Change
    from spillway.tune.writers import Writer

Goal = Literal["both", "smaller", "faster"]
GOALS: tuple[Goal, ...] = ("both", "smaller", "faster")

_WORKER = str(Path(__file__).with_name("worker.py"))
_SAMPLE_ROWS = 100_000
_MOST_CANDIDATES = 12
_ROUNDS = 3
_FINAL_ROUNDS = 9
_LEFT = 3
_COLUMN_SHARE = 0.35  # of the budget
_TRIFLE = 0.995
_LEVEL = 1.01  # no loss: what cannot be told from the default in a few rounds
_TIMEOUT_SECONDS = 300.0
_DEFAULT_CODECS = {
    "pyarrow": Codec("snappy"),
    "polars": Codec("zstd", 3),
    "duckdb": Codec("snappy"),
    "arro3": Codec("snappy"),
    "spillway": Codec("zstd", 1),
}


@dataclass
class Candidate:
    """Settings, and the measurements of files that were written with them, by round.

    Attributes:
        words: The settings in words.
        code: The code that writes so.
        choice: The settings; None for the library's defaults.
        cpu_seconds: Processor time by round.
        wall_seconds: Time by round.
        peak_bytes: Growth of resident memory by round.
        size: Bytes of the file.
        sha256: Hash of its content.
        is_out: True once its code failed.
    """

    words: str
    code: str
    choice: Choice | None
    cpu_seconds: dict[int, float] = field(default_factory=dict)
    wall_seconds: dict[int, float] = field(default_factory=dict)
    peak_bytes: dict[int, float] = field(default_factory=dict)
    size: int = 0
    sha256: str = ""
    is_out: bool = False

    def forget(self) -> None:
        """Drop the measurements of time and memory."""
        for held in (self.cpu_seconds, self.wall_seconds, self.peak_bytes):
            held.clear()

    def time_over(self, other: Candidate) -> Change | None:
        """Its processor time relative to another candidate, by round."""
        return change_of_pairs(other.cpu_seconds, self.cpu_seconds)

    def median_of(self, name: Literal["cpu_seconds", "wall_seconds", "peak_bytes"]) -> float:
        """The median of a measure over all rounds."""
        held: dict[int, float] = getattr(self, name)
        return median(held.values())


@dataclass(frozen=True)
class Found:
    """The end of a search.

    Attributes:
        rows: Rows that were written.
        default: The library's defaults.
        best: The best candidate by the goal; the defaults if nothing is better.
        others: Other settings that were measured to the end.
        tried: The number of settings that were measured, as whole files.
    """

    rows: int
    default: Candidate
    best: Candidate
    others: Sequence[Candidate]
    tried: int


def tune(
    library: str,
    prepared: PreparedInput,
    *,
    goal: Goal,
    minutes: float,
    progress: Callable[[str, int, int], None],
) -> Found:
    """Search the best settings of a library's writer for some rows, within a time.

    Args:
        library: A key of `WRITERS`.
        prepared: The rows.
        goal: "smaller" or "faster" at no loss in the other; the best product of "both" at no loss in either.
        minutes: The approximate time that it may take.
        progress: Called with the current step, the amount done, and the total amount.

    Raises:
        SpillwayError: The library cannot write these rows.
    """
    begin = time.monotonic()
    end = begin + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="spillway-tune-", dir=prepared.path.parent) as folder:
        bench = _Bench(library, prepared, Path(folder), end, progress)
        default = Candidate("defaults", WRITERS[library].default(), None)
        bench.measure(default, 0)
        candidates = bench.candidates(begin + _COLUMN_SHARE * 60 * minutes)
        best = bench.race(default, candidates, goal, "settings")
        sized = [each for candidate in best[:1] for each in bench.with_sizes(candidate)]
        finalists = bench.race(default, [*best, *sized], goal, "row groups and pages")
        bench.last_rounds([default, *finalists])
    finalists = [each for each in finalists if each.cpu_seconds and not each.is_out]
    better = _better(finalists, default)
    chosen = min([default, *better], key=lambda each: _score(each, default, goal))
    others = [each for each in finalists if each is not chosen]
    return Found(prepared.rows, default, chosen, others, bench.tried)


def _score(each: Candidate, default: Candidate, goal: Goal) -> tuple[bool, float]:
    """The order of candidates: those at no loss first, then by what the goal asks for."""
    over = each.time_over(default)
    slower = 1.0 if over is None or each is default else over.ratio
    larger = each.size / default.size
    loses = slower > _LEVEL or larger > _LEVEL
    return loses, {"both": slower * larger, "smaller": larger, "faster": slower}[goal]


def _better(finalists: Sequence[Candidate], default: Candidate) -> list[Candidate]:
    """Those whose file is smaller by more than a trifle, or that can be told to be faster."""
    faster = [each.time_over(default) for each in finalists]
    corrected = holm([1.0 if over is None else over.p for over in faster])
    return [
        each
        for each, over, p in zip(finalists, faster, corrected, strict=True)
        if each.size < _TRIFLE * default.size or (over is not None and over.ratio < 1 and p < ALPHA)
    ]


class _Bench:
    """Measures candidates over the same rows, within a time."""

    def __init__(
        self,
        library: str,
        prepared: PreparedInput,
        folder: Path,
        end: float,
        progress: Callable[[str, int, int], None],
    ) -> None:
        self._library, self._prepared, self._folder = library, prepared, folder
        self._end, self._progress = end, progress
        self._writer = WRITERS[library]
        self._cores = choose_cores(1)
        self._order = random.Random(1)  # noqa: S311 - an order, not a secret
        self.tried = 0

    def candidates(self, until: float) -> list[Candidate]:
        """The settings to try: from the cost of columns where the library has such, else by codec."""
        writer, schema = self._writer, self._prepared.schema
        choices = [Choice(codec) for codec in writer.codecs]
        if writer.of_columns:
            with pa.memory_map(str(self._prepared.path)) as file:
                table = pa.ipc.open_file(file).read_all().slice(0, _SAMPLE_ROWS)
                costs = measure_columns(
                    writer,
                    table,
                    until=until,
                    progress=lambda done, of, _: self._progress("columns", done, of),
                )
            by_columns = choices_of(costs, _DEFAULT_CODECS[self._library])
            choices = [*by_columns[: _MOST_CANDIDATES - 3], *choices[:3]]
        return [self._candidate(choice, schema) for choice in choices]

    def with_sizes(self, candidate: Candidate) -> list[Candidate]:
        """A candidate with other row groups and pages."""
        choice, schema, rows = candidate.choice, self._prepared.schema, self._prepared.rows
        if choice is None:
            return []
        sized = [replace(choice, row_group_rows=each) for each in self._writer.row_groups if each < rows]
        sized += [replace(choice, page_bytes=each) for each in self._writer.pages]
        return [self._candidate(each, schema) for each in sized]

    def race(
        self, default: Candidate, candidates: Sequence[Candidate], goal: Goal, what: str
    ) -> list[Candidate]:
        """The best few of the candidates: after each rounds the better half goes on."""
        left = list(candidates)
        rounds = 0
        while left:
            rounds += _ROUNDS
            self.rounds([default, *left], rounds, what)
            left = [each for each in left if each.size and not each.is_out]
            left.sort(key=lambda each: _score(each, default, goal))
            if len(left) <= _LEFT or self._is_over:
                break
            left = left[: max(_LEFT, len(left) // 2)]
        return left[:_LEFT]

    def rounds(self, candidates: Sequence[Candidate], rounds: int, what: str) -> None:
        """Measure candidates in turns until each has `rounds` rounds, or the time is over."""
        for turn in range(rounds):
            missing = [each for each in candidates if turn not in each.cpu_seconds]
            if turn and self._is_over:
                return
            for place, each in enumerate(self._order.sample(missing, len(missing))):
                self._progress(what, turn * len(missing) + place, rounds * len(missing))
                self._try(each, turn)

    def last_rounds(self, candidates: Sequence[Candidate]) -> None:
        """Measure all of them anew: by the rounds that selected them the best would look too good.

        Once the time is over, those rounds are all that there is. Last rounds that have begun are all
        measured, since fewer could not tell a difference among several settings.
        """
        if self._is_over:
            return
        self._end = float("inf")
        for each in candidates:
            each.forget()
        self.rounds(candidates, _FINAL_ROUNDS, "the best again")

    def _try(self, candidate: Candidate, turn: int) -> None:
        """Measure a candidate; one that the library refuses is out, but for the defaults."""
        if candidate.is_out:
            return
        try:
            self.measure(candidate, turn)
        except SpillwayError:
            if candidate.choice is None:
                raise
            candidate.is_out = True

    def measure(self, candidate: Candidate, turn: int) -> None:
        """Write a file by the candidate's code, in a process of its own.

        Raises:
            SpillwayError: The code failed; the message has what it said.
        """
        request = {
            "code": candidate.code,
            "library": self._library,
            "input": str(self._prepared.path.absolute()),
            "rows": self._prepared.rows,
            "folder": str(self._folder.absolute()),
            "parent": os.getpid(),
            "cores": list(self._cores),
        }
        with Unlimited().limit(0) as limit, stepping_aside(self._cores):
            ended = run_limited(
                _WORKER,
                [],
                limit,
                stdin=json.dumps(request),
                environment={**os.environ, **thread_environment(1)},
                timeout=_TIMEOUT_SECONDS,
            )
        if not ended.messages:
            last = next(iter(ended.stderr.strip().splitlines()[-1:]), "it printed nothing")
            raise SpillwayError(f"{self._library} cannot write these rows with {candidate.words}: {last}")
        result: dict[str, Any] = ended.messages[0]["result"]
        self.tried += not candidate.size
        candidate.cpu_seconds[turn] = result["cpu_seconds"]
        candidate.wall_seconds[turn] = result["wall_seconds"]
        candidate.peak_bytes[turn] = float(result["peak_bytes"])
        candidate.size, candidate.sha256 = result["bytes"], result["sha256"]

    @property
    def _is_over(self) -> bool:
        return time.monotonic() > self._end

    def _candidate(self, choice: Choice, schema: pa.Schema) -> Candidate:
        return Candidate(str(choice), self._writer.code(schema, choice), choice)


_COLUMN_ROUNDS = 3
# Weights of a byte against a second, over those at which the library's defaults count alike.
_WEIGHTS = (0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 10.0)


@dataclass(frozen=True)
class Cost:
    """Processor seconds and bytes of a column, or of all together."""

    seconds: float
    size: float

    def __add__(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(self.seconds + other.seconds, self.size + other.size)


Costs = dict[str, dict[ColumnChoice, Cost]]


def measure_columns(
    writer: Writer, table: pa.Table, *, until: float, progress: Callable[[int, int, str], None]
) -> Costs:
    """The cost of each column with each of its settings; the first is with those that the library prefers.

    Args:
        writer: The library.
        table: The rows to write.
        until: Monotonic time from which on only the first round is taken.
        progress: Called with the columns done, the columns in all, and the name of the next.

    Raises:
        SpillwayError: The library refuses a column with every setting.
    """
    found: Costs = {}
    for place, name in enumerate(table.column_names):
        progress(place, table.num_columns, name)
        column = table.select([name])
        refused: list[Exception] = []
        found[name] = dict(_measure_column(writer, column, name, until, refused))
        if not found[name]:
            raise SpillwayError(f"no setting writes the column {name!r}: {refused[-1]}") from refused[-1]
    progress(table.num_columns, table.num_columns, "")
    return found


def _measure_column(
    writer: Writer, column: pa.Table, name: str, until: float, refused: list[Exception]
) -> Iterator[tuple[ColumnChoice, Cost]]:
    for encoding in writer.encodings(column.schema.field(0).type):
        for codec in writer.of_columns:
            choice = ColumnChoice(codec, encoding)
            code = writer.code(column.schema, Choice(codec, {name: choice}))
            try:
                cost = _cost(compile(code, "<column>", "exec"), column, until)
            except Exception as error:  # noqa: BLE001 - each library has its own class for a refusal
                refused.append(error)
                continue
            yield choice, cost


def _cost(code: CodeType, table: pa.Table, until: float) -> Cost:
    """The least processor time of some writes to memory, and their size."""
    seconds, size = math.inf, 0
    for turn in range(_COLUMN_ROUNDS):
        out = io.BytesIO()
        begin = time.process_time()
        exec(code, {"table": table, "path": out})  # noqa: S102 - the code that is handed to the user
        seconds = min(seconds, time.process_time() - begin)
        size = out.tell()
        if turn == 0 and time.monotonic() > until:
            break
    return Cost(seconds, float(size))


def choices_of(costs: Costs, usual: Codec) -> list[Choice]:
    """Settings of files, from the cost of their columns: the best few for any weight of size against time.

    Args:
        costs: The result of `measure_columns`.
        usual: The codec of the library's defaults, from which weights are reckoned.
    """
    default = _total(
        each[next((choice for choice in each if choice.codec == usual), next(iter(each)))]
        for each in costs.values()
    )
    rate = default.seconds / default.size
    codecs = sorted({choice.codec for each in costs.values() for choice in each})
    found: dict[tuple[tuple[str, ColumnChoice], ...], Cost] = {}
    for allowed in ([each] for each in codecs), [codecs]:
        for names in allowed:
            for weight in _WEIGHTS:
                chosen = {name: _best(each, names, weight * rate) for name, each in costs.items()}
                found[tuple(chosen.items())] = _total(costs[name][each] for name, each in chosen.items())
    front = _front(found)
    ranked = sorted(front, key=lambda each: found[each].seconds * found[each].size)
    return [Choice(usual, dict(each)) for each in ranked]


def _best(costs: Mapping[ColumnChoice, Cost], codecs: list[Codec], weight: float) -> ColumnChoice:
    allowed = {choice: cost for choice, cost in costs.items() if choice.codec in codecs} or costs
    return min(allowed, key=lambda choice: allowed[choice].seconds + weight * allowed[choice].size)


def _front(
    found: Mapping[tuple[tuple[str, ColumnChoice], ...], Cost],
) -> list[tuple[tuple[str, ColumnChoice], ...]]:
    """Those of which no other is both faster and smaller."""
    front = []
    smallest = math.inf
    for choice, cost in sorted(found.items(), key=lambda each: (each[1].seconds, each[1].size)):
        if cost.size < smallest:
            front.append(choice)
            smallest = cost.size
    return front


def _total(costs: Iterable[Cost]) -> Cost:
    return sum(costs, start=Cost(0.0, 0.0))


def settings_table(found: Found, title: str) -> Table:
    """The defaults, the best and the others: time and size over those of the defaults, speed and memory."""
    ordered = [found.default, *([] if found.best is found.default else [found.best]), *found.others]
    rows = [[Entry(name), *_entries(found, each)] for name, each in zip(_names(found), ordered, strict=True)]
    return Table(
        f"{title}: {counted(found.rows, 'row')}, one core",
        ("settings", "time", "[95 %]", "size", "rows/s", "file MB", "peak MB"),
        rows,
        [f"{name}: {each.words}" for name, each in zip(_names(found), ordered, strict=True)],
    )


def legend(found: Found) -> list[str]:
    """The meaning of the columns."""
    rounds = len(found.default.cpu_seconds)
    reading = (
        f"time: processor time over that of the defaults, by {counted(rounds, 'round')} in turns; size: of "
        f"the file, over theirs; rows/s: by wall time, not processor time; peak MB: growth of resident "
        f"memory. {counted(found.tried, 'setting')} were measured as whole files."
    )
    return [reading]


def verdict(found: Found, library: str) -> str:
    """The gain of the best settings, or that they gain nothing."""
    over = found.best.time_over(found.default)
    if found.best is found.default or over is None:
        return f"Nothing that was tried is better than the defaults of {library} at no loss."
    smaller = 1 - found.best.size / found.default.size
    changes = [each.time_over(found.default) for each in (found.best, *found.others)]
    p = holm([1.0 if each is None else each.p for each in changes])[0]
    if p >= ALPHA:
        return f"{smaller:.1%} smaller than the defaults of {library}; no difference in time can be told."
    faster = f"{1 / over.ratio - 1:.1%} faster"
    return f"{smaller:.1%} smaller and {faster} than the defaults of {library}."


def _names(found: Found) -> list[str]:
    best = [] if found.best is found.default else ["best"]
    return ["defaults", *best, *(f"other {place}" for place, _ in enumerate(found.others, start=1))]


def _entries(found: Found, each: Candidate) -> list[Entry]:
    over = each.time_over(found.default)
    is_own = each is found.default or over is None
    interval = "" if is_own or over is None or over.low == 0 else f"[{over.low:.2f}, {over.high:.2f}]"
    return [
        Entry("1.00" if is_own or over is None else f"{over.ratio:.2f}", best=each is found.best),
        Entry(interval),
        Entry(f"{each.size / found.default.size:.3f}", best=each is found.best),
        Entry(f"{found.rows / each.median_of('wall_seconds'):,.0f}"),
        Entry(file_megabytes(each.size)),
        Entry(megabytes(each.median_of("peak_bytes"))),
    ]
