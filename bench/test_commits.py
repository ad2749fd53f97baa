"""Appends per second to one Delta table, beside delta-rs, by one process and by some.

The races are those of ``spillway race``. Spillway syncs data files and the log before it acknowledges an
append; delta-rs syncs nothing.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from spillway.harness.schedule import Slot
from spillway.race.cell import DoneTables, Progress, Race
from spillway.race.location import Location
from spillway.race.model import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .side_by_side import SideBySide

COMMITTERS = ["spillway", "delta-rs"]
ROWS_OF_AN_APPEND = 10
CHECKED = [(2, 2)]
MEASURED = [(1, 50), (4, 50)]
"""Processes, and appends of each."""
TIME_LIMIT = 60.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_checked = metafunc.config.getoption("benchmark_disable", default=True)
    metafunc.parametrize(("processes", "appends"), CHECKED if is_checked else MEASURED)


@pytest.fixture
def race(request: pytest.FixtureRequest) -> Iterator[Race]:
    """Races on a disk: the system's temporary folder may lie in memory, where a sync costs nothing."""
    base = request.config.rootpath / ".build"
    base.mkdir(exist_ok=True)
    progress = Progress(Console(quiet=True))
    with tempfile.TemporaryDirectory(dir=base, prefix="bench-") as folder:
        done = DoneTables(progress)
        yield Race(
            run_id="pytest",
            location=Location(folder),
            scratch=Path(folder),
            time_limit=TIME_LIMIT,
            keep=False,
            progress=progress,
            done=done,
            seed=1,
        )
        done.remove()


def test_every_append_is_in_the_table_once(
    side_by_side: SideBySide, race: Race, processes: int, appends: int
) -> None:
    """A writer in each process appends to a partition of its own, again and again."""
    blocks = count()

    def taken(committer: str) -> dict[str, Any]:
        cell = Cell(
            committer=committer,
            workload="append-only",
            writers=processes,
            processes=processes,
            appends=appends,
            rows=ROWS_OF_AN_APPEND,
        )
        record = race.run(Slot(next(blocks), 0, cell))
        table = record["table"]
        assert record["outcome"] == "ok", record
        assert record["acknowledged"] == table["present"] == processes * appends
        assert table["lost"] == table["doubled"] == 0
        assert set(table["rows"].values()) == {processes * appends * ROWS_OF_AN_APPEND}
        names = ("seconds", "acknowledged", "appends_per_second", "processor_seconds", "host")
        return {"committer": committer, **{name: record[name] for name in names}}

    side_by_side(
        taken, COMMITTERS, against="delta-rs", processes=processes, appends=appends, rows=ROWS_OF_AN_APPEND
    )
