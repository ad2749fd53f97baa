"""Tables of ratios: to the base, in pairs, between process settings; and crossovers of two writers.

Between process settings, each backend is compared with itself, block by block. So a table answers one
question: does the change make this writer faster or leaner, or is there no significant difference?

Between two measured numbers of rows the logarithm of the ratio is taken to be a straight line over the
logarithm of the rows. The ends of the interval are the points at which lines through the ends of the ratios'
intervals cross 1. The estimate of a ratio lies between those ends at each number of rows, so that its line
lies between theirs, and the crossover within its interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.bench.plan import DEFAULT_PROCESS, Cell, base_of, process_setting
from spillway.bench.summary import Setting, growth, outcome_words, speed
from spillway.bench.tables import effect_text, megabytes, ratio, ratio_text, setting_title
from spillway.harness.report import Entry, Table
from spillway.harness.statistics import ALPHA, FEWEST_FOR_INTERVAL, holm, least_p, paired_ratio, pooled_ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spillway.bench.summary import CellSummary, Metric, RunSummary
    from spillway.harness.statistics import Ratio

RATIO_LEGEND = (
    "Ratios are taken block by block; in brackets their 95 % interval from signed ranks, or with fewer than "
    "six blocks the whole range. `~`: the ratio does not differ significantly from 1, by Wilcoxon's signed "
    "ranks with Holm's correction for the ratios of the setting; with too few samples for that, by the "
    "interval of each ratio. *mean* is estimated in the same way from the geometric mean, over the numbers "
    "of rows, of the ratios of each block: it may lie outside the ratios shown. *detectable* is the smallest "
    "difference that samples with this noise detect 8 times in 10 without that correction, at the number of "
    "rows at which it is largest. The verdict and bold figures use the interval of each pair, uncorrected."
)
"""The meaning of the entries of `ratio_tables`."""


@dataclass(frozen=True)
class _Found:
    """One ratio, and whether it is told from 1."""

    ratio: Ratio
    is_told: bool

    @property
    def text(self) -> str:
        return ratio_text(self.ratio) if self.is_told else "~"


def ratio_tables(run: RunSummary) -> dict[Setting, Table]:
    """A table for each setting in which the first of our own backends, or else the first, met others."""
    base = base_of(each.cell.backend for each in run.cells)
    found = _ratios(run, base)
    tables = {setting: _ratio_table(run, setting, base, found) for setting in run.settings}
    return {setting: table for setting, table in tables.items() if table.rows}


_Key = tuple["Setting", int, str]


def _ratios(run: RunSummary, base: str | None) -> dict[_Key, _Found]:
    """All ratios of the run's report, told from 1 or not after correction for their number in a setting."""
    found: dict[_Key, _Found] = {}
    for setting in run.settings:
        own = _ratios_of(run, setting, base)
        marks = told(list(own.values()))
        found |= {key: _Found(each, is_told) for (key, each), is_told in zip(own.items(), marks, strict=True)}
    return found


def _ratios_of(run: RunSummary, setting: Setting, base: str | None) -> dict[_Key, Ratio]:
    found: dict[_Key, Ratio] = {}
    right = [each for each in run.of(setting) if each.is_right]
    own = {each.cell.rows: each for each in right if each.cell.backend == base}
    for each in right:
        rows = each.cell.rows
        if each.cell.backend != base and rows in own and (over := ratio(own[rows], each, speed)):
            found[setting, rows, each.cell.backend] = over
    return found


def told(found: Sequence[Ratio]) -> list[bool]:
    """The ratios that differ significantly from 1: by corrected tests, or by intervals with few samples.

    One sample has no interval, and tells nothing.
    """
    least = (least_p((each.n, each.n), is_paired=True) for each in found)
    is_blind = min(least, default=1.0) * len(found) >= ALPHA
    corrected = holm([each.p for each in found])
    return [
        each.n > 1 and not each.low <= 1 <= each.high
        if is_blind or each.n < FEWEST_FOR_INTERVAL
        else p < ALPHA
        for each, p in zip(found, corrected, strict=True)
    ]


def _ratio_table(run: RunSummary, setting: Setting, base: str | None, found: dict[_Key, _Found]) -> Table:
    cells = [each for each in run.of(setting) if each.is_right]
    counts = sorted({each.cell.rows for each in cells})
    rows = []
    for backend in dict.fromkeys(each.cell.backend for each in cells):
        met = {count: found[key] for count in counts if (key := (setting, count, backend)) in found}
        if met:
            texts = [met[count].text if count in met else "-" for count in counts]
            least = max(each.ratio.least_effect for each in met.values())
            mean = _mean(cells, base, backend, list(met)) if len(counts) > 1 else []
            rows.append([Entry(text) for text in (backend, *texts, *mean, effect_text(least))])
    header = ["backend", *(f"{count:,}" for count in counts)]
    header += ["mean"] if len(counts) > 1 else []
    return Table(f"Speed of {base} over others: {setting_title(setting)}", (*header, "detectable"), rows, [])


def _mean(cells: Sequence[CellSummary], base: str | None, backend: str, counts: Sequence[int]) -> list[str]:
    """The estimate over the geometric means of each block, not the mean of the ratios beside it."""
    by_key = {(each.cell.backend, each.cell.rows): each.by_block(speed) for each in cells}
    pooled = pooled_ratio([(by_key[str(base), count], by_key[backend, count]) for count in counts])
    return ["-" if pooled is None else ratio_text(pooled)]


PAIR_LEGEND = (
    "*In pairs on one core*: two writers begin at the same moment and take turns on one core, so that both "
    "meet the same speed of the machine. The ratio is that of their processor time, of all threads, and "
    "leaves out waits for the disk. Each has the caches of the core to itself for some milliseconds only. "
    "`~` as above. *Pairs* counts those of which neither failed."
)
"""The meaning of `pair_table`."""

_SIDES = ("processor_seconds", "base_processor_seconds")


def pair_table(run: RunSummary, setting: Setting) -> Table | None:
    """The ratios of a setting, without memory limits; None if no pair was written."""
    pairs = _pairs_of(run, setting)
    if not pairs:
        return None
    found = pair_ratios(run, setting)
    marks = dict(zip(found, told(list(found.values())), strict=True))
    rows = [
        [Entry(backend), *_entries(taken, found.get(backend), is_told=marks.get(backend, False))]
        for backend, taken in pairs.items()
    ]
    base = run.pairs[0]["base"]
    title = f"Speed of {base} over others, in pairs on one core: {setting_title(setting, with_limit=False)}"
    return Table(title, ("backend", "ratio", "pairs", "detectable"), rows, [])


def pair_ratios(run: RunSummary, setting: Setting) -> dict[str, Ratio]:
    """The speed of the base relative to each other backend, from the pairs of a setting."""
    return {
        backend: paired_ratio(*({each["block"]: each[side] for each in measured} for side in _SIDES))
        for backend, taken in _pairs_of(run, setting).items()
        if (measured := [each for each in taken if all(each[side] for side in _SIDES)])
    }


def _pairs_of(run: RunSummary, setting: Setting) -> dict[str, list[dict[str, Any]]]:
    """The pairs of each backend whose samples of a setting were right, failed pairs too.

    They are under no limit of the run's, so that they belong to the first of the settings that differ in it.
    """
    pairs: dict[str, list[dict[str, Any]]] = {}
    if not run.is_first_without_limit(setting):
        return pairs
    alike = [each for each in run.cells if each.setting.without_limit == setting.without_limit]
    right = {each.cell.backend for each in alike if each.is_right}
    for each in run.pairs:
        cell = Cell(**each["cell"])
        if {cell.backend, each["base"]} <= right and Setting.of(cell.without_limit) == setting.without_limit:
            pairs.setdefault(cell.backend, []).append(each)
    return pairs


def _entries(taken: Sequence[Mapping[str, Any]], found: Ratio | None, *, is_told: bool) -> list[Entry]:
    if found is None:
        return [Entry(_failure(taken)), Entry(f"0 of {len(taken)}"), Entry("")]
    count = f"{found.n}" if found.n == len(taken) else f"{found.n} of {len(taken)}"
    return [
        Entry(ratio_text(found) if is_told else "~"),
        Entry(count),
        Entry(effect_text(found.least_effect)),
    ]


def _failure(taken: Sequence[Mapping[str, Any]]) -> str:
    """The outcome of the first that failed, and whose it is where the base failed."""
    first = taken[0]
    if first["outcome"] != "ok":
        return outcome_words(first["outcome"])
    return f"{first['base']}: {outcome_words(first['base_outcome'])}"


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
    """One backend under one value of the varying setting, compared with itself under the first value.

    Attributes:
        value: The value, in words.
        cell: The cell.
        speed: The ratio of its speed; None for the first value, or without common blocks.
        growth: The ratio of its peak memory, likewise.
        is_faster_or_slower: True if its speed differs significantly from that of the first.
        is_leaner_or_fatter: The same of its memory.
    """

    value: str
    cell: CellSummary
    speed: Ratio | None
    growth: Ratio | None
    is_faster_or_slower: bool = False
    is_leaner_or_fatter: bool = False


def variation_tables(run: RunSummary) -> list[Table]:
    """A table for each field of settings that varies alone, at the largest number of rows."""
    return [_variation_table(field, alike, found) for field, alike, found in variations(run)]


def process_verdicts(run: RunSummary) -> list[tuple[str, list[str]]]:
    """The verdicts on process settings: a title, and for each backend a sentence that says which helps it."""
    return [
        (_heading(field, alike[0], found), _verdict(field, found))
        for field, alike, found in variations(run)
        if field == "arm"
    ]


def variations(run: RunSummary) -> Iterator[tuple[str, list[Setting], list[Variation]]]:
    """The varying fields, each with the settings that differ only in this field, and their backends."""
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


def _variation_table(field: str, alike: Sequence[Setting], found: Sequence[Variation]) -> Table:
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
            "detectable",
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
    """A sentence for each backend: the best setting that differs from its first line, or that none does."""
    return [
        _sentence(field, [each for each in found if each.cell.cell.backend == backend])
        for backend in dict.fromkeys(each.cell.cell.backend for each in found)
    ]


def _sentence(field: str, own: Sequence[Variation]) -> str:
    backend, first = own[0].cell.cell.backend, _said(field, own[0])
    if not own[0].cell.is_right:
        return f"{backend}: no comparison, because it failed with {first}."
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
    worse = "the others are significantly worse"
    if not (faster or leaner):
        worse = "no other differs significantly from it"
    return f"{backend}: nothing is better than {first}; {worse}."


def _said(field: str, each: Variation) -> str:
    """A value in a sentence: "pool-system", "1,000 rows of a batch"."""
    if field == "arm":
        return process_setting(each.value).words or "its defaults"
    return f"{each.value} {_FIELDS[field]}"


CROSSOVER_LEGEND = (
    "A *crossover* is the number of rows from which on, as far as it was measured, one backend is faster "
    "than the other, on a straight line between two measured numbers; in brackets where the ends of the "
    "ratios' intervals cross. An end with < or > lies outside what was measured, and `~` stands where "
    "both do."
)
"""The meaning of the entries of `crossover_table`."""

_FEWEST_COUNTS = 2


@dataclass(frozen=True)
class Crossover:
    """The rows from which on one backend leads another.

    Attributes:
        leader: The backend that leads from there on.
        other: The one that leads before.
        rows: The estimate.
        low: Lower end of its interval; 0 if it lies below all measured numbers of rows.
        high: Upper end; infinite if it lies above all of them.
        measured: The smallest and the largest number of rows measured.
    """

    leader: str
    other: str
    rows: float
    low: float
    high: float
    measured: tuple[int, int]


def crossover_of(one: Sequence[CellSummary], other: Sequence[CellSummary]) -> Crossover | None:
    """The crossover of two backends in one setting; None if the same backend leads at all numbers of rows.

    Args:
        one: The cells of one of them, each of another number of rows.
        other: Those of the other.
    """
    others = {each.cell.rows: each for each in other if each.is_right}
    pairs = [(each, others[each.cell.rows]) for each in one if each.is_right and each.cell.rows in others]
    found = {each.cell.rows: over for each, beside in pairs if (over := ratio(each, beside, speed))}
    if len(found) < _FEWEST_COUNTS:
        return None
    counts = sorted(found)
    leads = found[counts[-1]].median > 1
    ends = [
        (each.low, each.median, each.high) if leads else (1 / each.high, 1 / each.median, 1 / each.low)
        for each in (found[rows] for rows in counts)
    ]
    high, rows, low = (_crossing(counts, line) for line in zip(*ends, strict=True))
    if not 0 < rows < math.inf:
        return None
    names = (one[0].cell.backend, other[0].cell.backend)
    leader, loser = names if leads else names[::-1]
    # Ends that are equal to the estimate may differ from it by how they were rounded.
    return Crossover(leader, loser, rows, min(low, rows), max(high, rows), (counts[0], counts[-1]))


def crossover_table(run: RunSummary, setting: Setting) -> Table | None:
    """The crossovers of the run's base with each other backend of a setting; None without any."""
    by_backend: dict[str, list[CellSummary]] = {}
    for each in run.of(setting):
        by_backend.setdefault(each.cell.backend, []).append(each)
    base = base_of(each.cell.backend for each in run.cells)
    own = by_backend.pop(str(base), None)
    if own is None:
        return None
    met = (crossover_of(own, cells) for cells in by_backend.values())
    rows = [
        [Entry(each.leader), Entry(each.other), Entry(crossover_text(each))]
        for each in met
        if each is not None
    ]
    if not rows:
        return None
    return Table(
        f"Crossovers with {base}: {setting_title(setting)}",
        ("backend", "faster than", "from rows"),
        rows,
        [],
    )


def crossover_text(found: Crossover) -> str:
    """A crossover with its interval: "61,200 [48,000, 75,300]"; `~` where that is all that was measured."""
    least, most = found.measured
    low = f"< {least:,}" if found.low < least else _rows(found.low)
    high = f"> {most:,}" if found.high > most else _rows(found.high)
    return "~" if low.startswith("<") and high.startswith(">") else f"{_rows(found.rows)} [{low}, {high}]"


def _rows(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"


def _crossing(counts: Sequence[int], ratios: Sequence[float]) -> float:
    """The rows from which on a line of ratios stays above 1: 0 if it always is, infinite if it ends below."""
    behind = [place for place, each in enumerate(ratios) if each <= 1]
    if not behind:
        return 0.0
    last = behind[-1]
    if last == len(counts) - 1:
        return math.inf
    before, after = math.log(ratios[last]), math.log(ratios[last + 1])
    share = before / (before - after)
    return math.exp((1 - share) * math.log(counts[last]) + share * math.log(counts[last + 1]))
