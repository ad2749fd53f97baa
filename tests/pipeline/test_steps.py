"""A pipeline writes the dataset, or the user's files; another row in it is found; Ctrl-C leaves nothing."""

from __future__ import annotations

import io
import json
import signal
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from spillway import datasets
from spillway.datasets import FileSource
from spillway.datasets.lineitem import open_lineitem
from spillway.errors import SpillwayError
from spillway.pipeline.destination import Destination
from spillway.pipeline.input import find_input, read_input
from spillway.pipeline.jobs import StageRunner, Tasks
from spillway.pipeline.progress import Progress
from spillway.pipeline.rows import GeneratedRows
from spillway.pipeline.steps import Steps, count_rows
from spillway.spark.failures import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spillway.pipeline.plan import Mode
    from spillway.pipeline.rows import RowSource

pytestmark = pytest.mark.spark

ROWS = 12_000
OPTIONS = {"compression": "zstd"}


def steps(
    spark: SparkSession,
    rows: RowSource | DataFrame,
    folder: Path,
    mode: Mode = "error",
    partition_by: tuple[str, ...] = (),
) -> Steps:
    destination = Destination.of(
        str(folder), table=None, mode=mode, partition_by=partition_by, storage_options={}
    )
    return Steps(spark, rows, destination, OPTIONS)


def logs(rows: int = ROWS, seed: int = 1) -> pa.Table:
    return pa.Table.from_batches(datasets.batches("logs", seed, rows))


def table_of(folder: Path, key: str) -> pa.Table:
    """The rows of a folder as pyarrow reads them, in the order of a column that tells them apart."""
    return pq.read_table(folder).sort_by(key)


def test_the_rows_are_those_of_the_dataset_and_are_found_right(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = steps(spark, GeneratedRows("logs", 1, ROWS, 4), tmp_path / "out")
    written = pipeline.write()
    assert (written.output["rows"], written.output["files"], written.output["version"]) == (ROWS, 4, None)
    assert written.output["bytes"] == sum(each.stat().st_size for each in tmp_path.glob("out/*.parquet"))
    assert table_of(tmp_path / "out", "log_offset").equals(logs())
    found = pipeline.validate(written)
    assert found["problem"] is None
    assert (found["rows"], found["row_checksum"]) == (ROWS, found["expected_checksum"])

    summary = pipeline.summarise(written)
    table = logs()
    assert summary["rows"] == ROWS
    (latency,) = summary["percentiles"]
    exact = pc.quantile(table["duration_ms"], [0.5, 0.99], interpolation="lower").to_pylist()
    assert [latency["p50"], latency["p99"]] == pytest.approx(exact, rel=0.01)
    assert latency["max"] == pc.max(table["duration_ms"]).as_py()
    by_service = table.append_column("hour", pc.floor_temporal(table["timestamp"], unit="hour"))
    counted = by_service.append_column("error", pc.equal(table["level"], "ERROR").cast(pa.int64()))
    expected = counted.group_by(["service", "hour"]).aggregate([("error", "sum"), ("error", "count")])
    assert {(each["service"], each["hour"], each["rows"], each["errors"]) for each in summary["errors"]} == {
        (row["service"], f"{row['hour']:%Y-%m-%dT%H:%M:%SZ}", row["error_count"], row["error_sum"])
        for row in expected.to_pylist()
    }


@pytest.mark.parametrize("name", ["logs-nested", "wide:12"])
def test_nested_rows_and_wide_ones_too(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pipeline = steps(spark, GeneratedRows(name, 7, 3_000, 2), tmp_path / "out")
    written = pipeline.write()
    assert pipeline.validate(written)["problem"] is None
    assert pipeline.summarise(written)["rows"] == 3_000


def test_lineitem_is_made_by_parts(spark: SparkSession, tmp_path: Path) -> None:
    # A part has some 30,000 rows: these are of both.
    rows = 40_000
    pipeline = steps(spark, count_rows(spark, rows, 2), tmp_path / "out")
    written = pipeline.write()
    assert pipeline.validate(written)["problem"] is None
    names = [each["column"] for each in pipeline.summarise(written)["percentiles"]]
    assert names[:2] == ["l_orderkey", "l_partkey"]
    with open_lineitem(rows) as whole:
        expected = pa.Table.from_batches(whole.batches).slice(0, rows)
    keys = [("l_orderkey", "ascending"), ("l_linenumber", "ascending")]
    assert pq.read_table(tmp_path / "out").sort_by(keys).equals(expected.sort_by(keys))


def test_appended_rows_are_checked_without_those_before(spark: SparkSession, tmp_path: Path) -> None:
    first = steps(spark, GeneratedRows("logs", 1, 2_000, 2), tmp_path / "out")
    first.write()
    second = steps(spark, GeneratedRows("logs", 2, 3_000, 1), tmp_path / "out", "append")
    written = second.write()
    # Nor with those of another writer.
    pq.write_table(logs(100, 3), tmp_path / "out" / "other.parquet")
    found = second.validate(written)
    assert (found["problem"], found["rows"]) == (None, 3_000)
    assert second.summarise(written)["rows"] == 3_000
    assert pq.read_table(tmp_path / "out").num_rows == 5_100


def test_a_folder_that_came_into_being_meanwhile_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = steps(spark, spark.range(10), tmp_path / "out")
    made = steps(spark, GeneratedRows("wide:4", 1, 10, 1), tmp_path / "out")
    steps(spark, spark.range(5), tmp_path / "out").write()
    for late in (frame, made):
        with pytest.raises(FileExistsError, match="there is something already"):
            late.write()
        late.forget()
    assert pq.read_table(tmp_path / "out").num_rows == 5


def test_overwritten_rows_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    steps(spark, GeneratedRows("logs", 1, 2_000, 2), tmp_path / "out").write()
    second = steps(spark, GeneratedRows("logs", 2, 3_000, 1), tmp_path / "out", "overwrite")
    assert second.validate(second.write())["problem"] is None
    assert table_of(tmp_path / "out", "log_offset").equals(logs(3_000, 2))


def test_partitioned_rows_keep_the_types_of_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = GeneratedRows("logs", 1, 2_000, 2)
    pipeline = steps(spark, rows, tmp_path / "out", partition_by=("region", "log_partition"))
    written = pipeline.write()
    assert pipeline.validate(written)["problem"] is None
    assert (tmp_path / "out" / "region=eu-west-1").is_dir()


def with_other_value(file: Path, column: str, value: Any) -> None:
    """Write the file again, with another value in the middle of a column."""
    table = pq.read_table(file)
    at = table.schema.get_field_index(column)
    values = table.column(column).to_pylist()
    values[len(values) // 2] = value
    pq.write_table(
        table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type)), file
    )


def test_a_planted_wrong_value_is_found_by_column_and_file(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = steps(spark, GeneratedRows("logs", 1, ROWS, 4), tmp_path / "out")
    written = pipeline.write()
    file = sorted(tmp_path.glob("out/*.parquet"))[2]
    with_other_value(file, "retries", 99)
    found = pipeline.validate(written)
    assert (
        found["problem"] == f"values differ in column 'retries'; no partition's rows are those of {file.name}"
    )
    assert found["row_checksum"] != found["expected_checksum"]


def test_a_file_that_is_gone_or_there_twice_is_found(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = steps(spark, GeneratedRows("wide:4", 1, 4_000, 4), tmp_path / "out")
    written = pipeline.write()
    first, second, *_ = sorted(tmp_path.glob("out/*.parquet"))
    content = first.read_bytes()
    first.unlink()
    assert str(pipeline.validate(written)["problem"]).startswith("3,000 rows instead of 4,000")
    (tmp_path / "out" / "again.parquet").write_bytes(second.read_bytes())
    again = str(pipeline.validate(written)["problem"])
    assert again.startswith("values differ in columns")
    first.write_bytes(content)
    assert str(pipeline.validate(written)["problem"]).startswith("5,000 rows instead of 4,000")


def test_values_that_changed_rows_within_their_columns_are_found(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = steps(spark, GeneratedRows("wide:4", 1, 2_000, 1), tmp_path / "out")
    written = pipeline.write()
    (file,) = tmp_path.glob("out/*.parquet")
    table = pq.read_table(file)
    turned = table.column(0).to_pylist()[::-1]
    pq.write_table(table.set_column(0, table.schema.field(0), [turned]), file)
    assert pipeline.validate(written)["problem"] == (
        "all columns agree, and their values stand in other rows; "
        f"no partition's rows are those of {file.name}"
    )


def test_another_schema_is_found(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = steps(spark, GeneratedRows("wide:4", 1, 2_000, 1), tmp_path / "out")
    written = pipeline.write()
    (file,) = tmp_path.glob("out/*.parquet")
    pq.write_table(pq.read_table(file).drop_columns(["c0003"]), file)
    assert pipeline.validate(written)["problem"] == "column 3 should be 'c0003', and is 'no column'"


def csv_files(folder: Path, table: pa.Table) -> str:
    pa.csv.write_csv(table.slice(0, 700), folder / "a.csv")
    pa.csv.write_csv(table.slice(700), folder / "b.csv")
    return str(folder / "*.csv")


def ndjson_file(folder: Path, table: pa.Table) -> str:
    path = folder / "rows.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return str(path)


def parquet_folder(folder: Path, table: pa.Table) -> str:
    pq.write_to_dataset(table, folder / "own", partition_cols=["kind"])
    return str(folder / "own")


@pytest.mark.parametrize("write", [csv_files, ndjson_file, parquet_folder])
def test_files_are_written_as_spark_read_them(spark: SparkSession, tmp_path: Path, write: Any) -> None:
    table = pa.table(
        {
            "id": range(1_000),
            "text": [None if i % 7 == 0 else f'line {i}, "quoted"\nand broken' for i in range(1_000)],
            "share": [i / 8 for i in range(1_000)],
            "kind": [f"k{i % 3}" for i in range(1_000)],
        }
    )
    source = FileSource(write(tmp_path, table))
    pipeline = steps(spark, read_input(spark, source, find_input(source)), tmp_path / "out")
    written = pipeline.write()
    assert written.output["rows"] == 1_000
    found = pipeline.validate(written)
    assert (found["problem"], found["rows"]) == (None, 1_000)
    assert [each["column"] for each in pipeline.summarise(written)["percentiles"]] == ["id", "share"]
    rows = pq.read_table(tmp_path / "out").sort_by("id").select(table.column_names)
    assert [rows["id"].to_pylist(), rows["share"].to_pylist()] == [
        list(range(1_000)),
        table["share"].to_pylist(),
    ]
    assert rows["text"].to_pylist()[1] == 'line 1, "quoted"\nand broken'


class OtherProgress(Progress):
    """Progress in a string, with something done when tasks of a stage run."""

    def __init__(self) -> None:
        self.said = io.StringIO()
        super().__init__(Console(file=self.said))

    def tasks(self, tasks: Tasks) -> None:
        super().tasks(tasks)
        self.seen(tasks)

    def seen(self, tasks: Tasks) -> None: ...


class InterruptsWhenTasksRun(OtherProgress):
    """Sends the signal of Ctrl-C when tasks run, and again while they are being cancelled."""

    def seen(self, tasks: Tasks) -> None:
        if tasks.running:
            signal.raise_signal(signal.SIGINT)

    def say(self, line: str) -> None:
        super().say(line)
        if "cancelled" in line:
            signal.raise_signal(signal.SIGINT)


class InterruptsAtOnce(OtherProgress):
    """Sends the signal of Ctrl-C while the work waits for it."""

    def __init__(self, ended: threading.Event) -> None:
        super().__init__()
        self._ended = ended

    def seen(self, tasks: Tasks) -> None:  # noqa: ARG002 - whatever they are
        signal.raise_signal(signal.SIGINT)
        self._ended.set()


class EndlessRows(GeneratedRows):
    """Rows that do not end, so that nothing is committed before the interrupt."""

    def make(self, number: int) -> Iterator[pa.RecordBatch]:
        while True:
            yield from super().make(number)


def test_an_interrupted_write_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = steps(spark, EndlessRows("wide:4", 1, 20_000, 2), tmp_path / "out")
    progress = InterruptsWhenTasksRun()
    ended = threading.Event()

    def write() -> None:
        try:
            pipeline.write()
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        StageRunner(spark, progress).run("writing", write)
    assert ended.is_set()
    assert "writing: interrupted, its tasks are being cancelled" in progress.said.getvalue()
    assert not (tmp_path / "out").exists()


def test_work_that_cannot_be_cancelled_is_waited_for(spark: SparkSession) -> None:
    interrupted, done = threading.Event(), []

    def work() -> None:
        assert interrupted.wait(60)
        done.append("committed")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        StageRunner(spark, InterruptsAtOnce(interrupted)).run("committing", work)
    assert done == ["committed"]
    assert signal.getsignal(signal.SIGINT) is handler


class BrokenRows(GeneratedRows):
    """Rows that cannot be made."""

    def make(self, number: int) -> Iterator[pa.RecordBatch]:
        raise ValueError(f"no rows for partition {number} today")


def test_a_failed_stage_says_what_python_raised(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = steps(spark, BrokenRows("wide:4", 1, 1_000, 1), tmp_path / "out")
    with pytest.raises(SpillwayError, match=r"^a task failed: ValueError: no rows for partition 0 today$"):
        StageRunner(spark, OtherProgress()).run("writing", pipeline.write)
    assert not (tmp_path / "out").exists()


def test_the_cause_in_javas_words_is_the_last_one() -> None:
    said = (
        "An error occurred\n: org.Outer: x\n\tat a.b(C.java:1)\nCaused by: java.io.IOException: disk\n\tat d"
    )
    assert cause_of(said) == "java.io.IOException: disk"
