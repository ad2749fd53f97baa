"""Ctrl-C while executors write: the tasks end, nothing is left, and the session is good for other writes."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spillway.spark import register, write_generated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = pa.schema({"id": pa.int64()})


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "it is not so after a minute"
        time.sleep(0.02)


@pytest.mark.spark
@pytest.mark.parametrize("table", ["delta", "parquet"])
def test_ctrl_c_cancels_the_tasks_of_a_write_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    begun, to = tmp_path / "begun", tmp_path / "to"

    def endless(number: int) -> Iterator[pa.RecordBatch]:
        begun.touch()
        while True:
            time.sleep(0.02)
            yield pa.record_batch({"id": [number]})

    def interrupt() -> None:
        wait_until(begun.exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        write_generated(spark, endless, 2, str(to), schema=SCHEMA, table=table)
    thread.join()
    tracker = spark.sparkContext.statusTracker()
    wait_until(lambda: not tracker.getActiveJobsIds())
    register(spark)
    spark.range(1).write.format("spillway").mode("append").save(f"{to}-after")
    assert not to.exists()
