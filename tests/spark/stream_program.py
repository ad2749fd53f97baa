# ruff: noqa: T201 - what it prints is what the test waits for
"""A query that writes micro-batches to the sink: ``python stream_program.py SOURCE TO TABLE CHECKPOINT``.

Where ``KILL`` names a moment and a batch, such as ``before 3``, all of Spark is killed then: the process that
commits kills the JVM and the driver, once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

import spillway.spark
from spillway.spark.source import DefaultSource
from spillway.spark.stream import SpillwayStreamWriter


class KilledSource(DefaultSource):
    """The data source, whose driver dies beside a commit."""

    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamWriter(self, schema: Any, overwrite: bool) -> SpillwayStreamWriter:  # noqa: N802, FBT001 - Spark's
        return KilledWriter(self._target(schema, overwrite=overwrite))


class KilledWriter(SpillwayStreamWriter):
    """The sink, whose driver dies before or after it has committed a batch."""

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        moment, _, number = os.environ.get("KILL", "").partition(" ")
        if moment == "before" and batchId == int(number):
            kill_all_once()
        super().commit(messages, batchId)
        if moment == "after" and batchId == int(number):
            kill_all_once()


def kill_all_once() -> None:
    """Kill the JVM and the driver, which are above this process, and this process."""
    mark = Path(os.environ["KILLED"])
    if mark.exists():
        return
    mark.touch()
    driver = int(os.environ["DRIVER"])
    above = psutil.Process().parents()
    own = above[: [process.pid for process in above].index(driver) + 1]
    # All stand still before the first is gone: the driver would see its JVM die, and end by itself.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in reversed(own):
            process.send_signal(number)
    os.kill(os.getpid(), signal.SIGKILL)


def main(source: str, to: str, table: str, checkpoint: str) -> None:
    os.environ["DRIVER"] = str(os.getpid())
    session = spillway.spark.local_session("spillway-stream", say=lambda _: None)
    session.dataSource.register(KilledSource)
    query = (
        session.readStream.schema("id bigint")
        .option("maxFilesPerTrigger", "1")
        .parquet(source)
        .writeStream.format("killed")
        .option("table", table)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(to)
    )
    query.awaitTermination()
    print(query.id, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
