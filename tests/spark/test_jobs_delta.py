"""Jobs of Delta tables, without Spark: what they refuse at their beginning, and what their failures leave."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta
from spillway.errors import CommitConflict, OptionError, SchemaError, SpillwayError, TableExistsError
from spillway.spark.delta_job import DeltaJob
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.stream_jobs import DeltaBatch
from spillway.spark.write_job import Target

from ..delta.logs import content
from ..delta.test_vacuum import announce
from .test_jobs import SCHEMA, begun, data_files, driven, hidden, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spillway.spark.write_job import TaskResult
    from spillway.types import WriteMode


def delta(path: Path, **options: Any) -> Target:
    return Target.of(str(path), SCHEMA, **({"table": "delta", "overwrite": False, "options": {}} | options))


def ids(path: Path, version: int | None = None) -> list[int]:
    files = [path / file.path for file in spillway.delta.open(path).files(version)]
    return sorted(number for file in files for number in pq.read_table(file)["id"].to_pylist())


def forbid_removal(table: spillway.delta.Table) -> None:
    deltalake.DeltaTable(table.path).alter.set_table_properties({"delta.appendOnly": "true"})


class Interrupted(DeltaJob):
    """A job that Ctrl-C reaches when other processes have been told of its commit, which has not begun."""

    def _mark(self, name: str) -> None:
        super()._mark(name)
        if name == "_committing":
            raise KeyboardInterrupt


def test_a_commit_that_is_interrupted_before_its_attempt_leaves_nothing(tmp_path: Path) -> None:
    job = Interrupted(delta(tmp_path / "to"))
    job.begin()
    results = [job.write(rows(1, 2), 0, 0)]
    with pytest.raises(KeyboardInterrupt):
        job.commit(results)
    job.abort()
    assert list(tmp_path.iterdir()) == []


def test_a_commit_that_the_table_refuses_leaves_nothing_after_the_abort(tmp_path: Path) -> None:
    to = tmp_path / "to"
    spillway.delta.create(to, SCHEMA)
    job = begun(to, table="delta", overwrite=True)
    results = [job.write(rows(1, 2), 0, 0)]
    forbid_removal(spillway.delta.open(to))
    with pytest.raises(SpillwayError, match="appendOnly"):
        job.commit(results)
    job.abort()
    assert (data_files(to), hidden(to)) == (set(), [])


def test_an_abort_that_cannot_read_the_log_keeps_the_files_and_does_not_raise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    to = tmp_path / "to"
    spillway.delta.create(to, SCHEMA)
    job = begun(to, table="delta")
    job.write(rows(1), 0, 0)
    (to / "_delta_log" / f"{1:020}.json").write_text("no JSON\n")
    job.abort()
    assert len(data_files(to)) == 1
    assert "were left in" in caplog.text


def test_an_overwrite_that_the_table_forbids_is_refused_at_the_beginning(tmp_path: Path) -> None:
    to = tmp_path / "to"
    spillway.delta.create(to, SCHEMA, properties={"delta.appendOnly": "true"})
    before = content(to)
    with pytest.raises(SpillwayError, match="appendOnly"):
        begun(to, table="delta", overwrite=True)
    assert (content(to), hidden(to), data_files(to)) == (before, [], set())
    job = begun(to, table="delta")
    job.commit([job.write(rows(1), 0, 0)])
    assert ids(to) == [1]


def test_an_overwrite_leaves_a_table_its_clustering_columns(tmp_path: Path) -> None:
    to = tmp_path / "to"
    spillway.delta.create(to, SCHEMA, cluster_by="id")
    for number in (1, 2):
        job = begun(to, table="delta", overwrite=True)
        job.commit([job.write(rows(number), 0, 0)])
    assert (ids(to), spillway.delta.open(to).clustering_columns) == ([2], ["id"])


def test_a_schema_that_only_a_merge_accepts_is_accepted_at_the_beginning(tmp_path: Path) -> None:
    to = tmp_path / "to"
    spillway.delta.create(to, pa.schema({"id": pa.int64()}))
    with pytest.raises(SchemaError, match="merge"):
        begun(to, table="delta", overwrite=True)
    job = begun(to, table="delta", overwrite=True, schema_mode="merge")
    job.commit([job.write(rows(1), 0, 0)])
    assert pa.schema(spillway.delta.open(to).schema).names == ["id", "day"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": {"sorting_columns": ["nowhere"]}}, "nowhere"),
        ({"options": {"bloom_filter": ["nowhere"]}}, "nowhere"),
        ({"options": {"compression": "lzo"}}, "lzo"),
        ({"options": {"row_group_rows": 0}}, "row_group_rows"),
        ({"partition_by": "nowhere"}, "nowhere"),
        ({"partition_by": ("day", "id")}, "partition"),
        ({"max_file_rows": 0}, "max_file_rows"),
        ({"max_file_bytes": -1}, "max_file_bytes"),
        ({"schema_mode": "overwrite"}, "schema_mode"),
    ],
)
def test_an_option_that_is_not_accepted_leaves_no_table(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpillwayError, match=message):
        begun(tmp_path / "to", table="delta", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_replay_keeps_the_files_that_older_versions_have(tmp_path: Path, end: str) -> None:
    to = tmp_path / "to"

    def batch() -> DeltaBatch:
        return DeltaBatch(delta(to, partition_by="day"), "query", 0)

    first = batch()
    first.commit([first.write(rows(1, 2), 0, 0)])
    written = data_files(to)
    table = spillway.delta.open(to)
    table.truncate()
    replay = batch()
    # Without its check for a batch that is done, as an attempt that was killed before its second check.
    DeltaJob.write(replay, rows(1, 2), 0, 1)
    results = [DeltaJob.write(replay, rows(1, 2), 0, 2)]
    assert len(data_files(to)) == 3 * len(written)
    if end == "commit":
        assert replay.commit(results).rows == 0
    else:
        replay.abort()
    assert (data_files(to), ids(to), ids(to, version=1)) == (written, [], [1, 2])
    assert table.version == 2


def test_a_replay_keeps_the_files_that_a_dead_driver_has_announced(tmp_path: Path) -> None:
    """Another process may still commit them: the version would name files that are gone."""
    to = tmp_path / "to"
    table = spillway.delta.create(to, SCHEMA)
    batch = [DeltaBatch(delta(to), "query", 0) for _ in range(2)]
    dead = batch[0].write(rows(1, 2), 0, 0)
    assert dead.part is not None
    intent = announce(table, *json.loads(dead.part)["adds"])
    batch[1].write(rows(1, 2), 0, 1)
    batch[1].abort()
    assert data_files(to) == {*dead.files}
    intent.unlink()
    batch[1].abort()
    assert data_files(to) == set()


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_attempt_that_another_overtakes_takes_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    """Spark keeps the state of a query only of tasks that did, whatever has become of their files."""
    slow, quick = (DeltaBatch(delta(tmp_path / "to"), "query", 0) for _ in range(2))
    taken: list[int] = []

    def gone(*_: Any) -> None:
        raise FileNotFoundError

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from rows(1)
        quick.commit([quick.write(rows(1, 2, 3), 0, 1)])
        if is_gone:
            monkeypatch.setattr(spillway.delta.Append, "write", gone)
        for number in (2, 3):
            taken.append(number)
            yield from rows(number)

    assert slow.write(overtaken(), 0, 0).rows == 0
    assert (taken, ids(tmp_path / "to")) == ([2, 3], [1, 2, 3])


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_table_begins_with_the_rows_of_its_job(tmp_path: Path, *, overwrite: bool) -> None:
    to = tmp_path / "to"
    job = begun(to, table="delta", overwrite=overwrite, partition_by="day", app_id="app", app_version=3)
    results = [job.write(rows(1, 2), 0, 0), job.write(rows(3), 1, 1)]
    assert not (to / "_delta_log").exists()
    assert job.commit(results).version == 0
    table = spillway.delta.open(to)
    assert (table.partition_columns, table.transaction_version("app")) == (["day"], 3)
    assert [entry.operation for entry in table.history()] == ["WRITE"]
    assert (ids(to), hidden(to)) == ([1, 2, 3], [])
    assert sorted(deltalake.DeltaTable(to).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_a_job_that_fails_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    job = begun(tmp_path / "to", table="delta", partition_by="day")
    results = [job.write(rows(1, 2), 0, 0)]
    if end == "commit":

        def failing(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(job, "_mark", failing)
        with pytest.raises(KeyboardInterrupt):
            job.commit(results)
    job.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("other", ["a job", "delta-rs"])
def test_a_job_joins_the_table_that_another_was_quicker_to_create(
    tmp_path: Path, other: str, *, overwrite: bool
) -> None:
    to = tmp_path / "to"
    slow = begun(to, table="delta", overwrite=overwrite)
    results = [slow.write(rows(1), 0, 0)]
    if other == "a job":
        quick = begun(to, table="delta")
        assert quick.commit([quick.write(rows(2), 0, 0)]).version == 0
    else:
        deltalake.write_deltalake(to, pa.Table.from_batches(rows(2)))
    assert slow.commit(results).version == 1
    assert (ids(to), hidden(to)) == ([1] if overwrite else [1, 2], [])


def test_a_job_refuses_the_table_of_another_schema_that_was_created_meanwhile(tmp_path: Path) -> None:
    to = tmp_path / "to"
    slow = begun(to, table="delta")
    results = [slow.write(rows(1), 0, 0)]
    spillway.delta.write(to, pa.table({"other": [1]}))
    own = {name for name in data_files(to) if not name.startswith("spillway-")}
    with pytest.raises(CommitConflict):
        slow.commit(results)
    slow.abort()
    assert (data_files(to), hidden(to)) == (own, [])


def test_a_job_that_cannot_replace_the_table_of_another_leaves_nothing(tmp_path: Path) -> None:
    to = tmp_path / "to"
    slow = begun(to, table="delta", overwrite=True)
    results = [slow.write(rows(1), 0, 0)]
    forbid_removal(spillway.delta.create(to, SCHEMA))
    with pytest.raises(SpillwayError, match="appendOnly"):
        slow.commit(results)
    slow.abort()
    assert (data_files(to), hidden(to)) == (set(), [])


@pytest.mark.parametrize("mode", ["append", "error", "ignore"])
def test_only_an_append_adds_to_a_table_that_was_created_meanwhile(tmp_path: Path, mode: WriteMode) -> None:
    to = tmp_path / "to"
    job = DeltaJob(delta(to))

    def tasks() -> list[TaskResult]:
        quick = begun(to, table="delta")
        quick.commit([quick.write(rows(2), 0, 0)])
        return [job.write(rows(1), 0, 0)]

    if mode == "error":
        with pytest.raises(TableExistsError):
            driven(job, tasks, mode)
    else:
        assert driven(job, tasks, mode).rows == (1 if mode == "append" else 0)
    files = {str(file.path) for file in spillway.delta.open(to).files()}
    assert (ids(to), data_files(to), hidden(to)) == ([1, 2] if mode == "append" else [2], files, [])


def test_a_beginning_that_fails_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "to"
    create_once = FolderStorage.create_once

    def interrupted(*given: Any) -> bool:
        create_once(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(FolderStorage, "create_once", interrupted)
    with pytest.raises(KeyboardInterrupt):
        driven(DeltaJob(delta(to)), list, "append")
    assert list(tmp_path.iterdir()) == []


def test_jobs_that_create_one_table_at_once_are_all_in_it(tmp_path: Path) -> None:
    to = tmp_path / "to"
    jobs = [begun(to, table="delta") for _ in range(8)]
    written = [[job.write(rows(number), 0, 0)] for number, job in enumerate(jobs)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        done = list(pool.map(lambda job, results: job.commit(results), jobs, written))
    # Jobs of one process that commit at once share versions; one job created the table.
    assert [result.version for result in done].count(0) == 1
    assert (ids(to), hidden(to)) == (list(range(8)), [])


def test_the_first_write_of_a_table_refuses_rows_outside_of_what_it_replaces(tmp_path: Path) -> None:
    to = tmp_path / "to"
    options: dict[str, Any] = {
        "table": "delta",
        "overwrite": True,
        "partition_by": "day",
        "where": "day = 'd1'",
    }
    job = begun(to, **options)
    with pytest.raises(OptionError, match="lie outside of what they replace"):
        job.commit([job.write(rows(1, 2), 0, 0)])
    job.abort()
    assert not to.exists()
    job = begun(to, **options)
    job.commit([job.write(rows(1, 3), 0, 0)])
    assert ids(to) == [1, 3]


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_folder_of_plain_parquet_is_no_new_table(tmp_path: Path, mode: WriteMode) -> None:
    to = tmp_path / "to"
    to.mkdir()
    pq.write_table(pa.Table.from_batches(rows(7)), to / "old.parquet")
    # Files that other jobs have not committed do not count.
    (tmp_path / "new" / "spillway-job").mkdir(parents=True)
    pq.write_table(pa.Table.from_batches(rows(7)), tmp_path / "new" / "spillway-job" / "part.parquet")
    assert (
        driven(job := DeltaJob(delta(tmp_path / "new")), lambda: [job.write(rows(1), 0, 0)], mode).rows == 1
    )
    if mode == "error":
        with pytest.raises(TableExistsError, match="the destination exists"):
            driven(DeltaJob(delta(to)), list, mode)
    else:
        done = driven(DeltaJob(delta(to)), list, mode)
        assert (done.rows, done.version) == (0, None)
    assert [file.name for file in to.iterdir()] == ["old.parquet"]


def test_a_text_with_a_backslash_is_replaced_alone_where_a_condition_can_name_it(tmp_path: Path) -> None:
    to = tmp_path / "to"
    options: dict[str, Any] = {"table": "delta", "partition_by": "day"}

    def row(day: str | None, number: int) -> pa.RecordBatch:
        return pa.record_batch({"day": [day], "id": [number]}, schema=SCHEMA)

    def numbers() -> list[int]:
        # The log escapes paths, so `ids` finds no file here.
        return sorted(pa.table(cast("Any", spillway.delta.open(to).scan()))["id"].to_pylist())

    job = begun(to, **options)
    job.commit([job.write([row("a\\b", 1), row("c", 2)], 0, 0)])
    some = {**options, "overwrite": True, "partition_overwrite": "dynamic"}
    job = begun(to, **some)
    job.commit([job.write([row("a\\b", 3)], 0, 0)])
    assert numbers() == [2, 3]
    job = begun(to, **some)
    with pytest.raises(OptionError, match="cannot be replaced separately"):
        job.commit([job.write([row("a\\b", 4), row(None, 5)], 0, 0)])
    job.abort()
    assert numbers() == [2, 3]
