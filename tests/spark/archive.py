"""The archive of classes that the JVMs of tests start from: ``python -m tests.spark.archive FILE`` makes it.

A JVM of Spark loads and verifies some ten thousand classes before its first job is done. From an archive it
maps them instead, in a third less processor time. A JVM with another Java or other jars takes no notice of
the archive, and where none was made all tests run as well.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..counts import SOAK

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["ARCHIVE", "LAUNCHER_OPTIONS", "java_options"]

ARCHIVE = Path(__file__).parents[2] / ".build" / "spark.jsa"
# A JVM of a test lives for seconds: its second compiler takes up to half of the time, and returns none of it.
# By default, each growth of what it knows of classes is a collection of the whole heap. Threads of a
# collection wait for each other, which other processes of the tests make long.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m -XX:ParallelGCThreads=1"
LAUNCHER_OPTIONS = f"{_OPTIONS} -XX:+UseSerialGC"
"""The options of the JVM that writes the command of every other one, and does nothing else."""
# A query of a test has few rows: code that is generated for it costs more than to interpret it.
# Before a release, Spark does what it does by default.
_INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
# Classes that only the JVMs of a cluster load by name.
_OF_A_CLUSTER = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)


def java_options() -> str:
    """The options of every JVM that tests start: quick to start rather than quick in the end."""
    options = _OPTIONS if SOAK else f"{_OPTIONS} {_INTERPRETED}"
    if not ARCHIVE.exists():
        return options
    # A JVM that cannot use the archive would say so on its output, which is a test's to read.
    return f'{options} "-XX:SharedArchiveFile={ARCHIVE}" -Xlog:cds*=off'


def make(file: Path) -> None:
    """Run small jobs of many kinds in a JVM that leaves its classes in an archive when it ends."""
    from spillway.spark import local_session  # noqa: PLC0415 - the options need no Spark

    part = file.with_name(f"{file.name}.part")
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f'{_OPTIONS} {_INTERPRETED} "-XX:ArchiveClassesAtExit={part}" -Xlog:cds*=off'
    )
    session = local_session("spillway-archive", delta=True, say=print)
    with tempfile.TemporaryDirectory() as folder:
        run_jobs(session, Path(folder))
    for name in _OF_A_CLUSTER:
        session._jvm.java.lang.Class.forName(name)
    end(session)
    part.replace(file)


def end(session: SparkSession) -> None:
    """End the JVM, however long it takes to write the archive."""
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def run_jobs(session: SparkSession, folder: Path) -> None:
    """Write and read files and a Delta table, with Python in between, and follow a folder as a stream."""
    session.conf.set("spark.sql.shuffle.partitions", "2")
    frame = session.range(0, 1000, 1, 2).selectExpr("id", "cast(id % 7 as string) as word", "id / 3 as ratio")
    frame.write.parquet(f"{folder}/rows")
    frame.write.format("spillway").mode("append").save(f"{folder}/ours")
    read = session.read.parquet(f"{folder}/rows")
    read.where("id > 10").groupBy("word").count().orderBy("word").collect()
    session.createDataFrame(read.mapInArrow(same, read.schema).toArrow()).count()
    frame.write.format("delta").save(f"{folder}/table")
    session.sql(f"select count(*) from delta.`{folder}/table`").collect()  # noqa: S608 - of its own folder
    stream = session.readStream.schema(read.schema).parquet(f"{folder}/rows").writeStream.format("spillway")
    query = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    query.start(f"{folder}/stream").awaitTermination()


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches as they are."""
    yield from batches


if __name__ == "__main__":
    make(Path(sys.argv[1]))
