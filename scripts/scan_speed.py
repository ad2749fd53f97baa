"""Measure the reading of a few rows of a large Delta table, beside DuckDB on the same files.

    python scripts/scan_speed.py measure runs/scan
    python scripts/scan_speed.py measure runs/scan --record   # and the samples into results/scan/
    python scripts/scan_speed.py table runs/scan

``make readme`` puts the table of the newest run in ``results/scan/`` into the guide to Delta tables.

Each sample is a process that reads the answer to a question into Arrow, with one thread or with two, in
blocks whose order is drawn by a seed. It reads once, and then some times more: both are shown. The first
block is not kept. All readers must find the same rows. ``scripts/scan_once.py`` has questions and readers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

import scan_once
import spillway.delta
from spillway import datasets
from spillway._wording import counted
from spillway.bench.quoting import FEWEST_TO_QUOTE
from spillway.harness.environment import describe_run, refuse_debug_build
from spillway.harness.host import SampleWatch, noise_warnings
from spillway.harness.report.markdown import checkout, document, machine, software, table_section
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import estimate, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spillway.harness.host import HostReading

SCHEMA_VERSION = 1
SAMPLES = "scans.jsonl"
RESULTS = Path(__file__).resolve().parent.parent / "results" / "scan"
FILES = 10
THREADS = (1, 2)
OTHER = "duckdb"
"""The reader that ours is compared with."""


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    rows: int
    blocks: int
    seed: int


@dataclass(frozen=True)
class Sample:
    """The readings of one process.

    Attributes:
        question: The name of a question.
        reader: The name of the reader.
        threads: Its threads and processors.
        block: The number of its block.
        first: Seconds of the first reading.
        again: Seconds of the later readings, their median.
        rows: Rows of the answer.
        checksum: A sum over these rows.
        host: The readings of the host.
    """

    question: str
    reader: str
    threads: int
    block: int
    first: float
    again: float
    rows: int
    checksum: str
    host: HostReading


def made(folder: Path, options: Options) -> Path:
    """A table of log lines in the order of their times, in some files."""
    table = spillway.delta.create(folder, datasets.schema("logs"))
    share = options.rows // FILES
    for number in range(FILES):
        with table.append() as append:
            for batch in datasets.row_range("logs", options.seed, number * share, (number + 1) * share):
                append.write(batch)
    return folder


def taken(table: Path, question: str, reader: str, threads: int, block: int) -> Sample:
    """The readings of a process.

    Raises:
        RuntimeError: The process failed, with what it said.
    """
    command = [sys.executable, scan_once.__file__, reader, question, str(threads), str(table)]
    watch = SampleWatch()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{reader} failed to read {question!r}:\n{done.stderr}")
    return Sample(question, reader, threads, block, **json.loads(done.stdout), host=watch.read())


def measure(folder: Path, options: Options, *, record: bool) -> None:
    """Take the samples of a run, leave them in its folder, and keep them where that is asked.

    Raises:
        AssertionError: Two readers found other rows.
    """
    refuse_debug_build()
    folder.mkdir(parents=True)
    run_id = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    environment = describe_run(run_id, options, schema_version=SCHEMA_VERSION)
    (folder / "environment.json").write_text(json.dumps(environment, indent=1) + "\n")
    scratch = Path(tempfile.mkdtemp(prefix="spillway-scan-"))
    try:
        table = made(scratch / "table", options)
        forms = [
            (question, reader, threads)
            for question in scan_once.QUESTIONS
            for reader in scan_once.READERS
            for threads in THREADS
            if threads <= len(os.sched_getaffinity(0))
        ]
        answers: dict[str, tuple[int, str]] = {}
        draw = random.Random(options.seed)  # noqa: S311 - an order, not a secret
        with Progress() as progress, (folder / SAMPLES).open("w") as out:
            task = progress.add_task("reading", total=len(forms) * (options.blocks + 1))
            for block in range(options.blocks + 1):
                for question, reader, threads in draw.sample(forms, len(forms)):
                    sample = taken(table, question, reader, threads, block)
                    answer = sample.rows, sample.checksum
                    if answers.setdefault(question, answer) != answer:
                        raise AssertionError(f"{reader} read other rows of {question!r}: {sample.rows:,}")
                    if block > 0:
                        out.write(json.dumps(asdict(sample)) + "\n")
                        out.flush()
                    progress.advance(task)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if record:
        shutil.copytree(folder, RESULTS / run_id)


def environment_of(folder: Path) -> dict[str, Any]:
    """The machine and the options of a run."""
    found: dict[str, Any] = json.loads((folder / "environment.json").read_text())
    return found


def read_samples(folder: Path) -> list[Sample]:
    """The samples of a run."""
    return [Sample(**json.loads(line)) for line in (folder / SAMPLES).read_text().splitlines()]


def why_not_quoted(folder: Path) -> list[str]:
    """The reasons why a run is not to be quoted: too few samples, or a host that was busy."""
    samples, environment = read_samples(folder), environment_of(folder)
    blocks = len({sample.block for sample in samples})
    few = blocks < FEWEST_TO_QUOTE
    lacking = [f"{counted(blocks, 'block')}, not {FEWEST_TO_QUOTE}"] if few else []
    hosts = [sample.host for sample in samples]
    seconds = sum(host.get("wall_seconds", 0.0) for host in hosts)
    noise = partial(noise_warnings, cores=environment["cores"])
    return lacking + noise(environment["load_before"], hosts, seconds)


def table(folder: Path) -> str:
    """The table of a run, in Markdown."""
    samples, environment = read_samples(folder), environment_of(folder)
    rows = environment["options"]["rows"]
    notes = [
        f"{rows:,} log lines in {FILES} files in the order of their times.",
        f"Milliseconds, and medians of ratios to {OTHER} block by block, with their 95 % intervals.",
        "Above 1, spillway takes longer. `first` is the first reading of a process, `again` a later one.",
        f"{machine(environment)}.",
        software(environment),
        *checkout(environment),
    ]
    cells = dict.fromkeys((sample.question, sample.threads) for sample in sorted(samples, key=_place))
    lines = [[Entry(text) for text in _line(samples, *cell)] for cell in cells]
    header = ("question", "rows", "threads", "first", "times", "again", "times")
    return document([table_section(Table("Rows that are asked for", header, lines, [])), *notes])


def _place(sample: Sample) -> tuple[int, int]:
    return list(scan_once.QUESTIONS).index(sample.question), sample.threads


def _line(samples: list[Sample], question: str, threads: int) -> list[str]:
    own, other = (
        {
            sample.block: sample
            for sample in samples
            if (sample.question, sample.reader, sample.threads) == (question, reader, threads)
        }
        for reader in ("spillway", OTHER)
    )
    rows = f"{next(iter(own.values())).rows:,}"
    title = scan_once.QUESTIONS[question].title
    return [title, rows, str(threads), *_times(own, other, _first), *_times(own, other, _again)]


def _first(sample: Sample) -> float:
    return sample.first


def _again(sample: Sample) -> float:
    return sample.again


def _times(
    own: Mapping[int, Sample], other: Mapping[int, Sample], seconds: Callable[[Sample], float]
) -> list[str]:
    taken = estimate([seconds(sample) for sample in own.values()]).median
    ratio = paired_ratio(
        {block: seconds(sample) for block, sample in own.items()},
        {block: seconds(sample) for block, sample in other.items()},
    )
    return [f"{taken * 1e3:.1f}", f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="take the samples")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--rows", type=int, default=1_000_000)
    measuring.add_argument("--blocks", type=int, default=12)
    measuring.add_argument("--seed", type=int, default=1)
    measuring.add_argument("--record", action="store_true", help="keep the samples in results/scan/")
    showing = commands.add_parser("table", help="print the table of a run")
    showing.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.folder, Options(given.rows, given.blocks, given.seed), record=given.record)
    sys.stdout.write(table(given.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
