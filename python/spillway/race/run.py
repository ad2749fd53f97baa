"""One run from its options to its folder: cells are planned, and each race that fits this machine is held."""

from __future__ import annotations

import itertools
import math
import os
import re
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spillway._options import require_counts, require_distinct
from spillway._wording import joined
from spillway.errors import OptionError, SpillwayError
from spillway.harness import records
from spillway.harness.environment import describe_environment, refuse_debug_build, require_disk, run_folder
from spillway.harness.processes import redact
from spillway.harness.schedule import Slot, schedule
from spillway.race import committers
from spillway.race.cell import DoneTables, Race
from spillway.race.location import Location
from spillway.race.model import FILE_ROWS, PARTITIONS, WORKS, Cell
from spillway.race.record import RACES, SCHEMA, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spillway.race.cell import Progress
    from spillway.race.real_s3 import RealS3
    from spillway.race.record import RaceRecord

WORKLOADS = ("merge", "append-only", "batched:N")
_BATCHED = re.compile(r"batched:([1-9]\d*)")
_TABLES = "tables"
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
        require_distinct(
            {
                "--writers": self.writers,
                "--committers": self.committers,
                "--workloads": self.workloads,
                "--partitions": self.partitions,
            }
        )
        if not 0 < self.time_limit < math.inf:
            raise OptionError(f"--time-limit takes seconds above 0, not {self.time_limit:g}")

    @staticmethod
    def _require_known(option: str, chosen: Sequence[str], known: Iterable[str]) -> None:
        unknown = set(chosen) - set(known)
        if unknown or not chosen:
            raise OptionError(f"{option} {joined(sorted(unknown))}: choose from {joined(known)}")

    def _require_appends(self) -> None:
        self._require_known("--partitions", self.partitions, PARTITIONS)
        if self.seconds is not None and not 0 < self.seconds < math.inf:
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
        OptionError: `text` does not say how to spread them.
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


# What a process that has imported pyarrow and a committer keeps for itself, and a thread that writes a file.
_PROCESS_BYTES = 80 << 20
_THREAD_BYTES = 512 << 10
# A row of a file, as a thread has it that writes the file again: 15 MB for 100,000 rows of a race.
_ROW_BYTES = 150
# Who marks rows reads a few columns of them, and writes none again.
_MARKS = "row-level"
# A stack and its guard page; the rest of a process has some hundreds.
_MAPS_PER_THREAD = 2
_SPARE_MAPS = 5_000
_MOST_PROCESSES = 512
_MERGES_NONE = ("put-if-absent", *committers.OWN_TABLES)


def reason_to_skip(cell: Cell) -> str | None:
    """The reason why a race is not run here; None if it is run."""
    absent = committers.missing(cell.committer)
    if absent is not None:
        return absent
    if cell.committer in _MERGES_NONE and cell.merges:
        return "it merges no schemas"
    if cell.committer == "partition-level" and cell.partitions != "own":
        return "its writers have a partition each: --partitions own"
    return _beyond_memory(cell) or _beyond_threads(cell)


def _beyond_memory(cell: Cell) -> str | None:
    if cell.processes > _MOST_PROCESSES:
        return f"{cell.processes:,} processes: their start alone would take minutes; --spread processes:64"
    free = _available_bytes()
    thread = _THREAD_BYTES + (0 if cell.committer == _MARKS else _rows_of_file(cell) * _ROW_BYTES)
    wanted = cell.processes * _PROCESS_BYTES + cell.writers * thread
    if wanted > free:
        return f"it would want {wanted / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
    return None


def _rows_of_file(cell: Cell) -> int:
    return cell.file_rows // cell.writers if cell.partitions == "own" else cell.file_rows


def _beyond_threads(cell: Cell) -> str | None:
    threads = -(-cell.writers // cell.processes)
    maps = _number(Path("/proc/sys/vm/max_map_count"))
    if maps is not None and threads * _MAPS_PER_THREAD + _SPARE_MAPS > maps:
        return f"{threads:,} threads in a process want more maps than vm.max_map_count = {maps:,} allows"
    most = _number(Path("/proc/sys/kernel/threads-max"))
    if most is not None and cell.writers > most // 2:
        return f"{cell.writers:,} threads are too many for kernel.threads-max = {most:,}"
    return None


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Finished:
    """The result of a run.

    Attributes:
        folder: The run's folder.
        interrupted: Ctrl-C, or its cost, ended it before all races were run.
        error: What else did; None if nothing did.
    """

    folder: Path
    interrupted: bool
    error: str | None = None


def hold_races(  # noqa: PLR0913 - options, by keyword only
    cells: Sequence[Cell],
    options: Options,
    *,
    out: Path,
    progress: Progress,
    store: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    keep_tables: bool = False,
    targets: bool = False,
    real_s3: RealS3 | None = None,
) -> Finished:
    """Run all cells and leave everything in a new folder below `out`.

    Ctrl-C ends the run early: races that were over by then stay and are reported.

    Args:
        cells: The cells to run.
        options: The options of the run.
        store: The folder for tables, an ``s3://`` URL, or None for the run's own folder.
        storage_options: Endpoint and credentials for S3.
        out: Folder of all runs, on a disk.
        keep_tables: True if tables are kept after their check.
        targets: True if the report compares the figures with the targets.
        progress: The line that shows the run's progress.
        real_s3: The bucket that is watched while the races are held, or None.

    Raises:
        OptionError: Nothing can be run here; the message says what to do.
        SpillwayError: A table cannot be made or looked at.
    """
    require_disk(out)
    refuse_debug_build()
    run_id = records.new_run_id()
    folder = out / run_id
    location = Location.of(store or str(folder / _TABLES), dict(storage_options or {}))
    if location.is_local and store is not None:
        require_disk(Path(store))
    if not location.is_local:
        location.files()  # which says what is missing
        if any(cell.noise for cell in cells):
            raise OptionError("--noise is on the disk of the tables: leave it out with --store s3://...")
        local = [name for name in committers.OWN_TABLES if any(cell.committer == name for cell in cells)]
        if local:
            raise OptionError(
                f"--committers {joined(local)}: on a local disk only; leave out --store s3://... or them"
            )
    skipped = {cell: reason for cell in cells if (reason := reason_to_skip(cell)) is not None}
    able = [cell for cell in cells if cell not in skipped]
    if not able:
        reasons = dict.fromkeys(f"{cell.committer}: {reason}" for cell, reason in skipped.items())
        raise OptionError("; ".join(reasons) or "there is nothing to run")
    for cell, reason in skipped.items():
        progress.say(f"{cell.words}: skipped, {reason}")
    scratch = None
    with ExitStack() as cleanup:
        # Tables that are wrong stay in it.
        cleanup.enter_context(run_folder(folder, RACES, _TABLES))
        records.write_json(
            folder / records.ENVIRONMENT,
            {
                **describe_environment(run_id, options, schema_version=SCHEMA_VERSION),
                "store": "local disk" if location.is_local else "S3",
                "endpoint": urlsplit(location.endpoint).hostname if location.endpoint else None,
                **({} if real_s3 is None else real_s3.measured),
                "targets": targets,
                "skipped": [
                    {"cell": asdict(cell), "words": cell.words, "reason": reason}
                    for cell, reason in skipped.items()
                ],
            },
        )
        if location.is_local:
            scratch = Path(location.uri)
            scratch.mkdir(parents=True, exist_ok=True)
            if store is None and not keep_tables:
                cleanup.callback(_remove_if_empty, scratch)
        race = Race(
            run_id=run_id,
            seed=options.seed,
            location=location,
            scratch=scratch,
            time_limit=options.time_limit,
            keep=keep_tables,
            progress=progress,
            done=DoneTables(progress),
        )
        cleanup.callback(race.done.remove)
        return _run_all(race, folder, able, options, progress, real_s3)


def _remove_if_empty(folder: Path) -> None:
    """Remove the folder if it is empty. Tables with faults are kept in it."""
    with suppress(OSError):
        folder.rmdir()


def _run_all(  # noqa: PLR0913, PLR0917 - what a run is made of
    race: Race,
    folder: Path,
    cells: Sequence[Cell],
    options: Options,
    progress: Progress,
    real_s3: RealS3 | None,
) -> Finished:
    """Run all cells in their order, until the run is interrupted, fails, or costs more than was said."""
    slots = list(schedule(cells, blocks=options.samples, seed=options.seed))
    progress.racing(slots)
    try:
        for slot in slots:
            progress.begins(slot)
            record = _record(race, slot)
            SCHEMA.append(folder / RACES, record)
            progress.ended(slot, record)
            if real_s3 is not None and real_s3.is_enough(slot.cell, record):
                return Finished(folder, interrupted=True)
    except (KeyboardInterrupt, SpillwayError, OSError) as error:
        # The races before it are there to be reported.
        if not (folder / RACES).exists():
            raise
        if isinstance(error, KeyboardInterrupt):
            return Finished(folder, interrupted=True)
        return Finished(folder, interrupted=False, error=str(error))
    finally:
        progress.stop()
    return Finished(folder, interrupted=False)


def _record(race: Race, slot: Slot[Cell]) -> RaceRecord:
    try:
        return race.run(slot)
    except SpillwayError as error:
        raise SpillwayError(redact(str(error))) from error
