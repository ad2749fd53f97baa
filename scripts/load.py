"""Hold the races of load that does not end, or of the published tests' missing cells, and leave a report.

    python scripts/load.py load runs/load
    python scripts/load.py published runs/published --samples 5
    python scripts/load.py load runs/load --store s3://BUCKET/PREFIX --storage-option NAME=VALUE

Each is a run as `spillway race` leaves it. The first has races of a minute: 64 threads, 8 and 64 processes,
the same beside a process that syncs, and 10,000 threads that append once beside it; on S3 64 processes alone.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console

from spillway.cli.common import pairs
from spillway.race.cell import Progress
from spillway.race.model import Cell
from spillway.race.record import read_run
from spillway.race.report import draw_figures, write_report
from spillway.race.run import Options, hold_races

_PEER = "delta-rs-retry"
_race = partial(Cell, workload="append-only")


def endless(seconds: float, *, on_s3: bool) -> list[Cell]:
    """The races in which each writer goes on for a time."""
    race = partial(_race, committer="spillway", seconds=seconds)
    if on_s3:
        return [race(writers=64, processes=64)]
    quiet = [race(writers=64), race(writers=8, processes=8), race(writers=64, processes=64)]
    # All of these threads commit once, beside the same noise.
    burst = _race(committer="spillway", writers=10_000, noise=True)
    return [
        *quiet,
        *(race(writers=each.writers, processes=each.processes, noise=True) for each in quiet),
        burst,
    ]


def published() -> list[Cell]:
    """The cells of published tests: merged schemas, 10 to 100 writers, batches, one partition, many."""
    both = ("spillway", _PEER)
    cells = [_race(committer=name, workload="merge", writers=writers) for writers in (1, 50) for name in both]
    cells += [_race(committer=name, writers=writers) for writers in (10, 25, 50, 75, 100) for name in both]
    for rows in (1, 10, 100, 1_000):
        cells += [_race(committer=name, workload=f"batched:{rows}", rows=rows, writers=50) for name in both]
    cells += [_race(committer=name, writers=50, partitions="one") for name in both]
    # The peer commits a few of so many in the time that a race has.
    return [
        *cells,
        _race(committer="spillway", writers=2_000),
        _race(committer="spillway", writers=10_000, processes=16),
    ]


def main() -> None:
    """Hold the races."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("races", choices=("load", "published"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--store")
    parser.add_argument("--storage-option", action="append", default=[])
    given = parser.parse_args()
    on_s3 = given.store is not None and "://" in given.store
    given.folder.mkdir(parents=True, exist_ok=True)
    finished = hold_races(
        endless(given.seconds, on_s3=on_s3) if given.races == "load" else published(),
        Options(committers=("spillway",), writers=(1,), samples=given.samples),
        store=given.store,
        storage_options=pairs("--storage-option", given.storage_option),
        out=given.folder,
        progress=Progress(Console()),
    )
    run = read_run(finished.folder)
    print(write_report(run, draw_figures(run)))
    if run.wrong() or finished.interrupted:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
