"""Measure what a Spark job pays to write rows: this writer, its peers, and the pipe to Python alone.

    python scripts/spark_speed.py measure runs/spark
    python scripts/spark_speed.py table runs/spark

``make readme`` puts the table of the newest run in ``results/spark/`` into the guide to Spark.

One local session writes the same rows by each writer, in blocks whose order is drawn by a seed. The first
block warms the JVM and is not kept. Each folder is read back by Spark, outside of the time that is taken.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from rich.progress import Progress

from spillway import datasets
from spillway.harness.environment import describe_run, refuse_debug_build
from spillway.harness.host import read_load
from spillway.harness.report.markdown import checkout, document, machine, software, table_section
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import Estimate, estimate, paired_ratio
from spillway.spark import local_session, register, stop_session, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SCHEMA_VERSION = 1
WRITES = "writes.jsonl"
PARTITIONS = 4
DATASET = "logs"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    rows: int
    blocks: int
    cores: int
    seed: int


@dataclass(frozen=True)
class Sample:
    """One write.

    Attributes:
        group: The place where the rows were: ``"dataframe"`` (cached by Spark) or ``"made"`` (on executors).
        writer: The name of the writer.
        block: The number of its block.
        seconds: From the call to its return.
        bytes: Bytes of the data files.
        files: Data files.
        rows: Rows that Spark read back.
        load: Processes that ran or wanted to in the last minute.
    """

    group: str
    writer: str
    block: int
    seconds: float
    bytes: int
    files: int
    rows: int
    load: float


@dataclass(frozen=True)
class Form:
    """A way to write: where the rows are, the name of the writer, and the call with a path."""

    group: str
    writer: str
    write: Callable[[str], object]


class _Nothing(DataSourceArrowWriter):
    """Takes batches and writes none of them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class _Pyarrow(DataSourceArrowWriter):
    """Writes batches by pyarrow, with its defaults but for the codec."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext  # noqa: PLC0415 - on executors

        context = TaskContext.get()
        name = f"part-{context.partitionId() if context else 0:05}.parquet"
        first = next(iterator, None)
        if first is not None:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(Path(self.folder, name), first.schema, compression="zstd") as writer:
                writer.write_batch(first)
                for batch in iterator:
                    writer.write_batch(batch)
        return WriterCommitMessage()


class NothingSource(DataSource):
    """The pipe from Spark to Python, without a writer behind it."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "nothing"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002, FBT001
        """Return the writer of a job."""
        return _Nothing()


class PyarrowSource(DataSource):
    """The same source with pyarrow's writer."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pyarrow"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002, FBT001
        """Return the writer of a job."""
        return _Pyarrow(self.options["path"])


def made(rows: int, seed: int, number: int) -> Iterable[pa.RecordBatch]:
    """The rows of one partition, in whole chunks of the dataset."""
    share = rows // PARTITIONS // datasets.CHUNK_ROWS
    for chunk in range(number * share, (number + 1) * share):
        yield datasets.chunk(DATASET, seed, chunk)


def from_dataframe(frame: DataFrame) -> dict[str, Callable[[str], object]]:
    """Writers of a DataFrame that Spark holds."""

    def to(form: str, **options: str) -> Callable[[str], object]:
        return lambda path: frame.write.format(form).options(**options).mode("append").save(path)

    def piped(batch: int) -> Callable[[str], object]:
        conf = frame.sparkSession.conf

        def write(path: str) -> None:
            usual = conf.get(BATCH_ROWS)
            conf.set(BATCH_ROWS, batch)
            try:
                to("nothing")(path)
            finally:
                conf.set(BATCH_ROWS, usual)

        return write

    return {
        "rows alone": lambda _: frame.write.format("noop").mode("overwrite").save(),
        # Spark has no public name for batches of Arrow that stay in the JVM.
        "Arrow alone": lambda _: frame._jdf.toArrowBatchRdd().count(),  # noqa: SLF001
        "pipe alone": to("nothing"),
        "pipe alone, 2,000 rows a batch": piped(2_000),
        "pipe alone, 50,000 rows a batch": piped(50_000),
        "spillway": to("spillway"),
        "pyarrow": to("pyarrow"),
        "spark parquet": to("parquet"),
        "spark parquet, zstd": to("parquet", compression="zstd"),
        "spillway, delta": to("spillway", table="delta"),
        "spark delta": to("delta"),
    }


def from_executors(session: SparkSession, rows: int, seed: int) -> dict[str, Callable[[str], object]]:
    """Writers of rows that are made on executors."""
    schema = datasets.schema(DATASET)
    make = partial(made, rows, seed)

    def across(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in iterator:
            for number in batch.column(0).to_pylist():
                yield from make(number)

    def consumed(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = sum(batch.num_rows for batch in across(iterator))
        yield pa.record_batch({"rows": [count]})

    def frame() -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - there is no public one

        numbers = session.range(0, PARTITIONS, 1, PARTITIONS)
        return numbers.mapInArrow(across, from_arrow_schema(schema))

    def count(_: str) -> object:
        return session.range(0, PARTITIONS, 1, PARTITIONS).mapInArrow(consumed, "rows long").collect()

    return {
        "made alone": count,
        "spillway.spark.write": lambda path: write(session, make, PARTITIONS, path, schema=schema),
        "spillway.spark.write, delta": lambda path: write(
            session, make, PARTITIONS, path, schema=schema, table="delta"
        ),
        "spark parquet": lambda path: frame().write.format("parquet").save(path),
        "spark delta": lambda path: frame().write.format("delta").save(path),
    }


def taken(session: SparkSession, form: Form, block: int, rows: int) -> Sample:
    """One write into an empty folder, and what Spark read back from it."""
    with tempfile.TemporaryDirectory(prefix="spillway-speed-") as folder:
        path = Path(folder, "out")
        began = time.perf_counter()
        form.write(str(path))
        seconds = time.perf_counter() - began
        files = [file for file in path.rglob("*.parquet") if "_delta_log" not in file.parts]
        found = 0
        if files:
            kind = "delta" if "delta" in form.writer else "parquet"
            found = session.read.format(kind).load(str(path)).count()
            if found != rows:
                raise AssertionError(f"{form.writer} wrote {found:,} rows of {rows:,}")
        size = sum(file.stat().st_size for file in files)
        return Sample(form.group, form.writer, block, seconds, size, len(files), found, read_load())


def cached(session: SparkSession, folder: Path, rows: int, options: Options) -> DataFrame:
    """A DataFrame in Spark's memory, with a partition for each core and the rows in their order."""
    folder.mkdir()
    whole = pa.Table.from_batches(list(datasets.batches(DATASET, options.seed, rows)))
    share = -(-rows // options.cores)
    for number in range(options.cores):
        pq.write_table(whole.slice(number * share, share), folder / f"{number}.parquet")
    frame = session.read.parquet(str(folder)).cache()
    frame.count()
    return frame


def measure(folder: Path, options: Options) -> None:
    """Take the samples of a run, and leave them in its folder.

    Raises:
        AssertionError: A writer lost rows, or doubled some.
    """
    refuse_debug_build()
    folder.mkdir(parents=True)
    whole = datasets.CHUNK_ROWS * PARTITIONS
    rows = max(1, options.rows // whole) * whole
    environment = describe_run(folder.name, options, schema_version=SCHEMA_VERSION)
    (folder / "environment.json").write_text(json.dumps(environment, indent=1) + "\n")
    scratch = Path(tempfile.mkdtemp(prefix="spillway-speed-"))
    session = local_session("spillway-speed", cores=options.cores, memory="4g", delta=True, say=print)
    try:
        register(session)
        session.dataSource.register(NothingSource)
        session.dataSource.register(PyarrowSource)
        frame = cached(session, scratch / "in", rows, options)
        groups = {"dataframe": from_dataframe(frame), "made": from_executors(session, rows, options.seed)}
        forms = [Form(group, name, call) for group, each in groups.items() for name, call in each.items()]
        draw = random.Random(options.seed)  # noqa: S311 - an order, not a secret
        with Progress() as progress, (folder / WRITES).open("w") as out:
            task = progress.add_task("writing", total=len(forms) * (options.blocks + 1))
            for block in range(options.blocks + 1):
                for form in draw.sample(forms, len(forms)):
                    sample = taken(session, form, block, rows)
                    if block > 0:
                        out.write(json.dumps(asdict(sample)) + "\n")
                        out.flush()
                    progress.advance(task)
    finally:
        stop_session(session)
        shutil.rmtree(scratch, ignore_errors=True)


Cells = dict[tuple[str, str], dict[int, Sample]]


def read_samples(folder: Path) -> Cells:
    """The samples of a run, by group and writer, then by block."""
    cells: Cells = {}
    for line in (folder / WRITES).read_text().splitlines():
        sample = Sample(**json.loads(line))
        cells.setdefault((sample.group, sample.writer), {})[sample.block] = sample
    return cells


TITLES = {"dataframe": "A cached DataFrame", "made": "Rows made on executors"}
OWN = "spark parquet"
"""The writer that the others of its group are compared with."""


def table(folder: Path) -> str:
    """The table of a run, in Markdown."""
    cells = read_samples(folder)
    environment = json.loads((folder / "environment.json").read_text())
    notes = [
        "Medians of ratios block by block, with their 95 % intervals.",
        f"Spark has {environment['options']['cores']} cores of {machine(environment)}.",
        software(environment),
        *checkout(environment),
    ]
    loads = estimate([sample.load for blocks in cells.values() for sample in blocks.values()])
    notes.append(f"Load of the host: {loads.median:.1f} in the middle of the samples.")
    tables = [table_section(_group(cells, group, title)) for group, title in TITLES.items()]
    return document([*tables, *notes])


def _group(cells: Cells, group: str, title: str) -> Table:
    found = {writer: blocks for (of, writer), blocks in cells.items() if of == group}
    own = found[OWN]
    ordered = sorted(found.items(), key=lambda cell: _seconds(cell[1]).median)
    lines = [[Entry(text) for text in _line(writer, blocks, own)] for writer, blocks in ordered]
    return Table(title, ("writer", "rows/s", "times Spark's own", "MB", "files"), lines, [])


def _seconds(blocks: Mapping[int, Sample]) -> Estimate:
    return estimate([sample.seconds for sample in blocks.values()])


def _line(writer: str, blocks: Mapping[int, Sample], own: Mapping[int, Sample]) -> list[str]:
    rows = max(sample.rows for sample in own.values())
    ratio = paired_ratio(
        {block: sample.seconds for block, sample in own.items()},
        {block: sample.seconds for block, sample in blocks.items()},
    )
    last = blocks[max(blocks)]
    return [
        writer,
        f"{rows / _seconds(blocks).median:,.0f}",
        f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]",
        f"{last.bytes / 1e6:.1f}" if last.files else "-",
        str(last.files or "-"),
    ]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="take the samples")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--rows", type=int, default=400_000)
    measuring.add_argument("--blocks", type=int, default=12)
    measuring.add_argument("--cores", type=int, default=2)
    measuring.add_argument("--seed", type=int, default=1)
    showing = commands.add_parser("table", help="print the table of a run")
    showing.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.folder, Options(given.rows, given.blocks, given.cores, given.seed))
    else:
        sys.stdout.write(table(given.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
