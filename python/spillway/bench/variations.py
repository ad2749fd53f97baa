"""The tables of what differs between settings alone: process, rows of a batch, rows of a row group, cores.

Each backend is compared with itself, block by block, so that a table answers one question: does the change
make this writer faster, or leaner, or can these samples not tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.bench.process_settings import DEFAULT_PROCESS, process_setting
from spillway.bench.ranking import ratio
from spillway.bench.ratios import told
from spillway.bench.summary import growth, speed
from spillway.bench.tables import effect_text, megabytes, ratio_text, setting_title
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spillway.bench.summary import CellSummary, Metric, RunSummary, Setting
    from spillway.harness.statistics import Ratio

__all__ = ["VARIATION_LEGEND", "Variation", "process_verdicts", "variation_tables", "variations"]

VARIATION_LEGEND = (
    "In a table of what settings change, each backend is compared with itself, block by block: *speed x* "
    "and *RSS x* are ratios to the first of its lines, `~` where samples cannot tell them from 1, after Holm "
    "for all the table's ratios, or, where so few samples could tell none so, by the interval of each ratio "
    "alone. *pool calls* are allocations from Arrow's pool in a write, *calls* all that a "
    "tracer counted in one."
)
"""The meaning of the columns of `variation_tables`."""

_FIELDS = {
    "arm": "process settings",
    "chunk_rows": "rows of a batch",
    "row_group_rows": "rows of a row group",
    "threads": "cores",
}


@dataclass(frozen=True)
class Variation:
    """One backend under one value of what varies, beside itself under the first value.

    Attributes:
        value: The value, in words.
        cell: The cell.
        speed: The ratio of its speed; None for the first value, or without common blocks.
        growth: The ratio of its peak memory, likewise.
        is_faster_or_slower: True if its speed is told from that of the first.
        is_leaner_or_fatter: The same of its memory.
    """

    value: str
    cell: CellSummary
    speed: Ratio | None
    growth: Ratio | None
    is_faster_or_slower: bool = False
    is_leaner_or_fatter: bool = False


def variation_tables(run: RunSummary) -> list[Table]:
    """A table for each field of settings that varies while all others stay, at the most rows."""
    return [_table(field, alike, found) for field, alike, found in variations(run)]


def process_verdicts(run: RunSummary) -> list[tuple[str, list[str]]]:
    """The verdicts on process settings: a title, and for each backend a sentence that says which helps it."""
    return [
        (_heading(field, alike[0], found), _verdict(field, found))
        for field, alike, found in variations(run)
        if field == "arm"
    ]


def variations(run: RunSummary) -> Iterator[tuple[str, list[Setting], list[Variation]]]:
    """The fields that vary, each with the settings that differ in it alone and the backends under them."""
    for field in _FIELDS:
        groups: dict[Setting, list[Setting]] = {}
        for setting in run.settings:
            rest = replace(setting, **{field: getattr(run.settings[0], field)})
            groups.setdefault(rest, []).append(setting)
        for alike in groups.values():
            if len(alike) > 1:
                yield field, alike, _told(list(_found(run, field, alike)))


def _found(run: RunSummary, field: str, alike: Sequence[Setting]) -> Iterator[Variation]:
    """The backends one after the other, each under all values."""
    cells = [run.of(setting) for setting in alike]
    most = min(max((each.cell.rows for each in of), default=0) for of in cells)
    by_key = {
        (each.cell.backend, place): each
        for place, of in enumerate(cells)
        for each in of
        if each.cell.rows == most
    }
    for backend in dict.fromkeys(backend for backend, _ in by_key):
        first = by_key.get((backend, 0))
        for place, setting in enumerate(alike):
            cell = by_key.get((backend, place))
            if cell is not None:
                own = None if place == 0 or not cell.is_right else first
                yield Variation(
                    _value(field, setting), cell, _over(cell, own, speed), _over(cell, own, growth)
                )


def _over(cell: CellSummary, first: CellSummary | None, metric: Metric) -> Ratio | None:
    return None if first is None or not first.is_right else ratio(cell, first, metric)


def _told(found: list[Variation]) -> list[Variation]:
    """The same, with marks on the ratios that samples tell from 1, corrected for all of the table."""
    ratios = {
        (place, name): each
        for place, one in enumerate(found)
        for name, each in (("speed", one.speed), ("growth", one.growth))
        if each is not None
    }
    marks = dict(zip(ratios, told(list(ratios.values())), strict=True))
    return [
        replace(
            each,
            is_faster_or_slower=marks.get((place, "speed"), False),
            is_leaner_or_fatter=marks.get((place, "growth"), False),
        )
        for place, each in enumerate(found)
    ]


def _table(field: str, alike: Sequence[Setting], found: Sequence[Variation]) -> Table:
    rows = [
        [
            Entry(each.cell.cell.backend),
            Entry(each.value),
            Entry("-" if (own := each.cell.rows_per_second) is None else f"{own.median:,.0f}"),
            Entry(_ratio_entry(each.speed, is_told=each.is_faster_or_slower)),
            Entry("-" if each.speed is None else effect_text(each.speed.least_effect)),
            Entry("-" if (peak := each.cell.growth) is None else megabytes(peak.median)),
            Entry(_ratio_entry(each.growth, is_told=each.is_leaner_or_fatter)),
            Entry(_calls_of_pool(each.cell)),
            Entry(_calls(each.cell)),
        ]
        for each in found
    ]
    return Table(
        _heading(field, alike[0], found),
        (
            "backend",
            _FIELDS[field],
            "rows/s",
            "speed x",
            "least effect",
            "RSS MB",
            "RSS x",
            "pool calls",
            "calls",
        ),
        rows,
        _verdict(field, found),
    )


def _heading(field: str, setting: Setting, found: Sequence[Variation]) -> str:
    """The title: what varies, and what all have in common, without the words of what varies."""
    alike = setting_title(replace(setting, arm=DEFAULT_PROCESS) if field == "arm" else setting)
    return f"What {_FIELDS[field]} change at {counted(found[0].cell.cell.rows, 'row')}: {alike}"


def _value(field: str, setting: Setting) -> str:
    value = getattr(setting, field)
    return str(value) if field == "arm" else f"{value:,}"


def _ratio_entry(found: Ratio | None, *, is_told: bool) -> str:
    return "-" if found is None else ratio_text(found) if is_told else "~"


def _calls_of_pool(cell: CellSummary) -> str:
    """Allocations from Arrow's pool in a write; the median of the samples."""
    found = cell.estimate(lambda sample: sample["pyarrow_pool"] and sample["pyarrow_pool"]["allocations"])
    return "-" if found is None else f"{found.median:,.0f}"


def _calls(cell: CellSummary) -> str:
    """Calls that allocated in the traced write; "-" where none was traced, or a tracer cannot see them."""
    curve = None if cell.allocations is None else cell.allocations["curve"]
    return "-" if curve is None else f"{curve['allocations']:,}"


def _verdict(field: str, found: Sequence[Variation]) -> list[str]:
    """A sentence for each backend: the best of what samples tell from its first line, or that it is none."""
    return [
        _sentence(field, [each for each in found if each.cell.cell.backend == backend])
        for backend in dict.fromkeys(each.cell.cell.backend for each in found)
    ]


def _sentence(field: str, own: Sequence[Variation]) -> str:
    backend, first = own[0].cell.cell.backend, _said(field, own[0])
    if not own[0].cell.is_right:
        return f"{backend}: nothing is told, since it failed with {first}."
    faster = [each for each in own if each.speed is not None and each.is_faster_or_slower]
    leaner = [each for each in own if each.growth is not None and each.is_leaner_or_fatter]
    said = []
    best = max(faster, key=lambda each: each.speed.median if each.speed else 0.0, default=None)
    if best is not None and best.speed is not None and best.speed.median > 1:
        said.append(
            f"fastest with {_said(field, best)}, {ratio_text(best.speed)} times its speed with {first}"
        )
    least = min(leaner, key=lambda each: each.growth.median if each.growth else 0.0, default=None)
    if least is not None and least.growth is not None and least.growth.median < 1:
        said.append(
            f"leanest with {_said(field, least)}, {ratio_text(least.growth)} times its memory with {first}"
        )
    if said:
        return f"{backend}: {'; '.join(said)}."
    worse = "others are told to be worse" if faster or leaner else "samples tell no other from it"
    return f"{backend}: nothing is better than {first}; {worse}."


def _said(field: str, each: Variation) -> str:
    """A value in a sentence: "pool-system", "1,000 rows of a batch"."""
    if field == "arm":
        return process_setting(each.value).words or "its defaults"
    return f"{each.value} {_FIELDS[field]}"
