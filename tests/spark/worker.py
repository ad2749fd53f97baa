# ruff: noqa: T201, PLC0415 - what it prints is its answer; tasks import what they need
"""Spark with Delta and retries in a process of its own: one JSON command a line, one answer a line."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import spillway.spark

from ..counts import SOAK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = pa.schema({"day": pa.string(), "id": pa.int64()})
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
SETTINGS = {
    BATCH_ROWS: "10",
    # Delta shuffles in its VACUUM, in 200 tasks by default, and lists the files for it in up to 10,000.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # A snapshot has a few files, and a query a few rows: to plan it anew after each shuffle takes longer.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "true" if SOAK else "false",
}


def failing(kind: str, times: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A step that gives batches on, and fails in the middle of partition 1 so many times."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number and context.partitionId() == 1 and context.attemptNumber() < times:
                if kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("on purpose")
            yield batch

    return step


def write_frame(  # noqa: PLR0913 - a command
    session: Any,
    *,
    path: str,
    rows: int,
    mode: str,
    options: dict[str, str],
    kind: str = "raise",
    times: int = 0,
) -> int:
    """Write rows in 3 partitions by the data source; say how many."""
    frame = session.range(0, rows, 1, 3).selectExpr("concat('d', id % 2) day", "id")
    if times:
        frame = frame.mapInArrow(failing(kind, times), "day string, id bigint")
    frame.write.format("spillway").mode(mode).options(**options).save(path)
    return rows


def write_made(  # noqa: PLR0913 - a command
    session: Any, *, path: str, rows: int, options: dict[str, Any], kind: str = "raise", times: int = 0
) -> dict[str, Any]:
    """Write rows that tasks make, in 3 partitions of 10 batches."""

    def make(partition: int) -> Iterator[pa.RecordBatch]:
        each = rows // 30
        starts = range(partition * 10 * each, (partition + 1) * 10 * each, each)
        batches = (
            pa.record_batch(
                {
                    "day": [f"d{n % 2}" for n in range(start, start + each)],
                    "id": list(range(start, start + each)),
                }
            )
            for start in starts
        )
        return failing(kind, times)(batches) if times else batches

    done = spillway.spark.write_generated(session, make, 3, path, schema=SCHEMA, **options)
    return {"rows": done.rows, "files": done.files, "version": done.version, "bytes": done.bytes}


def sql(session: Any, text: str) -> list[list[Any]]:
    """The rows that a statement answers."""
    return [list(row) for row in session.sql(text).collect()]


def copy(session: Any, path: str, into: str) -> None:
    """Write the rows of a Delta table to an Arrow file."""
    few = session.conf.get(BATCH_ROWS)
    session.conf.set(BATCH_ROWS, "100000")
    try:
        table = session.read.format("delta").load(path).toArrow()
    finally:
        session.conf.set(BATCH_ROWS, few)
    with pa.ipc.new_file(into, table.schema) as file:
        file.write(table)


def ids(session: Any, path: str, form: str) -> list[int]:
    """The ids that Spark reads."""
    return sorted(row.id for row in session.read.format(form).load(path).select("id").collect())


def days(session: Any, path: str, form: str) -> dict[str, int]:
    """The rows of each day that Spark reads."""
    return {
        row.day: row["count"] for row in session.read.format(form).load(path).groupBy("day").count().collect()
    }


def operation_metrics(session: Any, path: str) -> dict[str, str]:
    """The metrics of the newest version, as delta-spark gives them."""
    metrics: dict[str, str] = session.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first().operationMetrics
    return metrics


def optimized(session: Any, path: str) -> int:
    """Let Delta compact the table and remove all files that it does not need; say how many rows are left."""
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    session.sql(f"OPTIMIZE delta.`{path}`")
    session.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    count: int = session.read.format("delta").load(path).count()
    return count


def round_trip(session: Any, *, rows: str, to: str, back: str, zone: str = "UTC") -> list[str]:
    """Write a file of rows to a Delta table by the data source, and what Delta reads there to another file.

    Both types are answered, as Spark spells them: those of the rows, and those that were read.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    session.conf.set("spark.sql.session.timeZone", zone)
    try:
        with pa.ipc.open_file(rows) as file:
            table = file.read_all()
        if not table.num_rows:  # PySpark takes no column of no chunks
            table = table.schema.empty_table()
        # By itself, Spark takes a moment without a zone for one of the session's.
        frame = session.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
        frame.write.format("spillway").mode("append").option("table", "delta").save(to)
        found = session.read.format("delta").load(to)
        read = found.toArrow()
        with pa.ipc.new_file(back, read.schema) as file:
            file.write(read)
        return [frame.schema.simpleString(), found.schema.simpleString()]
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


def merged(session: Any, path: str, query: str) -> dict[str, int]:
    """Merge the rows of a query into a Delta table by `Table.merge`, some by SQL and some by expressions."""
    import pyarrow.compute as pc

    from spillway import delta

    left = pc.field("source.left")
    done = delta.open(path).merge(
        session.sql(query),
        "id",
        delta.when_matched_delete(where="source.left < 0"),
        delta.when_matched_update({"left": pc.field("target.left") + left}, where=left > 0),
        delta.when_not_matched_insert(where="source.left > 0"),
        delta.when_not_matched_by_source_update({"left": 0}, where=pc.field("target.id") < 10),
        delta.when_not_matched_by_source_delete(where="target.id >= 990"),
    )
    return {"inserted": done.inserted, "updated": done.updated, "deleted": done.deleted}


def conflicts(session: Any, pairs: int) -> dict[str, Any]:
    """Ask Delta what becomes of some pairs of transactions."""
    from tests.delta.conflicts import generate

    return generate.generate_by(session, generate.sample(pairs))


COMMANDS = {
    function.__name__: function
    for function in (
        *(write_frame, write_made, round_trip, sql, copy),
        *(ids, days, operation_metrics, optimized, merged, conflicts),
    )
}


def main() -> None:
    session = spillway.spark.local_session("spillway-worker", delta=True, retries=1, say=lambda _: None)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            reply = {"answer": COMMANDS[command.pop("do")](session, **command)}
        except Exception as error:  # noqa: BLE001 - the test that asked shall see it
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply, default=str), flush=True)


if __name__ == "__main__":
    main()
