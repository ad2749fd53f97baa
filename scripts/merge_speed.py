"""Measure merges of a few rows into a large Delta table, beside those of delta-rs.

    python scripts/merge_speed.py measure runs/merge
    python scripts/merge_speed.py measure runs/merge --record   # and the samples into results/merge/
    python scripts/merge_speed.py table runs/merge

``make readme`` puts the table of the newest run in ``results/merge/`` into the guide to Delta tables.

Each sample merges the same source into a fresh copy of the same table. Bytes are those of all files that a
merge adds, the log included. polars reads each table back, outside of the time that is taken.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import polars as pl
import pyarrow as pa

import spillway.delta
from block_run import BlockRun, Options
from spillway.harness.host import SampleWatch
from spillway.harness.report.markdown import checkout, document, machine, software, table_section
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import estimate, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spillway.harness.host import HostReading

FILES = 10
TOUCHED = 100
"""One row in so many is merged."""
OTHER = "delta-rs"
"""The writer that the others are compared with."""
TITLES = {"clustered": "Keys that lie together", "spread": "Keys that are spread over all files"}
VECTORS = {"delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema({"id": pa.int64(), "service": pa.string(), "value": pa.float64(), "note": pa.string()})


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


RUNS = BlockRun("merge", Sample, schema_version=1)


def measure(folder: Path, options: Options) -> None:
    """Take the samples of a run, and leave them in its folder."""
    RUNS.begin(folder, options)
    with tempfile.TemporaryDirectory(prefix="spillway-merge-") as scratch:
        starts = {name: made(Path(scratch, name), each.properties, options) for name, each in WRITERS.items()}
        sources = {keys: source(keys, options) for keys in TITLES}
        forms = [(keys, writer) for keys in TITLES for writer in WRITERS]

        def of(form: tuple[str, str], block: int) -> Sample:
            keys, writer = form
            return taken(starts[writer], writer, keys, block, sources[keys])

        RUNS.take(folder, options, forms, of)


def table(folder: Path) -> str:
    """The tables of a run, in Markdown."""
    samples, environment = RUNS.read(folder), RUNS.environment_of(folder)
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


if __name__ == "__main__":
    sys.exit(RUNS.main(__doc__ or "", measure, table))
