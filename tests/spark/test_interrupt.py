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
from spillway.spark.run import _OfConnect, _StillCommitting

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


class Server(_OfConnect):
    """A driver on a server whose work goes on after Ctrl-C until it is let go."""

    def __init__(self, *, ends: bool, error: Exception | None = None) -> None:
        self._ends, self._error = ends, error
        self.interrupted, self.let_go, self.done = (threading.Event() for _ in range(3))

    def do(self, work: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert self.interrupted.wait(60)
        assert self._ends or self.let_go.wait(60)
        if self._error is not None:
            raise self._error
        self.done.set()
        return work()


@pytest.fixture
def interrupted(request: pytest.FixtureRequest) -> Callable[[Server], None]:
    """Have a server commit, and Ctrl-C come meanwhile."""

    def commit(server: Server) -> None:
        def handler(*_: object) -> None:
            server.interrupted.set()
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGUSR1, handler)
        request.addfinalizer(server.let_go.set)
        try:
            server.do_undisturbed(lambda: None)
        finally:
            signal.signal(signal.SIGUSR1, before)

    return commit


def test_ctrl_c_waits_for_the_commit_of_a_server(
    interrupted: Callable[[Server], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(ends=True)
    with pytest.raises(KeyboardInterrupt):
        interrupted(server)
    assert server.done.is_set()
    with pytest.raises(KeyboardInterrupt) as failed:
        interrupted(Server(ends=True, error=OSError("refused")))
    assert isinstance(failed.value.__cause__, OSError)
    monkeypatch.setattr("spillway.spark.run._LONGEST_COMMIT", 0.1)
    with pytest.raises(_StillCommitting, match="look at the destination"):
        interrupted(Server(ends=False))
