"""The table of the least memory limits: the end of a search, with what proves it."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted
from spillway.bench.failures import outcome_words
from spillway.bench.least_memory import bounds_of, is_unclear
from spillway.bench.plan import Cell
from spillway.bench.summary import Setting
from spillway.bench.tables import megabytes, setting_title
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.least_memory import Bounds
    from spillway.bench.summary import RunSummary

__all__ = ["LEAST_MEMORY_LEGEND", "Found", "found_limits", "least_memory_table"]

LEAST_MEMORY_LEGEND = (
    "*survives from* is the least limit on the whole process, imports included, at and above which every "
    "write survived, and *dies at* the largest at and below which every write died: the least memory lies "
    "between. A limit of kind rlimit-data counts private address space instead, used or not. "
    "In brackets are the writes that prove each side. *write s* is the median of the writes at that limit. "
    "A write that neither survives nor dies of memory ends a search, and *ends below* says how, and where."
)
"""The meaning of the columns of `least_memory_table`."""


class Found:
    """The least limit of a backend in a setting.

    Args:
        cell: The cell, with the limit of one of its writes.
        trials: All its writes.
    """

    def __init__(self, cell: Cell, trials: Sequence[dict[str, Any]]) -> None:
        self.cell = cell
        self.bounds: Bounds = bounds_of(trials)
        self._trials = trials

    @property
    def seconds(self) -> float | None:
        """The median length of the writes at the limit from which on it survives."""
        found = self._at(self.bounds.survives_from)
        return median(float(each["wall_seconds"]) for each in found) if found else None

    @property
    def ends(self) -> list[str]:
        """The ways in which writes ended below it, with the phases, and what cut the search short."""
        said = [_end(each) for each in self._at(self.bounds.dies_at)]
        said += [
            f"search ended by {_end(each)} at {megabytes(each['cell']['memory_bytes'])} MB"
            for each in self._trials
            if is_unclear(each)
        ]
        return list(dict.fromkeys(said))

    @property
    def is_cut_short(self) -> bool:
        """True if a write that says nothing of memory ended the search."""
        return any(is_unclear(each) for each in self._trials)

    def _at(self, limit: int | None) -> list[dict[str, Any]]:
        return [each for each in self._trials if each["cell"]["memory_bytes"] == limit]


def found_limits(run: RunSummary, setting: Setting) -> list[Found]:
    """The least limits of a setting's backends, the least first; those that never survived last.

    They are under no limit of the run's, so that they belong to the first of the settings that differ in it.
    """
    alike = [each for each in run.settings if _without_limit(each) == _without_limit(setting)]
    if alike[0] != setting:
        return []
    trials: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in run.limit_trials:
        cell = Cell(**each["cell"])
        if _without_limit(Setting.of(cell)) == _without_limit(setting):
            trials.setdefault((cell.backend, cell.rows), []).append(each)
    found = [Found(Cell(**each[0]["cell"]), each) for each in trials.values()]
    return sorted(found, key=lambda each: (each.bounds.survives_from is None, each.bounds.survives_from or 0))


def least_memory_table(run: RunSummary, setting: Setting) -> Table | None:
    """The least limits of a setting; None where none was looked for."""
    found = found_limits(run, setting)
    if not found:
        return None
    rows = [
        [
            Entry(each.cell.backend),
            Entry(_survives(each)),
            Entry(f"{megabytes(each.bounds.dies_at)} ({each.bounds.died})" if each.bounds.dies_at else "-"),
            Entry("-" if each.seconds is None else f"{each.seconds:.2f}"),
            Entry(and_joined(each.ends) or "-"),
        ]
        for each in found
    ]
    kind = found[0].cell.limit_kind
    return Table(
        f"Least memory survived in MB at {counted(found[0].cell.rows, 'row')} ({kind}): "
        f"{setting_title(setting, with_limit=False)}",
        ("backend", "survives from", "dies at", "write s", "ends below"),
        rows,
        [],
        ends_in_words=True,
    )


def _survives(found: Found) -> str:
    if found.bounds.survives_from is None:
        return "-" if found.is_cut_short else "never"
    return f"{megabytes(found.bounds.survives_from)} ({found.bounds.survived})"


def _end(trial: dict[str, Any]) -> str:
    return f"{outcome_words(trial['outcome'])} in {trial['died_in']}"


def _without_limit(setting: Setting) -> Setting:
    return replace(setting, memory_bytes=None, limit_kind="none")
