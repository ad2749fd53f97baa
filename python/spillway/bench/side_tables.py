"""Tables other than speed: memory, least memory, external programs, the cost of probes, drift.

Each measure of memory covers something that the others miss. Resident memory includes neither page cache nor
spilled pages; the memory of the control group includes both, by the page; a tracer sees all allocations,
whether touched or not.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted
from spillway.bench.passes import bounds_of, is_unclear
from spillway.bench.plan import Cell
from spillway.bench.summary import Setting, file_bytes, growth, outcome_words, peak_rss, speed
from spillway.bench.tables import (
    file_megabytes,
    indistinct,
    megabytes,
    metric_column,
    rankings,
    ratio_text,
    setting_title,
)
from spillway.harness.report import Entry, Table
from spillway.harness.statistics import Estimate, estimate, paired_ratio, trend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.bench.passes import Bounds
    from spillway.bench.summary import CellSummary, Metric, RunSummary
    from spillway.harness.statistics import Ratio, Trend

MEMORY_LEGEND = (
    "*RSS* is the growth of resident memory: its peak during the write minus the resident memory before it. "
    "*cgroup* is the same for the memory of its control group, including page cache and kernel memory: a "
    "spilled page counts until the kernel drops it. *allocated* is the peak of one write under memray, with "
    "malloc as pyarrow's pool. *whole RSS* and *whole cgroup* are peaks of the process, including imports; a "
    "limit applies to the latter. *huge* is anonymous memory in huge pages at the end of the write. "
    "*written* counts bytes handed to the kernel (`wchar`), including spilled pages. *faults* count pages of "
    "4 KB and of 2 MB alike, so no value is marked as best."
)
"""The meaning of the columns of `memory_table`."""


def memory_table(run: RunSummary, setting: Setting) -> Table:
    """Memory and disk use of a setting at its most rows; the notes name the best writer for each measure."""
    ranking = rankings(run, setting)[0]
    cells = [each for each in ranking.cells if each.good]
    columns = [metric_column(cells, metric, megabytes, best) for _, metric, best in _MEMORY]
    columns.insert(2, [Entry(_allocated_text(each)) for each in cells])
    columns.append(metric_column(cells, file_bytes, file_megabytes, 0))
    columns.append(metric_column(cells, _faults, lambda value: f"{value:,.0f}", 0))
    names = [name for name, *_ in _MEMORY]
    names.insert(2, "allocated")
    return Table(
        f"Memory and disk in MB at {counted(ranking.rows, 'row')}: {setting_title(setting)}",
        ("backend", *names, "file", "faults"),
        [[Entry(each.cell.backend), *(column[at] for column in columns)] for at, each in enumerate(cells)],
        [note for note in [_least(cells), *_of_jvms(cells)] if note],
    )


def cgroup_growth(sample: dict[str, Any]) -> float | None:
    """Bytes of the control group at the peak of the write, over those before it; as `growth`."""
    group = sample.get("group")
    if group is None or group["write_peak_bytes"] is None or sample.get("jvm"):
        return None
    return float(group["write_peak_bytes"] - group["before_bytes"])


def written(sample: dict[str, Any]) -> float | None:
    """Bytes handed to the kernel; None of an external program, which does not say them."""
    return None if sample.get("program") is not None else float(sample["use"]["bytes_written"])


def allocated(cell: CellSummary) -> float | None:
    """The peak of the cell's traced write, in bytes; None without one."""
    traced = cell.allocations
    return None if traced is None or traced["curve"] is None else float(traced["curve"]["peak_bytes"])


def _whole_cgroup(sample: dict[str, Any]) -> float | None:
    group = sample.get("group")
    return None if group is None else float(group["peak_bytes"])


def _huge(sample: dict[str, Any]) -> float | None:
    if sample.get("jvm"):  # the reading is of Python alone
        return None
    found = sample["memory"]["rollup_after"].get("huge")
    return None if found is None else float(found)


def _faults(sample: dict[str, Any]) -> float | None:
    if sample.get("program") is not None:  # the counters are of no process that wrote
        return None
    return float(sample["use"]["minor_faults"] + sample["use"]["major_faults"])


_MEMORY: tuple[tuple[str, Metric, int], ...] = (
    ("RSS", growth, -1),
    ("cgroup", cgroup_growth, -1),
    ("whole RSS", peak_rss, -1),
    ("whole cgroup", _whole_cgroup, -1),
    ("huge", _huge, 0),
    ("written", written, 0),
)


def _allocated_text(cell: CellSummary) -> str:
    """The peak of the traced write; "n/a" where a tracer cannot see it, "-" where nothing was traced."""
    value = allocated(cell)
    if value is not None:
        return megabytes(value)
    return "-" if cell.allocations is None else "n/a"


def _least(cells: Sequence[CellSummary]) -> str:
    """The backends that take least by each of three measures; nothing for fewer than two."""
    right = [each for each in cells if each.is_right]
    if len(right) < 2:  # noqa: PLR2004 - to compare
        return ""
    said = [
        f"by {name}, {and_joined(found)}"
        for name, found in (
            ("RSS", _marked(right, growth)),
            ("cgroup memory", _marked(right, cgroup_growth)),
            ("allocations", _least_allocated(right)),
        )
        if found
    ]
    return f"Least: {'; '.join(said)}." if said else ""


def _of_jvms(cells: Sequence[CellSummary]) -> list[str]:
    """A word on what the rows of writers in a JVM have in them."""
    names = [each.cell.backend for each in cells if any(sample.get("jvm") for sample in each.good)]
    if not names:
        return []
    said = "whole RSS adds the peaks of the JVM and of Python, and whole cgroup is of both"
    return [f"{and_joined(names)}: {said}; a heap that has grown before the write shows no growth."]


def _marked(cells: Sequence[CellSummary], metric: Metric) -> list[str]:
    marks = indistinct(cells, metric, -1)
    return [each.cell.backend for each, mark in zip(cells, marks, strict=True) if mark]


def _least_allocated(cells: Sequence[CellSummary]) -> list[str]:
    key: Callable[[CellSummary], float] = lambda each: allocated(each) or 0.0  # noqa: E731 - a key
    traced = [each for each in cells if allocated(each) is not None]
    return [min(traced, key=key).cell.backend] if len(traced) > 1 else []


LEAST_MEMORY_LEGEND = (
    "*survives from* is the smallest limit on the whole process, including imports, at and above which every "
    "write survived, and *dies at* the largest limit at and below which every write died: the least memory "
    "lies in between. A limit of kind rlimit-data counts private address space instead, used or not. "
    "The numbers in brackets are the writes that confirm each side. *write s* is the median of the writes at "
    "the survived limit. A write that neither survives nor runs out of memory ends a search, and *ends "
    "below* says how and where."
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
        """True if a write that neither survived nor ran out of memory ended the search."""
        return any(is_unclear(each) for each in self._trials)

    def _at(self, limit: int | None) -> list[dict[str, Any]]:
        return [each for each in self._trials if each["cell"]["memory_bytes"] == limit]


def found_limits(run: RunSummary, setting: Setting) -> list[Found]:
    """The least limits of a setting's backends, the smallest first; those that never survived come last.

    They are under no limit of the run's, so that they belong to the first of the settings that differ in it.
    """
    if not run.is_first_without_limit(setting):
        return []
    trials: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in run.limit_trials:
        cell = Cell(**each["cell"])
        if Setting.of(cell.without_limit) == setting.without_limit:
            trials.setdefault((cell.backend, cell.rows), []).append(each)
    found = [Found(Cell(**each[0]["cell"]), each) for each in trials.values()]
    return sorted(found, key=lambda each: (each.bounds.survives_from is None, each.bounds.survives_from or 0))


def least_memory_table(run: RunSummary, setting: Setting) -> Table | None:
    """The least limits of a setting; None if there was no search."""
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


def program_table(run: RunSummary, setting: Setting) -> Table | None:
    """The medians of all figures of the setting's programs, or None without programs."""
    found = [(each, medians) for each in run.of(setting) if (medians := program_medians(each))]
    names = list(dict.fromkeys(name for _, medians in found for name in medians))
    if not names:
        return None
    found.sort(key=lambda each: (each[0].cell.rows, each[0].cell.backend))
    rows = [
        [
            Entry(each.cell.backend),
            Entry(f"{each.cell.rows:,}"),
            *(Entry(_written(name, medians[name]) if name in medians else "-") for name in names),
        ]
        for each, medians in found
    ]
    return Table(
        f"What programs report about themselves: {setting_title(setting)}",
        ("backend", "rows", *map(_title, names)),
        rows,
        [],
    )


def program_medians(cell: CellSummary) -> dict[str, float]:
    """The medians of the figures that a cell's program printed of itself, by name; none of a library."""
    values: dict[str, list[float]] = {}
    for sample in cell.good:
        for figure in sample.get("program") or ():
            values.setdefault(figure["name"], []).append(figure["value"])
    return {name: median(each) for name, each in values.items()}


def _title(name: str) -> str:
    """A figure's name with its unit: bytes are shown as MB, seconds as milliseconds."""
    for suffix, unit in (("_bytes", "MB"), ("_seconds", "ms")):
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix).replace('_', ' ')} {unit}"
    return name.replace("_", " ")


def _written(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return megabytes(value)
    return f"{value * 1e3:,.1f}" if name.endswith("_seconds") else f"{value:,.0f}"


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
    """The time with a probe relative to the time without one: each cell and block is a pair."""
    with_it: dict[int, float] = {}
    without: dict[int, float] = {}
    # Cells that differ in their limit have the same probed writes.
    for each in {each.cell.without_limit: each for each in run.cells}.values():
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


_NOTICEABLE = 0.01
_SURE = 0.01  # two lines are drawn through each run


def drift_words(run: RunSummary) -> list[str]:
    """The drift in a sentence; empty if there are too few samples."""
    over, within = _drifts(run)
    if over is None or within is None:
        return []
    first, second = _words(over), _words(within)
    text = f"Drift in speed, all cells together: {first} from the first block to the last, {second} from the"
    return [f"{text} first place in a block to the last."]


def drift_warnings(run: RunSummary) -> list[str]:
    """The caveats if there is a relevant drift. Ratios within blocks are free of the first of them."""
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
    cells, blocks, positions, logs = [], [], [], []
    for place, each in enumerate(run.cells):
        found = [math.log(speed(sample)) for sample in each.good]
        if len(found) > 1:
            mean = math.fsum(found) / len(found)
            cells += [place] * len(found)
            blocks += [sample["block"] for sample in each.good]
            positions += [sample["position"] for sample in each.good]
            logs += [value - mean for value in found]
    means = _means(blocks, logs)
    over = trend(_scaled(list(means)), list(means.values()))
    return over, trend(_scaled(positions), logs, cells, blocks)


def _means(blocks: list[int], values: list[float]) -> dict[int, float]:
    """The mean of each block."""
    found: dict[int, list[float]] = {}
    for block, value in zip(blocks, values, strict=True):
        found.setdefault(block, []).append(value)
    return {block: math.fsum(each) / len(each) for block, each in found.items()}


def _scaled(places: list[int]) -> list[float]:
    """Places from 0 to 1."""
    first, last = min(places, default=0), max(places, default=0)
    return [(place - first) / ((last - first) or 1) for place in places]
