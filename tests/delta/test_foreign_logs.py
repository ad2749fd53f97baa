"""Logs of other writers: what is not read is refused by name, and damage counts where it is read."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta
from spillway.errors import CorruptLogError, UnsupportedTableError

from .logs import line_of, log_of, make_log, metadata_of, write_version
from .test_cleanup import append as grown
from .test_cleanup import grow, kept
from .test_v2_checkpoints import FORMS, cut, emptied, ids, made, moved, to_v2, turned

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def long(name: str) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}


def test_a_partition_column_that_the_schema_lacks_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError, match='partitioned by "p"'):
        make_log(tmp_path / "t", [PROTOCOL, metadata_of([long("id")], ["p"])])
    table = make_log(tmp_path / "u", [PROTOCOL, metadata_of([long("id"), long("p")], ["p"])])
    late = table.append()
    late.write(pa.table({"id": [1], "p": [1]}))
    write_version(table, 1, [metadata_of([long("id")], ["p"])])
    with pytest.raises(CorruptLogError, match='partitioned by "p"'):
        late.commit()


ABSOLUTE = ["file:///elsewhere/a", "/elsewhere/a", "s3://bucket/a", "file:/elsewhere/a"]
USES: dict[str, Callable[[spillway.delta.Table], object]] = {
    "scan": lambda table: pa.table(table.scan()),
    "delete": lambda table: table.delete("id = 1"),
    "optimize": lambda table: table.optimize(),
    "vacuum": lambda table: table.vacuum(dry_run=True),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("path", ABSOLUTE)
def test_a_file_with_an_absolute_path_is_refused_by_name(tmp_path: Path, path: str, use: str) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}))
    for value in (1, 2):
        with table.append() as append:
            append.write(pa.table({"id": [value]}))
    write_version(table, 3, [{"add": line_of(table, "add", 1) | {"path": path}}])
    with pytest.raises(UnsupportedTableError, match="absolute"):
        USES[use](spillway.delta.open(tmp_path / "t"))
    with table.append() as append:
        append.write(pa.table({"id": [3]}))
    assert append.version == 4


def without_sidecars(path: Path) -> None:
    for sidecar in (path.parent / "_sidecars").iterdir():
        sidecar.unlink()


@pytest.mark.parametrize("damage", [cut, emptied, turned, without_sidecars])
@pytest.mark.parametrize("form", FORMS)
def test_versions_that_are_all_there_stand_for_a_damaged_checkpoint(
    tmp_path: Path, form: str, damage: Callable[[Path], None]
) -> None:
    table = made(tmp_path / "t")
    damage(to_v2(table, form, [1]))
    again = moved(tmp_path / "t")
    assert ids(again) == [2, 4, 5, 6]
    assert again.transaction_version("loader") == 7
    with again.append() as append:
        append.write(pa.table({"part": ["p0"], "id": [8]}))
    assert append.version == 7
    assert ids(again, version=6) == [2, 4, 5, 6]


@pytest.mark.parametrize("lost", ["nothing", "the older one", "a version"])
def test_an_older_checkpoint_stands_for_a_damaged_one(tmp_path: Path, lost: str) -> None:
    table = made(tmp_path / "t")
    older = table.checkpoint()
    assert older == 6
    for value in (7, 8):
        with table.append() as append:
            append.write(pa.table({"part": ["p0"], "id": [value]}))
    newer = table.checkpoint()
    log = tmp_path / "t" / "_delta_log"
    cut(log / f"{newer:020}.checkpoint.parquet")
    for version in range(5):
        (log / f"{version:020}.json").unlink()
    if lost == "the older one":
        cut(log / f"{older:020}.checkpoint.parquet")
    if lost == "a version":
        (log / f"{7:020}.json").unlink()
    if lost == "nothing":
        assert ids(moved(tmp_path / "t")) == [2, 4, 5, 6, 7, 8]
    else:
        with pytest.raises(CorruptLogError, match=f"{newer:020}"):
            moved(tmp_path / "t")


@pytest.mark.parametrize("damage", [cut, emptied, turned, without_sidecars])
@pytest.mark.parametrize("form", FORMS)
def test_a_damaged_checkpoint_of_the_newest_version_is_replaced(
    tmp_path: Path, form: str, damage: Callable[[Path], None]
) -> None:
    table = made(tmp_path / "t")
    damage(to_v2(table, form, [1]))
    again = moved(tmp_path / "t")
    assert again.checkpoint() == 6
    assert spillway.delta.open(again.path).checkpoint() == 6
    for version in range(6):
        (log_of(again) / f"{version:020}.json").unlink()
    assert ids(moved(Path(again.path))) == [2, 4, 5, 6]


@pytest.mark.parametrize("reads", [1, 0], ids=["read before", "not read before"])
def test_an_entry_that_is_damaged_is_not_copied_into_the_next_checkpoint(tmp_path: Path, reads: int) -> None:
    table = grow(tmp_path / "t", 5)
    (path,) = log_of(table).glob("*.checkpoint.parquet")
    entries = pq.read_table(path)
    lines = entries.to_pylist()
    next(line["add"] for line in lines if line["add"])["size"] = None
    pq.write_table(pa.Table.from_pylist(lines, entries.schema), path)
    again = moved(tmp_path / "t")
    for _ in range(reads):
        assert len(again.files()) == 5
    again.append_rows([{"id": 6}])
    assert again.checkpoint() == 6
    for version in range(6):
        (log_of(again) / f"{version:020}.json").unlink()
    assert ids(moved(Path(again.path))) == [1, 2, 3, 4, 5, 6]


def test_a_damaged_checkpoint_is_logged_and_another_one_is_due(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = grow(tmp_path / "t", 6)
    damaged = log_of(table) / f"{5:020}.checkpoint.parquet"
    cut(damaged)
    caplog.set_level(logging.WARNING, "spillway.delta")
    again = moved(tmp_path / "t")
    (record,) = caplog.records
    assert damaged.name in record.getMessage()
    grown(again, 7)
    assert kept(again) == (list(range(8)), [5, 7])
    grown(again, 8)
    assert kept(again)[1] == [5, 7]
    assert spillway.delta.open(again.path).version == 8
    assert len(caplog.records) == 1
