"""A run's records by cell, and its cells by setting: what the summaries of all runs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spillway.harness import records
from spillway.harness.statistics import estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spillway.harness.statistics import Estimate

Cell = TypeVar("Cell")
Setting = TypeVar("Setting")
Summary = TypeVar("Summary", bound="CellOfRun[Any]")


class CellOfRun(ABC, Generic[Setting]):
    """One cell of a run, summed up."""

    @property
    @abstractmethod
    def setting(self) -> Setting:
        """The part that it has in common with the cells of its table."""


@dataclass(frozen=True)
class RunOfCells(Generic[Summary, Setting]):
    """One run's folder.

    Attributes:
        folder: The folder.
        environment: What it was measured on and with.
        cells: The cells, in the order of the plan.
    """

    folder: Path
    environment: dict[str, Any]
    cells: Sequence[Summary]

    @property
    def run_id(self) -> str:
        """The run's name."""
        return str(self.environment["run_id"])

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings of the run; each has a separate table."""
        return list(dict.fromkeys(each.setting for each in self.cells))

    def of(self, setting: Setting) -> list[Summary]:
        """The cells of one setting."""
        return [each for each in self.cells if each.setting == setting]


def records_by_cell(path: Path, make: Callable[..., Cell]) -> dict[Cell, list[dict[str, Any]]]:
    """The records of a file by the cell that they are of, as `make` makes it of the record's fields.

    Raises:
        CorruptFileError: A line is damaged.
    """
    grouped: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for record in records.read_lines(path):
        grouped[make(**record["cell"])].append(record)
    return grouped


def outcomes(records: Sequence[dict[str, Any]]) -> str:
    """The outcome that all of them had, or each with its count."""
    counts = Counter(record["outcome"] for record in records)
    if len(counts) == 1:
        return str(next(iter(counts)))
    return ", ".join(f"{name} x{count}" for name, count in counts.most_common())


def estimate_of(
    records: Sequence[dict[str, Any]], metric: Callable[[dict[str, Any]], float | None]
) -> Estimate | None:
    """The estimate of a metric over the records that have it; None where none has."""
    values = [value for record in records if (value := metric(record)) is not None]
    return estimate(values) if values else None
