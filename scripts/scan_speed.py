"""Measure the reading of a few rows of a large Delta table, beside DuckDB on the same files.

    python scripts/scan_speed.py measure runs/scan
    python scripts/scan_speed.py measure runs/scan --record   # and the samples into results/scan/
    python scripts/scan_speed.py table runs/scan

``make readme`` puts the table of the newest run in ``results/scan/`` into the guide to Delta tables.

Each sample is a process that reads the answer to a question into Arrow, with one thread or with two. It reads
once, and then some times more: both are shown. All readers must find the same rows. ``scripts/scan_once.py``
has questions and readers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import scan_once
import spillway.delta
from block_run import BlockRun, Options
from spillway import datasets
from spillway.harness.host import SampleWatch
from spillway.harness.report.markdown import checkout, document, machine, software, table_section
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import estimate, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spillway.harness.host import HostReading

FILES = 10
THREADS = (1, 2)
OTHER = "duckdb"
"""The reader that ours is compared with."""


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


RUNS = BlockRun("scan", Sample, schema_version=1)


def measure(folder: Path, options: Options) -> None:
    """Take the samples of a run, and leave them in its folder.

    Raises:
        AssertionError: Two readers found other rows.
    """
    RUNS.begin(folder, options)
    with tempfile.TemporaryDirectory(prefix="spillway-scan-") as scratch:
        table = made(Path(scratch, "table"), options)
        forms = [
            (question, reader, threads)
            for question in scan_once.QUESTIONS
            for reader in scan_once.READERS
            for threads in THREADS
            if threads <= len(os.sched_getaffinity(0))
        ]
        answers: dict[str, tuple[int, str]] = {}

        def of(form: tuple[str, str, int], block: int) -> Sample:
            question, reader, threads = form
            sample = taken(table, question, reader, threads, block)
            answer = sample.rows, sample.checksum
            if answers.setdefault(question, answer) != answer:
                raise AssertionError(f"{reader} read other rows of {question!r}: {sample.rows:,}")
            return sample

        RUNS.take(folder, options, forms, of)


def table(folder: Path) -> str:
    """The table of a run, in Markdown."""
    samples, environment = RUNS.read(folder), RUNS.environment_of(folder)
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


if __name__ == "__main__":
    sys.exit(RUNS.main(__doc__ or "", measure, table))
