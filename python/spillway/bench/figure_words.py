"""The words of figures: the finding as a title, and what it was measured on below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._wording import and_joined, counted
from spillway.bench.summary import growth
from spillway.bench.tables import file_megabytes, megabytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.ranking import Ranking
    from spillway.bench.summary import CellSummary, RunSummary, Setting

__all__ = [
    "bytes_of",
    "measured_on",
    "who_grows_most",
    "who_is_fastest",
    "who_is_leanest",
    "who_leads",
    "whose_file_is_smallest",
]


def measured_on(run: RunSummary, setting: Setting) -> str:
    """Dataset, codec, machine and samples of a setting's figures."""
    fewest = min((len(each.good) for each in run.of(setting) if each.good), default=0)
    codec = setting.codec if setting.level is None else f"{setting.codec} {setting.level}"
    machine = run.environment["cpu_model"]
    where = f"{setting.dataset}, {codec}, {machine}, {counted(fewest, 'sample')} a cell"
    return f"{where[:1].upper()}{where[1:]}."


def who_is_fastest(ranking: Ranking) -> str:
    """The finding of a ranking in a sentence."""
    best, rows = ranking.best, counted(ranking.rows, "row")
    if best is None:
        return f"Nobody wrote {rows} right"
    name = best.cell.backend
    if not ranking.others:
        return f"{name} alone wrote {rows}"
    other = ranking.others[0]
    over = ranking.over(other)
    if ranking.has_winner and over is not None:
        return f"{name} writes {rows} {over.median:.2f} times as fast as {other.cell.backend}, the next"
    level = [each.cell.backend for each in ranking.level]
    return (
        f"{and_joined([name, *level])} cannot be told apart at {rows}"
        if level
        else f"{name} is ahead at {rows}"
    )


def who_leads(ranked: Sequence[Ranking]) -> str:
    """The fastest at each number of rows: told from all others, or by the median alone."""
    led = [each.best.cell.backend for each in ranked if each.best is not None]
    leaders = list(dict.fromkeys(led))
    if len(leaders) == 1 and all(each.has_winner for each in ranked):
        return f"{leaders[0]} is fastest at every number of rows"
    if len(leaders) == 1:
        return f"{leaders[0]} has the highest median at every number of rows"
    return f"{and_joined(leaders)} lead, by number of rows" if leaders else "Nobody wrote the rows right"


def who_is_leanest(cells: Sequence[CellSummary]) -> str:
    """The least and the most growth of resident memory among cells of equal rows."""
    right = [each for each in cells if each.is_right]
    grown = [(each, found.median) for each in right if (found := each.estimate(growth)) is not None]
    if not grown:
        return "Peak memory by rows"
    leanest, least = min(grown, key=lambda each: each[1])
    most = max(value for _, value in grown)
    return f"{leanest.cell.backend} stays at {megabytes(least)} MB where the most is {megabytes(most)} MB"


def who_grows_most(cells: Sequence[CellSummary]) -> str:
    """The most and the least growth of resident memory among cells of equal rows."""
    right = [each for each in cells if each.is_right]
    grown = {
        each.cell.backend: found.median for each in right if (found := each.estimate(growth)) is not None
    }
    if not grown:
        return "Memory over time"
    most, least = (choose(grown, key=lambda name: grown[name]) for choose in (max, min))
    return f"{most} grows to {megabytes(grown[most])} MB, {least} to {megabytes(grown[least])} MB"


def whose_file_is_smallest(ranking: Ranking) -> str:
    """The smallest file at the most rows, and whether its writer is the fastest too."""
    smallest = min(ranking.right, key=bytes_of)
    words = f"{smallest.cell.backend} writes the smallest file: {file_megabytes(bytes_of(smallest))} MB"
    return f"{words}, and is the fastest" if smallest is ranking.best else words


def bytes_of(cell: CellSummary) -> int:
    """Bytes of a cell's file; of several sizes the largest."""
    found = cell.exact("bytes")
    return 0 if found is None else found[0]
