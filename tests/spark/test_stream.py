"""The streaming sink: each micro-batch once, through restarts, replays and kills at each step of a commit."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import spillway.delta
from spillway import _native
from spillway.errors import OptionError, SpillwayError
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.stream import BatchMessage, SpillwayStreamWriter
from spillway.spark.stream_jobs import FolderBatch, batch_of
from spillway.spark.write_job import Target, TaskResult

from ..counts import SOAK, count
from .test_jobs import SCHEMA, data_files, hidden, ids, rows, spoil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from spillway.spark.folder_job import Staged
    from spillway.spark.write_job import Job

    from ..stores.server import Bucket

KINDS = ("parquet", "delta")
EACH = 10
BATCHES = count(quick=2, ci=2, soak=50)


class Killed(BaseException):
    """The end of the process."""


def batch(path: Path | str, kind: str, number: int, **options: Any) -> Job:
    target = Target.of(str(path), SCHEMA, **({"table": kind, "overwrite": False, "options": {}} | options))
    job: Job = pickle.loads(pickle.dumps(batch_of(target, "query", number)))  # noqa: S301 - its own
    return job


def run(path: Path | str, kind: str, number: int, *numbers: int, **options: Any) -> None:
    """Do one micro-batch: each of its rows in a task of its own, of which the first is tried twice."""
    job = batch(path, kind, number, **options)
    job.write(rows(numbers[0]), 0, 0)
    results = [job.write(rows(one), task, task + 1) for task, one in enumerate(numbers)]
    batch(path, kind, number, **options).commit(results)


def strays(path: Path, kind: str) -> set[str]:
    if kind == "delta":
        return data_files(path) - {file.path for file in spillway.delta.open(path).files()}
    return set(hidden(path))


def test_a_stream_refuses_other_partition_columns_than_those_of_its_table(tmp_path: Path) -> None:
    run(tmp_path, "delta", 0, 1, partition_by="day")
    with pytest.raises(OptionError, match=r"the table is partitioned by \['day'\]"):
        run(tmp_path, "delta", 1, 2, partition_by="id")
    assert ids(tmp_path) == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_is_replayed_is_there_once(tmp_path: Path, kind: str) -> None:
    to = tmp_path / "to"
    for number in (0, 0, 1, 1, 1, 2):
        run(to, kind, number, number * 2, number * 2 + 1)
    assert ids(to) == list(range(6))
    assert strays(to, kind) == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_died_before_its_commit_is_replayed(tmp_path: Path, kind: str) -> None:
    to = tmp_path / "to"
    run(to, kind, 0, 1, 2)
    batch(to, kind, 1).write(rows(3, 4), 0, 0)
    assert ids(to) == [1, 2]
    run(to, kind, 1, 3, 4)
    assert ids(to) == [1, 2, 3, 4]
    assert strays(to, kind) == set()


STEPS = ("_fulfil", "_publish", "_end", "half of _publish")


@pytest.mark.parametrize(
    ("step", "overwrite"),
    # An append removes nothing.
    [*((step, overwrite) for step in STEPS for overwrite in (False, True)), ("_remove_old", True)],
)
def test_a_folder_is_right_after_a_kill_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, overwrite: bool
) -> None:
    to = tmp_path / "to"
    options = {"overwrite": overwrite}
    run(to, "parquet", 0, 1, 2, **options)
    name = step.rpartition(" ")[2]
    work: Callable[..., None] = getattr(FolderBatch, name)

    def killed(self: FolderBatch, *arguments: Any) -> None:
        if step.startswith("half"):
            storage, staged = arguments
            work(self, storage, staged[:1])
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(FolderBatch, name, killed)
        with pytest.raises(Killed):
            run(to, "parquet", 1, 3, 4, 5, **options)
    # The replay makes the same rows in another split.
    run(to, "parquet", 1, 5, 4, 3, **options)
    assert ids(to) == [3, 4, 5] if overwrite else [1, 2, 3, 4, 5]
    assert strays(to, "parquet") == set()


def test_the_first_commit_decides_about_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "to"

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(FolderBatch, "_fulfil", killed)
        with pytest.raises(Killed):
            run(to, "parquet", 0, 1, 2)
    manifest = json.loads((to / "_spillway_sink" / "query" / "00000000.json").read_text())
    assert (manifest["form"], manifest["rows"], len(manifest["files"])) == (1, 2, 2)
    assert ids(to) == []
    run(to, "parquet", 0, 1, 2)
    assert data_files(to) == set(manifest["files"].values())


@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_of_a_batch_that_is_committed_leaves_nothing(tmp_path: Path, kind: str) -> None:
    """It takes its rows all the same: Spark keeps the state of a query by the tasks that took theirs."""
    to = tmp_path / "to"
    run(to, kind, 0, 1, 2)
    run(to, kind, 1, 3)
    before = data_files(to)
    for number in (0, 1):
        given = iter(rows(3, 4))
        assert batch(to, kind, number).write(given, 0, 9) == TaskResult()
        assert list(given) == []
    assert (data_files(to), strays(to, kind), ids(to)) == (before, set(), [1, 2, 3])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limits", [{}, {"max_file_rows": 1}])
def test_an_attempt_that_outlives_its_batch_leaves_nothing(
    tmp_path: Path, kind: str, limits: dict[str, int]
) -> None:
    to = tmp_path / "to"
    run(to, kind, 0, 0)
    taken = []

    def overtaken() -> Iterator[pa.RecordBatch]:
        for number, one in enumerate(rows(1, 2, 3)):
            if number == 1:
                run(to, kind, 1, 1, 2, 3)
            taken.append(number)
            yield one

    assert batch(to, kind, 1, **limits).write(overtaken(), 0, 9) == TaskResult()
    assert (taken, ids(to), strays(to, kind)) == ([0, 1, 2], [0, 1, 2, 3], set())


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_two_drivers_one_decides_about_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool
) -> None:
    """The second commits all of the batch between the first's look for a manifest and its own."""
    to = tmp_path / "to"
    options = {"overwrite": overwrite}
    run(to, "parquet", 0, 1, 2, **options)
    link = os.link

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        run(to, "parquet", 1, 4, 3, **options)
        link(*arguments)

    monkeypatch.setattr(os, "link", overtaken)
    run(to, "parquet", 1, 3, 4, **options)
    assert os.link is link
    assert ids(to) == [3, 4] if overwrite else [1, 2, 3, 4]
    names = sorted(path.name for path in (to / "_spillway_sink" / "query").iterdir())
    assert names == ["00000000.done", "00000000.json", "00000001.done", "00000001.json"]
    assert strays(to, "parquet") == set()


def objects(store: Bucket, folder: str) -> list[str]:
    return [key for key in sorted(store.keys()) if key.startswith(folder)]


def test_of_two_drivers_one_decides_about_the_files_on_s3(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, and each may complete what the manifest names: the second finds it in its place."""
    options = {"storage_options": store.options()}
    create = _native.create_object

    def overtaken(*arguments: Any) -> bool:
        monkeypatch.setattr(_native, "create_object", create)
        run(store.url("to"), "parquet", 0, 4, 3, **options)
        return create(*arguments)

    monkeypatch.setattr(_native, "create_object", overtaken)
    run(store.url("to"), "parquet", 0, 3, 4, **options)
    assert _native.create_object is create
    names = objects(store, "to/")
    files = [pa.BufferReader(store.read(name)) for name in names if name.endswith(".parquet")]
    assert sorted(pa.concat_tables(map(pq.read_table, files))["id"].to_pylist()) == [3, 4]
    assert [key for key in names if "_spillway_sink" in key] == [
        f"to/_spillway_sink/query/00000000.{suffix}" for suffix in ("done", "json")
    ]
    assert not any("_spillway_jobs" in key for key in names)


def test_a_store_is_asked_once_for_what_a_stream_needs(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    create = _native.create_object

    def counted(folder: str, name: str, *arguments: Any) -> bool:
        asked.append(name)
        return create(folder, name, *arguments)

    monkeypatch.setattr(_native, "create_object", counted)
    target = Target.of(
        store.url("asked"), SCHEMA, overwrite=False, options={}, storage_options=store.options()
    )
    for _ in range(4):
        SpillwayStreamWriter(target)
    assert asked == ["_spillway_sink/checked"]
    assert objects(store, "asked/") == ["asked/_spillway_sink/checked"]


def test_a_file_system_without_hard_links_holds_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    for number in (0, 0, 1):
        run(tmp_path / "to", "parquet", number, number)
    assert ids(tmp_path / "to") == [0, 1]
    names = [path.name for path in (tmp_path / "to" / "_spillway_sink" / "query").iterdir()]
    assert not any(name.endswith(".new") for name in names)


@pytest.mark.parametrize("damage", ["gone", "torn"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_no_manifest_names_a_file_that_is_not_as_its_task_left_it(
    tmp_path: Path, damage: str, *, overwrite: bool
) -> None:
    """Every replay would obey the manifest: the query could never go on."""
    to = tmp_path / "to"
    run(to, "parquet", 0, 1, 2, overwrite=overwrite)
    job = batch(to, "parquet", 1, overwrite=overwrite)
    results = [job.write(rows(3), 0, 0), job.write(rows(4), 1, 1)]
    spoil(to, damage)
    with pytest.raises(OSError, match="bytes are there" if damage == "torn" else "has lost 1 files"):
        batch(to, "parquet", 1, overwrite=overwrite).commit(results)
    assert not (to / "_spillway_sink" / "query" / "00000001.json").exists()
    assert ids(to) == [1, 2]
    run(to, "parquet", 1, 3, 4, overwrite=overwrite)
    assert ids(to) == [3, 4] if overwrite else [1, 2, 3, 4]
    assert strays(to, "parquet") == set()


@pytest.mark.parametrize("remedy", ["delete", "done"])
@pytest.mark.parametrize("moved", [0, 1])
def test_an_error_about_a_missing_file_names_what_lets_the_query_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remedy: str, moved: int
) -> None:
    to = tmp_path / "to"
    publish = FolderBatch._publish

    def killed(self: FolderBatch, storage: FolderStorage, staged: list[Staged]) -> None:
        publish(self, storage, staged[:moved])
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(FolderBatch, "_publish", killed)
        with pytest.raises(Killed):
            run(to, "parquet", 0, 1, 2)
    for file in (to / "_spillway_jobs").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        run(to, "parquet", 0, 1, 2)
    manifest = to / "_spillway_sink" / "query" / "00000000.json"
    in_place = list(to.glob("*.parquet"))
    assert len(in_place) == moved
    said = str(caught.value)
    assert f"delete {manifest}" in said
    assert str(manifest.with_suffix(".done")) in said
    if remedy == "done":
        manifest.with_suffix(".done").touch()
    else:
        manifest.unlink()
        assert ("whose names contain query-00000000" in said) == bool(moved)
        for file in in_place:
            assert "query-00000000" in file.name
            file.unlink()
    run(to, "parquet", 0, 1, 2)
    assert ids(to) == ([1, 2] if remedy == "delete" else [1, 2][:moved])
    assert strays(to, "parquet") == set()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": 1}'])
def test_a_damaged_manifest_is_named(tmp_path: Path, content: str) -> None:
    to = tmp_path / "to"
    manifest = to / "_spillway_sink" / "query" / "00000000.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(content)
    with pytest.raises(OSError, match=f"{manifest} is damaged"):
        run(to, "parquet", 0, 1, 2)
    manifest.unlink()
    run(to, "parquet", 0, 1, 2)
    assert ids(to) == [1, 2]


def test_a_message_that_is_not_of_a_task_commits_no_batch(tmp_path: Path) -> None:
    to = tmp_path / "to"
    target = Target.of(str(to), SCHEMA, table="parquet", overwrite=False, options={})
    message = BatchMessage(batch(to, "parquet", 0).write(rows(1), 0, 0), "query")
    with pytest.raises(SpillwayError, match="1 of 2 tasks"):
        SpillwayStreamWriter(target).commit([message, None], 0)
    assert ids(to) == []


def test_old_manifests_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spillway.spark.stream_jobs._KEPT", 2)
    for number in range(5):
        run(tmp_path / "to", "parquet", number, number)
    names = sorted(path.name for path in (tmp_path / "to" / "_spillway_sink" / "query").iterdir())
    assert names == ["00000003.done", "00000003.json", "00000004.done", "00000004.json"]
    assert ids(tmp_path / "to") == list(range(5))


@pytest.mark.parametrize("option", [{"app_id": "a", "app_version": 1}])
def test_a_stream_has_its_own_application(tmp_path: Path, option: dict[str, Any]) -> None:
    target = Target.of(str(tmp_path), SCHEMA, table="delta", overwrite=False, options={}, **option)
    with pytest.raises(OptionError, match="leave it out"):
        SpillwayStreamWriter(target)


def test_a_store_without_conditional_put_is_refused_before_the_first_row(
    store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FolderStorage, name: str, _: bytes) -> bool:
        self.mark(name)
        raise OSError("no conditional PUT")

    monkeypatch.setattr(FolderStorage, "create_once", refuse)
    target = Target.of(
        store.url("refused"), SCHEMA, overwrite=False, options={}, storage_options=store.options()
    )
    for _ in range(2):
        with pytest.raises(OSError, match="conditional"):
            SpillwayStreamWriter(target)
    assert objects(store, "refused/") == []


def source(folder: Path, batches: int) -> Path:
    """A folder of files, each of which becomes a micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    present = len(list(folder.iterdir()))
    for number in range(present, present + batches):
        table = pa.table({"id": range(number * EACH, (number + 1) * EACH)})
        hidden_file = folder / f".{number}"
        pq.write_table(table, hidden_file)
        hidden_file.rename(folder / f"{number:05d}.parquet")
    return folder


def streamed(spark: SparkSession, tmp_path: Path, table: str, mode: str = "append", **options: str) -> None:
    frame = (
        spark.readStream.schema("id bigint")
        .option("maxFilesPerTrigger", "1")
        .parquet(str(tmp_path / "source"))
    )
    if mode == "complete":
        frame = frame.groupBy((frame.id % 3).alias("id")).count()
    query = (
        frame.writeStream.format("spillway")
        .outputMode(mode)
        .options(table=table, checkpointLocation=str(tmp_path / "checkpoint"), **options)
        .trigger(availableNow=True)
        .start(str(tmp_path / "to"))
    )
    query.awaitTermination()


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    for _ in range(2):
        source(tmp_path / "source", 2)
        streamed(spark, tmp_path, kind)
    # Spark does not know that the last batch was committed.
    for file in (tmp_path / "checkpoint" / "commits").glob("*3*"):
        file.unlink()
    streamed(spark, tmp_path, kind)
    assert ids(tmp_path / "to") == list(range(4 * EACH))
    assert strays(tmp_path / "to", kind) == set()
    if kind == "delta":
        metadata = json.loads((tmp_path / "checkpoint" / "metadata").read_text())
        table = spillway.delta.open(tmp_path / "to")
        assert (table.transaction_version(metadata["id"]), table.version) == (3, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mode_complete_replaces_all_rows(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    source(tmp_path / "source", 2)
    streamed(spark, tmp_path, kind, "complete")
    assert ids(tmp_path / "to") == [0, 1, 2]


def test_a_query_refuses_an_unknown_option(spark: SparkSession, tmp_path: Path) -> None:
    source(tmp_path / "source", 1)
    with pytest.raises(StreamingQueryException, match="here it is row_group_rows"):
        streamed(spark, tmp_path, "parquet", row_group_size="5")


def killed_program(tmp_path: Path, kind: str, kill: str) -> tuple[int, str]:
    """Run the query in a process of its own, which is killed; return how it ended, and what it said."""
    places = [str(tmp_path / name) for name in ("source", "to", "checkpoint")]
    # Workers of Python outlive a killed JVM for a while, and would keep a pipe open.
    said = tmp_path / f"said {kill}"
    with said.open("wb") as output:
        done = subprocess.run(
            [
                sys.executable,
                str(Path(__file__).with_name("stream_program.py")),
                *places[:2],
                kind,
                places[2],
            ],
            env={**os.environ, "KILL": kill, "KILLED": str(tmp_path / f"killed {kill}")},
            stdout=output,
            stderr=output,
            check=False,
            timeout=280,
        )
    return done.returncode, said.read_text()


# Each costs a start of a JVM.
MOMENTS = [
    ("delta", "before"),
    *([("parquet", "before"), ("parquet", "after"), ("delta", "after")] if SOAK else []),
]


@pytest.mark.parametrize(("kind", "moment"), MOMENTS)
def test_rows_are_equal_after_the_driver_is_killed_beside_a_commit(
    spark: SparkSession, tmp_path: Path, kind: str, moment: str
) -> None:
    """The small form of 50 batches with a kill between write and commit; another driver goes on."""
    source(tmp_path / "source", BATCHES)
    status, said = killed_program(tmp_path, kind, f"{moment} {BATCHES // 2}")
    assert status == -signal.SIGKILL, said
    assert (tmp_path / f"killed {moment} {BATCHES // 2}").exists()
    seen = ids(tmp_path / "to")
    assert len(seen) == (BATCHES // 2 + (moment == "after")) * EACH
    source(tmp_path / "source", 1)
    streamed(spark, tmp_path, kind)
    assert ids(tmp_path / "to") == list(range((BATCHES + 1) * EACH))
    assert strays(tmp_path / "to", kind) == set()
