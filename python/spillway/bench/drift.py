"""The drift of a run: whether samples got slower from block to block, or towards the end of a block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spillway.bench.summary import speed
from spillway.harness.statistics import trend

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary
    from spillway.harness.statistics import Trend

__all__ = ["drift_warnings", "drift_words"]

_NOTICEABLE = 0.01
_SURE = 0.01  # two lines are drawn through each run


def drift_words(run: RunSummary) -> list[str]:
    """The drift in a sentence; nothing where there are too few samples."""
    over, within = _drifts(run)
    if over is None or within is None:
        return []
    first, second = _words(over), _words(within)
    text = f"Drift in speed, all cells together: {first} from the first block to the last, {second} from the"
    return [f"{text} first place in a block to the last."]


def drift_warnings(run: RunSummary) -> list[str]:
    """The caveats where a drift is there and matters. Ratios within blocks are free of the first of them."""
    over, within = _drifts(run)
    named = (
        (over, "from the first block to the last"),
        (within, "from the first place in a block to the last"),
    )
    return [
        f"speeds drift by {found.change * 100:+.1f} % {what}"
        for found, what in named
        if found is not None and found.p < _SURE and abs(found.change) > _NOTICEABLE
    ]


def _words(found: Trend) -> str:
    return f"{found.change * 100:+.1f} % (p = {found.p:.2g})"


def _drifts(run: RunSummary) -> tuple[Trend | None, Trend | None]:
    """The trends over blocks and over positions, of each sample's speed over that of its cell.

    Samples of one block share what the machine did then, and are no independent points: blocks are compared
    by their means, positions within their block.
    """
    blocks, positions, logs = [], [], []
    for each in run.cells:
        found = [math.log(speed(sample)) for sample in each.good]
        if len(found) > 1:
            mean = math.fsum(found) / len(found)
            blocks += [sample["block"] for sample in each.good]
            positions += [sample["position"] for sample in each.good]
            logs += [value - mean for value in found]
    means = _means(blocks, logs)
    over = trend(_scaled(list(means)), list(means.values()))
    return over, trend(_within(blocks, _scaled(positions)), _within(blocks, logs))


def _means(blocks: list[int], values: list[float]) -> dict[int, float]:
    """The mean of each block."""
    found: dict[int, list[float]] = {}
    for block, value in zip(blocks, values, strict=True):
        found.setdefault(block, []).append(value)
    return {block: math.fsum(each) / len(each) for block, each in found.items()}


def _within(blocks: list[int], values: list[float]) -> list[float]:
    """Values less the mean of their block."""
    means = _means(blocks, values)
    return [value - means[block] for block, value in zip(blocks, values, strict=True)]


def _scaled(places: list[int]) -> list[float]:
    """Places from 0 to 1."""
    first, last = min(places, default=0), max(places, default=0)
    return [(place - first) / ((last - first) or 1) for place in places]
