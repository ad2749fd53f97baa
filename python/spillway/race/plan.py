"""The plan of a run: options become cells, checked before any race begins."""

from __future__ import annotations

import itertools
import re
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from spillway._wording import counted
from spillway.errors import OptionError
from spillway.harness.options import joined, require_counts
from spillway.harness.schema import Keywords, Positive
from spillway.race import committers

__all__ = ["PARTITIONS", "WORKLOADS", "Cell", "Options", "parse_spread", "plan_cells"]

PARTITIONS = ("own", "one")
WORKLOADS = ("merge", "append-only", "batched:N")
_BATCHED = re.compile(r"batched:([1-9]\d*)")
_SPREAD = re.compile(r"processes:([1-9]\d*)")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One committer in one race.

    Attributes:
        committer: Its name.
        workload: "merge" asks for the schemas to be merged at every append, "append-only" does not and the
            table says that it is append-only, "batched:N" is that with N rows an append.
        writers: Writers that start at once.
        appends: Appends that each makes, one after another.
        rows: Rows of an append.
        partitions: "own" gives each writer a partition, "one" has all write to the same.
        processes: Processes that the writers are spread over; in each they are threads.
    """

    committer: Annotated[str, Keywords(enum=list(committers.NAMES))]
    workload: Annotated[str, Keywords(pattern="^(merge|append-only|batched:[1-9][0-9]*)$")]
    writers: Positive
    rows: Positive = 10
    appends: Positive = 1
    partitions: Annotated[str, Keywords(enum=list(PARTITIONS))] = "own"
    processes: Positive = 1

    @property
    def expected(self) -> int:
        """Appends that should be in the table at the end."""
        return self.writers * self.appends

    @property
    def merges(self) -> bool:
        """True if each append merges the schemas."""
        return self.workload == "merge"

    @property
    def words(self) -> str:
        """The cell for people."""
        spread = "" if self.processes == 1 else f" in {self.processes:,} processes"
        appends = "" if self.appends == 1 else f" x {self.appends:,} appends"
        writers = counted(self.writers, "writer")
        return f"{self.committer}, {self.workload}, {writers}{spread}{appends}"

    def share(self, process: int) -> range:
        """The numbers of the writers that are in one of the processes."""
        return range(process, self.writers, self.processes)

    def as_dict(self) -> dict[str, Any]:
        """The fields as a plain dict, for the record."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a run; `Cell` explains the fields that are not listed here.

    Attributes:
        spread: "threads", "processes" (one for each writer) or "processes:N".
        samples: Races of each cell.
        seed: Of the order of races.
        time_limit: Seconds after which a race is stopped.
    """

    committers: tuple[str, ...]
    writers: tuple[int, ...]
    workloads: tuple[str, ...] = ("append-only",)
    rows: int = 10
    appends: int = 1
    partitions: tuple[str, ...] = ("own",)
    spread: str = "threads"
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
        for option, chosen, known in (
            ("--committers", self.committers, committers.NAMES),
            ("--partitions", self.partitions, PARTITIONS),
        ):
            unknown = set(chosen) - set(known)
            if unknown or not chosen:
                raise OptionError(f"{option} {joined(sorted(unknown))}: choose from {joined(known)}")
        for workload in self.workloads:
            rows_of(workload, self.rows)
        if not self.workloads:
            raise OptionError(f"--workloads names none: choose from {joined(WORKLOADS)}")
        parse_spread(self.spread, 1)
        if self.time_limit <= 0:
            raise OptionError(f"--time-limit takes seconds above 0, not {self.time_limit:g}")


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
    cells = [
        Cell(
            committer=committer,
            workload=workload,
            writers=writers,
            rows=rows_of(workload, options.rows),
            appends=options.appends,
            partitions=partitions,
        )
        for workload, partitions, writers, committer in itertools.product(
            options.workloads, options.partitions, options.writers, options.committers
        )
    ]
    return [replace(cell, processes=parse_spread(options.spread, cell.writers)) for cell in cells]
