"""Appends of Spark to one Delta table on S3, beside those of others: are those that were acknowledged there?

    python -m tests.spark.beside_others --runs 10
    python -m tests.spark.beside_others --runs 5 --format delta --throughout
    python -m tests.spark.beside_others --runs 1 --format delta --overtake

Spark appends through the given format, other threads through this project's committer and through delta-rs. A
run fails if an acknowledged append is missing, or if any append is there twice. Each run says for how long
Spark appended, how many appends of others were acknowledged meanwhile, and how many of Spark's requests for a
version were conditional. With ``--throughout`` the others append for as long as Spark does. With
``--overtake`` nobody else appends by itself: as many of Spark's requests for a version as it has appends wait
on their way, as in a slow network, until an append of this project is in that version.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import threading
import time
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

from ..stores.server import KEY, SECRET, Bucket, Proxy, minio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from ..stores.server import Request

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
#: Seconds between two appends of a thread that appends for as long as Spark does.
PACE = 1.0
Append = tuple[str, int]


@dataclass
class Outcome:
    """The appends of one run.

    Attributes:
        acknowledged: Those whose writer said that they are in the table, and when: seconds of a clock.
        refused: Those whose writer said that they are not, and how.
        lost: Those that were acknowledged, and are not in the table.
        doubled: Those that are in the table more than once.
        spark: The times at which Spark's first append began and its last one ended.
        versions: Spark's requests for a version, and those of them that were conditional.
    """

    acknowledged: dict[Append, float] = field(default_factory=dict)
    refused: dict[Append, str] = field(default_factory=dict)
    lost: list[Append] = field(default_factory=list)
    doubled: list[Append] = field(default_factory=list)
    spark: tuple[float, float] = (0.0, 0.0)
    versions: tuple[int, int] = (0, 0)

    @property
    def is_right(self) -> bool:
        """True if nothing was lost or doubled."""
        return not self.lost and not self.doubled

    def describe(self) -> str:
        """The outcome in a line."""
        said = ", ".join(f"{count} by {writer}" for writer, count in self.counts(self.acknowledged).items())
        refused = Counter(f"{writer}: {said}" for (writer, _), said in self.refused.items())
        begin, end = self.spark
        beside = [each for each, at in self.acknowledged.items() if each[0] != "spark" and begin <= at <= end]
        parts = [
            f"acknowledged {said}",
            f"{len(beside)} by others in the {end - begin:.1f} s of Spark's",
            f"{self.versions[1]} of Spark's {self.versions[0]} requests for a version were conditional",
            f"lost {dict(self.counts(self.lost))}, doubled {sorted(self.doubled)}",
        ]
        return "; ".join(parts) + (f"; refused {dict(refused)}" if refused else "")

    @staticmethod
    def counts(appends: Iterable[Append]) -> dict[str, int]:
        """The appends of each writer."""
        counts = Counter(writer for writer, _ in appends)
        return {writer: counts[writer] for writer in WRITERS}


def rows_of(writer: str, number: int) -> pa.Table:
    return pa.table({"writer": [writer], "number": pa.array([number], pa.int64())})


def appends(
    session: SparkSession, bucket: Bucket, form: str, by_proxy: dict[str, str]
) -> dict[str, Callable[[int], object]]:
    """The append of each writer, by its number."""
    options = bucket.options()
    table = spillway.delta.create(bucket.url("table"), rows_of("", 0).schema, storage_options=options)

    def by_spark(number: int) -> None:
        frame = session.createDataFrame([("spark", number)], "writer string, number long")
        write = frame.coalesce(1).write.format(form).mode("append")
        if form == "spillway":
            # The credentials come from the environment.
            given = {name: value for name, value in options.items() if "ACCESS_KEY" not in name}
            write.options(table="delta", **{**given, **by_proxy}).save(bucket.url("table"))
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


class Race:
    """Appends to one new table from all writers at once.

    Args:
        calls: The append of each writer, by its number.
        counts: The number of appends of each writer.
        throughout: True if the others append more, for as long as Spark does.
    """

    def __init__(
        self, calls: dict[str, Callable[[int], object]], counts: dict[str, int], *, throughout: bool
    ) -> None:
        self.outcome = Outcome()
        self._calls, self._counts, self._throughout = calls, counts, throughout
        self._numbers = {writer: itertools.count() for writer in WRITERS}
        self._guard = threading.Lock()
        self._spark_ended = threading.Event()

    def run(self) -> None:
        """Append until all is done."""
        begin = time.monotonic()
        pools = {writer: ThreadPoolExecutor(SIDE_BY_SIDE[writer]) for writer in WRITERS}
        futures = {
            writer: [pool.submit(self._work, writer) for _ in range(SIDE_BY_SIDE[writer])]
            for writer, pool in pools.items()
        }
        for future in futures["spark"]:
            future.result()
        self.outcome.spark = (begin, time.monotonic())
        self._spark_ended.set()
        for writer, pool in pools.items():
            for future in futures[writer]:
                future.result()
            pool.shutdown()

    def _work(self, writer: str) -> None:
        """Append as one thread of a writer."""
        while True:
            number = next(self._numbers[writer])
            more = number >= self._counts[writer]
            if more and (writer == "spark" or not self._throughout or self._spark_ended.wait(PACE)):
                return
            self.one(writer, number)

    def one(self, writer: str, number: int) -> None:
        """Do one append of a writer, and note what it says."""
        try:
            self._calls[writer](number)
        except Exception as error:  # noqa: BLE001 - all that a writer says instead
            with self._guard:
                self.outcome.refused[writer, number] = f"{type(error).__name__}: {str(error)[:120]}"
        else:
            with self._guard:
                self.outcome.acknowledged[writer, number] = time.monotonic()


def race(session: SparkSession, proxy: Proxy, bucket: Bucket, given: argparse.Namespace) -> Outcome:
    """Race once, and look at the table afterwards."""
    others = 0 if given.overtake else 1
    counts = {"spark": given.spark, "spillway": others * given.spillway, "delta-rs": others * given.delta_rs}
    by_proxy = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
    running = Race(appends(session, bucket, given.format, by_proxy), counts, throughout=given.throughout)
    if given.overtake:
        proxy.fault = overtaking(running, given.spark)
    before = len(proxy.seen)
    running.run()
    outcome = running.outcome
    versions = [request for request in proxy.seen[before:] if request.is_version]
    outcome.versions = (len(versions), sum(request.is_conditional for request in versions))
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


@contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """A proxy before the server, which hands all requests on."""
    proxy = Proxy(port, lambda _: None)
    try:
        yield proxy
    finally:
        proxy.stop()


def overtaking(running: Race, times: int) -> Callable[[Request], None]:
    """The fault of a proxy that lets an append of another writer pass before a request for a version."""
    numbers = iter(range(times))

    def overtake(request: Request) -> None:
        if request.is_version and (number := next(numbers, None)) is not None:
            running.one("spillway", number)

    return overtake


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--format", choices=("spillway", "delta"), default="spillway")
    parser.add_argument("--throughout", action="store_true", help="others append as long as Spark does")
    parser.add_argument("--overtake", action="store_true", help="others commit before Spark's requests")
    for writer, count in zip(WRITERS, (12, 300, 100), strict=True):
        parser.add_argument(f"--{writer}", type=int, default=count, help=f"appends by {writer}")
    given = parser.parse_args()
    wrong = 0
    os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
    with (
        tempfile.TemporaryDirectory() as folder,
        minio(Path(folder)) as server,
        proxied(server.port) as proxy,
        s3a_session(proxy.port) as session,
    ):
        for number in range(given.runs):
            outcome = race(session, proxy, server.bucket(f"run-{number}"), given)
            CONSOLE.print(f"run {number + 1} of {given.runs}: {outcome.describe()}")
            wrong += not outcome.is_right
    CONSOLE.print(f"{given.runs - wrong} of {given.runs} runs lost and doubled nothing")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
