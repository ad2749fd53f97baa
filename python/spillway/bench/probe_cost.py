"""The cost of each probe: writes beside it, over writes beside none in the same blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.bench.tables import ratio_text
from spillway.harness.statistics import Estimate, estimate, paired_ratio

if TYPE_CHECKING:
    from spillway.bench.summary import CellSummary, RunSummary
    from spillway.harness.statistics import Ratio

__all__ = ["probe_costs"]

_NAMES = {
    "curve": "memory over time, read from another core (the only one that timed samples have)",
    "gil": "the GIL's ticker",
    "gc": "the garbage collector's callbacks",
}


def probe_costs(run: RunSummary) -> list[str]:
    """A line for each probe with the time that it adds; nothing for a run without such writes."""
    lines = []
    for probe, name in _NAMES.items():
        found = probe_cost(run, probe)
        if found is not None:
            lines.append(
                f"{name}: {ratio_text(found)} times the time, by {counted(found.n, 'pair')} of writes"
            )
    # Executors of a cluster took the timed samples, and this machine the traces: no ratio of one machine.
    cells = [] if "hosts" in run.environment else run.cells
    traced = [cost for each in cells if (cost := _traced(each)) is not None]
    if traced:
        lines.append(f"memray: {_estimate_text(estimate(traced))} times, over the medians of timed samples")
    return lines


def probe_cost(run: RunSummary, probe: str) -> Ratio | None:
    """The time beside a probe over that beside none: each cell and block is a pair."""
    with_it: dict[int, float] = {}
    without: dict[int, float] = {}
    for each in run.cells:
        times = _times(each)
        for block in sorted({block for kind, block in times if kind == probe}):
            if ("none", block) in times:
                pair = len(with_it)
                with_it[pair], without[pair] = times[probe, block], times["none", block]
    return paired_ratio(with_it, without) if with_it else None


def _times(cell: CellSummary) -> dict[tuple[str, int], float]:
    return {
        (write["probe"], write["block"]): write["wall_seconds"]
        for write in cell.probed
        if write["wall_seconds"] is not None
    }


def _traced(cell: CellSummary) -> float | None:
    """The time of the cell's traced write over the median of its samples."""
    traced, usual = cell.allocations, cell.estimate(lambda sample: float(sample["use"]["wall_seconds"]))
    if traced is None or usual is None or traced.get("wall_seconds") is None:
        return None
    return float(traced["wall_seconds"]) / usual.median


def _estimate_text(found: Estimate) -> str:
    return f"{found.median:.2f} [{found.low:.2f}, {found.high:.2f}]"
