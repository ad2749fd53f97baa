"""The words of figures: the finding as a title, and what it was measured on below."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from spillway._wording import and_joined, counted
from spillway.backends import library
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


def who_leads(ranked: Sequence[Ranking]) -> str:
    """The fastest library at each number of rows: told from all others, or by the median alone."""
    known = sorted((each for each in ranked if each.best is not None), key=lambda each: each.rows)
    led = [(each.rows, each.best.cell.backend) for each in known if each.best is not None]
    leads = [
        (leader, [rows for rows, _ in found]) for leader, found in groupby(led, lambda each: library(each[1]))
    ]
    if not leads:
        return "Nobody wrote the rows right"
    if len(leads) > 1:
        return and_joined([f"{leader} leads {_counts(counts)}" for leader, counts in leads])
    backends = {backend for _, backend in led}
    name = backends.pop() if len(backends) == 1 else leads[0][0]
    if all(each.has_winner for each in ranked):
        return f"{name} is fastest at every number of rows"
    return f"{name} has the highest median at every number of rows"


def _counts(counts: Sequence[int]) -> str:
    """Numbers of rows that follow each other: "at 10,000 rows", "from 10,000 to 50,000 rows"."""
    first, last = counts[0], counts[-1]
    return f"at {counted(first, 'row')}" if first == last else f"from {first:,} to {counted(last, 'row')}"


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
