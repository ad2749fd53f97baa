"""The plan of a run: options become cells, checked before any race begins."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spillway.errors import OptionError
from spillway.harness.plan import joined, require_counts
from spillway.race import committers
from spillway.race.model import FILE_ROWS, PARTITIONS, WORKS, Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WORKLOADS = ("merge", "append-only", "batched:N")
_BATCHED = re.compile(r"batched:([1-9]\d*)")
_SPREAD = re.compile(r"processes:([1-9]\d*)")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a run; `Cell` explains the fields that are not listed here.

    Attributes:
        workloads: Of appends; none for any other work.
        partitions: Of appends; none for any other work, where the committer has its own.
        table_rows: Rows that the table has before the race: of any work but appends, where it has none.
        spread: "threads", "processes" (one for each writer) or "processes:N".
        samples: Races of each cell.
        seed: Of the order of races, and of the arrivals of appends with `rate`.
        time_limit: Seconds after which a race is stopped; with `seconds`, after these.
    """

    committers: tuple[str, ...]
    writers: tuple[int, ...]
    work: str = "append"
    workloads: tuple[str, ...] = ("append-only",)
    rows: int = 10
    appends: int = 1
    partitions: tuple[str, ...] = ("own",)
    table_rows: int | None = None
    spread: str = "threads"
    seconds: float | None = None
    noise: bool = False
    rate: float | None = None
    samples: int = 1
    seed: int = 1
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        require_counts(
            {
                "--writers": self.writers,
                "--rows": (self.rows,),
                "--appends": (self.appends,),
                "--samples": (self.samples,),
            }
        )
        self._require_known("--work", (self.work,), WORKS)
        self._require_known("--committers", self.committers, committers.NAMES)
        able = committers.able(self.work)
        if unable := [name for name in self.committers if name not in able]:
            raise OptionError(
                f"--committers {joined(unable)}: for appends only; with --work {self.work} choose from "
                f"{joined(able)}"
            )
        if self.work == "append":
            self._require_appends()
        else:
            self._require_changes()
        parse_spread(self.spread, 1)
        if self.time_limit <= 0:
            raise OptionError(f"--time-limit takes seconds above 0, not {self.time_limit:g}")

    @staticmethod
    def _require_known(option: str, chosen: Sequence[str], known: Iterable[str]) -> None:
        unknown = set(chosen) - set(known)
        if unknown or not chosen:
            raise OptionError(f"{option} {joined(sorted(unknown))}: choose from {joined(known)}")

    def _require_appends(self) -> None:
        self._require_known("--partitions", self.partitions, PARTITIONS)
        if self.seconds is not None and self.seconds <= 0:
            raise OptionError(f"--seconds takes seconds above 0, not {self.seconds:g}")
        if self.seconds is not None and self.appends != 1:
            raise OptionError("--appends and --seconds both say how long writers run: leave one out")
        if self.rate is not None:
            self._require_rate(self.rate)
        if self.table_rows is not None:
            raise OptionError(
                "--table-rows is for work that changes rows: leave it out with --work append, whose tables "
                "begin empty"
            )
        for workload in self.workloads:
            rows_of(workload, self.rows)
        if not self.workloads:
            raise OptionError(f"--workloads names none: choose from {joined(WORKLOADS)}")

    def _require_rate(self, rate: float) -> None:
        if self.seconds is None:
            raise OptionError("--rate needs the time for which appends are due: pass --seconds, too")
        if not 0 < rate < math.inf:
            raise OptionError(f"--rate takes appends per second above 0, not {rate:g}")

    def _require_changes(self) -> None:
        if self.rate is not None:
            raise OptionError(f"--rate needs --work append: leave it out with --work {self.work}")
        for option, given in (("--workloads", self.workloads), ("--partitions", self.partitions)):
            if given:
                raise OptionError(f"{option} needs --work append: leave it out with --work {self.work}")
        if self.seconds is not None:
            raise OptionError(f"--seconds needs --work append: pass --appends with --work {self.work}")
        if self.table_rows is not None:
            require_counts({"--table-rows": (self.table_rows,)})
        most = max(self.writers)
        share = self.file_rows // most
        if self.rows * self.appends > share:
            raise OptionError(
                f"--rows {self.rows}, --appends {self.appends}: {most:,} writers share a table of "
                f"{self.file_rows:,} rows, so that rows times appends may be {share:,} at most; --table-rows "
                "makes it larger"
            )

    @property
    def file_rows(self) -> int:
        """Rows of the table before the race, as in its cells."""
        if self.work == "append":
            return 0
        return FILE_ROWS if self.table_rows is None else self.table_rows


def rows_of(workload: str, rows: int) -> int:
    """Rows of an append of a workload, where others have `rows`.

    Raises:
        OptionError: There is no such workload.
    """
    batched = _BATCHED.fullmatch(workload)
    if batched is not None:
        return int(batched[1])
    if workload not in {"merge", "append-only"}:
        raise OptionError(f"--workloads {workload}: choose from {joined(WORKLOADS)}")
    return rows


def parse_spread(text: str, writers: int) -> int:
    """The processes that `writers` are spread over.

    Raises:
        OptionError: It is no way to spread them.
    """
    if text == "threads":
        return 1
    if text == "processes":
        return writers
    several = _SPREAD.fullmatch(text)
    if several is None:
        raise OptionError(f"--spread {text}: write threads, processes, or processes:N")
    return min(int(several[1]), writers)


def plan_cells(options: Options) -> list[Cell]:
    """All cells of a run, in a fixed order."""
    cells = _appends(options) if options.work == "append" else _changes(options)
    return [
        replace(cell, processes=parse_spread(options.spread, cell.writers), noise=options.noise)
        for cell in cells
    ]


def _appends(options: Options) -> list[Cell]:
    return [
        Cell(
            committer=committer,
            workload=workload,
            writers=writers,
            rows=rows_of(workload, options.rows),
            appends=options.appends,
            partitions=partitions,
            seconds=options.seconds,
            rate=options.rate,
        )
        for workload, partitions, writers, committer in itertools.product(
            options.workloads, options.partitions, options.writers, options.committers
        )
    ]


def _changes(options: Options) -> list[Cell]:
    return [
        Cell(
            committer=committer,
            work=options.work,
            writers=writers,
            rows=options.rows,
            appends=options.appends,
            partitions=committers.partitions(committer),
            file_rows=options.file_rows,
        )
        for writers, committer in itertools.product(options.writers, options.committers)
    ]
