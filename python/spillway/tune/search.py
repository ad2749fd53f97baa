"""The search: settings put together from columns, and whole files measured beside the library's defaults.

Every measurement is a process of its own. Those that are compared take turns, so that drift hits all alike;
after each three rounds the worse half is left out.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from spillway.errors import SpillwayError
from spillway.harness.limits import Unlimited
from spillway.harness.limits.affinity import choose_cores, stepping_aside
from spillway.harness.probes.pools import thread_environment
from spillway.harness.rank_tests import ALPHA, change_of_pairs, holm
from spillway.harness.spawn import run_limited
from spillway.tune.choice import Choice, Codec
from spillway.tune.columns import choices_of, measure_columns
from spillway.tune.writers import WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.datasets import PreparedInput
    from spillway.harness.rank_tests import Change

__all__ = ["GOALS", "Candidate", "Found", "Goal", "tune"]

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
_LEVEL = 1.0  # no loss: not above the default
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
        """Its processor time over that of another, by round."""
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
        best: The best by the goal; the defaults where nothing is better.
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
        minutes: The time that it may take, about.
        progress: Called with what is done, how much of it, and of how much.

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
        """Measure each until it has so many rounds, in turns; no further once the time is over."""
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
            last = next(iter(ended.stderr.strip().splitlines()[-1:]), "it said nothing")
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
