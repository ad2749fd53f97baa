"""A run of races, read from disk and summed up by cell. This module is independent of runs that go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.harness import records
from spillway.harness.host import noise_warnings
from spillway.harness.report.summary import CellOfRun, RunOfCells, estimate_of, outcomes, records_by_cell
from spillway.race import committers
from spillway.race.plan import Cell
from spillway.race.record import RACES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spillway.harness.statistics import Estimate

__all__ = ["CellSummary", "RunSummary", "Setting", "read_run"]


@dataclass(frozen=True)
class Setting:
    """The setting that the cells of one table share: all but the committer and the number of writers."""

    workload: str
    rows: int
    appends: int
    partitions: str
    spread: str

    @classmethod
    def of(cls, cell: Cell) -> Setting:
        """The setting of a cell."""
        if cell.processes == 1:
            spread = "threads of one process"
        elif cell.processes == cell.writers:
            spread = "a process each"
        else:
            spread = f"threads of {cell.processes:,} processes"
        return cls(cell.workload, cell.rows, cell.appends, cell.partitions, spread)

    @property
    def words(self) -> str:
        """The setting for people."""
        rows = f"{counted(self.rows, 'row')} an append"
        appends = "one append each" if self.appends == 1 else f"{self.appends:,} appends each, in sequence"
        partitions = "own partitions" if self.partitions == "own" else "one partition"
        return f"{self.workload}, {rows}, {appends}, {partitions}, {self.spread}"


@dataclass(frozen=True)
class CellSummary(CellOfRun[Setting]):
    """All races of one cell.

    Attributes:
        cell: The cell.
        races: Their records, in the order they were run.
    """

    cell: Cell
    races: Sequence[dict[str, Any]]

    @property
    def setting(self) -> Setting:
        """All of the cell but its committer and writers."""
        return Setting.of(self.cell)

    @property
    def outcome(self) -> str:
        """The outcomes of its races."""
        return outcomes(self.races)

    def estimate(self, metric: Callable[[dict[str, Any]], float | None]) -> Estimate | None:
        """The estimate of a metric over the races that have it; None where none has."""
        return estimate_of(self.races, metric)

    def median(self, metric: Callable[[dict[str, Any]], float | None]) -> float | None:
        """Its median."""
        found = self.estimate(metric)
        return None if found is None else found.median

    @property
    def speed(self) -> float | None:
        """Appends that were acknowledged in a second."""
        return self.median(lambda race: race["appends_per_second"])

    def most(self, metric: Callable[[dict[str, Any]], float | None]) -> float | None:
        """The greatest of a metric; None where no race has it."""
        return max((value for race in self.races if (value := metric(race)) is not None), default=None)

    def wait(self, percent: int) -> float | None:
        """The wait that so many out of a hundred writers do not exceed."""
        return self.median(lambda race: race["wait_seconds"] and race["wait_seconds"][percent])


class RunSummary(RunOfCells[CellSummary, Setting]):
    """One run's folder."""

    def find(self, cell: Cell) -> CellSummary | None:
        """A cell, if it was run."""
        return next((each for each in self.cells if each.cell == cell), None)

    def wrong(self) -> list[str]:
        """Problems of tables, in words."""
        return [
            f"{each.cell.words}: {problem}"
            for each in self.cells
            for race in each.races
            for problem in race["table"]["problems"]
        ]

    def warnings(self) -> list[str]:
        """Caveats that a reader has to know before believing the figures."""
        races = [race for each in self.cells for race in each.races]
        seconds = sum(race["process_seconds"] for race in races)
        warnings = noise_warnings(self.environment["load_before"], [race["host"] for race in races], seconds)
        if races and min(len(each.races) for each in self.cells) == 1:
            warnings.append(
                "one race a cell shows no spread: --samples 5 for a rough figure, 12 for one to quote"
            )
        if (
            self.environment["store"] == "local disk"
            and len({each.cell.committer for each in self.cells}) > 1
        ):
            warnings.append(
                "on a local disk the committers do not promise the same: see below what each has synced"
            )
        return warnings


def read_run(folder: Path) -> RunSummary:
    """Read a run's folder, whole or cut short.

    Raises:
        FileNotFoundError: The folder is not a run's.
        CorruptFileError: A line in it is damaged.
    """
    grouped = records_by_cell(folder / RACES, Cell)
    places = {name: place for place, name in enumerate(committers.NAMES)}
    cells = [CellSummary(cell, races) for cell, races in grouped.items()]
    cells.sort(
        key=lambda each: (
            each.cell.workload,
            each.cell.partitions,
            each.cell.processes > 1,
            each.cell.appends,
            each.cell.writers,
            places[each.cell.committer],
        )
    )
    return RunSummary(folder, records.read_json(folder / records.ENVIRONMENT), cells)
