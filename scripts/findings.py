"""The lines of the table of targets: ratios within one run, and the bounds that they are held against.

`FINDINGS` has a function for each job of ``scripts/targets.py``, or for several whose runs make a line
together. A line names every peer that does better than Spillway, and says where the file of that peer has
other row groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.side_tables import cgroup_growth, written
from spillway.bench.summary import file_bytes, growth, seconds, speed
from spillway.bench.tables import ratio
from spillway.harness.report import Entry
from spillway.harness.statistics import estimate, paired_ratio, pooled_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spillway.bench.summary import CellSummary, Metric, RunSummary
    from spillway.harness.statistics import Estimate, Ratio

HEADER = ("what", "measured", "against", "floor", "aim", "peers that do better")
NOTE = (
    "A speed is how many times as fast Spillway is as the fastest peer; all else is how many times as much "
    "it takes, and less is better. Medians of ratios block by block, with their 95 % intervals; sizes do not "
    "vary. A bound is met where the whole interval meets it, and not met where no part of it does; else "
    "samples cannot tell. A dash says that no bound is set, or nobody compared. Peers have their library's "
    "defaults; tuned peers have encodings by column, chosen by hand."
)
COLD = "cold"
# The tables of ``scripts/corpus.py`` that were held out while encodings were first tuned. Rules have changed
# since they were looked at.
UNSEEN = ("planes", "operations", "files", "characters")
# Those that came after all tuning.
UNTUNED = ("airfields", "zip-codes", "languages", "subdivisions", "temperatures", "claims")
# Those with a bound of their own.
KNOWN = ("flights", "cities")
# Of these only sizes are asked.
SIZED = ("weather", "airports", "towns", "counties", "names", "transitions", "lines", "tokens")
JOB_OF_TABLE = "real-{}"


Bounds = tuple[float, float | None]


@dataclass(frozen=True)
class Finding:
    """One line of the table: a number with its interval, and the bounds it is held against, if any.

    Attributes:
        what: The figure in words.
        found: The figure; None where the record does not hold it.
        against: The writer or the cell that Spillway is compared with.
        bounds: Floor and aim, if any. None for a figure that is shown and not judged.
        better: The peers that do better than Spillway; None where no peer is compared.
        unit: The figure's unit.
        less: True where less is better.
        digits: Decimal places.
    """

    what: str
    found: Estimate | None
    against: str
    bounds: Bounds | None
    better: list[str] | None = None
    unit: str = "x"
    less: bool = False
    digits: int = 2

    def verdict(self, bound: float) -> str:
        """Judge a bound by the end of the interval that is worse, and by the other one."""
        if self.found is None:
            return "not measured"
        sign = -1 if self.less else 1
        worse, other = sorted((sign * self.found.low, sign * self.found.high))
        if worse >= sign * bound:
            return "met"
        return "not met" if other < sign * bound else "cannot tell"

    def entries(self) -> list[Entry]:
        """The line as text."""
        judged = [
            "-" if bound is None else f"{bound:g}: {self.verdict(bound)}"
            for bound in self.bounds or (None, None)
        ]
        better = "-" if self.better is None else "; ".join(self.better) or "none"
        measured = "not measured"
        if self.found is not None:
            measured = with_interval(self.found, self.unit, self.digits)
        return [Entry(text) for text in (self.what, measured, self.against, *judged, better)]


def with_interval(found: Estimate, unit: str, digits: int = 2) -> str:
    interval = f" [{found.low:.{digits}f}, {found.high:.{digits}f}]" if found.n > 1 else ""
    return f"{found.median:.{digits}f} {unit}{interval}"


def cells(run: RunSummary, **wanted: Any) -> list[CellSummary]:
    """The cells with these fields, without those of which a sample failed or was found wrong."""
    return [
        each
        for each in run.cells
        if each.is_right and all(getattr(each.cell, name) == value for name, value in wanted.items())
    ]


def median(cell: CellSummary, metric: Metric) -> float:
    found = cell.estimate(metric)
    assert found is not None
    return found.median


def speed_ratio(above: CellSummary, below: CellSummary) -> Ratio:
    """The speed of one cell over that of another one of its run, block by block."""
    found = ratio(above, below, speed)
    assert found is not None  # the cells of a run share its blocks
    return found


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
        known = [each for each in (*self.defaults, *self.tuned) if each.estimate(metric) is not None]
        peers = sorted(known, key=lambda each: median(each, metric))
        return [self._lead(each, metric, scale, unit) for each in peers if median(each, metric) < ours]

    def _lead(self, peer: CellSummary, metric: Metric, scale: float, unit: str) -> str:
        theirs, ours = (median(each, metric) / scale for each in (peer, self.own))
        # A small file's sizes are apart by less than a tenth of a megabyte.
        digits = next((each for each in (1, 2, 3) if f"{theirs:.{each}f}" != f"{ours:.{each}f}"), 4)
        parts = [f"{theirs:.{digits}f} to {ours:.{digits}f} {unit}"]
        lead = paired_ratio(peer.by_block(metric), self.own.by_block(metric))
        if lead.high >= 1:
            parts.append(f"level: {with_interval(lead, 'x')}")
        parts += filter(None, [other_row_groups(peer, self.own)])
        return f"{peer.cell.backend} ({', '.join(parts)})"

    def fastest(self) -> CellSummary:
        """The fastest peer of those with defaults."""
        return min(self.defaults, key=lambda each: median(each, seconds))

    def smallest(self) -> CellSummary:
        """The peer of those with defaults whose file is the smallest."""
        return min(self.defaults, key=lambda each: median(each, file_bytes))

    def size_ratio(self, peer: CellSummary) -> float:
        """The size of the file to that of a peer's."""
        return median(self.own, file_bytes) / median(peer, file_bytes)

    def speed(self, what: str, peers: list[CellSummary], bounds: Bounds | None) -> Finding:
        """The speed over that of the fastest of some peers."""
        fastest = min(peers, key=lambda each: median(each, seconds))
        ratio = paired_ratio(fastest.by_block(seconds), self.own.by_block(seconds))
        return Finding(what, ratio, named(fastest, self.own), bounds, self.better(seconds, 1e-3, "ms"))

    def size(self, what: str, bounds: Bounds) -> Finding:
        """The file's size to that of the smallest peer's."""
        smallest = self.smallest()
        ratio = estimate([self.size_ratio(smallest)])
        better = self.better(file_bytes, 1e6, "MB")
        return Finding(what, ratio, named(smallest, self.own), bounds, better, less=True, digits=3)

    def memory(self, what: str, metric: Metric) -> Finding:
        """The growth by a measure of memory to that of the leanest peer with as many row groups."""
        equal = [
            each
            for each in (*self.defaults, *self.tuned)
            if row_groups(each) == row_groups(self.own) and each.estimate(metric) is not None
        ]
        if self.own.estimate(metric) is None or not equal:
            return Finding(what, None, "-", (1, None), less=True)
        least = min(equal, key=lambda each: median(each, metric))
        ratio = paired_ratio(self.own.by_block(metric), least.by_block(metric))
        better = self.better(metric, 1e6, "MB")
        return Finding(what, ratio, least.cell.backend, (1, None), better, less=True)


def flat(run: RunSummary, name: str, bounds: Bounds, tuned: Bounds | None, size: Bounds) -> Iterator[Finding]:
    """Speed and size at 400,000 rows, against defaults and against tuned peers."""
    for mode in ("table", "batches"):
        found = Contest.of(cells(run, mode=mode, rows=400_000))
        what = f"{name}, 400K rows, {mode}: speed"
        yield found.speed(what, found.defaults, bounds)
        yield found.speed(f"{what}, against tuned peers", found.tuned, tuned)
    yield found.size(f"{name}, 400K rows: file size", size)


def logs(run: RunSummary) -> Iterator[Finding]:
    yield from flat(run, "logs", (2.8, 3.2), (2.2, 2.6), (0.87, 0.83))
    for mode in ("table", "batches"):
        found = Contest.of(cells(run, mode=mode, rows=10_000))
        what = f"logs, 10K rows, {mode}: speed"
        yield found.speed(what, found.defaults, (1.5, 2))
        yield found.speed(f"{what}, against tuned peers", found.tuned, None)


def lineitem(run: RunSummary) -> Iterator[Finding]:
    yield from flat(run, "lineitem", (2.6, 3), (1.8, 2.5), (0.89, None))


def known(name: str, floor: float, run: RunSummary) -> Iterator[Finding]:
    """Speed on a real table that tuning looks at."""
    for mode in ("table", "batches"):
        found = Contest.of(cells(run, mode=mode))
        what = f"{name}, {found.own.cell.rows:,} rows, {mode}: speed"
        yield found.speed(what, found.defaults, (floor, None))


def faster(run: RunSummary, mode: str) -> list[tuple[str, Ratio]]:
    """The peers that are faster on a table, or level by the samples, with Spillway's speed over theirs."""
    contest = Contest.of(cells(run, mode=mode))
    found = [
        (each.cell.backend, paired_ratio(each.by_block(seconds), contest.own.by_block(seconds)))
        for each in (*contest.defaults, *contest.tuned)
    ]
    return [(peer, ratio) for peer, ratio in found if ratio.low <= 1]


def of_tables(which: str, names: Sequence[str], *runs: RunSummary) -> Iterator[Finding]:
    """Speed on some tables: the mean of all, and the least."""
    for mode in ("table", "batches"):
        contests = {name: Contest.of(cells(run, mode=mode)) for name, run in zip(names, runs, strict=True)}
        pairs = {
            name: (each.fastest().by_block(seconds), each.own.by_block(seconds))
            for name, each in contests.items()
        }
        ratios = {name: paired_ratio(*pair) for name, pair in pairs.items()}
        better = {
            name: [f"{name}: {peer}" for peer in each.better(seconds, 1e-3, "ms")]
            for name, each in contests.items()
        }
        against = ", ".join(
            f"{name} {ratios[name].median:.2f} ({each.fastest().cell.backend})"
            for name, each in contests.items()
        )
        what = f"{len(names)} {which} tables, {mode}: speed"
        yield Finding(
            f"{what}, geometric mean",
            pooled_ratio([*pairs.values()]),
            against,
            (1.6, 2),
            [*chain(*better.values())],
        )
        # A bound is judged by the end of an interval, so the lowest end decides and not the lowest median.
        least = min(ratios, key=lambda name: ratios[name].low)
        slowest = f"{least}: {contests[least].fastest().cell.backend}"
        yield Finding(f"{what}, the least", ratios[least], slowest, (1.2, None), better[least])


def sizes(*runs: RunSummary) -> Iterator[Finding]:
    """The size on the real table where it is the worst; the tables where a peer's file is smaller."""
    contests = {name: Contest.of(cells(run, mode="table")) for name, run in zip(REAL, runs, strict=True)}
    ratios = {name: each.size_ratio(each.smallest()) for name, each in contests.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    better = [
        f"{name}: {peer}" for name, each in contests.items() for peer in each.better(file_bytes, 1e6, "MB")
    ]
    against = f"{worst}: {contests[worst].smallest().cell.backend}"
    what = f"{len(REAL)} real tables: file size, the largest"
    yield Finding(what, estimate([ratios[worst]]), against, (1, None), better, less=True, digits=3)


def codecs(run: RunSummary) -> Iterator[Finding]:
    for codec, floor in (("uncompressed", 2.6), ("snappy", 2.3), ("lz4", 2.3)):
        found = Contest.of(cells(run, codec=codec))
        yield found.speed(f"logs, 400K rows, {codec}: speed", found.defaults, (floor, None))


def nested(run: RunSummary) -> Iterator[Finding]:
    found = Contest.of(cells(run))
    yield found.speed("logs-nested, 400K rows: speed", found.defaults, (1.5, 2.5))


def rows(run: RunSummary) -> Iterator[Finding]:
    words = {"rows": "dicts", "rows-json": "dicts fresh from JSON", "ndjson": "NDJSON"}
    for mode, bounds in (("rows", (2.5, 4)), ("rows-json", (2.5, 4)), ("ndjson", (3.2, 4.5))):
        found = Contest.of(cells(run, mode=mode))
        yield found.speed(f"logs, 50K rows as {words[mode]}: speed", found.defaults, bounds)


def threads(run: RunSummary) -> Iterator[Finding]:
    (one,), (two,) = cells(run, threads=1), cells(run, threads=2)
    ratio = paired_ratio(one.by_block(seconds), two.by_block(seconds))
    yield Finding("logs, 400K rows: speed of two threads", ratio, "one thread", (1.75, None))


def two_cores(generated: RunSummary, real: RunSummary) -> Iterator[Finding]:
    """Everyone's defaults where two cores are free."""
    targets = {"logs": (2.6, 2.8), "lineitem": (2.3, 2.6), "cities": (1.4, 1.6)}
    for name, bounds in targets.items():
        found = Contest.of(cells(real) if name == "cities" else cells(generated, dataset=name))
        what = f"{name}, {found.own.cell.rows:,} rows, two cores, everyone's defaults: speed"
        yield found.speed(what, found.defaults, bounds)


def peaks(run: RunSummary) -> Iterator[Finding]:
    """The growth of memory in one row group, by both measures."""
    for name in ("logs", "lineitem"):
        found = Contest.of(cells(run, dataset=name))
        what = f"{name}, 400K rows, table"
        yield found.memory(f"{what}: peak RSS growth", growth)
        yield found.memory(f"{what}: peak growth of the control group", cgroup_growth)


def memory(run: RunSummary) -> Iterator[Finding]:
    """The growth under a limit of 16 MB, and what the limit costs in time and in bytes written."""
    for each in cells(run, backend="spillway-16mb"):
        (free,) = cells(run, backend="spillway", rows=each.cell.rows)
        what = f"logs, {each.cell.rows:,} rows in {counted(row_groups(each), 'row group')}, limit of 16 MB"
        grown = estimate([growth(sample) / 1e6 for sample in each.good])
        start = "first write of a process" if each.cell.arm == COLD else "after a first write"
        yield Finding(f"{what}, {start}: peak RSS growth", grown, "-", (20, None), unit="MB", less=True)
        beside = f"no limit{', ' + other if (other := other_row_groups(free, each)) else ''}"
        for measured, metric in (("time", seconds), ("bytes written", written)):
            ratio = paired_ratio(each.by_block(metric), free.by_block(metric))
            yield Finding(f"{what}: {measured}", ratio, beside, None, less=True)


def gil(run: RunSummary) -> Iterator[Finding]:
    (own,), (peer,) = (cells(run, backend=name) for name in ("spillway", "arro3"))
    idle = with_interval(estimate(milliseconds(own, "idle_gap_seconds")), "ms")
    for what, field, bounds in (
        ("GIL gap, 99th percentile of a write's", "p99_gap_seconds", (3, None)),
        ("longest GIL gap", "longest_gap_seconds", None),
    ):
        gaps, others = milliseconds(own, field), milliseconds(peer, field)
        found = estimate(gaps) if gaps else None
        theirs = estimate(others) if others else None
        against, better = "-", None
        if found and theirs:
            against = f"arro3 {with_interval(theirs, 'ms')}"
            better = ["arro3"] if theirs.median < found.median else []
        if field == "longest_gap_seconds":
            against += f"; an idle main thread {idle}"
        yield Finding(
            f"logs, {own.cell.rows:,} rows: {what}", found, against, bounds, better, unit="ms", less=True
        )


def milliseconds(cell: CellSummary, field: str) -> list[float]:
    """The readings of the GIL's probe; none where the record is older than the field."""
    return [float(reading[field]) * 1e3 for reading in cell.readings("gil") if field in reading]


def many_rows(run: RunSummary) -> Iterator[Finding]:
    found = {each.cell.rows: each for each in cells(run, backend="spillway")}
    few, many = found[min(found)], found[max(found)]
    per_row = paired_ratio(
        many.by_block(lambda sample: seconds(sample) / many.cell.rows),
        few.by_block(lambda sample: seconds(sample) / few.cell.rows),
    )
    names = [f"{each.cell.rows:,} rows ({counted(row_groups(each), 'row group')})" for each in (many, few)]
    yield Finding(f"wide:10: time per row at {names[0]}", per_row, names[1], (1.05, 1), less=True)


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
        yield Finding(
            f"20K rows: time per row and column at {names[0]}", ratio, names[1], (1.05, 1), less=True
        )


def per_column(wide: CellSummary, many: int, narrow: CellSummary, few: int) -> Estimate:
    """The time per row and column of a wide table to that of a narrow one."""
    return paired_ratio(
        wide.by_block(lambda sample: seconds(sample) / many),
        narrow.by_block(lambda sample: seconds(sample) / few),
    )


REAL = (*KNOWN, *UNSEEN, *SIZED)
FINDINGS: dict[tuple[str, ...], Callable[..., Iterator[Finding]]] = {
    ("logs",): logs,
    ("lineitem",): lineitem,
    ("real-flights",): partial(known, "flights", 2.3),
    ("real-cities",): partial(known, "cities", 1.6),
    tuple(map(JOB_OF_TABLE.format, UNSEEN)): partial(of_tables, "unseen", UNSEEN),
    tuple(map(JOB_OF_TABLE.format, UNTUNED)): partial(of_tables, "newer", UNTUNED),
    tuple(map(JOB_OF_TABLE.format, REAL)): sizes,
    ("codecs",): codecs,
    ("nested",): nested,
    ("rows",): rows,
    ("threads",): threads,
    ("two-cores", "two-cores-cities"): two_cores,
    ("peaks",): peaks,
    ("memory",): memory,
    ("gil",): gil,
    ("many-rows",): many_rows,
    ("many-columns",): many_columns,
}
