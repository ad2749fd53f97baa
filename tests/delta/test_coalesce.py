"""Appends that share files: what is committed is there once, and nobody pays for another's trouble."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import (
    ClosedError,
    CommitTimeoutError,
    CommitUnknown,
    MetadataChanged,
    OptionError,
    SchemaError,
)

from ..counts import examples
from .conftest import READERS, interrupted_in_an_attempt, read_deltalake
from .programs import SCHEMA, batch

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN_FILES = spillway.DatasetOptions().max_open_files


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    return spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="writer")


def together(count: int, commit: Callable[[int], Any]) -> list[Any]:
    """Runs `commit` in threads that start at once, and returns their results and exceptions."""
    found: list[Any] = [None] * count
    start = threading.Barrier(count)

    def one(number: int) -> None:
        start.wait(60)
        try:
            found[number] = commit(number)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def appender(table: spillway.delta.Table, partitions: int = 1, **options: Any) -> Callable[[int], int]:
    """An append of one row, which gives its version."""

    def one(number: int) -> int:
        with table.append(coalesce=True, **options) as append:
            append.write(batch(f"w{number % partitions}", number))
        assert append.version is not None
        return append.version

    return one


def numbers(table: spillway.delta.Table) -> list[int]:
    return sorted(read_deltalake(Path(table.path))["number"].to_pylist())


def assert_one_file_for_each_partition(table: spillway.delta.Table) -> list[int]:
    """In each version; gives how many files each added."""
    counts, before = [], set[str]()
    for version in range(1, table.version + 1):
        added = [file for file in table.files(version) if file.path not in before]
        before |= {file.path for file in added}
        values = [file.partition_values["writer"] for file in added]
        assert len(values) == len(set(values))
        counts.append(len(added))
    return counts


@pytest.mark.parametrize("partitions", [1, 3])
def test_appends_that_meet_share_a_file_for_each_partition(
    table: spillway.delta.Table, partitions: int
) -> None:
    versions = together(200, appender(table, partitions))
    assert numbers(table) == list(range(200))
    assert sorted(set(versions)) == list(range(1, table.version + 1))
    assert table.version < 200
    assert_one_file_for_each_partition(table)
    # Nothing of an attempt that was given up is left either.
    assert {file.path for file in table.files()} == {
        str(path.relative_to(table.path)) for path in Path(table.path).glob("writer=*/*.parquet")
    }


@pytest.mark.parametrize("engine", READERS)
def test_every_row_is_in_the_version_that_its_append_was_told(
    table: spillway.delta.Table, engine: str
) -> None:
    versions = together(50, appender(table, 5))
    found = READERS[engine](Path(table.path)).to_pylist()
    assert sorted(row["number"] for row in found) == list(range(50))
    for commit in table.history():
        if commit.operation == "WRITE":
            said = int(commit.info["operationMetrics"]["numOutputRows"])
            assert said == versions.count(commit.version)


def test_rows_may_be_changed_once_they_are_written(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"number": pa.int64()}))
    memory = np.arange(10)
    append = table.append(coalesce=True)
    append.write(pa.table({"number": pa.array(memory)}))
    memory[:] = -1
    append.commit()
    assert numbers(table) == list(range(10))


def test_every_type_of_text_is_kept(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"text": pa.string()}))
    texts = ["a", None, "", "long enough to lie outside of a view"]
    views = pa.array(texts, pa.string_view())
    given = [pa.array(texts), pa.array(texts, pa.large_string()), views, pa.array(texts).dictionary_encode()]
    with table.append(coalesce=True) as append:
        for column in given:
            append.write(pa.table({"text": column}).slice(1))
    expected = Counter(texts[1:] * len(given))
    assert Counter(read_deltalake(Path(table.path))["text"].to_pylist()) == expected


def test_an_append_with_many_rows_has_files_of_its_own(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"number": pa.int64()}))
    many = pa.table({"number": pa.array(range(1_000_000))})
    with table.append(coalesce=True, max_file_rows=100_000) as append:
        append.write(many.slice(0, 10))
        append.write(many.slice(10))
        assert list(Path(table.path).glob("*.parquet")), "rows are written as they come"
    assert numbers(table) == list(range(1_000_000))


def test_ten_rows_of_a_long_table_are_few(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"number": pa.int64()}))
    many = pa.table({"number": pa.array(range(1_000_000))})
    with table.append(coalesce=True) as append:
        append.write(many.slice(500, 10))
        assert not list(Path(table.path).glob("*.parquet")), "rows wait for the commit"
    assert numbers(table) == list(range(500, 510))


def test_one_that_cannot_be_written_does_not_hurt_the_others(table: spillway.delta.Table) -> None:
    Path(table.path, "writer=bad").write_text("no folder")

    def one(number: int) -> int:
        writer = "bad" if number == 7 else "good"
        with table.append(coalesce=True) as append:
            append.write(batch(writer, number))
        assert append.version is not None
        return append.version

    found = together(20, one)
    assert isinstance(found[7], OSError), found[7]
    assert all(isinstance(version, int) for number, version in enumerate(found) if number != 7)
    assert numbers(table) == [number for number in range(20) if number != 7]


def test_only_appends_alike_share(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"number": pa.int64(), "text": pa.string()}))

    def one(number: int) -> int:
        rows = {"number": [number]} if number % 2 else {"number": [number], "text": ["x"]}
        with table.append(coalesce=True, user_metadata=f"job {number % 3}") as append:
            append.write(pa.table(rows))
        assert append.version is not None
        return append.version

    versions = together(60, one)
    assert numbers(table) == list(range(60))
    notes = {commit.version: commit.info.get("userMetadata") for commit in table.history()}
    assert [notes[version] for version in versions] == [f"job {number % 3}" for number in range(60)]


def test_columns_are_added_once(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"number": pa.int64()}))

    def one(number: int) -> int:
        with table.append(coalesce=True, schema_mode="merge") as append:
            append.write(pa.table({"number": [number], "new": ["x"]}))
        assert append.version is not None
        return append.version

    assert all(isinstance(version, int) for version in together(20, one))
    assert pa.schema(table.schema).names == ["number", "new"]
    assert numbers(table) == list(range(20))


def test_an_append_is_committed_though_the_versions_since_its_beginning_were_cleaned_up(
    table: spillway.delta.Table,
) -> None:
    first = table.append(coalesce=True)
    first.write(batch("w0", 0))
    others = appender(table)
    newest = [others(number) for number in range(1, 100)][-1]
    assert table.checkpoint() == newest
    for version in range(newest):
        (Path(table.path) / "_delta_log" / f"{version:020}.json").unlink()
    assert first.commit() == newest + 1
    assert numbers(table) == list(range(100))


def test_a_table_that_changed_refuses_all(table: spillway.delta.Table) -> None:
    late = table.append(coalesce=True)
    late.write(batch("a", 0))
    with table.append(schema_mode="merge") as other:
        other.write(pa.table({"writer": ["a"], "number": [1], "new": [1]}))
    with pytest.raises(MetadataChanged):
        late.commit()
    assert numbers(table) == [1]


def test_a_bad_batch_leaves_the_others(table: spillway.delta.Table) -> None:
    with table.append(coalesce=True) as append:
        append.write(batch("a", 0))
        with pytest.raises(SchemaError):
            append.write(pa.table({"writer": ["a"], "number": ["no number"]}))
        append.write(batch("a", 1))
    assert numbers(table) == [0, 1]


def test_no_rows_are_no_version(table: spillway.delta.Table) -> None:
    with table.append(coalesce=True) as append:
        pass
    assert append.version == table.version == 0
    with pytest.raises(ClosedError):
        append.write(batch("a", 0))


def test_an_append_given_up_leaves_nothing(table: spillway.delta.Table) -> None:
    append = table.append(coalesce=True)
    append.write(batch("a", 7))
    append.abort()
    assert together(3, appender(table))
    assert numbers(table) == [0, 1, 2]


def test_a_version_of_an_application_is_alone(table: spillway.delta.Table) -> None:
    with pytest.raises(OptionError, match="coalesce=True"):
        table.append(coalesce=True, app_id="job", app_version=1)


def test_no_time_is_no_commit(table: spillway.delta.Table) -> None:
    append = table.append(coalesce=True, timeout=0)
    append.write(batch("a", 0))
    with pytest.raises((CommitTimeoutError, CommitUnknown)):
        append.commit()
    assert together(5, appender(table))
    assert numbers(table) == [0, 1, 2, 3, 4]


class _Blocked:
    """A version that is there, and cannot be read: nobody commits before it is gone."""

    def __init__(self, table: spillway.delta.Table) -> None:
        self._file = Path(table.path) / "_delta_log" / f"{table.version + 1:020}.json"

    def __enter__(self) -> None:
        self._file.symlink_to("nowhere")

    def __exit__(self, *_: object) -> None:
        self._file.unlink()


def test_more_partitions_than_files_are_open_are_not_split(table: spillway.delta.Table) -> None:
    appender(table)(1_000)
    found: list[Any] = []
    commits = threading.Semaphore(0)

    def one(number: int) -> None:
        append = table.append(coalesce=True)
        append.write(batch(f"w{number % 100}", number))
        commits.release()
        append.commit()

    crowd = threading.Thread(target=lambda: found.extend(together(300, one)))
    with _Blocked(table):
        crowd.start()
        # Whoever comes while a version cannot be written is in the next.
        for _ in range(300):
            assert commits.acquire(timeout=60)
    crowd.join(120)
    assert found == [None] * 300
    # Some of the crowd may have come before the others, or a moment after.
    assert max(assert_one_file_for_each_partition(table)) > OPEN_FILES
    assert numbers(table) == [*range(300), 1_000]


def test_who_waits_no_longer_is_answered_and_the_others_commit(table: spillway.delta.Table) -> None:
    appender(table)(2)
    hasty: list[Any] = []
    patient = threading.Thread(target=lambda: hasty.append(appender(table)(0)))
    with _Blocked(table):
        patient.start()
        late = table.append(coalesce=True, timeout=0.5)
        late.write(batch("a", 1))
        with pytest.raises((CommitTimeoutError, CommitUnknown)):
            late.commit()
    patient.join(120)
    assert len(hasty) == 1
    is_in = late.token is not None and table.outcome(late.token).status == "committed"
    assert numbers(table) == ([0, 1, 2] if is_in else [0, 2])


def test_ctrl_c_ends_a_wait(table: spillway.delta.Table) -> None:
    appender(table)(0)
    append = table.append(coalesce=True)
    append.write(batch("a", 1))
    with _Blocked(table):
        raised = interrupted_in_an_attempt(table, append)
    assert isinstance(raised.__cause__, CommitTimeoutError | CommitUnknown)
    # Its rows may be in an attempt that goes on for others: then the table says what became of them.
    outcome = None if append.token is None else table.outcome(append.token).status
    assert outcome in {None, "committed", "rejected"}
    appender(table)(2)
    assert numbers(table) == ([0, 1, 2] if outcome == "committed" else [0, 2])


def test_a_forked_child_has_a_pool_of_its_own(table: spillway.delta.Table) -> None:
    appender(table)(0)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if appender(table)(1) == 2 else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert appender(table)(2) == 3
    assert numbers(table) == [0, 1, 2]


@settings(
    max_examples=examples(0.3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(timeouts=st.lists(st.floats(0, 0.02), min_size=2, max_size=24))
def test_what_is_said_of_an_append_is_so(
    tmp_path_factory: pytest.TempPathFactory, timeouts: list[float]
) -> None:
    folder = tmp_path_factory.mktemp("said")
    table = spillway.delta.create(folder / "table", SCHEMA, partition_by="writer")

    def one(number: int) -> bool:
        try:
            appender(table, 2, timeout=timeouts[number])(number)
        except CommitTimeoutError:
            return False
        except CommitUnknown as doubt:
            outcome = table.outcome(doubt.token)
            assert outcome.status in {"committed", "rejected"}
            return outcome.status == "committed"
        return True

    found = together(len(timeouts), one)
    assert all(isinstance(said, bool) for said in found), found
    assert numbers(table) == [number for number, is_in in enumerate(found) if is_in]
