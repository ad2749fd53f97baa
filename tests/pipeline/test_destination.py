"""Leftovers of a write that was not committed are removed, and nothing of any other job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

from spillway import delta
from spillway.pipeline.destination import Destination

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.pipeline.plan import Table

JOB, OTHER = "0123456789abcdef", "fedcba9876543210"
SCHEMA = pa.schema({"id": pa.int64()})


def destination(path: Path, table: Table) -> Destination:
    return Destination.of(str(path), table=table, mode="error", partition_by=(), storage_options={})


def staged(folder: Path) -> Path:
    """A file as an attempt leaves it."""
    folder.mkdir(parents=True)
    file = folder / "part.parquet"
    file.touch()
    return file


@pytest.mark.parametrize("made_before", [False, True])
@pytest.mark.parametrize("table", ["parquet", "delta"])
def test_all_that_a_job_left_is_removed(tmp_path: Path, table: Table, *, made_before: bool) -> None:
    to = tmp_path / "to"
    if made_before:
        to.mkdir()
    place = destination(to, table)
    staged(to / f"spillway-{JOB}" if table == "delta" else to / "_spillway_jobs" / JOB)
    place.forget(JOB)
    assert to.exists() is made_before
    assert list(tmp_path.rglob("*")) == [to] * made_before


@pytest.mark.parametrize(("table", "is_there"), [("parquet", False), ("delta", False), ("delta", True)])
def test_files_of_another_job_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Table, *, is_there: bool
) -> None:
    to = tmp_path / "to"
    place = destination(to, table)
    if is_there:
        delta.create(str(to), SCHEMA)
    other = staged(to / f"spillway-{OTHER}" if table == "delta" else to / "_spillway_jobs" / OTHER)
    own = None if table == "parquet" else staged(to / f"spillway-{JOB}")
    # An attempt of the other job that looks for its folder meanwhile finds it.
    monkeypatch.delattr("pathlib.Path.rename")
    place.forget(JOB)
    assert other.exists()
    assert own is None or not own.exists()
    assert not is_there or delta.open(str(to)).version == 0
    assert list(tmp_path.iterdir()) == [to]


def test_a_table_with_a_commit_stays(tmp_path: Path) -> None:
    to = tmp_path / "to"
    place = destination(to, "delta")
    deltalake.write_deltalake(to, pa.table({"id": [1]}))
    place.forget(JOB)
    assert deltalake.DeltaTable(to).to_pyarrow_table()["id"].to_pylist() == [1]
