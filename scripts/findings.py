"""The lines of the table of targets: ratios within one run, and the bounds that they are held against.

`FINDINGS` has a function for each job of ``scripts/targets.py``. A line names every peer that does better
than Spillway, and says where the file of that peer has other row groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.summary import growth
from spillway.harness.report.table import Entry
from spillway.harness.statistics import estimate, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spillway.bench.summary import CellSummary, Metric, RunSummary
    from spillway.harness.statistics import Estimate

HEADER = ("what", "measured", "against", "floor", "aim", "peers that do better")
NOTE = (
    "Medians of ratios block by block, with their 95 % intervals; sizes do not vary. A bound is met where "
    "the whole interval meets it, and not met where no part of it does; else samples cannot tell. No bound "
    "is set for 10,000 rows against tuned peers. Tuned peers have encodings by column, chosen by hand."
)


@dataclass(frozen=True)
class Finding:
    """One line of the table: a number with its interval, and the bounds it is held against, if any.

    Attributes:
        what: The figure in words.
        found: The figure.
        against: The writer or the cell that Spillway is compared with.
        bounds: Floor and aim. More is better where the aim is above the floor, else less.
        better: The peers that do better than Spillway; None where no peer is compared.
        unit: The figure's unit.
    """

    what: str
    found: Estimate
    against: str
    bounds: tuple[float, float] | None
    better: list[str] | None = None
    unit: str = "x"

    def verdict(self, bound: float) -> str:
        """Judge a bound by the end of the interval that is worse, and by the other one."""
        floor, aim = self.bounds or (bound, bound)
        sign = 1 if aim > floor else -1
        worse, other = sorted((sign * self.found.low, sign * self.found.high))
        if worse >= sign * bound:
            return "met"
        return "not met" if other < sign * bound else "cannot tell"

    def entries(self) -> list[Entry]:
        """The line as text."""
        bounds = self.bounds or ()
        judged = [f"{bound:g}: {self.verdict(bound)}" for bound in bounds] or ["-", "-"]
        better = "-" if self.better is None else "; ".join(self.better) or "none"
        return [
            Entry(text)
            for text in (self.what, with_interval(self.found, self.unit), self.against, *judged, better)
        ]


def with_interval(found: Estimate, unit: str) -> str:
    interval = f" [{found.low:.2f}, {found.high:.2f}]" if found.n > 1 else ""
    return f"{found.median:.2f} {unit}{interval}"


def cells(run: RunSummary, **wanted: Any) -> list[CellSummary]:
    """The cells with these fields that ended well."""
    return [
        each
        for each in run.cells
        if each.good and all(getattr(each.cell, name) == value for name, value in wanted.items())
    ]


def wall(sample: dict[str, Any]) -> float:
    return float(sample["use"]["wall_seconds"])


def file_bytes(sample: dict[str, Any]) -> float:
    return float(sample["output"]["bytes"])


def median(cell: CellSummary, metric: Metric) -> float:
    found = cell.estimate(metric)
    assert found is not None
    return found.median


def row_groups(cell: CellSummary) -> int:
    """The row groups of the file; of several counts the largest."""
    found = cell.exact("row_groups")
    assert found is not None
    return found[0]


def other_row_groups(cell: CellSummary, own: CellSummary) -> str:
    """The row groups of a peer, where Spillway's file has another number of them."""
    theirs, ours = row_groups(cell), row_groups(own)
    return "" if theirs == ours else f"{counted(theirs, 'row group')} to {ours:,}"


def named(cell: CellSummary, own: CellSummary) -> str:
    differs = other_row_groups(cell, own)
    return cell.cell.backend + (f" ({differs})" if differs else "")


@dataclass(frozen=True)
class Contest:
    """Spillway's cell beside its peers', at one number of rows.

    Attributes:
        own: Spillway's cell.
        defaults: Peers with their library's defaults.
        tuned: Peers with encodings chosen by hand.
    """

    own: CellSummary
    defaults: list[CellSummary]
    tuned: list[CellSummary]

    @classmethod
    def of(cls, found: Iterable[CellSummary]) -> Contest:
        """Sort the cells by who wrote them."""
        found = list(found)
        (own,) = [each for each in found if library(each.cell.backend) == OWN_LIBRARY]
        tuned = [each for each in found if each.cell.backend.endswith("-tuned")]
        return cls(own, [each for each in found if each is not own and each not in tuned], tuned)

    def better(self, metric: Metric, scale: float, unit: str) -> list[str]:
        """All peers, tuned or not, whose median of the metric is lower than Spillway's; the best first."""
        ours = median(self.own, metric)
        peers = sorted([*self.defaults, *self.tuned], key=lambda each: median(each, metric))
        return [self._lead(each, metric, scale, unit) for each in peers if median(each, metric) < ours]

    def _lead(self, peer: CellSummary, metric: Metric, scale: float, unit: str) -> str:
        theirs, ours = (median(each, metric) / scale for each in (peer, self.own))
        parts = [f"{theirs:.1f} to {ours:.1f} {unit}"]
        lead = paired_ratio(peer.by_block(metric), self.own.by_block(metric))
        if lead.high >= 1:
            parts.append(f"level: {with_interval(lead, 'x')}")
        parts += filter(None, [other_row_groups(peer, self.own)])
        return f"{peer.cell.backend} ({', '.join(parts)})"

    def speed(self, what: str, peers: list[CellSummary], bounds: tuple[float, float] | None) -> Finding:
        """The speed over that of the fastest peer."""
        fastest = min(peers, key=lambda each: median(each, wall))
        ratio = paired_ratio(fastest.by_block(wall), self.own.by_block(wall))
        return Finding(what, ratio, named(fastest, self.own), bounds, self.better(wall, 1e-3, "ms"))

    def size(self, what: str, peers: list[CellSummary], bounds: tuple[float, float]) -> Finding:
        """The file's size to that of the smallest peer's."""
        smallest = min(peers, key=lambda each: median(each, file_bytes))
        ratio = estimate([median(self.own, file_bytes) / median(smallest, file_bytes)])
        return Finding(what, ratio, named(smallest, self.own), bounds, self.better(file_bytes, 1e6, "MB"))

    def memory(self, what: str, peers: list[CellSummary]) -> Finding:
        """The growth of resident memory to that of the leanest peer with as many row groups."""
        equal = [each for each in peers if row_groups(each) == row_groups(self.own)]
        least = min(equal, key=lambda each: median(each, growth))
        ratio = paired_ratio(self.own.by_block(growth), least.by_block(growth))
        return Finding(what, ratio, least.cell.backend, (0.7, 0.4), self.better(growth, 1e6, "MB"))


def flat(
    run: RunSummary, name: str, bounds: tuple[float, float], tuned_bounds: tuple[float, float]
) -> Iterator[Finding]:
    """Speed, size and memory at 400,000 rows, against defaults and against tuned peers."""
    sizes = {"logs": (0.9, 0.8), "lineitem": (0.92, 0.85)}
    for mode in ("table", "batches"):
        found = Contest.of(cells(run, mode=mode, rows=400_000))
        what = f"{name}, 400K rows, {mode}"
        yield found.speed(f"{what}: speed against defaults", found.defaults, bounds)
        yield found.speed(f"{what}: speed against tuned peers", found.tuned, tuned_bounds)
        yield found.memory(f"{what}: peak RSS growth against defaults", found.defaults)
        yield found.memory(f"{what}: peak RSS growth against tuned peers", found.tuned)
    yield found.size(f"{name} against defaults: file size", found.defaults, sizes[name])
    yield found.size(f"{name} against tuned peers: file size", found.tuned, (1, 0.9))


def logs(run: RunSummary) -> Iterator[Finding]:
    yield from flat(run, "logs", (2.5, 3.5), (2, 3))
    for mode in ("table", "batches"):
        found = Contest.of(cells(run, mode=mode, rows=10_000))
        what = f"logs, 10K rows, {mode}"
        yield found.speed(f"{what}: speed against defaults", found.defaults, (1.5, 2))
        yield found.speed(f"{what}: speed against tuned peers", found.tuned, None)


def lineitem(run: RunSummary) -> Iterator[Finding]:
    yield from flat(run, "lineitem", (2, 3), (1.8, 2.5))


def codecs(run: RunSummary) -> Iterator[Finding]:
    for codec in ("uncompressed", "snappy", "lz4"):
        found = Contest.of(cells(run, codec=codec))
        yield found.speed(f"logs, 400K rows, {codec}: speed against defaults", found.defaults, (2, 3))


def nested(run: RunSummary) -> Iterator[Finding]:
    found = Contest.of(cells(run))
    yield found.speed("logs-nested, 400K rows: speed against defaults", found.defaults, (1.5, 2.5))


def rows(run: RunSummary) -> Iterator[Finding]:
    for mode, aim in (("rows", 4.5), ("rows-json", 4.5), ("ndjson", 5)):
        found = Contest.of(cells(run, mode=mode))
        yield found.speed(f"logs, 50K rows as {mode}: speed against defaults", found.defaults, (3, aim))


def threads(run: RunSummary) -> Iterator[Finding]:
    (one,), (two,) = cells(run, threads=1), cells(run, threads=2)
    ratio = paired_ratio(one.by_block(wall), two.by_block(wall))
    yield Finding("logs, 400K rows: two threads", ratio, "one thread", (1.7, 1.9))


def memory(run: RunSummary) -> Iterator[Finding]:
    for each in cells(run, backend="spillway-16mb"):
        grown = estimate([growth(sample) / 1e6 for sample in each.good])
        file = f"{each.cell.rows:,} rows in {counted(row_groups(each), 'row group')}"
        what = f"logs, {file}, memory_limit 16 MB: peak RSS growth"
        yield Finding(what, grown, "-", (24, 20), unit="MB")


def gil(run: RunSummary) -> Iterator[Finding]:
    (own,), (peer,) = (cells(run, backend=name) for name in ("spillway", "arro3"))
    gap, theirs = (estimate(milliseconds(each, "longest_gap_seconds")) for each in (own, peer))
    idle = estimate(milliseconds(own, "idle_gap_seconds"))
    against = f"arro3 {with_interval(theirs, 'ms')}; an idle main thread {with_interval(idle, 'ms')}"
    better = ["arro3"] if theirs.median < gap.median else []
    yield Finding("logs, 2M rows: longest GIL gap", gap, against, (5, 2), better, unit="ms")


def milliseconds(cell: CellSummary, field: str) -> list[float]:
    return [float(reading[field]) * 1e3 for reading in cell.readings("gil")]


def many_rows(run: RunSummary) -> Iterator[Finding]:
    found = {each.cell.rows: each for each in cells(run, backend="spillway")}
    few, many = found[min(found)], found[max(found)]
    per_row = paired_ratio(
        many.by_block(lambda sample: wall(sample) / many.cell.rows),
        few.by_block(lambda sample: wall(sample) / few.cell.rows),
    )
    names = [f"{each.cell.rows:,} rows ({counted(row_groups(each), 'row group')})" for each in (many, few)]
    yield Finding(f"wide:10: time per row at {names[0]}", per_row, names[1], (1.05, 1))


def many_columns(run: RunSummary) -> Iterator[Finding]:
    """The most columns beside the fewest, then each count beside the next lower one."""
    columns = {data["dataset"]: data["columns"] for data in run.environment["inputs"]}
    found = {columns[each.cell.dataset]: each for each in cells(run, backend="spillway")}
    counts = sorted(found)
    for few, many in [(counts[0], counts[-1]), *pairwise(counts)]:
        names = [
            f"{each:,} columns ({counted(row_groups(found[each]), 'row group')})" for each in (many, few)
        ]
        ratio = per_column(found[many], many, found[few], few)
        yield Finding(f"20K rows: time per row and column at {names[0]}", ratio, names[1], (1.05, 1))


def per_column(wide: CellSummary, many: int, narrow: CellSummary, few: int) -> Estimate:
    """The time per row and column of a wide table to that of a narrow one."""
    return paired_ratio(
        wide.by_block(lambda sample: wall(sample) / many),
        narrow.by_block(lambda sample: wall(sample) / few),
    )


FINDINGS: dict[str, Callable[[RunSummary], Iterator[Finding]]] = {
    "logs": logs,
    "lineitem": lineitem,
    "codecs": codecs,
    "nested": nested,
    "rows": rows,
    "threads": threads,
    "memory": memory,
    "gil": gil,
    "many-rows": many_rows,
    "many-columns": many_columns,
}
