"""An append reads the head of a table: what it takes in memory and from the log does not follow the files."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import spillway.delta

from ..counts import count
from .programs import SCHEMA, batch

PROGRAMS = Path(__file__).with_name("programs.py")
FILES = count(quick=20_000, ci=50_000, soak=200_000)
FILES_PER_VERSION = 1_000
# Over the first append of a process elsewhere, which takes code and buffers at any table.
BOUND = 30 << 20
# Nobody's checkpoint is due while the test looks.
RARELY = {"delta.checkpointInterval": "1000000"}


def add_files(folder: Path, version: int, files: int) -> None:
    """A version of another writer that adds files with statistics as tables have them."""
    stats = json.dumps(
        {
            "numRecords": 1000,
            "minValues": {"writer": "a writer of rows", "number": 0},
            "maxValues": {"writer": "a writer of rows", "number": 999},
            "nullCount": {"writer": 0, "number": 0},
        }
    )
    add = {"partitionValues": {}, "size": 81_234, "modificationTime": 1, "dataChange": True, "stats": stats}
    lines = [
        json.dumps({"add": {"path": f"part-{version:05}-{number:08}-c000.parquet", **add}})
        for number in range(files)
    ]
    (folder / "_delta_log" / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def run(*arguments: str | Path) -> dict[str, int]:
    command = [sys.executable, str(PROGRAMS), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said: dict[str, int] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of many files, most of them in a checkpoint."""
    folder = tmp_path_factory.mktemp("heads") / "table"
    spillway.delta.create(folder, SCHEMA, properties=RARELY)
    versions = FILES // FILES_PER_VERSION
    for version in range(1, versions):
        add_files(folder, version, FILES_PER_VERSION)
    # In a process of its own: it reads all files.
    assert run("checkpoint", folder)["version"] == versions - 1
    add_files(folder, versions, FILES_PER_VERSION)
    return folder


def test_a_process_that_appends_a_row_does_not_hold_the_files(large: Path) -> None:
    said = run("one", large)
    assert said["version"] > FILES // FILES_PER_VERSION
    assert said["grown"] <= BOUND, f"{said['grown'] / (1 << 20):.1f} MiB"
    assert said["most"] <= BOUND, f"{said['most'] / (1 << 20):.1f} MiB at most"


def test_an_append_by_its_application_holds_no_files_either(large: Path) -> None:
    said = run("one", large, "loader")
    assert said["most"] <= BOUND, f"{said['most'] / (1 << 20):.1f} MiB at most"
    assert run("one", large, "loader")["repeated"]


def test_files_are_there_for_who_asks(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", SCHEMA, properties=RARELY)
    add_files(tmp_path / "table", 1, 10)
    with table.append() as append:
        append.write(batch("w", 0))
    assert append.version == 2
    assert len(table.files()) == 11
    with table.append() as append:
        append.write(batch("w", 1))
    assert len(table.files()) == 12
    assert len(table.files(1)) == 10
    table.truncate()
    assert table.files() == []


def test_stats_of_commits_have_a_hash() -> None:
    stats = spillway.delta.CommitStats(
        2, 1, 1, {"put_version": {"count": 2, "total_seconds": 0.5, "longest_seconds": 0.25}}
    )
    assert len({stats, replace(stats)}) == 1
