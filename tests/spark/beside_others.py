"""Appends of Spark to one Delta table on S3, beside those of others: are those that were acknowledged there?

    python -m tests.spark.beside_others --runs 10
    python -m tests.spark.beside_others --runs 1 --format delta

Spark appends through the given format, other threads through this project's committer and through delta-rs. A
run fails if an acknowledged append is missing, or if any append is there twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
from rich.console import Console

import spillway.delta
from spillway.spark import stop_session
from spillway.spark.session import start_session

from ..stores.server import KEY, SECRET, Bucket, minio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

#: Spark's own way to S3, without the bundle of all of Amazon's services.
S3A = {
    "spark.jars.packages": ",".join(
        [
            "io.delta:delta-spark_4.2_2.13:4.4.0",
            "org.apache.hadoop:hadoop-aws:3.5.0",
            *(
                f"software.amazon.awssdk:{name}:2.35.4"
                for name in ("s3", "s3-transfer-manager", "sts", "apache-client")
            ),
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
        ]
    ),
    "spark.jars.excludes": ",".join(
        [
            "software.amazon.awssdk:bundle",
            "org.apache.hadoop:hadoop-common",
            "org.apache.hadoop:hadoop-client*",
            "org.slf4j:*",
            "commons-logging:*",
            "commons-codec:*",
            "io.delta:delta-kernel*",
            "io.delta:*unity*",
            "io.unitycatalog:*",
            "org.antlr:*",
            "org.scala-lang:*",
            "com.fasterxml.jackson.core:*",
        ]
    ),
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.access.key": KEY,
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
}
CONSOLE = Console(soft_wrap=True, markup=False, highlight=False)
WRITERS = ("spark", "spillway", "delta-rs")
SIDE_BY_SIDE = {"spark": 4, "spillway": 32, "delta-rs": 4}


@dataclass
class Outcome:
    """The appends of one run.

    Attributes:
        acknowledged: Those whose writer said that they are in the table.
        refused: Those whose writer said that they are not, and how.
        lost: Those that were acknowledged, and are not in the table.
        doubled: Those that are in the table more than once.
    """

    acknowledged: set[tuple[str, int]] = field(default_factory=set)
    refused: dict[tuple[str, int], str] = field(default_factory=dict)
    lost: list[tuple[str, int]] = field(default_factory=list)
    doubled: list[tuple[str, int]] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """True if nothing was lost or doubled."""
        return not self.lost and not self.doubled

    def describe(self) -> str:
        """The outcome in a line."""
        counts = Counter(writer for writer, _ in self.acknowledged)
        said = ", ".join(f"{counts[writer]} by {writer}" for writer in WRITERS)
        refused = Counter(f"{writer}: {said}" for (writer, _), said in self.refused.items())
        lost = f"lost {sorted(self.lost)}, doubled {sorted(self.doubled)}"
        return f"acknowledged {said}; {lost}" + (f"; refused {dict(refused)}" if refused else "")


def rows_of(writer: str, number: int) -> pa.Table:
    return pa.table({"writer": [writer], "number": pa.array([number], pa.int64())})


def appends(session: SparkSession, bucket: Bucket, form: str) -> dict[str, Callable[[int], object]]:
    """The append of each writer, by its number."""
    options = bucket.options()
    table = spillway.delta.create(bucket.url("table"), rows_of("", 0).schema, storage_options=options)

    def by_spark(number: int) -> None:
        frame = session.createDataFrame([("spark", number)], "writer string, number long")
        write = frame.coalesce(1).write.format(form).mode("append")
        if form == "spillway":
            write.options(table="delta", **options).save(bucket.url("table"))
        else:
            write.save(bucket.url("table").replace("s3://", "s3a://"))

    def by_spillway(number: int) -> None:
        with table.append() as append:
            append.write(rows_of("spillway", number))

    def by_delta_rs(number: int) -> None:
        deltalake.write_deltalake(
            bucket.url("table"), rows_of("delta-rs", number), mode="append", storage_options=options
        )

    return dict(zip(WRITERS, (by_spark, by_spillway, by_delta_rs), strict=True))


def race(session: SparkSession, bucket: Bucket, form: str, counts: dict[str, int]) -> Outcome:
    """Append to one new table from all writers at once."""
    outcome = Outcome()
    guard = threading.Lock()
    calls = appends(session, bucket, form)

    def one(writer: str, number: int) -> None:
        try:
            calls[writer](number)
        except Exception as error:  # noqa: BLE001 - all that a writer says instead
            with guard:
                outcome.refused[writer, number] = f"{type(error).__name__}: {str(error)[:120]}"
        else:
            with guard:
                outcome.acknowledged.add((writer, number))

    pools = [(writer, ThreadPoolExecutor(SIDE_BY_SIDE[writer])) for writer in WRITERS]
    futures = [pool.submit(one, writer, n) for writer, pool in pools for n in range(counts[writer])]
    for future in futures:
        future.result()
    for _, pool in pools:
        pool.shutdown()
    found = deltalake.DeltaTable(bucket.url("table"), storage_options=bucket.options()).to_pyarrow_table()
    there = Counter((row["writer"], row["number"]) for row in found.to_pylist())
    outcome.lost = [append for append in outcome.acknowledged if append not in there]
    outcome.doubled = [append for append, count in there.items() if count > 1]
    return outcome


@contextmanager
def s3a_session(port: int) -> Iterator[SparkSession]:
    """A session that reaches the server by Spark's own means."""
    own = {
        "spark.app.name": "beside-others",
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
    }
    session = start_session({**S3A, **own}, on="2 cores", delta=True, say=CONSOLE.print)
    try:
        yield session
    finally:
        stop_session(session)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--format", choices=("spillway", "delta"), default="spillway")
    for writer, count in zip(WRITERS, (12, 300, 100), strict=True):
        parser.add_argument(f"--{writer}", type=int, default=count, help=f"appends by {writer}")
    given = parser.parse_args()
    counts = {writer: vars(given)[writer.replace("-", "_")] for writer in WRITERS}
    wrong = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        minio(Path(folder)) as server,
        s3a_session(server.port) as session,
    ):
        for number in range(given.runs):
            outcome = race(session, server.bucket(f"run-{number}"), given.format, counts)
            CONSOLE.print(f"run {number + 1} of {given.runs}: {outcome.describe()}")
            wrong += not outcome.is_right
    CONSOLE.print(f"{given.runs - wrong} of {given.runs} runs lost and doubled nothing")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
