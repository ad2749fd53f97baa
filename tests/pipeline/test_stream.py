"""Streams of `spillway.spark.Pipeline`: each micro-batch is audited and published once, by itself."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import deltalake
import pytest

from spillway.errors import CheckFailedError, OptionError
from spillway.spark import Pipeline, Sink, between, unique
from spillway.spark.pipeline import run
from spillway.spark.pipeline.record import SCHEMA

from ..counts import SOAK
from .test_pipeline import ids, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TABLES = ("parquet", "delta")
# In continuous integration each of two claims is seen with one kind of table.
PUBLISHED, REPEATED = (TABLES, TABLES) if SOAK else (TABLES[1:], TABLES[:1])


@pytest.fixture(autouse=True)
def _one_shuffle_partition(spark: SparkSession) -> Iterator[None]:
    """Have one store of the state of a query in place of 200."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "1")
    yield
    spark.conf.set(name, str(before))


class Stream:
    """A folder of files of JSON, each of which becomes a micro-batch, and a pipeline over it."""

    def __init__(self, folder: Path, table: Any, **more: Any) -> None:
        self.folder, self.table, self.more = folder, table, more
        self.to, self.bad = folder / "to", folder / "to__quarantine"
        (folder / "in").mkdir()

    def arrives(self, *lat: int) -> None:
        """Add a file whose rows have these values, and ids by their place among all."""
        first = 10 * len(list((self.folder / "in").iterdir()))
        rows = (f'{{"id": {first + place}, "lat": {each}}}\n' for place, each in enumerate(lat))
        (self.folder / "in" / f"{first:04}.json").write_text("".join(rows))

    def read(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema("id long, lat int").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder / "in"))

    def run(self, spark: SparkSession, **more: Any) -> Any:
        given: dict[str, Any] = {
            "checks": [between("lat", 0, 50), unique("id")],
            "bad_rows": "quarantine",
            "sink": Sink(str(self.to), table=self.table),
            "checkpoint_location": str(self.folder / "checkpoint"),
        }
        return Pipeline(source=self.read, **{**given, **self.more, **more}).run(spark)


@pytest.mark.parametrize("table", PUBLISHED)
def test_each_micro_batch_is_published_by_itself(spark: SparkSession, tmp_path: Path, table: Any) -> None:
    flow = Stream(tmp_path, table)
    flow.arrives(1, 99)
    flow.arrives(2, 3)
    done = flow.run(spark)
    assert (done.rows_read, done.rows_written, done.rows_quarantined, done.repeated) == (4, 3, 1, False)
    assert [each.rows_written for each in done.batches] == [1, 2]
    assert done.checks == {"between(lat, 0, 50)": 1, "unique(id)": 0}
    assert done.audit.rows == 3
    assert (ids(flow.to), ids(flow.bad)) == ([0, 10, 11], [1])
    assert read(flow.bad)["_run_id"].to_pylist() == [f"{done.run_id}/0"]
    SCHEMA.check(done.record)
    assert (done.record["cell"]["source"], done.record["output"]["rows"]) == ("stream", 3)
    if table == "delta":
        assert [each.version for each in done.batches] == [0, 1]
        assert deltalake.DeltaTable(flow.to).transaction_version(done.run_id) == 1

    flow.arrives(4)
    more = flow.run(spark)
    assert (more.run_id, more.rows_read, len(more.batches)) == (done.run_id, 1, 1)
    assert ids(flow.to) == [0, 10, 11, 20]
    nothing = flow.run(spark)
    assert (nothing.batches, nothing.rows_written, nothing.repeated) == ((), 0, False)


@pytest.mark.parametrize("table", REPEATED)
def test_a_batch_that_spark_did_not_commit_is_there_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Any
) -> None:
    """Also where the query has state, which Spark keeps only of batches whose rows it read."""
    flow = Stream(tmp_path, table, transform=lambda rows: rows.dropDuplicates(["lat"]))
    flow.arrives(1, 99)
    flow.arrives(2, 98)
    result = run.Run.result

    def ends_late(self: Any) -> Any:
        done = result(self)
        if self._name.batch == 1:
            raise ConnectionAbortedError
        return done

    with monkeypatch.context() as patched:
        patched.setattr(run.Run, "result", ends_late)
        with pytest.raises(ConnectionAbortedError):
            flow.run(spark)
    assert ids(flow.to) == [0, 10]
    flow.arrives(2, 3)
    done = flow.run(spark)
    assert [each.repeated for each in done.batches] == [True, False]
    assert (ids(flow.to), ids(flow.bad)) == ([0, 10, 21], [1, 11])


def test_a_check_that_fails_ends_the_stream_at_its_batch(spark: SparkSession, tmp_path: Path) -> None:
    flow = Stream(tmp_path, "delta")
    flow.arrives(1)
    flow.arrives(99)
    with pytest.raises(CheckFailedError, match="99") as failed:
        flow.run(spark, bad_rows="fail")
    assert failed.value.counts == {"between(lat, 0, 50)": 1}
    assert ids(flow.to) == [0]
    assert flow.run(spark, bad_rows="drop").rows_dropped == 1
    assert ids(flow.to) == [0]


@pytest.mark.parametrize("when", ["before its tasks", "after its tasks"])
def test_ctrl_c_leaves_nothing_of_a_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Also where no job is under way that Spark could cancel."""
    flow = Stream(tmp_path, "delta", audit="none", checks=[])
    flow.arrives(1, 2)
    tasks, result, main = run.Run._tasks, run.Run.result, threading.get_ident()
    ended: list[int] = []

    def interrupted(self: Any, *given: Any) -> Any:
        answers = tasks(self, *given) if when == "after its tasks" else None
        # Python's handler runs in the main thread, whose wait has to end for it.
        signal.pthread_kill(main, signal.SIGINT)
        assert self._batch.stopped.wait(60)
        return tasks(self, *given) if answers is None else answers

    def noted(self: Any) -> Any:
        try:
            return result(self)
        finally:
            ended.append(self._name.batch)

    with monkeypatch.context() as patched:
        patched.setattr(run.Run, "_tasks", interrupted)
        patched.setattr(run.Run, "result", noted)
        with pytest.raises(KeyboardInterrupt):
            flow.run(spark)
        # The batch ended before the run did.
        assert ended == [0, 0]
    assert not flow.to.exists()
    spark.range(1).write.format("spillway").mode("append").save(str(tmp_path / "source"))
    assert flow.run(spark).rows_written == 2


def test_what_cannot_be_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    flow = Stream(tmp_path, "delta")
    flow.arrives(1)
    overwriting = Sink(str(flow.to), table="delta", where="id = 1")
    for given in ({"run_id": "monday"}, {"sink": overwriting}, {"checkpoint_location": None}):
        with pytest.raises(OptionError):
            flow.run(spark, **given)
    batch = Pipeline(source=spark.range(1), sink=Sink(str(flow.to)), checkpoint_location=str(tmp_path / "c"))
    with pytest.raises(OptionError, match="needs a stream"):
        batch.run(spark)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in"]
