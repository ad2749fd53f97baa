"""The rules by which a run may be quoted in prose: enough samples, taken on a quiet host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.bench.least_memory_table import found_limits

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary

__all__ = ["FEWEST_TO_QUOTE", "why_limits_not_quoted", "why_not_quoted"]

FEWEST_TO_QUOTE = 12
_FEWEST_WRITES = 5
_FIRST_VERSION = 2  # of the record: runs before it were quoted under other rules


def why_not_quoted(run: RunSummary) -> list[str]:
    """The reasons why a run is not to be quoted; none for runs of version 1, which came before the rules."""
    if run.environment["schema_version"] < _FIRST_VERSION:
        return []
    few = sum(len(each.samples) < FEWEST_TO_QUOTE for each in run.cells)
    lacking = [f"{counted(few, 'cell')} with fewer than {FEWEST_TO_QUOTE} samples"] if few else []
    return lacking + run.noise()


def why_limits_not_quoted(run: RunSummary) -> list[str]:
    """The reasons why the least memory of a run is not to be quoted: a side that too few writes prove.

    Samples and noise do not matter: a write survives under a limit or not, however long it takes.
    """
    found = [each for setting in run.settings for each in found_limits(run, setting)]
    if not found:
        return ["no least memory was looked for"]
    lacking = []
    for each in found:
        sides = [each.bounds.died] if each.bounds.dies_at else []
        sides += [each.bounds.survived] if each.bounds.survives_from is not None else []
        if min(sides, default=0) < _FEWEST_WRITES:
            proved = counted(min(sides, default=0), "write")
            lacking.append(f"a side of {each.cell.backend} is proved by {proved}, not {_FEWEST_WRITES}")
    return lacking
