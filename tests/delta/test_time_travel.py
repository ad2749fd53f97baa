"""A time names the version that was the newest then, as delta-spark finds it."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import OptionError, VersionNotFoundError

from ..counts import examples
from .logs import log_of, make_log, metadata_of, needs, read_version, write_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .logs import Line

SCHEMA = pa.schema({"id": pa.int64()})
START = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)
VERSIONS = 6


def at(milliseconds: float) -> dt.datetime:
    return START + milliseconds * MILLISECOND


def written(table: spillway.delta.Table, version: int, milliseconds: int) -> None:
    """Give the file of a version another time."""
    time = (at(milliseconds) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // MILLISECOND * 1_000_000
    os.utime(log_of(table) / f"{version:020}.json", ns=(time, time))


def rising(times: Sequence[int]) -> list[int]:
    """Times of versions as delta-spark has them: each is at least a millisecond after the one before."""
    found: list[int] = []
    for time in times:
        found.append(max(time, found[-1] + 1) if found else time)
    return found


def version_at(table: spillway.delta.Table, time: Any) -> int | None:
    """The version of a time; None if there is none."""
    try:
        return table.scan(version=time).version
    except VersionNotFoundError:
        return None


@pytest.fixture(scope="module")
def table() -> Iterator[spillway.delta.Table]:
    with tempfile.TemporaryDirectory() as folder:
        made = spillway.delta.create(Path(folder) / "t", SCHEMA)
        for number in range(1, VERSIONS):
            made.append_rows([{"id": number}])
        yield made


@given(
    times=st.lists(st.integers(0, 40), min_size=VERSIONS, max_size=VERSIONS),
    asked=st.floats(-3, 50).map(lambda number: round(number, 3)),
    zone=st.sampled_from([0, 90, -300]),
    form=st.sampled_from([dt.datetime.isoformat, lambda time: time]),
)
def test_a_time_names_the_newest_version_of_then(
    table: spillway.delta.Table, times: list[int], asked: float, zone: int, form: Callable[[dt.datetime], Any]
) -> None:
    for version, time in enumerate(times):
        written(table, version, time)
    of_versions = rising(times)
    passed = [version for version, time in enumerate(of_versions) if time <= asked]
    # Versions have whole milliseconds.
    is_known = bool(passed) and int(asked) <= of_versions[-1]
    time = at(asked).astimezone(dt.timezone(dt.timedelta(minutes=zone)))
    assert version_at(table, form(time)) == (passed[-1] if is_known else None)


@given(steps=st.lists(st.integers(1, 5), min_size=VERSIONS, max_size=VERSIONS), asked=st.integers(0, 30))
@settings(max_examples=examples(0.3))
def test_delta_rs_finds_the_same_version(table: spillway.delta.Table, steps: list[int], asked: int) -> None:
    times = [sum(steps[: number + 1]) for number in range(VERSIONS)]
    for version, time in enumerate(times):
        written(table, version, time)
    if not times[0] <= asked <= times[-1]:
        return
    other = deltalake.DeltaTable(table.path)
    other.load_as_version(at(asked))
    assert version_at(table, at(asked)) == other.version()


def test_each_version_is_found_by_the_time_that_the_history_has(table: spillway.delta.Table) -> None:
    for version, milliseconds in enumerate([0, 7, 7, 3, 90, 91]):
        written(table, version, milliseconds)
    history = table.history()
    assert [entry.version for entry in history] == list(reversed(range(VERSIONS)))
    for entry in history:
        assert entry.timestamp is not None
        moment = dt.datetime.fromtimestamp(entry.timestamp / 1000, dt.UTC)
        assert version_at(table, moment) == entry.version
    assert [entry.timestamp for entry in table.history(2)] == [entry.timestamp for entry in history[:2]]


def test_a_part_of_the_history_has_the_times_of_the_whole(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA, properties={"delta.checkpointInterval": "1000"})
    for number in range(150):
        table.append_rows([{"id": number}])
    for version in range(table.version + 1):
        written(table, version, 0)  # as in a table that was copied
    newest = table.history(1)[0].timestamp
    assert newest == table.history()[0].timestamp
    assert newest is not None
    assert table.scan(version=dt.datetime.fromtimestamp(newest / 1000, dt.UTC)).version == 150


def test_in_commit_timestamps_count_and_not_the_times_of_files(tmp_path: Path) -> None:
    properties = {"delta.enableInCommitTimestamps": "true"}
    table = spillway.delta.create(tmp_path / "t", SCHEMA, properties=properties)
    for number in range(1, VERSIONS):
        table.append_rows([{"id": number}])
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    for version in range(VERSIONS):
        written(table, version, -1000 * version)
        time = epoch + read_version(table, version)[0]["commitInfo"]["inCommitTimestamp"] * MILLISECOND
        assert version_at(table, time) == version
        assert version_at(table, time - MILLISECOND / 1000) == (version - 1 if version else None)
    assert version_at(table, time + MILLISECOND) is None


def test_in_commit_timestamps_that_began_in_the_middle(tmp_path: Path) -> None:
    def milliseconds(number: int) -> int:
        return (at(number) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // MILLISECOND

    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    plain = metadata_of(fields)
    stamped = {
        "metaData": plain["metaData"]
        | {
            "configuration": {
                "delta.enableInCommitTimestamps": "true",
                "delta.inCommitTimestampEnablementVersion": "2",
                "delta.inCommitTimestampEnablementTimestamp": str(milliseconds(100)),
            }
        }
    }

    def stamp(time: int) -> Line:
        return {"commitInfo": {"inCommitTimestamp": milliseconds(time), "operation": "WRITE"}}

    table = make_log(
        tmp_path / "t",
        [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, plain],
        [{"commitInfo": {"operation": "WRITE"}}],
        [stamp(100), needs("inCommitTimestamp"), stamped],
        [stamp(200)],
    )
    # The files of the last two are older than their times, and those of the first two are not.
    for version, time in enumerate([10, 20, 30, 40]):
        written(table, version, time)
    found = {time: version_at(table, at(time)) for time in (9, 10, 19, 20, 99, 100, 199, 200, 201)}
    assert found == {9: None, 10: 0, 19: 0, 20: 1, 99: 1, 100: 2, 199: 2, 200: 3, 201: None}


def test_a_time_before_what_clean_up_left_is_an_error_that_names_the_first_version(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    for number in range(1, VERSIONS):
        table.append_rows([{"id": number}])
        if number == 3:
            table.checkpoint()
    for version in range(VERSIONS):
        written(table, version, 10 * version)
    for version in range(3):
        (log_of(table) / f"{version:020}.json").unlink()
    assert version_at(table, at(30)) == 3
    assert version_at(table, at(49)) == 4
    with pytest.raises(VersionNotFoundError, match=r"version 3, written at 2026-11-20T12:00:00\.030Z"):
        table.scan(version=at(29))
    with pytest.raises(VersionNotFoundError, match="newest version 5"):
        table.files(at(51))


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_an_integer_of_numpy_is_a_number(table: spillway.delta.Table, kind: type[np.integer[Any]]) -> None:
    assert table.scan(version=kind(2)).version == 2  # type: ignore[arg-type] - other libraries have integers too


@pytest.mark.parametrize(
    "given",
    [START.replace(tzinfo=None), "2026-11-20T12:00:00", "2026-11-20", "yesterday", "", 1.5, True, np.True_],
)
def test_what_names_no_moment_is_refused(table: spillway.delta.Table, given: Any) -> None:
    for ask in (table.files, lambda version: table.scan(version=version), table.restore):
        with pytest.raises(OptionError) as raised:
            ask(given)
        assert raised.value.option == "version"


def test_restore_by_time_brings_back_the_rows_of_then(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    for number in range(1, VERSIONS):
        table.append_rows([{"id": number}])
    for version in range(VERSIONS):
        written(table, version, 10 * version)
    with pytest.raises(VersionNotFoundError):
        table.restore(at(-1))
    with pytest.raises(VersionNotFoundError):
        table.restore(at(51))
    assert table.restore("2026-11-20T13:00:00.025+01:00") == VERSIONS
    assert sorted(pa.table(table.scan())["id"].to_pylist()) == [1, 2]
    assert deltalake.DeltaTable(table.path).to_pyarrow_table().num_rows == 2
    assert [file.path for file in table.files()] == [file.path for file in table.files(at(25))]


def test_a_replacement_keeps_where_in_commit_timestamps_began(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path, SCHEMA)
    table.append_rows([{"id": 1}])
    since = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": str(2**41),
    }
    line = metadata_of([{"name": "id", "type": "long", "nullable": True, "metadata": {}}], **since)
    info: Line = {"commitInfo": {"timestamp": 2**41, "inCommitTimestamp": 2**41, "operation": "SET"}}
    write_version(table, 2, [info, needs("inCommitTimestamp"), line])
    with_them = {"delta.enableInCommitTimestamps": "true"}
    spillway.delta.create(tmp_path, SCHEMA, mode="overwrite", properties=with_them)
    assert {name: spillway.delta.open(tmp_path).properties[name] for name in since} == since


def test_a_restored_version_brings_its_features_back(tmp_path: Path) -> None:
    with_vectors = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path, SCHEMA, properties=with_vectors)
    with table.append() as append:
        append.write(pa.table({"id": range(10)}))
    table.delete("id = 3")
    table.purge()
    # As `DROP FEATURE` of Spark leaves it.
    metadata = next(line for line in read_version(table, 0) if "metaData" in line)
    metadata["metaData"]["configuration"] = {}
    plain: Line = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    write_version(table, 4, [{"commitInfo": {"operation": "DROP FEATURE", "timestamp": 1}}, plain, metadata])
    spillway.delta.open(tmp_path).restore(2)
    assert spillway.delta.open(tmp_path).properties == with_vectors
    expected = [number for number in range(10) if number != 3]
    found: Any = spillway.delta.open(tmp_path).scan()
    assert sorted(pa.table(found)["id"].to_pylist()) == expected
    protocol = deltalake.DeltaTable(tmp_path).protocol()
    assert "deletionVectors" in (protocol.reader_features or [])
    assert "deletionVectors" in (protocol.writer_features or [])
