"""Spark's own Parquet writer, and Delta's: rows go into a JVM, which one task writes a file in."""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import Gathered
from spillway.errors import OptionError, SpillwayError
from spillway.spark.session import delta_release, quiet_log, start_session, stop_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from spillway.backends.protocol import Mode, Settings

# Rows before a JVM of one core has compiled what a write spends its time in; see the seconds of warm-up
# writes in any record.
_WARM_UP_ROWS = 200_000


class SparkParquet:
    """``createDataFrame(table).coalesce(1).write.parquet(...)`` in a session with Spark's defaults.

    A user of PySpark who has Arrow rows writes them so: rows go from Python into the JVM first, and are
    counted. One task writes one file, so a second core is used only by the threads of Spark and the JVM.
    Batches are gathered, since a DataFrame is made of a table. The JVM starts with the first file, has the
    heap that Spark gives a driver by default, and ends with this process.
    """

    name = "spark-parquet"
    modes: frozenset[Mode] = BATCHES_AND_TABLE
    warm_up_rows = _WARM_UP_ROWS
    _format = "parquet"

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._hand_over_seconds = 0.0

    def version(self) -> str:
        return str(pyspark.__version__)

    @property
    def gateway(self) -> Any:
        """py4j's way to the JVM; None before the first file."""
        return None if self._session is None else self._session.sparkContext._gateway  # noqa: SLF001

    @property
    def hand_over_seconds(self) -> float:
        """Seconds in which the rows of the last file went from Python to the JVM."""
        return self._hand_over_seconds

    def threads_in_force(self) -> dict[str, int]:
        """Tasks that Spark runs side by side, and processors that the JVM sees."""
        if self._session is None:
            return {}
        processors = self.gateway.jvm.java.lang.Runtime.getRuntime().availableProcessors()
        return {
            "spark-tasks": self._session.sparkContext.defaultParallelism,
            "jvm-processors": int(processors),
        }

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Gathered:
        _of_parquet_java(settings)  # which refuses what Spark has not
        if self._session is None:
            self._session = _start(path.parent, settings.threads, delta=self._format == "delta")
        return Gathered(schema, settings, lambda table: self._write(table, path, settings))

    def _write(self, table: pa.Table, path: Path, settings: Settings) -> None:
        """Write one file, and put it at its path once Spark has committed it."""
        assert self._session is not None  # noqa: S101 - open has started it
        begin = time.perf_counter()
        frame = self._session.createDataFrame(table)
        self._hand_over_seconds = time.perf_counter() - begin
        folder = Path(tempfile.mkdtemp(prefix="spark-", dir=path.parent)) / "rows"
        self._save(frame, folder, settings)
        written = [each for each in folder.iterdir() if each.suffix == ".parquet"]
        if len(written) != 1:
            raise SpillwayError(f"Spark wrote {len(written)} files for one task, and 1 was expected")
        written[0].replace(path)

    def _save(self, frame: DataFrame, folder: Path, settings: Settings) -> None:
        assert self._session is not None  # noqa: S101 - open has started it
        # Delta hands no option of parquet-java on: they are those of the session's Hadoop configuration.
        hadoop = self._session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no other way to it
        for name, value in _of_parquet_java(settings).items():
            hadoop.set(name, value)
        codec = {"lz4": "lz4_raw"}.get(settings.codec, settings.codec)
        frame.coalesce(1).write.format(self._format).option("compression", codec).save(str(folder))


class SparkDelta(SparkParquet):
    """``write.format("delta").save(...)`` of delta-spark into a new table; its commit is in the write."""

    name = "spark-delta"
    _format = "delta"

    def version(self) -> str:
        return f"{delta_release()[1]} on Spark {super().version()}"


def _start(folder: Path, threads: int, *, delta: bool) -> SparkSession:
    """Start Spark in this process's own group: whoever ends the group ends the JVM with it."""
    scratch = Path(tempfile.mkdtemp(prefix="spark-scratch-", dir=folder))
    options = f'{quiet_log()} -Djava.io.tmpdir="{scratch}" -XX:-UsePerfData'
    settings = {
        "spark.app.name": "spillway-bench",
        "spark.master": f"local[{threads}]",
        # The JVM chooses its collector by the processors that it sees.
        "spark.driver.extraJavaOptions": options,
        "spark.driver.memory": "1g",
        # The default, INT96, has no zone: no other reader would find the type that was given.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.local.dir": str(scratch),
    }
    session = start_session(settings, on=f"{threads} cores", delta=delta, own_group=False, say=_silent)
    # The folder is the caller's, and there is nothing to finish: a kill is the quickest end.
    atexit.unregister(stop_session)
    atexit.register(_kill, session, os.getpid())
    return session


def _kill(session: SparkSession, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - no public way to the JVM's process
        gateway.proc.kill()
        # Without a wait the processor time of the JVM would be charged to no child of this process.
        gateway.proc.wait()


def _of_parquet_java(settings: Settings) -> dict[str, str]:
    """The settings of a cell by the names that parquet-java and its codecs have for them.

    Raises:
        OptionError: It has no such codec.
    """
    options = {"parquet.block.row.count.limit": str(settings.row_group_rows)}
    if settings.codec == "brotli":
        raise OptionError("Spark has no brotli codec: leave it out of --codec")
    if settings.codec == "zstd":
        options["parquet.compression.codec.zstd.level"] = str(settings.level)
    if settings.codec == "gzip":
        options["zlib.compress.level"] = _GZIP_LEVELS[(settings.level or 6) - 1]
    return options


# Hadoop has names for them, from 1 to 9.
_GZIP_LEVELS = (
    "BEST_SPEED",
    "TWO",
    "THREE",
    "FOUR",
    "FIVE",
    "SIX",
    "SEVEN",
    "EIGHT",
    "BEST_COMPRESSION",
)


def _silent(_line: str) -> None:
    """Say nothing: in a measured process nobody listens."""
