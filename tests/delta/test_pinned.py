"""What a `Table` says is of one version, until it is refreshed or commits."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import ReadSet
from spillway.errors import CommitConflict, ConstraintError

from ..counts import examples

SCHEMA = pa.schema({"id": pa.int64()})

ELSEWHERE = """
import pyarrow as pa, spillway.delta, sys
table = spillway.delta.open(sys.argv[1])
table.add_constraint("known", "id >= 0")
table.set_properties({"owner": "another process"})
with table.append(schema_mode="merge") as append:
    append.write(pa.table({"id": [2], "more": ["x"]}))
table.cluster_by("id")
"""


def said(table: spillway.delta.Table) -> dict[str, Any]:
    """All that a table says of its version."""
    return {
        "version": table.version,
        "schema": pa.schema(table.schema),
        "properties": table.properties,
        "partition_columns": table.partition_columns,
        "clustering_columns": table.clustering_columns,
        "constraints": table.constraints,
        "id": table.id,
        "files": [file.path for file in table.files()],
        "scanned": table.scan().version,
        "rows": pa.table(table.scan()),
        "frame": table.to_polars().collect().to_arrow().num_rows,
        "dataset": table.to_pyarrow_dataset().count_rows(),
    }


@pytest.mark.parametrize("asked", [1, 0], ids=["asked before", "not asked before"])
def test_a_table_stays_at_its_version_while_another_process_commits(tmp_path: Path, asked: int) -> None:
    folder = tmp_path / "t"
    spillway.delta.create(folder, SCHEMA).append_rows([{"id": 1}])
    table = spillway.delta.open(folder)
    before = said(spillway.delta.open(folder))
    for _ in range(asked):
        assert said(table) == before
    subprocess.run([sys.executable, "-c", ELSEWHERE, folder], check=True, timeout=120)
    assert said(table) == before
    assert (before["version"], before["rows"].to_pylist()) == (1, [{"id": 1}])
    after = said(spillway.delta.open(folder))
    assert table.refresh() == after["version"] == 5
    assert said(table) == after
    for name in before.keys() - {"id", "partition_columns"}:
        assert before[name] != after[name], name


class Handle:
    """A table, and the version that it is pinned to by the rules."""

    def __init__(self, folder: Path) -> None:
        self.table = spillway.delta.open(folder)
        self.pinned: int | None = self.table.version

    def check(self, newest: int) -> None:
        self.pinned = newest if self.pinned is None else self.pinned
        assert self.table.version == self.pinned
        # Each version adds a file with a row.
        assert len(self.table.files()) == self.pinned
        assert pa.table(self.table.scan()).num_rows == self.pinned


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(["append", "look", "refresh"])), min_size=1, max_size=12
    )
)
@settings(max_examples=examples(0.15))
def test_a_table_goes_on_with_a_refresh_and_with_its_own_commits(steps: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        newest = 0
        spillway.delta.create(Path(name) / "t", SCHEMA)
        handles = [Handle(Path(name) / "t") for _ in range(2)]
        for number, step in steps:
            handle = handles[number]
            if step == "append":
                newest = handle.table.append_rows([{"id": newest}])
                handle.pinned = None
            elif step == "refresh":
                assert handle.table.refresh() == newest
                handle.pinned = newest
            else:
                handle.check(newest)
        for handle in handles:
            handle.check(newest)


def test_after_a_conflict_a_table_shows_what_was_in_the_way(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    table.append_rows([{"id": 1}])
    (file,) = table.files()
    other = spillway.delta.open(tmp_path / "t")
    other.truncate()
    assert len(table.files()) == 1
    with pytest.raises(CommitConflict):
        table.commit(removes=[file.path], read=ReadSet(files=[file.path]))
    assert (table.version, table.files()) == (2, [])


def test_commits_start_from_the_newest_version(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    other = spillway.delta.open(tmp_path / "t")
    with other.append(schema_mode="merge") as append:
        append.write(pa.table({"id": [1], "more": ["x"]}))
    other.add_constraint("known", "id < 5")
    assert table.version == 0
    with pytest.raises(ConstraintError):
        table.append_rows([{"id": 7}])
    assert table.update("id = 1", {"more": "y"}).rows == 1
    assert other.delete("more = 'y'").rows == 1
    assert pa.schema(table.schema).names == ["id", "more"]


@pytest.mark.parametrize("change", ["update", "merge"])
def test_a_change_of_no_row_does_not_count_as_reading(tmp_path: Path, change: str) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    table.append_rows([{"id": 1}])
    files = [file.path for file in table.files()]
    spillway.delta.open(tmp_path / "t").append_rows([{"id": 2}])
    if change == "update":
        assert table.update("id = -1", {"id": pc.field("id") + 1}).rows == 0
    else:
        source = pa.table({"id": [-1]})
        assert table.merge(source, "id", spillway.delta.when_matched_delete()).deleted == 0
    with pytest.raises(CommitConflict):
        table.commit(removes=files, read=ReadSet(whole_table=True))


@pytest.mark.parametrize("reads", ["files", "scan", "nothing"])
def test_an_append_after_a_refresh_knows_a_column_that_another_writer_added(
    tmp_path: Path, reads: str
) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}))
    table.append_rows([{"id": 1}])
    if reads == "files":
        table.files()
    elif reads == "scan":
        pa.table(table.scan())
    wider = pa.table({"id": pa.array([2]), "name": ["b"]})
    deltalake.write_deltalake(tmp_path / "t", wider, mode="append", schema_mode="merge")
    table.refresh()
    table.append_rows([{"id": 3, "name": "c"}])
    found = pa.table(table.scan()).to_pylist()
    assert sorted((row["id"], row["name"]) for row in found if row["id"] > 1) == [(2, "b"), (3, "c")]
