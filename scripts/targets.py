"""Measure what the writer's targets are about, and say how far each is met.

    python scripts/targets.py measure runs/targets            # or only some: ... lineitem threads
    python scripts/targets.py table runs/targets > targets.md

Each job is one interleaved run of ``spillway bench``; its folder lies below the name of the job, and a job
that has one of the same commit is not measured again. All figures of the table come from these folders;
``findings.py`` makes its lines of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from findings import FINDINGS, HEADER, NOTE
from spillway.bench.summary import read_run
from spillway.harness.environment import git_state
from spillway.harness.report.markdown import REPORT, checkout
from spillway.harness.report.table import Entry, Table, markdown_table

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary

DEFAULTS = "pyarrow-streaming,polars,duckdb,arro3"
TUNED = "pyarrow-streaming-tuned,arro3-tuned"
# The slowest of the peers are left out where they cannot be the fastest.
FAST = "pyarrow-streaming,polars,arro3"
SHARED = ("--memory", "none", "--no-trace", "--probes", "0", "--validate", "pyarrow")
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
    "gil": ("--backend=spillway,arro3", "--mode=batches", "--rows=2000000", "--samples=2", "--probes=5"),
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


def measured(out: Path, job: str) -> Path | None:
    """The newest run of a job that was not stopped half-way."""
    runs = (report.parent for report in (out / job).glob(f"*/{REPORT}"))
    return max((run for run in runs if is_whole(read_run(run))), default=None)


def is_whole(run: RunSummary) -> bool:
    """Return true if every cell has all the samples that were asked for."""
    wanted: int = run.environment["options"]["samples"]
    return all(len(each.samples) >= wanted for each in run.cells)


def is_of_this_commit(folder: Path | None) -> bool:
    """Return true if a run was measured by the commit that is checked out, and nothing was changed in it."""
    if folder is None:
        return False
    was, now = read_run(folder).environment["git"], git_state()
    return was is not None and was == now and not was["changed"]


def measure(out: Path, wanted: list[str]) -> None:
    """Run the jobs that have not been run."""
    program = [sys.executable, "-c", "from spillway.cli import main; main()", "bench", *SHARED]
    for job in wanted or JOBS:
        if not is_of_this_commit(measured(out, job)):
            print(f"{job}: spillway bench {' '.join((*SHARED, *JOBS[job]))}", flush=True)
            subprocess.run([*program, *JOBS[job], f"--out={out / job}"], check=True)


def table(out: Path) -> str:
    """The targets and what the runs say of them, in Markdown."""
    lines: list[list[Entry]] = []
    notes = [NOTE]
    commits: set[str] = set()
    for job, findings in FINDINGS.items():
        folder = measured(out, job)
        if folder is None:
            notes.append(f"{job}: not measured.")
            continue
        run = read_run(folder)
        lines += [finding.entries() for finding in findings(run)]
        built = " ".join(checkout(run.environment))
        commits.add(built)
        notes += [
            f"{job}: run {run.run_id}, {run.environment['cpu_model']}. {built}".strip(),
            *run.warnings(),
        ]
    if len(commits) > 1:
        notes.insert(
            1, f"The jobs were measured at {len(commits)} commits: `make targets` measures all at one."
        )
    return markdown_table(Table("Targets", HEADER, lines, notes))


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
