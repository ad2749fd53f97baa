"""`spillway.spark.write`: the rows of any DataFrame, in all modes, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark import TaskContext

import spillway.spark
from spillway.errors import OptionError, SchemaError
from spillway.spark.stream_jobs import FolderRun
from spillway.spark.write_job import Target

from ..counts import SOAK
from .test_jobs import begun, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

TABLES = ("parquet", "delta")
SCHEMA = pa.schema({"id": pa.int64()})
needs_collations = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:1])) < (4,), reason="Spark 3.5 has no collations"
)


def frame(spark: SparkSession, *numbers: int, days: int = 2, tasks: int = 2) -> DataFrame:
    data = [(f"d{number % days}", number) for number in numbers]
    return spark.createDataFrame(data, "day string, id bigint").repartition(tasks)


def read(path: Path, table: str) -> pa.Table:
    if table == "delta":
        return deltalake.DeltaTable(path).to_pyarrow_table()
    return ds.dataset(path, partitioning="hive").to_table()


def ids(path: Path, table: str) -> list[int]:
    return sorted(read(path, table)["id"].to_pylist())


@pytest.mark.parametrize("table", TABLES)
def test_a_frame_is_written_in_all_four_modes(spark: SparkSession, tmp_path: Path, table: Any) -> None:
    to = tmp_path / "to"
    rows = frame(spark, 1, 2, 3)
    done = spillway.spark.write(rows, str(to), table=table)
    assert (done.rows, done.files) == (3, 2)
    assert done.bytes == sum(file.stat().st_size for file in to.rglob("part-*.parquet"))
    with pytest.raises(FileExistsError, match='mode="error"'):
        spillway.spark.write(rows, str(to))
    assert spillway.spark.write(rows, str(to), mode="ignore").rows == 0
    again = spillway.spark.write(frame(spark, 4), str(to), mode="append")
    assert (again.rows, again.version) == (1, 1 if table == "delta" else None)
    assert ids(to, table) == [1, 2, 3, 4]
    spillway.spark.write(frame(spark, 5), str(to), mode="overwrite")
    assert ids(to, table) == [5]


def test_types_of_spark_come_back_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(
        """SELECT 1 `a.b`, CAST(1.5 AS DECIMAL(10, 2)) `a``b`, DATE '2026-01-02' day,
        TIMESTAMP '2026-01-02 03:04:05.678901' at, TIMESTAMP_NTZ '2026-01-02 03:04:05' here, X'00ff' bytes,
        array(1, NULL) list, map('k', 1.5D) map, named_struct('x', NULL, 'y', true) struct
        WHERE true""".replace("NULL, 'y'", "CAST(NULL AS INT), 'y'")
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        spillway.spark.write(rows, str(tmp_path / "to"))
        back = spark.read.parquet(str(tmp_path / "to"))
        assert back.collect() == rows.collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_many_partitions_make_one_file_for_each_in_a_task(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    """Unsorted rows of more than 64 partitions would close and open files again and again."""
    rows = frame(spark, *range(600), days=100, tasks=1)
    done = spillway.spark.write(
        rows, str(tmp_path / "to"), table=table, partition_by="day", sorting_columns=[("id", "descending")]
    )
    assert done.files == 100
    for file in (tmp_path / "to").rglob("part-*.parquet"):
        found = pq.read_table(file, partitioning=None)["id"].to_pylist()
        assert found == sorted(found, reverse=True)
        assert pq.read_metadata(file).row_group(0).sorting_columns[0].descending
    assert ids(tmp_path / "to", table) == list(range(600))


@pytest.mark.parametrize("table", TABLES)
def test_where_replaces_the_rows_that_it_names(spark: SparkSession, tmp_path: Path, table: Any) -> None:
    to = str(tmp_path / "to")
    spillway.spark.write(frame(spark, 0, 1, 2, 3), to, table=table, partition_by="day")
    replace: Any = {"mode": "overwrite", "partition_by": "day"}
    done = spillway.spark.write(frame(spark, 4, 6), to, where="day = 'd0'", **replace)
    assert (done.rows, ids(tmp_path / "to", table)) == (2, [1, 3, 4, 6])
    with pytest.raises(OptionError, match="outside"):
        spillway.spark.write(frame(spark, 5), to, where="day = 'd0'", **replace)
    with pytest.raises(OptionError, match="id"):
        spillway.spark.write(frame(spark, 4), to, where="id = 4", **replace)
    with pytest.raises(OptionError, match="where"):
        spillway.spark.write(frame(spark, 4), to, mode="append", partition_by="day", where="day = 'd0'")
    with pytest.raises(OptionError, match="where"):
        spillway.spark.write(frame(spark, 4), f"{to}2", table="parquet", mode="overwrite", where="day = 'd0'")
    assert ids(tmp_path / "to", table) == [1, 3, 4, 6]
    for _ in range(2):
        spillway.spark.write(frame(spark, 5), to, where=[("day", "!=", "d0")], run_id="run", **replace)
    assert ids(tmp_path / "to", table) == [4, 5, 6]
    spillway.spark.write(frame(spark).where("id < 0"), to, where="day = 'd1'", **replace)
    assert ids(tmp_path / "to", table) == [4, 6]
    assert not list((tmp_path / "to").glob("_spillway_jobs"))


VALUES = [
    "('a b/c', 1), ('a=b', 2), (NULL, 3), ('100%', 4)",
    "(DATE '2026-01-01', 1), (DATE '0001-01-01', 2), (NULL, 3), (DATE '2026-01-02', 4)",
    "(TIMESTAMP '2026-01-01 01:02:03.000456', 1), (TIMESTAMP '1969-12-31 00:00:00', 2)",
    "(1.50BD, 1), (-2.00BD, 2), (NULL, 3)",
    "(true, 1), (false, 2), (NULL, 3)",
    "(-7Y, 1), (8Y, 2)",
    "(0.1D, 1), (-1e300D, 2), (NULL, 3)",
    "(named_struct('a', 1, 'b', \"it's\"), 1), (named_struct('a', 2, 'b', NULL), 2)",
]
# Types take the same way to both kinds of table: each meets one of them, and both in a soak. Texts meet both.
TYPES = [
    (values, table)
    for number, values in enumerate(VALUES)
    for turn, table in enumerate(TABLES)
    if SOAK or number == 0 or number % 2 == turn
]


@pytest.mark.parametrize(("values", "table"), TYPES)
def test_a_dynamic_overwrite_replaces_the_touched_partitions_of_all_types(
    spark: SparkSession, tmp_path: Path, values: str, table: Any
) -> None:
    rows = spark.sql(f"SELECT day, CAST(id AS BIGINT) id FROM VALUES {values} AS t(day, id)")  # noqa: S608 - ours
    keys = ["day"]
    if "struct" in values:
        rows, keys = rows.select("day.a", "day.b", "id"), ["a", "b"]
    to = str(tmp_path / "to")
    spillway.spark.write(rows, to, table=table, partition_by=keys)
    spillway.spark.write(rows, to, mode="append", partition_by=keys)
    some = rows.where("id != 2")
    dynamic: Any = {"mode": "overwrite", "partition_by": keys, "partition_overwrite": "dynamic"}
    spillway.spark.write(some, to, **dynamic)
    found = spark.read.parquet(to) if table == "parquet" else None
    expected = sorted([2, 2, *(row.id for row in some.collect())])
    got = sorted(row.id for row in found.collect()) if found is not None else ids(tmp_path / "to", table)
    assert got == expected
    spillway.spark.write(some.where("id < 0"), to, **dynamic)
    assert spark.read.parquet(to).count() == len(expected) if table == "parquet" else True


@pytest.mark.parametrize("table", TABLES)
def test_a_run_that_is_run_again_leaves_its_rows_once(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    to = str(tmp_path / "to")
    for mode in ("error", "append", "overwrite"):
        name = f"2026/11/27 {mode}"
        counts = [
            spillway.spark.write(frame(spark, 1, 2), f"{to}-{mode}", table=table, mode=mode, run_id=name).rows  # type: ignore[arg-type]
            for _ in range(2)
        ]
        assert counts == [2, 0]
        spillway.spark.write(frame(spark, 3), f"{to}-{mode}", mode="append", run_id="another")
        assert ids(tmp_path / f"to-{mode}", table) == [1, 2, 3]
    rows = frame(spark, 4).write.format("spillway").mode("append").option("run_id", "third")
    for _ in range(2):
        rows.save(f"{to}-append")
    assert ids(tmp_path / "to-append", table) == [1, 2, 3, 4]


def test_a_folder_whose_run_was_killed_while_it_was_published_is_completed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = str(tmp_path / "to")
    spillway.spark.write(frame(spark, 0, 1, 2, 3), to, partition_by="day")
    dynamic: Any = {"mode": "overwrite", "partition_by": "day", "partition_overwrite": "dynamic"}

    def killed(*_: object) -> None:
        raise SystemExit

    publish = FolderRun._publish
    monkeypatch.setattr(FolderRun, "_publish", killed)
    with pytest.raises(SystemExit):
        spillway.spark.write(frame(spark, 4, 6), to, run_id="run", **dynamic)
    monkeypatch.setattr(FolderRun, "_publish", publish)
    # The rows of the second run are not asked for: the first has decided.
    done = spillway.spark.write(frame(spark, 8), to, run_id="run", **dynamic)
    assert (done.rows, ids(tmp_path / "to", "parquet")) == (0, [1, 3, 4, 6])
    assert (tmp_path / "to" / "_SUCCESS").exists()
    assert not (tmp_path / "to" / "_spillway_jobs").exists()


def test_a_failed_run_leaves_nothing_and_can_be_run_again(spark: SparkSession, tmp_path: Path) -> None:
    for table in TABLES:
        to = tmp_path / table
        failing = frame(spark, 1, 2).selectExpr("day", "IF(id = 2, raise_error('no'), id) id")
        with pytest.raises(Exception, match="no"):
            spillway.spark.write(failing, str(to), table=table, run_id="run")  # type: ignore[arg-type]
        assert not to.exists()
        spillway.spark.write(frame(spark, 1, 2), str(to), table=table, run_id="run")  # type: ignore[arg-type]
        assert ids(to, table) == [1, 2]


def test_a_frame_without_rows_leaves_its_schema(spark: SparkSession, tmp_path: Path) -> None:
    for name, options in {"plain": {}, "run": {"run_id": "run"}, "delta": {"table": "delta"}}.items():
        done = spillway.spark.write(frame(spark), str(tmp_path / name), **options)  # type: ignore[arg-type]
        assert done.rows == 0
        assert read(tmp_path / name, options.get("table", "parquet")).schema.names == ["day", "id"]


def test_what_cannot_be_written_is_refused_before_a_job_begins(spark: SparkSession, tmp_path: Path) -> None:
    to = str(tmp_path / "to")
    with pytest.raises(SchemaError, match="nothing"):
        spillway.spark.write(spark.sql("SELECT NULL nothing"), to)
    with pytest.raises(OptionError, match="run_id"):
        spillway.spark.write(frame(spark, 1), to, run_id="")
    with pytest.raises(OptionError, match="mode"):
        spillway.spark.write(frame(spark, 1), to, mode="upsert")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="partition_overwrite"):
        spillway.spark.write(frame(spark, 1), to, partition_overwrite="some")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_jobs_of_a_write_have_a_description_that_ends_with_it(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    seen = context.accumulator([], _Collected())

    def told(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        seen.add([context.getLocalProperty("spark.job.description")])
        yield from batches

    spillway.spark.write(frame(spark, 1).mapInArrow(told, "day string, id bigint"), str(tmp_path / "to"))
    assert set(seen.value) == {f"spillway: write to {tmp_path / 'to'}"}
    assert context.getLocalProperty("spark.job.description") is None


class _Collected:
    def zero(self, _: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, one: list[Any], other: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        return one + other


def test_a_commit_that_may_be_repeated_is_begun_once(tmp_path: Path) -> None:
    for table in TABLES:
        job = begun(tmp_path / table, table=table)
        results = [job.write(rows(1), 0, 0)]
        job.claim()
        with pytest.raises(spillway.SpillwayError, match="may have succeeded"):
            job.claim()
        assert job.commit(results).rows == 1
        hidden = [file for file in (tmp_path / table).rglob("*") if "_commit" in file.name]
        assert hidden == []


@pytest.mark.parametrize("table", TABLES)
def test_two_columns_of_one_name_are_refused_before_anything_is_replaced(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    to = tmp_path / "to"
    spillway.spark.write(frame(spark, 1), str(to), table=table)
    twice = frame(spark, 2).selectExpr("day", "id", "id")
    nested = frame(spark, 2).selectExpr("day", "id", "named_struct('a', 1, 'a', 2) as s")
    case = spark.conf.get("spark.sql.caseSensitive")
    for is_case_sensitive in ("false", "true"):
        spark.conf.set("spark.sql.caseSensitive", is_case_sensitive)
        try:
            for rows_, name in ((twice, "id"), (nested, r"s\.a")):
                with pytest.raises(SchemaError, match=f"two columns {name}"):
                    spillway.spark.write(rows_, str(to), mode="overwrite", table=table)
        finally:
            spark.conf.set("spark.sql.caseSensitive", str(case))
    assert ids(to, table) == [1]


@pytest.mark.parametrize("table", TABLES)
def test_old_dates_are_read_as_they_are_in_every_mode_of_rebasing(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    """Files name the version of Spark, without which readers ask the session how days were counted."""
    to = tmp_path / "to"
    days = ["0001-01-01", "1582-10-04", "1582-10-15", "2026-11-30"]
    old = spark.createDataFrame([(day,) for day in days], "text string").selectExpr(
        "text", "cast(text as date) as day", "cast(text as timestamp) as time"
    )
    spillway.spark.write(old, str(to), table=table)
    files = str(next(to.rglob("*.parquet"))) if table == "delta" else str(to)
    for mode in ("EXCEPTION", "LEGACY", "CORRECTED"):
        found = spark.read.option("datetimeRebaseMode", mode).parquet(files)
        assert (
            found.where("cast(day as string) <> text or cast(cast(time as date) as string) <> text").count()
            == 0
        )


def test_a_delta_table_that_begins_with_rows_without_nulls_takes_some(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As Spark's own: that a literal has no null is nothing that a table keeps."""
    to = str(tmp_path / "to")
    first = spark.sql(
        "select named_struct('a', 1) as s, array(1, 2) as l, map('k', named_struct('b', 1)) as m"
    )
    spillway.spark.write(first, to, table="delta")
    second = spark.sql(
        "select named_struct('a', cast(null as int)) as s, array(cast(null as int)) as l, "
        "map('k', named_struct('b', cast(null as int))) as m"
    )
    spillway.spark.write(second, to, mode="append", table="delta")
    found = deltalake.DeltaTable(to).to_pyarrow_table().to_pylist()
    assert {"s": {"a": None}, "l": [None], "m": [("k", {"b": None})]} in found


@pytest.mark.parametrize("table", TABLES)
def test_null_and_empty_text_are_one_partition_of_sorted_rows(
    spark: SparkSession, tmp_path: Path, table: Any
) -> None:
    data = [(None if number % 2 else "", number // 2) for number in range(8)]
    rows_ = spark.createDataFrame(data, "day string, id bigint").repartition(1)
    options: dict[str, Any] = {"partition_by": "day", "sorting_columns": ["id"]}
    done = spillway.spark.write(rows_, str(tmp_path / "to"), table=table, **options)
    assert (done.rows, done.files) == (8, 1)


@needs_collations
def test_collated_columns_are_sorted_by_their_bytes(spark: SparkSession, tmp_path: Path) -> None:
    data = [(letter,) for letter in "bAaC"]
    rows_ = spark.createDataFrame(data, "x string").selectExpr("x collate UTF8_LCASE as x").repartition(1)
    spillway.spark.write(rows_, str(tmp_path / "to"), sorting_columns=["x"])
    assert read(tmp_path / "to", "parquet")["x"].to_pylist() == ["A", "C", "a", "b"]


def test_a_write_has_one_name_for_its_transaction(tmp_path: Path) -> None:
    named: dict[str, Any] = {"run_id": "monday", "app_id": "a", "app_version": 7}
    with pytest.raises(OptionError, match="run_id and app_id"):
        Target.of(str(tmp_path / "to"), SCHEMA, table="delta", overwrite=False, options={}, **named)
