"""The rules by which a run may be quoted in prose: enough samples, taken on a quiet host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._wording import counted

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary

__all__ = ["FEWEST_TO_QUOTE", "why_not_quoted"]

FEWEST_TO_QUOTE = 12
_FIRST_VERSION = 2  # of the record: runs before it were quoted under other rules


def why_not_quoted(run: RunSummary) -> list[str]:
    """The reasons why a run is not to be quoted; none for runs of version 1, which came before the rules."""
    if run.environment["schema_version"] < _FIRST_VERSION:
        return []
    few = sum(len(each.samples) < FEWEST_TO_QUOTE for each in run.cells)
    lacking = [f"{counted(few, 'cell')} with fewer than {FEWEST_TO_QUOTE} samples"] if few else []
    return lacking + run.noise()
