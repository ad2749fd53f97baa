"""`spillway.spark.Pipeline`: rows are checked, written, read back, and only then published, once."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from spillway import datasets, delta
from spillway.errors import (
    AuditError,
    CheckFailedError,
    OptionError,
    SchemaError,
    UnsupportedTableError,
)
from spillway.spark import Pipeline, Sink, between, not_null, unique
from spillway.spark.pipeline import audit
from spillway.spark.pipeline.checks import parse_check
from spillway.spark.pipeline.record import SCHEMA, summarise
from spillway.spark.pipeline.rows import GeneratedRows, count_rows
from spillway.spark.pipeline.run import Run
from spillway.spark.pipeline.source_and_sink import read_path
from spillway.spark.settings import changed_settings

from ..counts import SOAK, count

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TABLES = ("parquet", "delta")
ITEMS = count(quick=6_000, ci=6_000, soak=40_000)
CHECKS = (not_null("name"), between("LAT", 0, 50), unique("id"))


def frame(spark: SparkSession, *rows: tuple[Any, ...], tasks: int = 2) -> DataFrame:
    rows = rows or ((1, "a", 5, "d0"), (2, None, 7, "d1"), (3, "c", 99, None), (4, None, -1, "d1"))
    data = [(*row, "d0")[:4] for row in rows]
    return spark.createDataFrame(data, "id int, name string, lat int, day string").repartition(tasks)


def read(path: Path) -> pa.Table:
    if (path / "_delta_log").exists():
        return deltalake.DeltaTable(path).to_pyarrow_table()
    return ds.dataset(path, partitioning="hive").to_table()


def ids(path: Path) -> list[int]:
    return sorted(read(path)["id"].to_pylist()) if path.exists() else []


@pytest.mark.parametrize("table", TABLES)
def test_bad_rows_fail_the_run_are_dropped_or_are_quarantined(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    to, bad = tmp_path / "to", tmp_path / "to__quarantine"
    sink = Sink(str(to), table=table, partition_by="day")

    def run(bad_rows: Any, run_id: str | None = None) -> Any:
        source = frame(spark)
        made = Pipeline(source=source, sink=sink, checks=CHECKS, bad_rows=bad_rows, run_id=run_id)
        return made.run(spark)

    with pytest.raises(CheckFailedError, match="99") as failed:
        run("fail")
    assert failed.value.counts == {"not_null(name)": 2, "between(LAT, 0, 50)": 2}
    assert list(tmp_path.iterdir()) == []

    dropped = run("drop")
    assert (dropped.rows_read, dropped.rows_written, dropped.rows_dropped) == (4, 1, 3)
    assert (dropped.rows_quarantined, ids(to), bad.exists()) == (0, [1], False)

    kept = run("quarantine", "monday")
    assert (kept.rows_written, kept.rows_dropped, kept.rows_quarantined) == (1, 0, 3)
    assert kept.checks == {"not_null(name)": 2, "between(LAT, 0, 50)": 2, "unique(id)": 0}
    assert ids(to) == [1, 1]
    found = {row["id"]: row for row in read(bad).to_pylist()}
    assert {key: row["_failed_checks"] for key, row in found.items()} == {
        2: ["not_null(name)"],
        3: ["between(LAT, 0, 50)"],
        4: ["not_null(name)", "between(LAT, 0, 50)"],
    }
    assert (found[3]["name"], found[3]["lat"], found[3]["day"]) == ("c", 99, None)
    assert {row["_run_id"] for row in found.values()} == {"monday"}

    again = run("quarantine", "monday")
    assert (again.repeated, again.rows_written, ids(to), ids(bad)) == (True, 0, [1, 1], [2, 3, 4])
    SCHEMA.check(kept.record)
    assert json.loads(json.dumps(kept.record)) == kept.record
    assert (kept.record["run_id"], kept.record["checks"]["rows_quarantined"]) == ("monday", 3)
    assert (kept.record["cell"]["table"], kept.record["cell"]["master"]) == (table, "local[2]")


def test_a_quarantine_without_rows_is_not_made(spark: SparkSession, tmp_path: Path) -> None:
    for table in TABLES:
        sink = Sink(str(tmp_path / table), table=table)  # type: ignore[arg-type]  # of both kinds
        Pipeline(source=frame(spark, (1, "a", 2)), sink=sink, checks=CHECKS, bad_rows="quarantine").run(spark)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(TABLES)


def damaged(monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]) -> list[list[Path]]:
    """Damage the first file of a job that has any, after it was written and before it is read back.

    Returns:
        The files of each task with rows, once they are written: the first of them is the damaged one.
    """
    audited = audit.Staged.audited
    tasks: list[list[Path]] = []

    def late(self: Any, *given: Any) -> Any:
        tasks[:] = [[Path(file.path) for file in self._job.staged(result)] for result in self._results]
        damage(tasks[0][0])
        return audited(self, *given)

    monkeypatch.setattr(audit.Staged, "audited", late)
    return tasks


def with_other_value(file: Path) -> None:
    """Change a text in a file that is not compressed; the size stays, which every commit looks at."""
    content = file.read_bytes()
    assert b"needle" in content
    file.write_bytes(content.replace(b"needle", b"noodle"))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("partition_by", ["day", ()])
def test_a_file_that_changed_before_it_was_published_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Any, partition_by: Any
) -> None:
    rows = frame(spark, *((each, "needle", each, f"d {each % 2}/%41") for each in range(40)), tasks=3)
    to = tmp_path / "to [1]"
    sink = Sink(str(to), table=table, partition_by=partition_by, compression="uncompressed")
    done = Pipeline(source=rows, sink=sink).run(spark)
    assert (done.audit.rows, done.audit.files) == (40, done.files)
    before = sorted(to.rglob("*.parquet"))
    tasks = damaged(monkeypatch, with_other_value)
    with pytest.raises(AuditError) as failed:
        Pipeline(source=rows, sink=sink).run(spark)
    assert len(tasks) == 3
    # Sums are those of a task, which has a file for each of its partitions.
    assert {file for files in tasks for file in files if file.name in str(failed.value)} == {*tasks[0]}
    assert sorted(to.rglob("*.parquet")) == before
    # Without an audit it is not.
    assert Pipeline(source=rows, sink=sink, audit="none").run(spark).rows_written == 40


def test_a_file_that_is_whole_again_when_it_is_looked_for_fails_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = frame(spark, *((each, "needle", each) for each in range(4)))
    sink = Sink(str(tmp_path / "to"), compression="uncompressed")
    tasks = damaged(monkeypatch, with_other_value)
    difference = audit.Staged._difference

    def repaired(*given: Any) -> str:
        file = tasks[0][0]
        file.write_bytes(file.read_bytes().replace(b"noodle", b"needle"))
        return difference(*given)

    monkeypatch.setattr(audit.Staged, "_difference", repaired)
    with pytest.raises(AuditError, match=r": \w.* read again"):
        Pipeline(source=rows, sink=sink).run(spark)
    assert list(tmp_path.iterdir()) == []


def test_times_of_day_are_audited(spark: SparkSession, tmp_path: Path) -> None:
    with changed_settings(spark, {"spark.sql.timeType.enabled": "true"}):
        rows = spark.range(4).selectExpr("id", "if(id = 3, null, make_time(id * 11, 59, 58.000007)) AS at")
        done = Pipeline(source=rows, sink=Sink(str(tmp_path / "to"))).run(spark)
    assert (done.audit.kind, done.audit.rows, ids(tmp_path / "to")) == ("full", 4, [0, 1, 2, 3])


def test_a_sample_reads_every_tenth_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = frame(spark, *((each, "needle", each) for each in range(100)), tasks=11)
    sink = Sink(str(tmp_path / "to"), compression="uncompressed")
    done = Pipeline(source=rows, sink=sink, audit="sample").run(spark)
    assert (done.files, done.audit.files) == (11, 2)
    damaged(monkeypatch, with_other_value)
    with pytest.raises(AuditError):
        Pipeline(source=rows, sink=sink, audit="sample").run(spark)


def test_rows_that_are_there_twice_fail_the_run(spark: SparkSession, tmp_path: Path) -> None:
    rows = frame(spark, (1, "a", 1), (1, "b", 2), (2, None, 3), (3, None, 4))
    sink = Sink(str(tmp_path / "to"))
    with pytest.raises(CheckFailedError, match="2 rows with 1") as failed:
        Pipeline(source=rows, sink=sink, checks=[unique("ID")], audit="none").run(spark)
    assert failed.value.counts == {"unique(ID)": 2}
    assert list(tmp_path.iterdir()) == []
    # Nulls equal nothing.
    assert Pipeline(source=rows, sink=sink, checks=[unique("name")]).run(spark).rows_written == 4


@pytest.mark.parametrize(("table", "partition_by"), [("delta", "day"), ("parquet", "day"), ("parquet", ())])
def test_values_that_the_table_has_fail_the_run_where_it_is_asked(
    spark: SparkSession, tmp_path: Path, table: Any, partition_by: Any
) -> None:
    to = tmp_path / "to"

    def run(*numbers: int | None, day: str | None = "d0", **more: Any) -> Any:
        rows = frame(spark, *((number, "a", 1, day) for number in numbers), tasks=1)
        sink = Sink(str(to), **{"table": table, "partition_by": partition_by, **more})
        checks = [unique("ID", in_table=True)]
        return Pipeline(source=rows, sink=sink, checks=checks, audit="none").run(spark)

    # Nothing is there yet; and nulls equal nothing.
    run(1, 3, None)
    run(4, None, day=None)
    with pytest.raises(CheckFailedError, match=r"1 row already, such as 3\b") as failed:
        run(3, 5, day="d1")
    assert failed.value.counts == {"unique(ID, in_table=True)": 1}
    run(5, day="d1")
    # Rows that an overwrite replaces may come again.
    overwrites: list[Any] = []
    if partition_by:
        overwrites = [{"partition_overwrite": "dynamic"}]
    if partition_by or table == "delta":
        overwrites += [{"where": "day = 'd1'"}, {"where": [("day", "in", ["d1"])]}]
    if not SOAK:  # each of them once, with one of the two tables
        overwrites = overwrites[:2] if table == "delta" else overwrites[2:]
    for given in overwrites:
        run(5, day="d1", **given)
    if overwrites:
        with pytest.raises(CheckFailedError):
            run(4, day="d1", **overwrites[-1])
    assert sorted(filter(None, read(to)["id"].to_pylist())) == [1, 3, 4, 5]
    run(4, 5, mode="overwrite")
    assert ids(to) == [4, 5]


def test_values_beside_rows_that_are_marked_as_deleted_need_delta(
    spark: SparkSession, tmp_path: Path
) -> None:
    to = str(tmp_path / "to")
    rows = frame(spark, (1, "a", 1), (2, "b", 2))
    Pipeline(source=rows, sink=Sink(to, table="delta")).run(spark)
    delta.open(to).set_properties({"delta.enableDeletionVectors": "true"})
    delta.open(to).delete("id = 1")
    with pytest.raises(UnsupportedTableError, match="Delta's jars"):
        Pipeline(source=rows, sink=Sink(to), checks=[unique("id", in_table=True)]).run(spark)


@pytest.mark.parametrize("table", TABLES)
def test_a_backfill_replaces_the_rows_of_its_condition(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    to = str(tmp_path / "to")
    rows = frame(spark, (1, "a", 1, "d0"), (2, "b", 2, "d1"))
    Pipeline(source=rows, sink=Sink(to, table=table, partition_by="day")).run(spark)
    backfill = Sink(to, table=table, partition_by="day", where="day = 'd1'")
    for run_id, number in (("1", 3), ("2", 4), ("2", 5)):
        rows = frame(spark, (number, "c", 3, "d1"))
        Pipeline(source=rows, sink=backfill, run_id=run_id).run(spark)
    assert ids(tmp_path / "to") == [1, 4]


def test_a_path_and_a_transformation_are_read_by_the_session(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('id,name\n1,"a, b"\n2,\n')
    seen = []

    def double(rows: DataFrame) -> DataFrame:
        seen.append(rows.sparkSession)
        return rows.selectExpr("id * 2 id", "name")

    done = Pipeline(
        source=str(tmp_path / "in.csv"),
        transform=double,
        checks=[not_null("name")],
        bad_rows="drop",
        sink=Sink(str(tmp_path / "to"), compression="snappy"),
    ).run(spark)
    assert (done.rows_read, done.checks) == (2, {"not_null(name)": 1})
    assert read(tmp_path / "to").to_pylist() == [{"id": 2, "name": "a, b"}]
    assert seen == [spark]
    assert (
        pq.ParquetFile(next(tmp_path.glob("to/*.parquet"))).metadata.row_group(0).column(0).compression
        == "SNAPPY"
    )


@pytest.mark.parametrize("table", TABLES)
def test_records_that_spark_cannot_parse_follow_bad_rows(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    (tmp_path / "in.json").write_text('{"id": 1, "lat": 5}\n{"id": 2, "lat\n{"id": 3, "lat": 99}\n')
    schema = "id INT, _corrupt_record STRING, lat INT"
    sink = Sink(str(tmp_path / "to"), table=table)

    def run(bad_rows: Any) -> Any:
        source = partial(read_path, path=str(tmp_path / "in.json"), schema=schema)
        return Pipeline(source=source, sink=sink, checks=[between("lat", 0, 50)], bad_rows=bad_rows).run(
            spark
        )

    with pytest.raises(CheckFailedError, match=r'_corrupt_record: 1 row .* \{"id": 2, "lat'):
        run("fail")
    kept = run("quarantine")
    assert (kept.rows_written, kept.checks) == (1, {"_corrupt_record": 1, "between(lat, 0, 50)": 1})
    assert read(tmp_path / "to").to_pylist() == [{"id": 1, "lat": 5}]
    found = {row["_corrupt_record"]: row for row in read(tmp_path / "to__quarantine").to_pylist()}
    assert found['{"id": 2, "lat']["_failed_checks"] == ["_corrupt_record"]
    assert (found[None]["id"], found[None]["_failed_checks"]) == (3, ["between(lat, 0, 50)"])
    assert run("drop").rows_dropped == 2


def test_settings_of_the_session_are_as_before(spark: SparkSession, tmp_path: Path) -> None:
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    spark.conf.set(name, "123456")
    try:
        rows = spark.range(10).selectExpr("id", "timestamp_seconds(id) make")
        Pipeline(source=rows, sink=Sink(str(tmp_path / "to"), partition_by="make")).run(spark)
        assert spark.conf.get(name) == "123456"
        assert spark.sparkContext.getLocalProperty("spark.job.description") is None
    finally:
        spark.conf.unset(name)


def test_what_cannot_be_a_pipeline_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = Sink(str(tmp_path / "to"))
    rows = frame(spark, (1, "a", 1))
    for given in ({"bad_rows": "skip"}, {"audit": "some"}, {"checks": ["id"]}, {"run_id": ""}):
        with pytest.raises(OptionError):
            Pipeline(source=rows, sink=sink, **given)  # type: ignore[arg-type]  # on purpose
    for check in (not_null("other"), unique("id", "other")):
        with pytest.raises(SchemaError, match="no column 'other'"):
            Pipeline(source=rows, sink=sink, checks=[check]).run(spark)
    with pytest.raises(OptionError, match="no known format"):
        Pipeline(source="rows.arrow", sink=sink).run(spark)
    assert list(tmp_path.iterdir()) == []


def test_checks_are_read_as_they_are_written() -> None:
    texts = {
        "not_null(id)": not_null("id"),
        "between(lat, 0, 1.5)": between("lat", 0, 1.5),
        "between('a b', '2026-01-01', '2026-12-31')": between("a b", "2026-01-01", "2026-12-31"),
        "unique(day, id)": unique("day", "id"),
        "unique(id, in_table=True)": unique("id", in_table=True),
    }
    assert {text: parse_check(text) for text in texts} == texts
    for text in (
        "",
        "id",
        "not_null()",
        "between(lat, 0)",
        "unique()",
        "os.remove('x')",
        "absent(id)",
        "unique(id, in_table=1)",
    ):
        with pytest.raises(OptionError):
            parse_check(text)
    for text in ("unique(id, in_table=1)", "unique(id, table=True)", "not_null(id, in_table=True)"):
        with pytest.raises(OptionError):
            parse_check(text)


def test_rows_that_executors_make_are_those_of_the_dataset(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[Any] = []
    for name, made in (("logs", GeneratedRows("logs", 1, 3_000, 2)), ("item", count_rows(spark, ITEMS, 2))):
        source: Any = made
        pipeline = Pipeline(source=source, sink=Sink(str(tmp_path / name)))
        done = Run(pipeline, spark, look=lambda rows: seen.append(summarise(rows))).result()
        assert (done.rows_written, done.audit.rows) == (seen[-1]["rows"], seen[-1]["rows"])
    logs = pa.Table.from_batches(datasets.batches("logs", 1, 3_000))
    assert pq.read_table(tmp_path / "logs").sort_by("log_offset").equals(logs)
    assert sum(each["errors"] for each in seen[0]["errors"]) == logs["level"].to_pylist().count("ERROR")
    assert [each["column"] for each in seen[1]["percentiles"]][:2] == ["l_orderkey", "l_partkey"]


@pytest.mark.parametrize("table", TABLES)
def test_an_empty_text_in_a_partition_column_is_null(spark: SparkSession, tmp_path: Path, table: Any) -> None:
    sink = Sink(str(tmp_path / "to"), table=table, partition_by="day")
    Pipeline(source=frame(spark, (1, "a", 5, ""), (2, "b", 6, None), (3, "c", 7, "d")), sink=sink).run(spark)
    assert sorted(read(tmp_path / "to")["day"].to_pylist(), key=str) == [None, None, "d"]


def test_a_check_shows_times_that_python_has_none_for(spark: SparkSession, tmp_path: Path) -> None:
    source = spark.sql("SELECT 1 id, TIMESTAMP_MICROS(253402300800000000) at")
    checks = [between("at", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2027, 1, 1, tzinfo=dt.UTC))]
    with pytest.raises(CheckFailedError, match="10000-01-01 00:00:00"):
        Pipeline(source=source, sink=Sink(str(tmp_path / "to")), checks=checks).run(spark)


def test_values_that_do_not_compare_with_the_bounds_fail(spark: SparkSession, tmp_path: Path) -> None:
    """Without ANSI mode, as in Spark 3.5, their comparison is null, as is that of a null, which passes."""
    data = [(1, "5"), (2, "abc"), (3, None)]
    texts = spark.createDataFrame(data, "id int, x string")
    with changed_settings(spark, {"spark.sql.ansi.enabled": "false"}):
        done = Pipeline(
            source=texts, checks=[between("x", 0, 50)], bad_rows="drop", sink=Sink(str(tmp_path / "to"))
        ).run(spark)
    assert done.checks == {"between(x, 0, 50)": 1}
    assert ids(tmp_path / "to") == [1, 3]


@pytest.mark.parametrize("bounds", [(None, 5), (1, None), (float("nan"), 5), (1, float("nan"))])
def test_bounds_that_compare_with_nothing_are_refused(bounds: tuple[Any, Any]) -> None:
    with pytest.raises(OptionError, match="is no bound"):
        between("x", *bounds)


def test_nan_is_one_value_of_unique_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame(
        [(1, float("nan")), (1, float("nan")), (2, None), (2, None)], "id int, x double"
    )
    with pytest.raises(CheckFailedError, match="2 rows with 1, nan"):
        Pipeline(source=rows, checks=[unique("id", "x")], sink=Sink(str(tmp_path / "to"))).run(spark)


@pytest.mark.parametrize("name", ["_run_id", "_Failed_Checks"])
def test_rows_with_a_column_of_the_quarantine_are_refused(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rows = spark.createDataFrame([(1, "a")], f"id int, {name} string")
    with pytest.raises(SchemaError, match='bad_rows="quarantine" adds'):
        Pipeline(
            source=rows, checks=[not_null("id")], bad_rows="quarantine", sink=Sink(str(tmp_path / "to"))
        ).run(spark)
    assert list(tmp_path.iterdir()) == []
