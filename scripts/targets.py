"""Measure what the writer's targets are about, and say how far each is met.

    python scripts/targets.py measure runs/targets            # or only some: ... lineitem threads
    python scripts/targets.py table runs/targets > targets.md

Each job is one interleaved run of ``spillway bench``; its folder lies below the name of the job, and a job
that has one is not measured again. All figures of the table come from these folders.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.backends import OWN_LIBRARY, library
from spillway.bench.summary import CellSummary, RunSummary, read_run
from spillway.harness.report.markdown import REPORT
from spillway.harness.report.table import Entry, Table, markdown_table
from spillway.harness.statistics import Estimate, estimate, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DEFAULTS = "pyarrow-streaming,polars,duckdb,arro3"
TUNED = "pyarrow-streaming-tuned,arro3-tuned"
# The slowest of the peers are left out where they cannot be the fastest.
FAST = "pyarrow-streaming,polars,arro3"
SHARED = ("--memory", "none", "--no-trace", "--validate", "pyarrow")
JOBS: dict[str, tuple[str, ...]] = {
    "logs": (
        f"--backend=spillway,{DEFAULTS},{TUNED}",
        "--rows=10000,400000",
        "--table-rows=10000,400000",
        "--samples=9",
    ),
    "lineitem": (
        "--dataset=lineitem",
        f"--backend=spillway,{DEFAULTS},{TUNED}",
        "--rows=400000",
        "--samples=9",
    ),
    "codecs": (
        f"--backend=spillway,{FAST}",
        "--codec=uncompressed,snappy,lz4",
        "--mode=table",
        "--rows=400000",
        "--samples=9",
    ),
    "nested": (
        "--dataset=logs-nested",
        f"--backend=spillway,{FAST}",
        "--mode=table",
        "--rows=400000",
        "--samples=9",
    ),
    "rows": (
        "--backend=spillway-rows,pyarrow-rows,polars-rows,spillway-ndjson,pyarrow-ndjson,polars-ndjson,duckdb-ndjson",
        "--mode=rows,rows-json,ndjson",
        "--rows=50000",
        "--samples=9",
    ),
    "threads": ("--backend=spillway", "--cores=1,2", "--mode=table", "--rows=400000", "--samples=12"),
    "memory": (
        "--backend=spillway,spillway-16mb",
        "--mode=batches",
        "--rows=400000,4000000",
        "--row-group-rows=4000000",
        "--samples=6",
    ),
    "gil": ("--backend=spillway,arro3", "--mode=batches", "--rows=2000000", "--samples=5"),
    "many-rows": (
        "--dataset=wide:10",
        "--backend=spillway,arro3",
        "--mode=batches",
        "--rows=400000,1000000,3000000,10000000",
        "--samples=5",
    ),
    "many-columns": (
        "--dataset=wide:10,wide:50,wide:200,wide:1000,wide:2000",
        "--backend=spillway,arro3",
        "--mode=batches",
        "--rows=20000",
        "--samples=5",
    ),
}


@dataclass(frozen=True)
class Finding:
    """One line of the table: a number with its interval, and the bounds it is held against."""

    what: str
    found: Estimate
    against: str
    floor: float
    aim: float
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """Judge the median by aim and floor; more is better where the aim is above the floor."""
        sign = 1 if self.aim > self.floor else -1
        if sign * self.found.median >= sign * self.aim:
            return "aim"
        return "floor" if sign * self.found.median >= sign * self.floor else "below"

    def entries(self) -> list[Entry]:
        """The line as text."""
        found = self.found
        interval = f" [{found.low:.2f}, {found.high:.2f}]" if found.n > 1 else ""
        texts = (
            self.what,
            f"{found.median:.2f} {self.unit}{interval}",
            self.against,
            f"{self.floor:g}",
            f"{self.aim:g}",
            self.verdict,
        )
        return [Entry(text) for text in texts]


def cells(run: RunSummary, **wanted: Any) -> list[CellSummary]:
    """The cells with these fields that ended well."""
    return [
        each
        for each in run.cells
        if each.good and all(getattr(each.cell, name) == value for name, value in wanted.items())
    ]


def by_block(cell: CellSummary, metric: Callable[[dict[str, Any]], float]) -> dict[int, float]:
    return {sample["block"]: metric(sample) for sample in cell.good}


def wall(sample: dict[str, Any]) -> float:
    return float(sample["use"]["wall_seconds"])


def growth(sample: dict[str, Any]) -> float:
    return float(sample["memory"]["growth_bytes"])


def median(cell: CellSummary, metric: Callable[[dict[str, Any]], float]) -> float:
    return estimate([metric(sample) for sample in cell.good]).median


def split(found: Iterable[CellSummary]) -> tuple[CellSummary, list[CellSummary], list[CellSummary]]:
    """Spillway's cell, its peers with their defaults, and those that are tuned."""
    found = list(found)
    (spillway,) = [each for each in found if library(each.cell.backend) == OWN_LIBRARY]
    peers = [each for each in found if each is not spillway]
    tuned = [each for each in peers if each.cell.backend.endswith("-tuned")]
    return spillway, [each for each in peers if each not in tuned], tuned


def speed(what: str, spillway: CellSummary, peers: list[CellSummary], floor: float, aim: float) -> Finding:
    """The speed over that of the fastest peer."""
    fastest = min(peers, key=lambda each: median(each, wall))
    ratio = paired_ratio(by_block(fastest, wall), by_block(spillway, wall))
    return Finding(what, ratio, fastest.cell.backend, floor, aim)


def size(what: str, spillway: CellSummary, peers: list[CellSummary], floor: float, aim: float) -> Finding:
    """The file's size to that of the smallest peer's."""
    sizes = {each.cell.backend: each.exact("bytes") for each in peers}
    smallest, least = min(
        ((name, value[0]) for name, value in sizes.items() if value), key=lambda pair: pair[1]
    )
    own = spillway.exact("bytes") or (0, False)
    return Finding(f"{what}: file size", estimate([own[0] / least]), smallest, floor, aim)


def leanest(what: str, spillway: CellSummary, peers: list[CellSummary]) -> Finding:
    """The growth of resident memory to that of the leanest peer with as many row groups."""
    equal = [each for each in peers if each.exact("row_groups") == spillway.exact("row_groups")]
    least = min(equal, key=lambda each: median(each, growth))
    ratio = paired_ratio(by_block(spillway, growth), by_block(least, growth))
    return Finding(f"{what}: peak RSS growth", ratio, least.cell.backend, 0.7, 0.4)


def flat(
    run: RunSummary, name: str, bounds: tuple[float, float], tuned_bounds: tuple[float, float]
) -> Iterator[Finding]:
    """Speed, size and memory at 400,000 rows, against defaults and against tuned peers."""
    sizes = {"logs": (0.9, 0.8), "lineitem": (0.92, 0.85)}
    for mode in ("table", "batches"):
        spillway, peers, tuned = split(cells(run, mode=mode, rows=400_000))
        what = f"{name}, 400K rows, {mode}"
        yield speed(f"{what}: speed against defaults", spillway, peers, *bounds)
        yield speed(f"{what}: speed against tuned peers", spillway, tuned, *tuned_bounds)
        yield leanest(what, spillway, peers)
    yield size(f"{name} against defaults", spillway, peers, *sizes[name])
    yield size(f"{name} against tuned peers", spillway, tuned, 1.0, 0.9)


def logs(run: RunSummary) -> Iterator[Finding]:
    yield from flat(run, "logs", (2.5, 3.5), (2, 3))
    for mode in ("table", "batches"):
        spillway, peers, _ = split(cells(run, mode=mode, rows=10_000))
        yield speed(f"logs, 10K rows, {mode}: speed against defaults", spillway, peers, 1.5, 2)


def lineitem(run: RunSummary) -> Iterator[Finding]:
    yield from flat(run, "lineitem", (2, 3), (1.8, 2.5))


def codecs(run: RunSummary) -> Iterator[Finding]:
    for codec in ("uncompressed", "snappy", "lz4"):
        spillway, peers, _ = split(cells(run, codec=codec))
        yield speed(f"logs, 400K rows, {codec}: speed against defaults", spillway, peers, 2, 3)


def nested(run: RunSummary) -> Iterator[Finding]:
    spillway, peers, _ = split(cells(run))
    yield speed("logs-nested, 400K rows: speed", spillway, peers, 1.5, 2.5)


def rows(run: RunSummary) -> Iterator[Finding]:
    for mode, aim in (("rows", 4.5), ("rows-json", 4.5), ("ndjson", 5)):
        spillway, peers, _ = split(cells(run, mode=mode))
        yield speed(f"logs, 50K rows as {mode}: speed", spillway, peers, 3, aim)


def threads(run: RunSummary) -> Iterator[Finding]:
    (one,), (two,) = cells(run, threads=1), cells(run, threads=2)
    ratio = paired_ratio(by_block(one, wall), by_block(two, wall))
    yield Finding("logs, 400K rows: two threads", ratio, "one thread", 1.7, 1.9)


def memory(run: RunSummary) -> Iterator[Finding]:
    for each in cells(run, backend="spillway-16mb"):
        grown = estimate([growth(sample) / 1e6 for sample in each.good])
        what = f"logs, one row group of {each.cell.rows:,} rows, memory_limit 16 MB: peak RSS growth"
        yield Finding(what, grown, "-", 24, 20, "MB")


def gil(run: RunSummary) -> Iterator[Finding]:
    (spillway,) = cells(run, backend="spillway")
    best = min(sample["gil"]["longest_gap_seconds"] for sample in spillway.good) * 1e3
    idle = min(sample["gil"]["idle_gap_seconds"] for sample in spillway.good) * 1e3
    what = f"logs, 2M rows: longest GIL gap, best of {len(spillway.good)}"
    yield Finding(what, estimate([best]), f"{idle:.2f} ms with an idle main thread", 5, 2, "ms")


def many_rows(run: RunSummary) -> Iterator[Finding]:
    found = {each.cell.rows: each for each in cells(run, backend="spillway")}
    few, many = found[min(found)], found[max(found)]
    per_row = paired_ratio(
        by_block(many, lambda sample: wall(sample) / many.cell.rows),
        by_block(few, lambda sample: wall(sample) / few.cell.rows),
    )
    what = f"wide:10: time per row at {many.cell.rows:,} rows"
    yield Finding(what, per_row, f"{few.cell.rows:,} rows", 1.05, 1)


def many_columns(run: RunSummary) -> Iterator[Finding]:
    columns = {data["dataset"]: data["columns"] for data in run.environment["inputs"]}
    found = {columns[each.cell.dataset]: each for each in cells(run, backend="spillway")}
    few, many = min(found), max(found)
    per_column = paired_ratio(
        by_block(found[many], lambda sample: wall(sample) / many),
        by_block(found[few], lambda sample: wall(sample) / few),
    )
    yield Finding(f"time per row and column at {many:,} columns", per_column, f"{few} columns", 1.05, 1)


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


def measured(out: Path, job: str) -> Path | None:
    """The newest run of a job that was not stopped half-way."""
    runs = (report.parent for report in (out / job).glob(f"*/{REPORT}"))
    return max((run for run in runs if is_whole(read_run(run))), default=None)


def is_whole(run: RunSummary) -> bool:
    """Return true if every cell has all the samples that were asked for."""
    wanted: int = run.environment["options"]["samples"]
    return all(len(each.samples) >= wanted for each in run.cells)


def measure(out: Path, wanted: list[str]) -> None:
    """Run the jobs that have not been run."""
    program = [sys.executable, "-c", "from spillway.cli import main; main()", "bench", *SHARED]
    for job in wanted or JOBS:
        if measured(out, job) is None:
            print(f"{job}: spillway bench {' '.join((*SHARED, *JOBS[job]))}", flush=True)
            subprocess.run([*program, *JOBS[job], f"--out={out / job}"], check=True)


def table(out: Path) -> str:
    """The targets and what the runs say of them, in Markdown."""
    lines: list[list[Entry]] = []
    notes = ["Medians of ratios block by block, with their 95 % intervals; sizes do not vary."]
    for job, findings in FINDINGS.items():
        folder = measured(out, job)
        if folder is None:
            notes.append(f"{job}: not measured.")
            continue
        run = read_run(folder)
        lines += [finding.entries() for finding in findings(run)]
        notes += [f"{job}: run {run.run_id}, {run.environment['cpu_model']}.", *run.warnings()]
    header = ("what", "measured", "against", "floor", "aim", "meets")
    return markdown_table(Table("Targets", header, lines, notes))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("measure", "table"))
    parser.add_argument("out", type=Path)
    parser.add_argument("jobs", nargs="*", metavar="job", help=", ".join(JOBS))
    asked = parser.parse_args()
    unknown = set(asked.jobs) - set(JOBS)
    if unknown:
        parser.error(f"there is no job {', '.join(sorted(unknown))}; choose from {', '.join(JOBS)}")
    if asked.action == "measure":
        measure(asked.out, asked.jobs)
    print(table(asked.out))


if __name__ == "__main__":
    main()
