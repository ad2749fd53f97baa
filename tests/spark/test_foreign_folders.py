"""Folders with files of others: none is removed that is not replaced, and none hides the new rows."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException

import spillway.delta
from spillway.errors import OptionError
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.stream import SpillwayStreamWriter
from spillway.spark.stream_jobs import FolderBatch
from spillway.spark.write_job import Target

from ..counts import examples
from .test_jobs import SCHEMA, begun, ids, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..stores.server import Bucket

LISTS = ("_spark_metadata/0", ".hoodie/hoodie.properties", "metadata/v1.metadata.json")


def place(root: Path, name: str, number: int = 0) -> Path:
    """A Parquet file of one row, whatever its name."""
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches(rows(number)), file)
    return file


def content(root: Path) -> dict[str, bytes]:
    """All files below a folder, behind links, too."""
    names = [Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names]
    return {str(name.relative_to(root)): name.read_bytes() for name in names}


def target(path: Path | str, *, overwrite: bool = False) -> Target:
    return Target.of(str(path), SCHEMA, table="parquet", overwrite=overwrite, options={})


def overwritten(to: Path, number: int = 9) -> None:
    job = begun(to, overwrite=True)
    job.commit([job.write(rows(number), 0, 0)])


@pytest.mark.parametrize("inside", ["", "day=1", "day=1/hour=2"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", LISTS)
def test_a_folder_whose_files_a_list_names_is_refused(
    tmp_path: Path, name: str, inside: str, *, overwrite: bool
) -> None:
    to = tmp_path / "to"
    place(to, f"{inside}/part.parquet")
    place(to, name)
    before = content(to)
    with pytest.raises(
        OptionError, match=f"to has {name.partition('/')[0]}|to is an Iceberg table"
    ) as caught:
        begun(to / inside, overwrite=overwrite)
    assert caught.value.option == "path"
    with pytest.raises(OptionError):
        SpillwayStreamWriter(target(to / inside, overwrite=overwrite))
    assert content(to) == before


@pytest.mark.parametrize("name", ["_delta_log/0.json", "_spark_metadata/0", ".hoodie/hoodie.properties"])
def test_an_overwrite_takes_no_file_that_a_list_below_names(tmp_path: Path, name: str) -> None:
    to = tmp_path / "to"
    place(to, "day=1/part.parquet")
    place(to, f"day=1/{name}")
    before = content(to)
    with pytest.raises(OptionError, match="an overwrite of"):
        begun(to, overwrite=True)
    assert content(to) == before


@pytest.mark.parametrize("inside", ["day=1", "day=1/hour=2"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_no_files_are_written_into_a_partition_of_a_delta_table(
    tmp_path: Path, inside: str, *, overwrite: bool
) -> None:
    to = tmp_path / "to"
    spillway.delta.create(to, SCHEMA, partition_by="day")
    place(to, f"{inside}/part.parquet")
    before = content(to)
    with pytest.raises(OptionError, match="_delta_log"):
        begun(to / inside, overwrite=overwrite)
    assert content(to) == before


def test_rows_that_a_stream_of_spark_hides_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    to, source = str(tmp_path / "to"), str(tmp_path / "source")
    place(tmp_path / "source", "one.parquet", 1)
    query = (
        spark.readStream.schema("day string, id bigint")
        .parquet(source)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(to, format="parquet")
    )
    query.awaitTermination()
    for mode in ("append", "overwrite"):
        with pytest.raises(AnalysisException, match="_spark_metadata"):
            spark.read.parquet(source).write.format("spillway").mode(mode).save(to)
    assert [row.id for row in spark.read.parquet(to).collect()] == [1]


def test_a_summary_is_not_outdated_by_an_append(tmp_path: Path) -> None:
    to = tmp_path / "to"
    place(to, "_metadata")
    place(to, "day=1/part.parquet", 1)
    for folder in (to, to / "day=1"):
        with pytest.raises(OptionError, match="lists the existing files"):
            begun(folder)
    # A summary above is not replaced.
    with pytest.raises(OptionError, match="lists the existing files"):
        begun(to / "day=1", overwrite=True)
    with pytest.raises(OptionError, match="lists the existing files"):
        SpillwayStreamWriter(target(to))


def test_an_overwrite_removes_summaries(tmp_path: Path) -> None:
    to = tmp_path / "to"
    for name in ("_metadata", "_common_metadata", "part.parquet"):
        place(to, name)
    overwritten(to)
    assert (sorted(content(to))[:1], len(content(to)), ids(to)) == (["_SUCCESS"], 2, [9])


@pytest.mark.parametrize("folder", ["", "day=1/", "sub/"])
@pytest.mark.parametrize(
    "name", ["000000_0", "part.parq", "notes.txt", "part.PARQUET", "x.parquet.gz", "a._COPYING_"]
)
def test_an_overwrite_refuses_files_that_readers_would_see_with_the_new_ones(
    tmp_path: Path, folder: str, name: str
) -> None:
    to = tmp_path / "to"
    place(to, "part.parquet")
    for number in range(5):
        place(to, f"{folder}{number}{name}")
    before = content(to)
    with pytest.raises(OptionError, match=f"such as {folder}0{name}, .* and 2 more"):
        begun(to, overwrite=True)
    with pytest.raises(OptionError):
        SpillwayStreamWriter(target(to, overwrite=True))
    assert content(to) == before
    job = begun(to)
    job.commit([job.write(rows(1), 0, 0)])


@pytest.mark.parametrize("sink", ["job", "stream"])
def test_a_file_that_comes_while_a_job_runs_is_refused_by_its_commit(tmp_path: Path, sink: str) -> None:
    to = tmp_path / "to"
    place(to, "part.parquet")
    job = begun(to, overwrite=True) if sink == "job" else FolderBatch(target(to, overwrite=True), "query", 0)
    results = [job.write(rows(1), 0, 0)]
    place(to, "000000_0")
    with pytest.raises(OptionError, match="000000_0"):
        job.commit(results)
    assert {name for name in content(to) if name[0] != "_"} == {"part.parquet", "000000_0"}
    (to / "000000_0").unlink()
    job.commit(results)
    assert ids(to) == [1]


DATA = ["a.parquet", "b.parquet"]
HIDDEN = ["_c.parquet", ".d.parquet", "_e", ".a.parquet.crc"]
STRANGE = ["000000_0", "f.parq", "_k=v.parquet"]
FOLDERS = st.lists(st.sampled_from(["day=1", "_p=1", ".q=1", "sub", "_hidden", ".h"]), max_size=2).map(
    "/".join
)
FILES = st.builds("{}/{}".format, FOLDERS, st.sampled_from([*DATA * 3, *HIDDEN * 2, *STRANGE]))
LINKS = st.builds("{}/{}".format, FOLDERS, st.sampled_from(["g", "h.parquet", "i=1"]))
LED_TO = st.sampled_from(["file.parquet", "folder"])


def is_seen(file: Path, root: Path) -> bool:
    """True if Spark reads a file (``HadoopFSUtils.shouldFilterOutPathName``)."""
    parts = file.relative_to(root).parts
    return all(part[0] != "." and ("=" in part or part[0] != "_") for part in parts)


def test_an_overwrite_leaves_the_new_rows_alone_or_everything_as_it_was(tmp_path: Path) -> None:
    """Hidden files, and those behind links, stay as they were."""
    number = iter(range(1 << 30))

    @settings(max_examples=examples(0.3), suppress_health_check=list(HealthCheck))
    @given(
        st.sets(FILES, max_size=4),
        st.dictionaries(LINKS, st.sampled_from(["file.parquet", "folder"]), max_size=2),
    )
    def check(files: set[str], links: dict[str, str]) -> None:
        base = tmp_path / str(next(number))
        to, elsewhere = base / "to", base / "elsewhere"
        for root, name in ((elsewhere, "folder/a.parquet"), (elsewhere, "file.parquet"), (to, "_x")):
            place(root, name)
        old = [place(to, name.strip("/")) for name in files]
        for name, kind in links.items():
            link = to / name.strip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(elsewhere / kind)
        before, outside = content(to), content(elsewhere)
        seen = {file for file in old if is_seen(file, to)}
        try:
            overwritten(to)
        except OptionError:
            assert {file.name for file in seen} & set(STRANGE)
            assert content(to) == before
        else:
            assert {file.name for file in seen} <= set(DATA)
            own = {file for file in to.rglob("*") if file.is_file() and not file.is_symlink()}
            (new,) = {file for file in own if is_seen(file, to)}
            assert pq.read_table(new)["id"].to_pylist() == [9]
            assert {file for file in set(old) - seen if not file.name.endswith(".crc")} <= own
            assert all((to / name.strip("/")).is_symlink() for name in links)
        assert content(elsewhere) == outside

    check()


@pytest.mark.parametrize("name", ["linked", "day=1", "deep/linked"])
def test_an_overwrite_removes_nothing_behind_a_link(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    place(elsewhere, "part.parquet")
    before = content(elsewhere)
    place(tmp_path / "real", "old.parquet")
    link = tmp_path / "real" / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    (tmp_path / "real" / "one.parquet").symlink_to(elsewhere / "part.parquet")
    # The folder itself may be a link.
    (tmp_path / "to").symlink_to(tmp_path / "real")
    overwritten(tmp_path / "to")
    batch = FolderBatch(target(tmp_path / "to", overwrite=True), "query", 0)
    batch.commit([batch.write(rows(3), 0, 0)])
    assert content(elsewhere) == before
    assert not (tmp_path / "real" / "old.parquet").exists()
    assert (link.is_symlink(), (tmp_path / "real" / "one.parquet").is_symlink()) == (True, True)


def test_a_folder_that_becomes_a_link_before_the_removal_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, elsewhere = tmp_path / "to", tmp_path / "elsewhere"
    place(to, "day=1/hour=1/part.parquet")
    place(elsewhere, "hour=1/part.parquet")
    before = content(elsewhere)
    job = begun(to, overwrite=True)
    results = [job.write(rows(9), 0, 0)]
    remove = type(job)._remove_old  # type: ignore[attr-defined]

    def swapped(*given: Any) -> None:
        (to / "day=1").rename(tmp_path / "moved")
        (to / "day=1").symlink_to(elsewhere)
        remove(*given)

    monkeypatch.setattr(type(job), "_remove_old", swapped)
    job.commit(results)
    assert content(elsewhere) == before


@pytest.mark.parametrize("name", ["", "/deep"])
def test_a_job_of_a_table_removes_nothing_behind_a_link(tmp_path: Path, name: str) -> None:
    to, elsewhere = tmp_path / "to", tmp_path / "elsewhere"
    place(elsewhere, "part.parquet")
    spillway.delta.create(to, SCHEMA)
    job = begun(to, table="delta")
    folder = to / f"spillway-{job.id}"
    if name:
        (folder / "deep").symlink_to(elsewhere)
    else:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(elsewhere)
    job.abort()
    assert list(content(elsewhere)) == ["part.parquet"]


def test_an_append_of_spark_leaves_the_jobs_under_way(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's committer removes all of `_temporary` when a job of Spark's own ends."""
    to = tmp_path / "to"
    job = begun(to)
    batch = FolderBatch(target(to), "query", 0)
    results, streamed = [job.write(rows(1), 0, 0)], [batch.write(rows(2), 0, 1)]
    spark.sql("SELECT 'd3' day, 3L id").write.mode("append").parquet(str(to))
    job.commit(results)
    batch.commit(streamed)
    assert ids(to) == [1, 2, 3]


def test_what_a_job_of_hadoop_left_is_no_content(tmp_path: Path) -> None:
    to = tmp_path / "to"
    place(to, "_temporary/0/part.parquet")
    job = pickle.loads(pickle.dumps(begun(to, overwrite=True)))  # noqa: S301 - its own
    assert not job.exists()
    job.commit([job.write(rows(1), 0, 0)])
    assert (ids(to), (to / "_temporary" / "0" / "part.parquet").exists()) == ([1], True)


def test_a_folder_of_others_on_s3_is_refused(store: Bucket) -> None:
    options: dict[str, Any] = {"storage_options": store.options()}

    def put(name: str) -> None:
        FolderStorage(f"s3://{store.name}/{name.partition('/')[0]}", store.options()).mark(
            name.partition("/")[2]
        )

    for name in LISTS:
        folder = name.partition("/")[0].strip("._")
        put(f"{folder}/{name}")
        for overwrite in (False, True):
            with pytest.raises(OptionError):
                begun(f"s3://{store.name}/{folder}", overwrite=overwrite, **options)
    put("summary/_metadata")
    with pytest.raises(OptionError, match="lists the existing files"):
        begun(f"s3://{store.name}/summary", **options)
    put("hive/day=1/000000_0")
    with pytest.raises(OptionError, match="such as day=1/000000_0"):
        begun(f"s3://{store.name}/hive", overwrite=True, **options)
    # Marks of folders by EMR are empty, and no rows.
    put("emr/day=1_$folder$")
    begun(f"s3://{store.name}/emr", overwrite=True, **options).abort()


def test_a_url_names_the_object_that_spark_would_write(store: Bucket) -> None:
    """Spark decodes no escape in a URL, and the native module decodes all."""
    options: dict[str, Any] = {"storage_options": store.options()}
    for table in ("parquet", "delta"):
        job = begun(f"s3a://{store.name}/{table}//a%20b c?#é/x/../", table=table, **options)
        job.commit([job.write(rows(1), 0, 0)])
        made = {key for key in store.keys() if key.startswith(f"{table}/") and key.endswith(".parquet")}  # noqa: SIM118 - a bucket is no mapping
        assert made
        assert all(key.startswith(f"{table}/a%20b c?#é/") for key in made)
