"""An error of close(2) is an error of the write: a network file system may tell of lost bytes only there."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
import spillway.delta
from spillway.errors import DeltaError

from . import programs
from .injection import rule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 20_000

PROGRAM = """
import ctypes, json, os, sys
import numpy as np, pyarrow as pa
import spillway, spillway.delta

rows = pa.table({"kind": np.zeros(20_000, "int64"), "n": np.random.default_rng(1).random(20_000)})

def write_rows(target):
    with spillway.ParquetWriter(target) as writer:
        writer.write_rows([{"n": 0.5}] * 10)

def append(target):
    with spillway.delta.open(target).append() as append:
        append.write(rows)

def detach(target):
    with spillway.delta.open(target).append() as append:
        append.write(rows)
        append.detach()

def table(target):
    return spillway.delta.open(target)

ways = {
    "file": lambda target: spillway.write_parquet(rows, target),
    "rows": write_rows,
    "durable": lambda target: spillway.write_parquet(rows, target, durable=True),
    "dataset": lambda target: spillway.write_dataset(rows, target, mode="append"),
    "overwrite": lambda target: spillway.write_dataset(rows, target, mode="overwrite"),
    "metadata": lambda target: spillway.write_dataset(rows, target, mode="overwrite", metadata_file=True),
    "write table": lambda target: spillway.delta.write(target, rows, mode="append"),
    "append": append,
    "detach": detach,
    "delete": lambda target: table(target).delete("kind = 1"),
    "update": lambda target: table(target).update("kind = 1", {"n": "0"}),
    "optimize": lambda target: table(target).optimize(),
    "checkpoint": lambda target: table(target).checkpoint(),
}
told, library = [], ctypes.CDLL(None)
for way, target, rule, log in json.load(sys.stdin):
    library.faults(rule.encode(), log.encode(), os.path.dirname(target).encode())
    try:
        ways[way](target)
    except Exception as error:
        told.append(getattr(error, "errno", -1))
    else:
        told.append(0)
    library.faults(b"", b"", b"")
print(json.dumps(told))
"""

# Ways to write, and the files whose close fails.
FILES = [("file", "*.tmp"), ("rows", "*.tmp"), ("durable", "*.tmp")]
DATASETS = [("dataset", "*.tmp"), ("overwrite", "*.tmp"), ("metadata", "*/.0000000[2-9].tmp")]
TABLES = [
    ("write table", "*.parquet"),
    ("append", "*.parquet"),
    ("append", "*/_spillway/staging/*"),
    ("detach", "*.parquet"),
    ("delete", "*/deletion_vector_*.bin"),
    ("delete", "*/_change_data/*"),
    ("update", "*/part-*.parquet"),
    ("update", "*/deletion_vector_*.bin"),
    ("optimize", "*.parquet"),
    ("checkpoint", "*/_delta_log/.spillway-*.tmp"),
]
INTERRUPTED = ["file", "dataset", "append"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A way to write, what was at its destination before, and what the writer said of it."""

    target: Path
    before: dict[str, bytes]
    told: int


def failing_close(pattern: str, error: int) -> str:
    """A close that fails as on a network file system over its quota; an interrupted one loses nothing."""
    how = "after" if error == errno.EINTR else "lost"
    return rule("close", pattern, nth="1+", how=how, number=error)


def contents(target: Path) -> dict[str, bytes]:
    if target.is_file():
        return {"": target.read_bytes()}
    files = (path for path in target.rglob("*") if path.is_file())
    return {str(path.relative_to(target)): path.read_bytes() for path in files}


def make_table(folder: Path) -> None:
    """A table of some files, on which the deletion vectors are too large for the log."""
    random = np.random.default_rng(0)
    rows = pa.table({"kind": random.integers(3, size=ROWS), "n": random.random(ROWS)})
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    spillway.delta.create(folder, rows.schema, properties=properties)
    for _ in range(2):
        spillway.delta.write(folder, rows, mode="append")


@pytest.fixture(scope="module")
def cases(injection: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Case]:
    """All cases by way, pattern and what was there before; one process runs all of them."""
    old = pa.table({"n": [0.5]})
    table = tmp_path_factory.mktemp("made") / "table"
    make_table(table)
    kinds = [("file", FILES), ("dataset", DATASETS), ("table", TABLES)]
    asked = {}
    for (kind, ways), is_new in itertools.product(kinds, [False, True]):
        for way, pattern in ways:
            target = tmp_path_factory.mktemp("there") / "target.parquet"
            if kind == "table":
                if is_new and way != "write table":
                    continue
                if not is_new:
                    shutil.copytree(table, target)
            elif not is_new:
                target.mkdir() if kind == "dataset" else None
                pq.write_table(old, target / "a.parquet" if kind == "dataset" else target)
            asked[way, pattern, "new" if is_new else "old"] = (target, errno.EDQUOT)
    for way in INTERRUPTED:
        target = tmp_path_factory.mktemp("there") / "target"
        if way == "append":
            spillway.delta.create(target, pa.schema({"kind": pa.int64(), "n": pa.float64()}))
        asked[way, "*", "interrupted"] = (target, errno.EINTR)
    before = {key: contents(target) for key, (target, _) in asked.items()}
    log = tmp_path_factory.mktemp("calls") / "log"
    order = json.dumps(
        [
            (key[0], str(target), failing_close(key[1], error), str(log))
            for key, (target, error) in asked.items()
        ]
    )
    told = programs.run(PROGRAM, prefix=["env", f"LD_PRELOAD={injection}"], standard_input=order)
    return {
        key: Case(target, before[key], said)
        for (key, (target, _)), said in zip(asked.items(), told, strict=True)
    }


@pytest.mark.parametrize("there", ["new", "old"])
@pytest.mark.parametrize(("way", "pattern"), [*FILES, *DATASETS])
def test_a_file_whose_close_fails_does_not_appear(cases: Any, way: str, pattern: str, there: str) -> None:
    case = cases[way, pattern, there]
    assert case.told == errno.EDQUOT
    assert contents(case.target) == case.before
    assert case.target.exists() == (there == "old")


@pytest.mark.parametrize(("way", "pattern"), TABLES)
def test_a_table_names_no_file_whose_close_failed(cases: Any, way: str, pattern: str) -> None:
    case = cases[way, pattern, "old"]
    assert case.told == errno.EDQUOT
    assert contents(case.target) == case.before


def test_a_new_table_whose_first_rows_are_lost_stays_empty(cases: Any) -> None:
    case = cases["write table", "*.parquet", "new"]
    assert case.told == errno.EDQUOT
    assert spillway.delta.open(case.target).files() == []
    assert not list(case.target.rglob("*.parquet"))


@pytest.mark.parametrize("way", INTERRUPTED)
def test_an_interrupted_close_is_a_close(cases: Any, way: str) -> None:
    case = cases[way, "*", "interrupted"]
    assert case.told == 0
    if way == "append":
        assert pa.table(spillway.delta.open(case.target).scan()).num_rows == ROWS
    else:
        assert pq.read_table(case.target).num_rows == ROWS


def commit_own_file(folder: Path, lost: int) -> Path:
    path = folder / "own.parquet"
    pq.write_table(pa.table({"n": [0.5]}), path)
    add = spillway.delta.AddFile(path.name, path.stat().st_size)
    os.truncate(path, add.size - lost)
    spillway.delta.open(folder).commit(adds=[add])
    return path


def commit_detached_file(folder: Path, lost: int) -> Path:
    executor = spillway.delta.open(folder).append()
    executor.write(pa.table({"n": [0.5]}))
    part = executor.detach()
    path = next(folder.glob("*.parquet"))
    os.truncate(path, path.stat().st_size - lost)
    with spillway.delta.open(folder).append() as append:
        append.attach(part)
    return path


@pytest.mark.parametrize("lost", [1, 100, -1])
@pytest.mark.parametrize("commit", [commit_own_file, commit_detached_file])
def test_a_file_of_another_size_than_its_log_says_is_not_committed(
    tmp_path: Path, commit: Callable[[Path, int], Path], lost: int
) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"n": pa.float64()}))
    with pytest.raises(DeltaError) as caught:
        commit(tmp_path / "table", lost)
    found, wanted = (int(size) for size in re.findall(r"\b[0-9]+\b(?= bytes|:)", str(caught.value))[-2:])
    assert found == wanted - lost
    assert ".parquet" in str(caught.value)
    assert table.refresh() == 0


@pytest.mark.parametrize("commit", [commit_own_file, commit_detached_file])
def test_a_file_of_the_size_that_its_log_says_is_committed(
    tmp_path: Path, commit: Callable[[Path, int], Path]
) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"n": pa.float64()}))
    commit(tmp_path / "table", 0)
    table.refresh()
    assert pa.table(table.scan()).to_pydict() == {"n": [0.5]}
