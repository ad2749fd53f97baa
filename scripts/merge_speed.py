"""Measure merges of a few rows into a large Delta table, beside those of delta-rs.

    python scripts/merge_speed.py measure runs/merge
    python scripts/merge_speed.py measure runs/merge --record   # and the samples into results/merge/
    python scripts/merge_speed.py table runs/merge

``make readme`` puts the table of the newest run in ``results/merge/`` into the guide to Delta tables.

Each sample merges the same source into a fresh copy of the same table, in blocks whose order is drawn by a
seed. The first block is not kept. Bytes are those of all files that a merge adds, the log included. polars
reads each table back, outside of the time that is taken.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
from rich.progress import Progress

import spillway.delta
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
SAMPLES = "merges.jsonl"
RESULTS = Path(__file__).resolve().parent.parent / "results" / "merge"
FILES = 10
TOUCHED = 100
"""One row in so many is merged."""
OTHER = "delta-rs"
"""The writer that the others are compared with."""
TITLES = {"clustered": "Keys that lie together", "spread": "Keys that are spread over all files"}
VECTORS = {"delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema({"id": pa.int64(), "service": pa.string(), "value": pa.float64(), "note": pa.string()})


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    rows: int
    blocks: int
    seed: int


@dataclass(frozen=True)
class Sample:
    """One merge.

    Attributes:
        keys: ``"clustered"`` or ``"spread"``.
        writer: The name of the writer.
        block: The number of its block.
        seconds: From the opening of the table to the commit.
        bytes: Bytes of the files that it added to the table's folder.
        rows: Rows of the source.
        host: The readings of the host.
    """

    keys: str
    writer: str
    block: int
    seconds: float
    bytes: int
    rows: int
    host: HostReading


@dataclass(frozen=True)
class Writer:
    """A way to merge: the properties of its table, and the call with a path and a source."""

    properties: Mapping[str, str]
    merge: Callable[[Path, pa.Table], object]


def by_spillway(path: Path, source: pa.Table) -> None:
    """Merge by `Table.merge`."""
    spillway.delta.open(path).merge(source, "id")


def by_delta_rs(path: Path, source: pa.Table) -> None:
    """Merge by `DeltaTable.merge`."""
    merge = deltalake.DeltaTable(path).merge(
        source, "target.id = source.id", source_alias="source", target_alias="target"
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


WRITERS = {
    "spillway": Writer(VECTORS, by_spillway),
    "spillway, without vectors": Writer({}, by_spillway),
    OTHER: Writer({}, by_delta_rs),
}


def rows_of(ids: range, note: str, seed: int) -> pa.Table:
    """The rows of these identifiers."""
    draw = random.Random(seed)  # noqa: S311 - values, not secrets
    columns = {
        "id": pa.array(ids, pa.int64()),
        "service": pa.array([f"service-{number % 50}" for number in ids]),
        "value": pa.array([draw.random() for _ in ids]),
        "note": pa.array([f"{note} of the row {number}" for number in ids]),
    }
    return pa.table(columns, SCHEMA)


def made(folder: Path, properties: Mapping[str, str], options: Options) -> Path:
    """A table of some files, of which each has a range of the keys."""
    table = spillway.delta.create(folder, SCHEMA, properties=dict(properties))
    share = options.rows // FILES
    for number in range(FILES):
        with table.append() as append:
            append.write(rows_of(range(number * share, (number + 1) * share), "first note", number))
    return folder


def source(keys: str, options: Options) -> pa.Table:
    """The rows that are merged."""
    count = options.rows // TOUCHED
    ids = range(options.rows // 3, options.rows // 3 + count)
    return rows_of(ids if keys == "clustered" else range(0, options.rows, TOUCHED), "new note", options.seed)


def size_of(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def taken(start: Path, writer: str, keys: str, block: int, rows: pa.Table) -> Sample:
    """One merge into a copy of a table.

    Raises:
        AssertionError: The table has other rows than it should.
    """
    with tempfile.TemporaryDirectory(prefix="spillway-merge-") as folder:
        path = Path(folder, "table")
        shutil.copytree(start, path)
        before, count = size_of(path), rows_in(path)[0]
        watch = SampleWatch()
        began = time.perf_counter()
        WRITERS[writer].merge(path, rows)
        seconds = time.perf_counter() - began
        host = watch.read()
        if rows_in(path) != (count, rows.num_rows):
            raise AssertionError(f"{writer} merged {rows.num_rows:,} rows into {rows_in(path)}")
        return Sample(keys, writer, block, seconds, size_of(path) - before, rows.num_rows, host)


def rows_in(path: Path) -> tuple[int, int]:
    """The rows of a table, and those that were merged into it, as polars reads it."""
    is_new = pl.col("note").str.starts_with("new")
    found = pl.scan_delta(str(path)).select(pl.len(), is_new.sum().alias("new")).collect()
    return found["len"][0], found["new"][0]


def measure(folder: Path, options: Options, *, record: bool) -> None:
    """Take the samples of a run, leave them in its folder, and keep them where that is asked."""
    refuse_debug_build()
    folder.mkdir(parents=True)
    run_id = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    environment = describe_run(run_id, options, schema_version=SCHEMA_VERSION)
    (folder / "environment.json").write_text(json.dumps(environment, indent=1) + "\n")
    scratch = Path(tempfile.mkdtemp(prefix="spillway-merge-"))
    try:
        starts = {name: made(scratch / name, each.properties, options) for name, each in WRITERS.items()}
        sources = {keys: source(keys, options) for keys in TITLES}
        forms = [(keys, writer) for keys in TITLES for writer in WRITERS]
        draw = random.Random(options.seed)  # noqa: S311 - an order, not a secret
        with Progress() as progress, (folder / SAMPLES).open("w") as out:
            task = progress.add_task("merging", total=len(forms) * (options.blocks + 1))
            for block in range(options.blocks + 1):
                for keys, writer in draw.sample(forms, len(forms)):
                    sample = taken(starts[writer], writer, keys, block, sources[keys])
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
    """The tables of a run, in Markdown."""
    samples, environment = read_samples(folder), environment_of(folder)
    rows = environment["options"]["rows"]
    notes = [
        f"Into {rows:,} rows in {FILES} files, upserts of {rows // TOUCHED:,}.",
        "Medians of ratios block by block, with their 95 % intervals.",
        f"{machine(environment)}.",
        software(environment),
        *checkout(environment),
    ]
    tables = [table_section(_group(samples, keys, title)) for keys, title in TITLES.items()]
    return document([*tables, *notes])


def _group(samples: list[Sample], keys: str, title: str) -> Table:
    cells = {
        writer: {each.block: each for each in samples if (each.keys, each.writer) == (keys, writer)}
        for writer in WRITERS
    }
    lines = [[Entry(text) for text in _line(writer, cells)] for writer in WRITERS]
    header = ("writer", "rows/s", f"times {OTHER}", "MB written", "times less")
    return Table(title, header, lines, [])


def _line(writer: str, cells: Mapping[str, Mapping[int, Sample]]) -> list[str]:
    own, other = cells[writer], cells[OTHER]
    faster = paired_ratio(
        {block: sample.seconds for block, sample in other.items()},
        {block: sample.seconds for block, sample in own.items()},
    )
    written = estimate([sample.bytes for sample in own.values()]).median
    theirs = estimate([sample.bytes for sample in other.values()]).median
    rate = estimate([sample.rows / sample.seconds for sample in own.values()]).median
    return [
        writer,
        f"{rate:,.0f}",
        f"{faster.median:.2f} [{faster.low:.2f}, {faster.high:.2f}]",
        f"{written / 1e6:.2f}",
        f"{theirs / written:.1f}",
    ]


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
    measuring.add_argument("--record", action="store_true", help="keep the samples in results/merge/")
    showing = commands.add_parser("table", help="print the tables of a run")
    showing.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.folder, Options(given.rows, given.blocks, given.seed), record=given.record)
    sys.stdout.write(table(given.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
