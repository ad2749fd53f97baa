"""One run from its cells to its folder: hold each race that fits this machine, and keep the results."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spillway.errors import OptionError, SpillwayError
from spillway.harness import records
from spillway.harness.environment import describe_run, refuse_debug_build, require_disk
from spillway.harness.plan import Slot, joined, schedule
from spillway.harness.processes import redact
from spillway.race import committers
from spillway.race.cell import DoneTables, Race
from spillway.race.location import Location
from spillway.race.record import RACES, SCHEMA, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.race.cell import Progress
    from spillway.race.model import Cell
    from spillway.race.plan import Options
    from spillway.race.real_s3 import RealS3
    from spillway.race.record import RaceRecord

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
    """

    folder: Path
    interrupted: bool


def hold_races(  # noqa: PLR0913 - options, by keyword only
    cells: Sequence[Cell],
    options: Options,
    *,
    store: str | None,
    storage_options: dict[str, str],
    out: Path,
    keep_tables: bool,
    targets: bool,
    progress: Progress,
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
    location = Location.of(store or str(folder / "tables"), storage_options)
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
    folder.mkdir()
    records.write_json(
        folder / records.ENVIRONMENT,
        {
            **describe_run(run_id, options, schema_version=SCHEMA_VERSION),
            "store": "local disk" if location.is_local else "S3",
            "endpoint": urlsplit(location.endpoint).hostname if location.endpoint else None,
            **({} if real_s3 is None else real_s3.measured),
            "targets": targets,
            "skipped": [
                {"cell": cell.as_dict(), "words": cell.words, "reason": reason}
                for cell, reason in skipped.items()
            ],
        },
    )
    for cell, reason in skipped.items():
        progress.say(f"{cell.words}: skipped, {reason}")
    scratch = None
    with ExitStack() as cleanup:
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
        return Finished(folder, _run_all(race, folder, able, options, progress, real_s3))


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
) -> bool:
    """Run all cells in their order; return True if the run was interrupted, or cost more than was said."""
    slots = list(schedule(cells, blocks=options.samples, seed=options.seed))
    progress.racing(slots)
    try:
        for slot in slots:
            progress.begins(slot)
            record = _record(race, slot)
            SCHEMA.append(folder / RACES, record)
            progress.ended(slot, record)
            if real_s3 is not None and real_s3.is_enough(slot.cell, record):
                return True
    except KeyboardInterrupt:
        return True
    finally:
        progress.stop()
    return False


def _record(race: Race, slot: Slot[Cell]) -> RaceRecord:
    try:
        return race.run(slot)
    except SpillwayError as error:
        raise SpillwayError(redact(str(error))) from error
