"""Measure what the writer's targets are about, and say how far each is met.

    python scripts/targets.py measure runs/targets            # or only some: ... lineitem threads
    python scripts/targets.py table runs/targets > targets.md

Each job is one interleaved run of ``spillway bench``; its folder lies below the name of the job, and a job
that has one of the same commit is not measured again. Jobs whose name begins with ``real-`` measure a table
of ``corpus.py``; those of `ON_REQUEST` run only where they are named. All figures of the table come from
these folders; ``findings.py`` makes its lines of them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import corpus
from findings import COLD, FINDINGS, HEADER, JOB_OF_TABLE, KNOWN, NOTE, SIZED, UNSEEN, UNTUNED
from spillway.harness.environment import git_state
from spillway.harness.report import REPORT, Entry, Table, checkout, markdown_table
from stored_runs import stored_run

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary

DEFAULTS = "pyarrow-streaming,polars,duckdb,arro3"
TUNED = "pyarrow-streaming-tuned,arro3-tuned"
# The slowest of the peers are left out where they cannot be the fastest.
FAST = "pyarrow-streaming,polars,arro3"
SHARED = ("--memory=none", "--no-trace", "--probes=0", "--validate=pyarrow")
QUOTED = "--samples=12"
QUOTED_JOB = "front"
INSTRUCTIONS = Path(__file__).resolve().parent.parent / "results" / "instructions.json"
JOBS: dict[str, tuple[str, ...]] = {
    # What the README leads with. A limit that nobody reaches: only with one is there a control group to read.
    "front": (
        f"--backend=spillway,spillway-16mb,pyarrow-buffered,{DEFAULTS},{TUNED}",
        "--mode=table,batches",
        "--rows=400000",
        "--table-rows=10000,400000",
        "--memory=2276MB",
        QUOTED,
    ),
    "logs": (
        f"--backend=spillway,{DEFAULTS},{TUNED}",
        "--mode=table,batches",
        "--rows=10000,400000",
        "--table-rows=10000,400000",
        QUOTED,
    ),
    "lineitem": (
        "--dataset=lineitem",
        f"--backend=spillway,{DEFAULTS},{TUNED}",
        "--mode=table,batches",
        "--rows=400000",
        QUOTED,
    ),
    **{
        JOB_OF_TABLE.format(name): (f"--backend=spillway,{DEFAULTS}", "--mode=table,batches", QUOTED)
        for name in (*KNOWN, *UNSEEN, *UNTUNED)
    },
    # Sizes alone are quoted, which do not vary; the second sample would show if they did.
    **{
        JOB_OF_TABLE.format(name): (f"--backend=spillway,{DEFAULTS}", "--mode=table", "--samples=2")
        for name in SIZED
    },
    "codecs": (
        f"--backend=spillway,{FAST}",
        "--codec=uncompressed,snappy,lz4",
        "--mode=table",
        "--rows=400000",
        QUOTED,
    ),
    "nested": (
        "--dataset=logs-nested",
        f"--backend=spillway,{FAST}",
        "--mode=table",
        "--rows=400000",
        QUOTED,
    ),
    "rows": (
        "--backend=spillway-rows,pyarrow-rows,polars-rows,spillway-ndjson,pyarrow-ndjson,polars-ndjson,duckdb-ndjson",
        "--mode=rows,rows-json,ndjson",
        "--rows=50000",
        QUOTED,
    ),
    "threads": ("--backend=spillway", "--cores=1,2", "--mode=table", "--rows=400000", QUOTED),
    "two-cores": (
        "--dataset=logs,lineitem",
        f"--backend=spillway,{DEFAULTS}",
        "--cores=2",
        "--mode=table",
        "--rows=400000",
        QUOTED,
    ),
    "two-cores-cities": (f"--backend=spillway,{DEFAULTS}", "--cores=2", "--mode=table", QUOTED),
    # A control group is there only with a limit, and this one is above what these take. DuckDB is left out:
    # it takes twenty times the memory of the leanest.
    "peaks": (
        "--dataset=logs,lineitem",
        f"--backend=spillway,{FAST},{TUNED}",
        "--mode=table",
        "--rows=400000",
        "--memory=2276MB",
        QUOTED,
    ),
    "memory": (
        "--backend=spillway,spillway-16mb",
        "--mode=batches",
        "--rows=400000,4000000",
        "--row-group-rows=4000000",
        f"--process-setting={COLD}",
        QUOTED,
    ),
    # Probes have writes of their own, which the 12 are of; two samples are the fewest that say a speed. The
    # rows are a whole row group and the begin of another: more would take minutes for the same percentile.
    "gil": ("--backend=spillway,arro3", "--mode=batches", "--rows=1200000", "--samples=2", "--probes=12"),
    "many-rows": (
        "--dataset=wide:10",
        # Compared with itself.
        "--backend=spillway",
        "--mode=batches",
        "--rows=400000,10000000",
        QUOTED,
    ),
    "many-columns": (
        "--dataset=wide:10,wide:50,wide:200,wide:1000,wide:2000",
        "--backend=spillway",
        "--mode=batches",
        "--rows=20000",
        QUOTED,
    ),
}
# They take minutes, and no target of the second version is about them.
ON_REQUEST = ("front", "nested", "many-rows", "many-columns")


def measured(out: Path, job: str) -> Path | None:
    """The newest run of a job that was not stopped half-way."""
    runs = (report.parent for report in (out / job).glob(f"*/{REPORT}"))
    return max((run for run in runs if is_whole(stored_run(run))), default=None)


def is_whole(run: RunSummary) -> bool:
    """Return true if every cell has all the samples that were asked for."""
    wanted: int = run.environment["options"]["samples"]
    return all(len(each.good or each.samples) >= wanted for each in run.cells)


def is_of_this_commit(folder: Path | None) -> bool:
    """Return true if a run was measured by the commit that is checked out, and nothing was changed in it."""
    if folder is None:
        return False
    was, now = stored_run(folder).environment["git"], git_state()
    return was is not None and was == now and not was["changed"]


def of_job(job: str) -> list[str]:
    """The options of a job; those of a real table name its file, which is made if it is not there."""
    tables = {JOB_OF_TABLE.format(name): name for name in corpus.TABLES} | {"two-cores-cities": "cities"}
    if job not in tables:
        return [*SHARED, *JOBS[job]]
    return [*SHARED, f"--input={corpus.stored_at(tables[job])}", *JOBS[job]]


def measure(out: Path, wanted: list[str]) -> None:
    """Run the jobs that have not been run, and say how long each took."""
    program = [sys.executable, "-c", "from spillway.cli import main; main()", "bench"]
    asked = wanted or [job for job in JOBS if job not in ON_REQUEST]
    left = [job for job in asked if not is_of_this_commit(measured(out, job))]
    for job in asked:
        if job not in left:
            print(f"{job}: measured already", file=sys.stderr, flush=True)
    # Before all: a table that cannot be made should not show after half an hour.
    jobs = {job: of_job(job) for job in left}
    begin = time.monotonic()
    for job, options in jobs.items():
        print(f"{job}: spillway bench {' '.join(options)}", file=sys.stderr, flush=True)
        started = time.monotonic()
        subprocess.run([*program, *options, f"--out={out / job}"], check=True)
        run = measured(out, job)
        if job == QUOTED_JOB and run is not None:  # a test compares it with the record of later code
            shutil.copy(INSTRUCTIONS, run)
        print(f"{job}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"all: {(time.monotonic() - begin) / 60:.1f} minutes", file=sys.stderr, flush=True)


def table(out: Path) -> str:
    """The targets and what the runs say of them, in Markdown."""
    runs = {job: stored_run(folder) for job in JOBS if (folder := measured(out, job)) is not None}
    lines: list[list[Entry]] = []
    for jobs, findings in FINDINGS.items():
        if runs.keys() >= set(jobs):
            lines += [finding.entries() for finding in findings(*(runs[job] for job in jobs))]
    notes = [NOTE]
    commits = {" ".join(checkout(run.environment)) for run in runs.values()}
    if len(commits) > 1:
        notes.append(f"The jobs were measured at {len(commits)} commits: `make targets` measures all at one.")
    missing = [job for job in JOBS if job not in runs and job not in ON_REQUEST]
    if missing:
        notes.append(f"Not measured yet, so that their lines are missing: {', '.join(missing)}.")
    for job, run in runs.items():
        built = " ".join(checkout(run.environment))
        notes += [
            f"{job}: run {run.run_id}, {run.environment['cpu_model']}. {built}".strip(),
            *run.warnings(),
        ]
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
