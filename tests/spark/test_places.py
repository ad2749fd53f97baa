"""Paths and overwrites mean what they mean to Spark, or are refused: no row is misplaced or deleted."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

import spillway.delta
import spillway.spark
from spillway.errors import OptionError
from spillway.spark import Pipeline, Sink
from spillway.spark.source import DefaultSource
from spillway.spark.stream import SpillwayStreamWriter
from spillway.spark.write_job import Target

from ..counts import examples
from .test_jobs import SCHEMA, begun, ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PLANNED = StructType([StructField("id", LongType())])
DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
NOWHERE = "hdfs://nowhere:8020/"

PREFIXES = (
    "",
    "/",
    "./",
    "file:",
    "file:/",
    "file:///",
    "file://host/",
    "s3a://bucket/",
    "s3:/",
    "dbfs:/",
    "hdfs://h/",
)
PATHS = st.builds(str.__add__, st.sampled_from(PREFIXES), st.text("ab/.:%20#?é ~+=\\", max_size=8))


def target(path: str | Path, **options: Any) -> Target:
    given = {"table": "parquet", "overwrite": False, "options": {}} | options
    return Target.of(path, SCHEMA, **given)  # type: ignore[arg-type]


def test_a_path_is_the_one_that_spark_writes_to_or_is_refused(spark: SparkSession) -> None:
    hadoop: Any = spark.sparkContext._jvm.org.apache.hadoop  # type: ignore[union-attr]
    files = hadoop.fs.FileSystem.getLocal(hadoop.conf.Configuration())

    @settings(max_examples=examples(1), suppress_health_check=list(HealthCheck))
    @given(PATHS)
    def check(path: str) -> None:
        try:
            found = target(path).path
        except OptionError:
            return
        # It raises for a text that Spark refuses.
        uri = hadoop.fs.Path(path).toUri()
        if "://" in found:
            name, _, key = found.removeprefix("s3://").partition("/")
            assert uri.getScheme() in {"s3", "s3a"}
            assert name == uri.getAuthority()
            assert f"/{unquote(key)}" == posixpath.normpath(f"/{uri.getPath().lstrip('/')}")
        else:
            # Relative paths become those of the JVM's working folder.
            assert uri.getScheme() in {None, "file"}
            assert found == posixpath.normpath(files.makeQualified(hadoop.fs.Path(path)).toUri().getPath())

    check()


@pytest.mark.parametrize(
    "path",
    [
        *(
            "dbfs:/x",
            "hdfs:/x",
            "hdfs://host/x",
            "viewfs:/x",
            "maprfs:/x",
            "webhdfs://host/x",
            "ftp://host/x",
        ),
        *("s3:/x", "s3a:x", "gs:/x", "abfss:/x", "s3://", "s3:///x"),
        *("file:x", "file://host/x", "a:b", "12:30/x", "", "//host/x"),
        Path("s3://bucket/x"),
    ],
)
def test_a_path_that_spark_takes_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError) as caught:
        target(path)
    assert caught.value.option == "path"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["file:{}", "file://{}", "file://localhost{}", "{}", "{}/../to"])
def test_forms_of_a_local_path_are_one_place(tmp_path: Path, path: str) -> None:
    place = tmp_path / "to"
    assert target(path.format(place)).path == str(place)


CORE_SITE = "<configuration><property><name>{}</name><value>\n {} </value></property></configuration>"


def planned(path: str, **options: str) -> Target:
    """The target as the process that plans a write has it."""
    return DefaultSource({"path": path, **options})._target(PLANNED, overwrite=False)


@pytest.fixture
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a process that no configuration of Hadoop is known to."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.mark.parametrize(
    ("variable", "file", "name"),
    [
        ("HADOOP_CONF_DIR", "conf/core-site.xml", "fs.defaultFS"),
        ("YARN_CONF_DIR", "conf/core-site.xml", "fs.default.name"),
        ("SPARK_CONF_DIR", "conf/core-site.xml", "fs.defaultFS"),
        ("SPARK_HOME", "conf/conf/core-site.xml", "fs.defaultFS"),
        ("SPARK_DIST_CLASSPATH", "conf/core-site.xml", "fs.defaultFS"),
        (None, "__spark_conf__/__spark_hadoop_conf__.xml", "fs.defaultFS"),
    ],
)
def test_a_bare_path_is_refused_where_it_is_not_local(
    bare_environment: pytest.MonkeyPatch, tmp_path: Path, variable: str | None, file: str, name: str
) -> None:
    site = tmp_path / file
    site.parent.mkdir(parents=True)
    if variable:
        value = f"{tmp_path}/conf"
        bare_environment.setenv(variable, f"/nowhere:{value}" if variable.endswith("PATH") else value)
    for path in (str(tmp_path), "relative"):
        for default in ("file:///", "file:/"):
            site.write_text(CORE_SITE.format(name, default))
            assert planned(path).path.startswith(str(tmp_path))
        for default in (NOWHERE, "s3a://bucket", "abfss://c@a.dfs.core.windows.net/"):
            site.write_text(CORE_SITE.format(name, default))
            with pytest.raises(OptionError, match=re.escape(default)):
                planned(path)
            assert planned(f"file:{tmp_path}/to").path == f"{tmp_path}/to"
        site.write_text("<broken")
        assert planned(path).path.startswith(str(tmp_path))


def test_a_task_reads_the_configuration_of_its_machine(
    bare_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A driver may have it where only its JVM looks."""
    from spillway.spark.settings import of_task  # noqa: PLC0415 - of this one test

    class Context:
        told: str | None = None

        def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
            return self.told if name == "spark.hadoop.fs.defaultFS" else None

    context = Context()
    bare_environment.setattr("pyspark.TaskContext.get", lambda: context)
    job = begun(tmp_path / "to")
    job.check_task(of_task())
    (tmp_path / "core-site.xml").write_text(CORE_SITE.format("fs.defaultFS", NOWHERE))
    bare_environment.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(OptionError, match="core-site"):
        job.check_task(of_task())
    # What Spark tells goes before it.
    context.told = "file:///"
    job.check_task(of_task())
    context.told = NOWHERE
    with pytest.raises(OptionError, match=NOWHERE):
        job.check_task(of_task())


def test_a_bare_path_on_databricks_is_that_of_a_volume(bare_environment: pytest.MonkeyPatch) -> None:
    bare_environment.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    for path in ("/x", "/dbfs/x", "/Workspace/x", "relative", "/Volumes/../x"):
        with pytest.raises(OptionError, match="dbfs"):
            planned(path)
    for path in ("/Volumes/c/s/v/x", "file:/Volumes/c/s/v/x"):
        assert planned(path).path == "/Volumes/c/s/v/x"
    assert planned("file:/dbfs/x").path == "/dbfs/x"


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Any]:
    """Sets settings of the session for the time of a test."""
    made: list[str] = []

    def make(name: str, value: str) -> None:
        made.append(name)
        spark.conf.set(name, value)

    yield make
    for name in made:
        spark.conf.unset(name)


def make(number: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"day": [f"d{number}"], "id": [number]}, schema=SCHEMA)]


def frame(spark: SparkSession, *numbers: int) -> Any:
    values = ", ".join(f"({number}L)" for number in numbers)
    return spark.sql(f"SELECT concat('d', id) day, id FROM VALUES {values} AS numbers(id)")  # noqa: S608 - numbers


def test_a_bare_path_is_refused_by_the_default_of_the_session(
    spark: SparkSession, tmp_path: Path, setting: Any
) -> None:
    to = tmp_path / "to"
    source = frame(spark, 1).write.format("spillway").mode("append")
    # The first is what tasks are told, the second what the session itself reads.
    setting("spark.hadoop.fs.defaultFS", NOWHERE)
    setting("fs.defaultFS", NOWHERE)
    with pytest.raises(PySparkException, match=r"resolves it against fs\.defaultFS"):
        source.save(str(to))
    with pytest.raises(OptionError, match=r"resolves it against fs\.defaultFS"):
        spillway.spark.write_generated(spark, make, 1, str(to), schema=SCHEMA)
    with pytest.raises(OptionError, match=r"resolves it against fs\.defaultFS"):
        Pipeline(source=frame(spark, 1), sink=Sink(str(to))).run(spark)
    assert list(tmp_path.iterdir()) == []
    source.save(f"file:{to}")
    spillway.spark.write_generated(spark, make, 1, f"file:{to}", schema=SCHEMA, mode="append")
    assert ids(to) == [0, 1]


def test_a_relative_path_is_that_of_sparks_working_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="relative path"):
        spillway.spark.write_generated(spark, make, 1, "to", schema=SCHEMA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["parquet", "delta"])
def test_a_dynamic_overwrite_replaces_the_partitions_with_new_rows_however_it_is_asked_for(
    spark: SparkSession, tmp_path: Path, setting: Any, table: str
) -> None:
    to = str(tmp_path / "to")
    options = {"table": table, "partition_by": "day"}
    written = frame(spark, 0, 1, 2).write.format("spillway").options(**options).mode("append")

    def again(*numbers: int) -> Any:
        return frame(spark, *numbers).write.format("spillway").options(**options).mode("overwrite")

    written.save(to)
    again(1).option("partitionOverwriteMode", "Dynamic").save(to)
    assert ids(tmp_path / "to") == [0, 1, 2]
    setting(DYNAMIC, "dynamic")
    written.save(to)
    again(1).save(to)
    assert ids(tmp_path / "to") == [0, 0, 1, 2, 2]
    made: Any = {"schema": SCHEMA, "mode": "overwrite", **options}
    spillway.spark.write_generated(spark, make, 1, to, **made)
    assert ids(tmp_path / "to") == [0, 1, 2, 2]
    sink = Sink(to, mode="overwrite", partition_by="day")
    Pipeline(source=frame(spark, 2), sink=sink).run(spark)
    assert ids(tmp_path / "to") == [0, 1, 2]
    # Without new rows there is nothing to replace; and what the option says goes before the session.
    frame(spark, 1).where("id < 0").write.format("spillway").options(**options).mode("overwrite").save(to)
    assert ids(tmp_path / "to") == [0, 1, 2]
    again(1).option("partition_overwrite", "static").save(to)
    assert ids(tmp_path / "to") == [1]


def test_a_dynamic_overwrite_is_refused_where_rows_without_partitions_would_replace_all(
    spark: SparkSession, tmp_path: Path, setting: Any
) -> None:
    to = str(tmp_path / "to")
    frame(spark, 1, 2).write.partitionBy("day").parquet(to)
    setting(DYNAMIC, "dynamic")
    with pytest.raises(PySparkException, match=DYNAMIC):
        frame(spark, 1).where("id < 0").write.format("spillway").mode("overwrite").save(to)
    assert ids(tmp_path / "to") == [1, 2]


def test_a_dynamic_overwrite_without_partitions_replaces_all_rows(
    spark: SparkSession, tmp_path: Path, setting: Any
) -> None:
    setting(DYNAMIC, "DYNAMIC")
    for number in (1, 2):
        frame(spark, number).write.format("spillway").mode("overwrite").save(str(tmp_path / "to"))
    spillway.spark.write_generated(spark, make, 1, str(tmp_path / "to"), schema=SCHEMA, mode="overwrite")
    assert ids(tmp_path / "to") == [0]


def test_a_stream_refuses_the_option_of_a_dynamic_overwrite(tmp_path: Path) -> None:
    dynamic = {"overwrite": True, "partition_overwrite": "dynamic"}
    for table in ("parquet", "delta"):
        with pytest.raises(OptionError, match="replaces all rows"):
            SpillwayStreamWriter(target(tmp_path / "to", table=table, **dynamic))
    with pytest.raises(OptionError, match="partition_overwrite"):
        target(tmp_path / "to", partition_overwrite="some")


def test_a_condition_and_a_dynamic_overwrite_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="leave one of them out"):
        target(tmp_path / "to", overwrite=True, where="day = 'd1'", partition_overwrite="dynamic")
