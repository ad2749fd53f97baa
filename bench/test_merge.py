"""Merges of 1 % of a Delta table's rows, beside those of delta-rs.

Each sample merges the same source into a fresh copy of the same table, which polars reads back outside of the
time that is taken. Bytes are those of all files that a merge adds, the log included.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pytest

import spillway.delta
from spillway.harness.environment import SampleWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .side_by_side import SideBySide

CHECKED_ROWS = [10_000]
MEASURED_ROWS = [10_000, 1_000_000]
FILES = 10
ONE_IN = 100
SCHEMA = pa.schema({"id": pa.int64(), "service": pa.string(), "value": pa.float64(), "note": pa.string()})
NEW = "new note"


@dataclass(frozen=True)
class Writer:
    """A way to merge: the properties of its table, and the call with a path and a source."""

    properties: Mapping[str, str]
    merge: Callable[[Path, pa.Table], object]


def by_spillway(path: Path, source: pa.Table) -> None:
    spillway.delta.open(path).merge(source, "id")


def by_delta_rs(path: Path, source: pa.Table) -> None:
    merge = deltalake.DeltaTable(path).merge(
        source, "target.id = source.id", source_alias="source", target_alias="target"
    )
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


WRITERS = {
    "spillway": Writer({"delta.enableDeletionVectors": "true"}, by_spillway),
    "spillway, without vectors": Writer({}, by_spillway),
    "delta-rs": Writer({}, by_delta_rs),
}


def rows_of(ids: range, note: str, seed: int) -> pa.Table:
    """The rows of these identifiers."""
    draw = random.Random(seed)  # noqa: S311 - values, not secrets
    columns = {
        "id": pa.array(ids, pa.int64()),
        "service": pa.array([f"service-{number % 50}" for number in ids]),
        "value": pa.array([draw.random() for _ in ids]),
        "note": pa.array([f"{note} of the row {number}" for number in ids]),
    }
    return pa.table(columns, SCHEMA)


@pytest.fixture(scope="module")
def tables(rows: int, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table for each writer, of some files, of which each has a range of the keys."""
    share = rows // FILES
    folder = tmp_path_factory.mktemp("tables")
    files = [
        rows_of(range(number * share, (number + 1) * share), "first note", number) for number in range(FILES)
    ]
    for name, writer in WRITERS.items():
        table = spillway.delta.create(folder / name, SCHEMA, properties=dict(writer.properties))
        for file in files:
            with table.append() as append:
                append.write(file)
    return {name: folder / name for name in WRITERS}


def taken(start: Path, writer: str, rows: int, source: pa.Table) -> dict[str, Any]:
    """Merge once into a copy of a table with this many rows."""
    with tempfile.TemporaryDirectory(prefix="spillway-merge-") as folder:
        path = Path(folder, "table")
        shutil.copytree(start, path)
        size, version = size_of(path), deltalake.DeltaTable(path).version()
        watch = SampleWatch()
        began = time.perf_counter()
        WRITERS[writer].merge(path, source)
        seconds = time.perf_counter() - began
        host = watch.read()
        assert deltalake.DeltaTable(path).version() == version + 1
        assert_merged(path, rows, source)
        written = size_of(path) - size
        return {"writer": writer, "seconds": seconds, "bytes": written, "rows": source.num_rows, "host": host}


def size_of(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def assert_merged(path: Path, rows: int, source: pa.Table) -> None:
    """Every row is there once, and those of the source are as it has them."""
    table = pl.scan_delta(str(path))
    counts = table.select(pl.len(), pl.col("id").n_unique().alias("ids")).collect()
    assert counts.row(0) == (rows, rows)
    merged = table.filter(pl.col("note").str.starts_with(NEW)).sort("id").collect()
    assert merged.equals(pl.DataFrame(source))


@pytest.mark.parametrize("keys", ["clustered", "spread"])
def test_a_merge_changes_the_rows_of_the_source_and_no_other(
    side_by_side: SideBySide, tables: dict[str, Path], rows: int, keys: str
) -> None:
    """The keys lie together, or are spread over all files."""
    first = rows // 3
    ids = range(first, first + rows // ONE_IN) if keys == "clustered" else range(0, rows, ONE_IN)
    source = rows_of(ids, NEW, seed=1)
    samples = side_by_side(
        lambda writer: {"keys": keys, **taken(tables[writer], writer, rows, source)},
        list(WRITERS),
        against="delta-rs",
        rows=rows,
    )
    assert all(sample["bytes"] > 0 for sample in samples)
