"""One run from its cells to its folder: hold each race, check its table, keep the results."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spillway.errors import OptionError, SpillwayError
from spillway.harness import records
from spillway.harness.disk import require_disk
from spillway.harness.environment import describe_run, refuse_debug_build
from spillway.harness.options import joined
from spillway.harness.redaction import redact
from spillway.harness.schedule import Slot, schedule
from spillway.race import committers
from spillway.race.cell import Race
from spillway.race.done_tables import DoneTables
from spillway.race.limits import reason_to_skip
from spillway.race.location import Location
from spillway.race.record import RACES, SCHEMA, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.race.plan import Cell, Options
    from spillway.race.progress import Progress
    from spillway.race.record import RaceRecord

__all__ = ["Finished", "hold_races"]


@dataclass(frozen=True)
class Finished:
    """The result of a run.

    Attributes:
        folder: The run's folder.
        interrupted: Ctrl-C ended it before all races were run.
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
        return Finished(folder, _run_all(race, folder, able, options, progress))


def _remove_if_empty(folder: Path) -> None:
    """Remove the folder if it is empty. Tables with faults are kept in it."""
    with suppress(OSError):
        folder.rmdir()


def _run_all(race: Race, folder: Path, cells: Sequence[Cell], options: Options, progress: Progress) -> bool:
    """Run all cells in their order; return True if the run was interrupted."""
    slots = list(schedule(cells, blocks=options.samples, seed=options.seed))
    progress.racing(slots)
    try:
        for slot in slots:
            progress.begins(slot)
            record = _record(race, slot)
            SCHEMA.check(record)
            records.append(folder / RACES, record)
            progress.ended(slot, record)
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
