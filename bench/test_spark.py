"""Rows of a Spark job: Spillway's data source and tasks, their peers, and the pipe to Python alone.

One local session writes the same rows by each way into an empty folder, which Spark reads back outside of the
time that is taken. Ways that write nothing show what the way out of the JVM costs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from spillway import datasets
from spillway.harness.environment import SampleWatch, read_load
from spillway.spark import Pipeline, Sink, local_session, register, stop_session, write, write_generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .side_by_side import SideBySide

PARTITIONS = 4
CHECKED_ROWS = [PARTITIONS * datasets.CHUNK_ROWS]
MEASURED_ROWS = [400_000]
CORES = 2
DATASET = "logs"
SEED = 1
# What the guide says to set where rows are narrow: Spark sums up the bytes of each row otherwise.
WITHOUT_LIMIT = ("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))

# Twelve blocks of a dozen writers take longer than what no other test may.
pytestmark = pytest.mark.timeout(1800)


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
    """The pipe from Spark to Python, without a writer at its end."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002, FBT001
        return _Nothing()


class PyarrowSource(DataSource):
    """The same source with pyarrow's writer."""

    @classmethod
    def name(cls) -> str:
        return "pyarrow"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002, FBT001
        return _Pyarrow(self.options["path"])


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session = local_session("spillway-bench", cores=CORES, memory="4g", delta=True)
    register(session)
    session.dataSource.register(NothingSource)
    session.dataSource.register(PyarrowSource)
    # Executors need not find this file, nor pytest.
    register_pickle_by_value(sys.modules[__name__])
    yield session
    unregister_pickle_by_value(sys.modules[__name__])
    stop_session(session)


@pytest.fixture(scope="module")
def frame(session: SparkSession, rows: int, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A DataFrame in Spark's memory, with a partition for each core and the rows in their order."""
    folder = tmp_path_factory.mktemp("rows")
    whole = pa.Table.from_batches(list(datasets.batches(DATASET, SEED, rows)))
    share = -(-rows // CORES)
    for number in range(CORES):
        pq.write_table(whole.slice(number * share, share), folder / f"{number}.parquet")
    frame = session.read.parquet(str(folder)).cache()
    frame.count()
    return frame


def taken(session: SparkSession, write: Callable[[str], object], writer: str, rows: int) -> dict[str, Any]:
    """One write into an empty folder, and what Spark reads back from it."""
    with tempfile.TemporaryDirectory(prefix="spillway-spark-") as folder:
        path = Path(folder, "out")
        watch = SampleWatch()
        began = time.perf_counter()
        write(str(path))
        seconds = time.perf_counter() - began
        host = watch.read()
        files = [file for file in path.rglob("*.parquet") if "_delta_log" not in file.parts]
        found = 0
        if files:
            kind = "delta" if "delta" in writer else "parquet"
            found = session.read.format(kind).load(str(path)).count()
            assert found == rows, writer
        return {
            "writer": writer,
            "seconds": seconds,
            "bytes": sum(file.stat().st_size for file in files),
            "files": len(files),
            "rows": found,
            "load": read_load(),
            "host": host,
        }


def from_dataframe(frame: DataFrame) -> dict[str, Callable[[str], object]]:
    """Writers of a DataFrame that Spark holds."""

    def to(form: str, **options: str) -> Callable[[str], object]:
        return lambda path: frame.write.format(form).options(**options).mode("append").save(path)

    def without_limit(form: str) -> Callable[[str], object]:
        def save(path: str) -> None:
            conf = frame.sparkSession.conf
            conf.set(*WITHOUT_LIMIT)
            try:
                to(form)(path)
            finally:
                conf.unset(WITHOUT_LIMIT[0])

        return save

    return {
        "write": lambda path: write(frame, path),
        "write, delta": lambda path: write(frame, path, table="delta"),
        "spillway": to("spillway"),
        "spillway, no limit of bytes": without_limit("spillway"),
        "spillway, delta": to("spillway", table="delta"),
        "pyarrow": to("pyarrow"),
        "spark parquet": to("parquet"),
        "spark parquet, zstd": to("parquet", compression="zstd"),
        "spark delta": to("delta"),
        "rows alone": lambda _: frame.write.format("noop").mode("overwrite").save(),
        # Spark has no public name for batches of Arrow that stay in the JVM.
        "Arrow alone": lambda _: frame._jdf.toArrowBatchRdd().count(),  # noqa: SLF001
        "pipe alone": to("nothing"),
        "pipe alone, no limit of bytes": without_limit("nothing"),
    }


def made(rows: int, number: int) -> Iterable[pa.RecordBatch]:
    """The rows of one partition, in whole chunks of the dataset."""
    share = rows // PARTITIONS // datasets.CHUNK_ROWS
    for chunk in range(number * share, (number + 1) * share):
        yield datasets.chunk(DATASET, SEED, chunk)


def from_executors(session: SparkSession, rows: int) -> dict[str, Callable[[str], object]]:
    """Writers of rows that are made on executors."""
    schema = datasets.schema(DATASET)
    make = partial(made, rows)

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

    def written(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def write(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            _Pyarrow(folder).write(across(iterator))
            return iter(())

        return write

    def by_pyarrow(path: str) -> None:
        numbers = session.range(0, PARTITIONS, 1, PARTITIONS)
        numbers.mapInArrow(written(path), "rows long").collect()

    def count(_: str) -> object:
        return session.range(0, PARTITIONS, 1, PARTITIONS).mapInArrow(consumed, "rows long").collect()

    return {
        "write_generated": lambda path: write_generated(session, make, PARTITIONS, path, schema=schema),
        "write_generated, delta": lambda path: write_generated(
            session, make, PARTITIONS, path, schema=schema, table="delta"
        ),
        "pyarrow": by_pyarrow,
        "spark parquet": lambda path: frame().write.format("parquet").save(path),
        "spark delta": lambda path: frame().write.format("delta").save(path),
        "made alone": count,
    }


def audited(session: SparkSession, frame: DataFrame) -> dict[str, Callable[[str], object]]:
    """A write, and the same by pipelines that read back all of it, a part, or nothing."""

    def pipeline(audit: Literal["full", "sample", "none"]) -> Callable[[str], object]:
        def run(path: str) -> object:
            return Pipeline(source=lambda _: frame, sink=Sink(path), audit=audit).run(session)

        return run

    return {
        "write": lambda path: write(frame, path),
        "pipeline, no audit": pipeline("none"),
        "pipeline, sample": pipeline("sample"),
        "pipeline, full": pipeline("full"),
    }


def test_an_audit_costs_a_part_of_the_write(
    side_by_side: SideBySide, session: SparkSession, frame: DataFrame, rows: int
) -> None:
    writers = audited(session, frame)
    side_by_side(
        lambda writer: {"group": "audited", **taken(session, writers[writer], writer, rows)},
        list(writers),
        against="write",
        rows=rows,
        cores=CORES,
    )


def test_a_cached_dataframe_is_written_whole(
    side_by_side: SideBySide, session: SparkSession, frame: DataFrame, rows: int
) -> None:
    writers = from_dataframe(frame)
    side_by_side(
        lambda writer: {"group": "dataframe", **taken(session, writers[writer], writer, rows)},
        list(writers),
        against="spark parquet",
        rows=rows,
        cores=CORES,
    )


def test_rows_made_on_executors_are_written_whole(
    side_by_side: SideBySide, session: SparkSession, rows: int
) -> None:
    writers = from_executors(session, rows)
    side_by_side(
        lambda writer: {"group": "made", **taken(session, writers[writer], writer, rows)},
        list(writers),
        against="spark parquet",
        rows=rows,
        cores=CORES,
    )
