"""A program that writes by each way that this Spark has: ``python -m tests.spark.versions.program FOLDER``.

It runs with another PySpark in front of the environment's own, and leaves in ``FOLDER/answers.json`` what
each function of `WAYS` answered, or the error that it ended in.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark

import spillway
from spillway.spark import Pipeline, Sink, local_session, stop_session, unique
from spillway.spark.schema import exchanged_schema
from spillway.spark.session import require_spark

from ...counts import SOAK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ROWS", "WAYS", "minor", "reads_delta"]

ROWS = 1_000
PARTITIONS = 2
SCHEMA = pa.schema({"id": pa.int64(), "word": pa.string()})
# Delta has no release for the Sparks after this one.
_NEWEST_WITH_DELTA = (4, 2)


def minor() -> tuple[int, ...]:
    """The version of this PySpark, without its patch."""
    return tuple(map(int, pyspark.__version__.split(".")[:2]))


def reads_delta(version: tuple[int, ...]) -> bool:
    """Whether a session of this Spark reads Delta tables, which delta-rs reads in every run."""
    return SOAK and version <= _NEWEST_WITH_DELTA


def made(partition: int) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, in two batches."""
    half = ROWS // PARTITIONS // 2
    for start in range(partition * 2 * half, (partition + 1) * 2 * half, half):
        ids = range(start, start + half)
        yield pa.record_batch({"id": ids, "word": [f"word {number % 7}" for number in ids]}, schema=SCHEMA)


def frame(session: SparkSession) -> DataFrame:
    """The same rows, made by Spark."""
    return session.range(0, ROWS, 1, PARTITIONS).selectExpr("id", "concat('word ', id % 7) as word")


def ids(session: SparkSession, path: Path, table: str = "parquet") -> list[int] | None:
    """The ids that Spark's own reader finds; None where this session cannot read the table."""
    if table == "delta" and not reads_delta(minor()):
        return None
    return sorted(row.id for row in session.read.format(table).load(str(path)).collect())


def generated(session: SparkSession, folder: Path) -> Any:
    """Rows that executors make, into a folder."""
    done = spillway.spark.write_generated(session, made, PARTITIONS, str(folder), schema=SCHEMA)
    return [done.rows, ids(session, folder)]


def generated_delta(session: SparkSession, folder: Path) -> Any:
    """Rows that executors make, into a Delta table."""
    done = spillway.spark.write_generated(
        session, made, PARTITIONS, str(folder), schema=SCHEMA, table="delta"
    )
    return [done.version, ids(session, folder, "delta")]


def by_write(session: SparkSession, folder: Path) -> Any:
    """A DataFrame by `spillway.spark.write`."""
    done = spillway.spark.write(frame(session), str(folder), run_id="run")
    again = spillway.spark.write(frame(session), str(folder), run_id="run")
    return [done.rows, again.rows, ids(session, folder)]


def by_write_delta(session: SparkSession, folder: Path) -> Any:
    """A DataFrame by `spillway.spark.write`, and an overwrite of one partition of it."""
    rows = frame(session)
    spillway.spark.write(rows, str(folder), table="delta", partition_by="word")
    replaced: Any = {"mode": "overwrite", "partition_overwrite": "dynamic"}
    done = spillway.spark.write(rows.where("word = 'word 1'"), str(folder), **replaced)
    return [done.version, ids(session, folder, "delta")]


def by_format(session: SparkSession, folder: Path) -> Any:
    """A DataFrame through the data source, which Spark finds by its name."""
    frame(session).write.format("spillway").mode("append").save(str(folder))
    return ids(session, folder)


def by_format_delta(session: SparkSession, folder: Path) -> Any:
    """A DataFrame through the data source into a Delta table."""
    writer = frame(session).write.format("spillway").option("table", "delta").option("partition_by", "word")
    writer.mode("append").save(str(folder))
    return ids(session, folder, "delta")


def registered(session: SparkSession, folder: Path) -> Any:
    """The data source in a session that was told of it."""
    spillway.spark.register(session)
    return by_format(session, folder)


def stream(session: SparkSession, folder: Path) -> Any:
    """A stream through the data source."""
    source, sink = folder / "source", folder / "sink"
    frame(session).write.parquet(str(source))
    rows = session.readStream.schema("id long, word string").parquet(str(source))
    writer = rows.writeStream.format("spillway").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(sink)).awaitTermination()
    return ids(session, sink)


def by_pipeline(session: SparkSession, folder: Path) -> Any:
    """A pipeline over a frame, and one over a stream that adds the same rows."""
    source, to = folder / "source", folder / "to"
    frame(session).write.parquet(str(source))
    sink, checks = Sink(str(to), table="delta"), [unique("id", in_table=True)]
    first = Pipeline(source=frame(session).where("id < 10"), sink=sink, checks=checks).run(session)
    rows = session.readStream.schema("id long, word string").parquet(str(source)).where("id >= 10")
    checkpoint = str(folder / "checkpoint")
    done = Pipeline(source=rows, sink=sink, checks=checks, checkpoint_location=checkpoint).run(session)
    return [first.version, done.version, first.audit.rows + done.audit.rows]


def times(session: SparkSession, folder: Path) -> Any:  # noqa: ARG001 - as of all ways
    """The type of an instant in rows that Spark gives to Python, which the pipeline compares with files'."""
    instants = session.sql("select timestamp_micros(0) as at")
    return str(exchanged_schema(instants.schema).field("at").type)


WAYS: list[Callable[[SparkSession, Path], Any]] = [
    generated,
    generated_delta,
    by_write,
    by_write_delta,
    by_format,
    by_format_delta,
    registered,
    stream,
    times,
    *([by_pipeline] if SOAK else []),
]


def answer(way: Callable[[SparkSession, Path], Any], session: SparkSession, folder: Path) -> Any:
    try:
        return way(session, folder / way.__name__)
    except Exception as error:  # noqa: BLE001 - it is the answer
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def main(folder: Path) -> None:
    require_spark()
    session = local_session("versions", memory="1g", delta=reads_delta(minor()))
    session.conf.set("spark.sql.shuffle.partitions", "2")
    answers = {way.__name__: answer(way, session, folder) for way in WAYS}
    answers["version"] = session.version
    (folder / "answers.json").write_text(json.dumps(answers))
    stop_session(session)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
