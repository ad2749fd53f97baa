"""The data source ``spillway`` on plain folders: modes, options, layouts, and refusals that leave nothing."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructField, StructType

import spillway.spark
from spillway.errors import SpillwayError
from spillway.spark.source import DefaultSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 100


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr("id", "concat('d', id % 3) day", "id * 2 twice")


def ids(spark: SparkSession, path: Path | str) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(str(path)).select("id").collect())


def written(frame: DataFrame, path: Path, mode: str = "append", **options: str) -> None:
    frame.write.format("spillway").mode(mode).options(**options).save(str(path))


def test_spark_finds_the_source_by_itself(frame: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    written(frame, tmp_path / "to")
    assert ids(spark, tmp_path / "to") == list(range(ROWS))
    assert (tmp_path / "to" / "_SUCCESS").exists()


def test_a_session_can_be_told_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    spillway.spark.register(session)
    session.range(3).write.format("SPILLWAY").mode("append").save(str(tmp_path / "to"))
    assert ids(spark, tmp_path / "to") == [0, 1, 2]


def test_the_package_is_imported_without_pyspark() -> None:
    code = "import sys, spillway.spark; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_old_pyspark_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pyspark_spillway.DefaultSource")
    with pytest.raises(SpillwayError, match=r"has no data sources that take Arrow batches, and 4\.0 is"):
        spillway.spark.register(spark)


# What the look-up of Spark does with each module of such a name, in a Spark that lacks a class.
LOOK_UP = """
import sys
from pyspark.sql import datasource
delattr(datasource, sys.argv[1])
import pyspark_spillway
print(hasattr(pyspark_spillway, "DefaultSource"))
"""


@pytest.mark.parametrize(
    ("lacking", "found"), [("DataSourceStreamArrowWriter", "True"), ("DataSourceArrowWriter", "False")]
)
def test_the_look_up_of_a_spark_that_lacks_a_class_raises_nothing(lacking: str, found: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP, lacking], check=False, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"{found}\n", "")


def test_a_stream_of_spark_4_0_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr("pyspark.sql.datasource.DataSourceStreamArrowWriter")
    source = DefaultSource({"path": str(tmp_path)})
    with pytest.raises(SpillwayError, match=r"4\.1 is the oldest that has them"):
        source.streamWriter(StructType([StructField("id", LongType())]), overwrite=False)


def test_an_append_adds_and_an_overwrite_replaces(
    frame: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    written(frame, tmp_path / "to")
    written(frame, tmp_path / "to")
    assert ids(spark, tmp_path / "to") == sorted([*range(ROWS)] * 2)
    written(frame.where("id < 10"), tmp_path / "to", "overwrite")
    assert ids(spark, tmp_path / "to") == list(range(10))


def test_an_overwrite_replaces_what_spark_wrote(
    frame: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    frame.write.partitionBy("day").parquet(str(tmp_path / "to"))
    written(frame.where("id < 10"), tmp_path / "to", "overwrite")
    assert ids(spark, tmp_path / "to") == list(range(10))
    left = {path.name for path in (tmp_path / "to").rglob("*") if not path.name.startswith("part-")}
    assert left == {"_SUCCESS", "._SUCCESS.crc"}


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_spark_itself_refuses_the_other_modes(frame: DataFrame, tmp_path: Path, mode: str) -> None:
    with pytest.raises(AnalysisException, match='use either the "Append" or "Overwrite" mode'):
        written(frame, tmp_path / "to", mode)
    assert list(tmp_path.iterdir()) == []


def test_spark_itself_refuses_partition_by_as_a_method(frame: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(IllegalArgumentException, match="do not match the existing table"):
        frame.write.format("spillway").mode("append").partitionBy("day").save(str(tmp_path / "to"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spelling", ["day, twice", '["day", "twice"]'])
def test_partitions_are_folders(frame: DataFrame, spark: SparkSession, tmp_path: Path, spelling: str) -> None:
    written(frame.withColumn("twice", frame.twice % 2), tmp_path / "to", partition_by=spelling)
    folders = {str(path.parent.relative_to(tmp_path / "to")) for path in (tmp_path / "to").rglob("*.parquet")}
    assert folders == {f"day=d{number}/twice=0" for number in range(3)}
    assert ids(spark, tmp_path / "to") == list(range(ROWS))


def test_files_roll_and_rows_are_sorted(frame: DataFrame, tmp_path: Path) -> None:
    options = {
        "max_file_rows": "20",
        "sorting_columns": '[["twice", "descending"]]',
        "sorting": "sort",
        "Compression": '{"id": "snappy"}',
        "row_group_rows": "10",
        "metadata": json.dumps({"made.by": "a test"}),
    }
    written(frame, tmp_path / "to", **options)
    files = list((tmp_path / "to").glob("*.parquet"))
    assert sorted(pq.read_metadata(file).num_rows for file in files) == [10, 10, 20, 20, 20, 20]
    for file in files:
        metadata = pq.read_metadata(file)
        assert metadata.metadata is not None
        assert metadata.metadata[b"made.by"] == b"a test"
        group = metadata.row_group(0)
        assert (group.num_rows, group.column(0).compression) == (10, "SNAPPY")
        assert group.sorting_columns[0].descending
        values = pq.ParquetFile(file).read_row_group(0)["twice"].to_pylist()
        assert values == sorted(values, reverse=True)


def test_a_frame_without_rows_leaves_its_schema(
    frame: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    written(frame.where("id < 0"), tmp_path / "to")
    assert spark.read.parquet(str(tmp_path / "to")).columns == ["id", "day", "twice"]
    assert len(list((tmp_path / "to").glob("*.parquet"))) == 1


def test_a_name_with_dots_and_spaces_is_a_name(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id", "id `a.b c`", "id `ä;=`")
    written(frame, tmp_path / "to")
    assert ds.dataset(tmp_path / "to").schema.names == ["id", "a.b c", "ä;="]


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "{}"])
def test_a_path_is_the_folder_that_spark_writes_to(
    frame: DataFrame, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    to = form.format(f"{tmp_path}//a%20 b/../c%2F#?")
    frame.write.format("spillway").mode("append").save(to)
    frame.write.mode("append").parquet(to)
    assert ids(spark, to) == sorted([*range(ROWS)] * 2)
    assert [path.name for path in tmp_path.iterdir()] == ["c%2F#?"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_group_size": "5"}, "here it is row_group_rows"),
        ({"maxRecordsPerFile": "5"}, "here it is max_file_rows"),
        ({"compression": "lzo"}, "choose one of"),
        ({"row_group_rows": "few"}, "give an integer"),
        ({"sorting_columns": "nowhere"}, "nowhere"),
        ({"bloom_filter": '["nowhere"]'}, "nowhere"),
        ({"partition_by": "nowhere"}, "nowhere"),
        ({"table": "iceberg"}, "choose"),
        ({"app_id": "a", "app_version": "1"}, "needs a Delta table"),
        ({"mergeSchema": "true"}, "mergeSchema is an option of Spark"),
    ],
)
def test_an_option_that_is_not_accepted_leaves_nothing(
    frame: DataFrame, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        written(frame, tmp_path / "to", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["parquet", "delta"])
@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("null", "v is void"),
        ("interval 1 day", "v is interval day"),
        ("interval 1 month", "v is interval month"),
        ("parse_json('1')", "v is variant"),
        ("named_struct('inner', array(parse_json('1')))", r"v\.inner\.element is variant"),
        ("map('a', interval 1 day)", r"v\.value is interval day"),
    ],
)
def test_a_type_that_no_file_holds_names_its_column(
    spark: SparkSession, tmp_path: Path, table: str, expression: str, column: str
) -> None:
    frame = spark.range(3).selectExpr("id", f"{expression} v")
    with pytest.raises(AnalysisException, match=f"the column {column}"):
        written(frame, tmp_path / "to", table=table)
    assert list(tmp_path.iterdir()) == []


def test_spark_itself_refuses_calendar_intervals(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match='"INTERVAL" type in the table schema'):
        written(spark.sql("SELECT make_interval(1, 2, 3) v"), tmp_path / "to")
    assert list(tmp_path.iterdir()) == []


def test_the_source_is_not_for_reading(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r'read the folder with format\("parquet"\)'):
        spark.read.format("spillway").load(str(tmp_path)).count()


def test_write_logs_what_it_committed(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import pyarrow as pa  # noqa: PLC0415 - of this one test

    def make(number: int) -> list[pa.RecordBatch]:
        return [pa.record_batch({"id": [number]})]

    schema = pa.schema({"id": pa.int64()})
    with caplog.at_level(logging.INFO, "spillway.spark"):
        done = spillway.spark.write_generated(spark, make, 3, str(tmp_path / "to"), schema=schema)
    assert (done.rows, done.files, done.version) == (3, 3, None)
    message = caplog.messages[-1]
    assert message.startswith(f"3 rows, {done.bytes} bytes in 3 files of 3 tasks committed to {tmp_path}/to")


def test_spark_reads_back_comments_lengths_and_its_own_types(spark: SparkSession, tmp_path: Path) -> None:
    fields = [
        StructField("id", LongType(), metadata={"comment": "the key, ü"}),
        StructField("code", StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}),
        StructField("at", StructType([StructField("x", LongType(), metadata={"comment": "left"})])),
        StructField("day", StringType()),
    ]
    frame = spark.createDataFrame([(1, "ab", (2,), "d1")], StructType(fields))
    written(frame, tmp_path / "to", partition_by="day", metadata='{"mine": "kept"}')
    read = spark.read.parquet(str(tmp_path / "to"))
    assert read.schema.fields[:3] == fields[:3]
    assert [tuple(row) for row in read.collect()] == [(1, "ab", Row(x=2), "d1")]
    file = next((tmp_path / "to").rglob("*.parquet"))
    metadata = pq.read_metadata(file).metadata
    assert metadata[b"mine"] == b"kept"
    told = json.loads(metadata[b"org.apache.spark.sql.parquet.row.metadata"])
    assert [field["name"] for field in told["fields"]] == ["id", "code", "at"]


@pytest.mark.parametrize(
    "columns", [["id a", "id A"], ["struct(id a, id A) s"], ["map('k', struct(id a, id A)) m"]]
)
def test_names_that_differ_in_case_alone_are_for_case_sensitive_sessions(
    spark: SparkSession, tmp_path: Path, columns: list[str]
) -> None:
    insensitive = spark.newSession()
    insensitive.conf.set("spark.sql.caseSensitive", "false")
    with pytest.raises(Exception, match="differ only in case"):
        written(insensitive.range(3).selectExpr(*columns), tmp_path / "refused")
    assert not list((tmp_path / "refused").rglob("*.parquet"))
    written(spark.range(3).selectExpr(*columns), tmp_path / "to")
    assert spark.read.parquet(str(tmp_path / "to")).count() == 3
