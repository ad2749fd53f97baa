"""The words of figures: the finding as a title, and what it was measured on below."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from spillway._wording import and_joined, counted
from spillway.backends import library
from spillway.bench.tables import file_megabytes, megabytes, setting_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spillway.bench.ranking import Ranking
    from spillway.bench.summary import CellSummary, RunSummary, Setting

__all__ = [
    "bytes_of",
    "measured_on",
    "who_allocates_least",
    "who_grows_most",
    "who_grows_with_rows",
    "who_is_leanest",
    "who_leads",
    "who_survives_least",
    "whose_file_is_smallest",
]


def measured_on(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> str:
    """The setting, the machine and the samples of cells in a chart."""
    fewest = min((len(each.good) for each in cells if each.good), default=0)
    words = setting_title(setting)
    return (
        f"{words[:1].upper()}{words[1:]}. {run.environment['cpu_model']}, {counted(fewest, 'sample')} a cell."
    )


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


def who_is_leanest(grown: Mapping[str, float], rows: int) -> str:
    """The least and the most memory among writers of equal rows, by their growth in bytes."""
    least, most = (choose(grown, key=grown.__getitem__) for choose in (min, max))
    return (
        f"{least} takes the least memory for {counted(rows, 'row')}, {megabytes(grown[least])} MB; "
        f"{most} the most, {megabytes(grown[most])} MB"
    )


def who_grows_most(grown: Mapping[str, float]) -> str:
    """The most and the least growth of resident memory over time, in bytes."""
    most, least = (choose(grown, key=grown.__getitem__) for choose in (max, min))
    if most == least:
        return f"{most} grows to {megabytes(grown[most])} MB"
    return f"{most} grows to {megabytes(grown[most])} MB, {least} to {megabytes(grown[least])} MB"


def who_grows_with_rows(grown: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """How much more memory the most rows take than the fewest, of the writer with the least and the most."""
    times = {name: points[-1][1] / points[0][1] for name, points in grown.items()}
    few, many = (choose(rows for points in grown.values() for rows, _ in points) for choose in (min, max))
    least, most = (choose(times, key=times.__getitem__) for choose in (min, max))
    said = (
        f"From {few:,.0f} to {counted(int(many), 'row')} the memory of {least} grows {times[least]:.2g}-fold"
    )
    return said if least == most else f"{said}, that of {most} {times[most]:.2g}-fold"


def who_allocates_least(held: Mapping[str, float], rows: int) -> str:
    """The least of the most bytes that are allocated at once."""
    least = min(held, key=held.__getitem__)
    return f"{least} allocates least at once: {megabytes(held[least])} MB at {counted(rows, 'row')}"


def who_survives_least(limits: Mapping[str, float]) -> str:
    """The least limit that is survived, and the next, in bytes; the least comes first."""
    first, *others = limits
    said = f"{first} survives in {megabytes(limits[first])} MB"
    return f"{said}, {others[0]}, the next, in {megabytes(limits[others[0]])} MB" if others else said


def whose_file_is_smallest(ranking: Ranking) -> str:
    """The smallest file at the most rows, and whether its writer is the fastest too."""
    smallest = min(ranking.right, key=bytes_of)
    words = f"{smallest.cell.backend} writes the smallest file: {file_megabytes(bytes_of(smallest))} MB"
    return f"{words}, and is the fastest" if smallest is ranking.best else words


def bytes_of(cell: CellSummary) -> int:
    """Bytes of a cell's file; of several sizes the largest."""
    found = cell.exact("bytes")
    return 0 if found is None else found[0]
