"""Rows of more partitions than a writer has files open: each partition has one file of a task."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway
from spillway.spark.partition_groups import in_groups
from spillway.spark.run import job_of
from spillway.spark.write_job import Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES: dict[str, Any] = {
    "number": (pa.int32(), st.none() | st.integers(0, 30)),
    "text": (pa.string(), st.none() | st.sampled_from(["", "a", "ab", "ż/%"])),
    "price": (pa.decimal32(5, 2), st.none() | st.decimals(-1, 1, places=2)),
    "cost": (pa.decimal64(12, 2), st.none() | st.sampled_from([Decimal("0.00"), Decimal("-1e9")])),
    "day": (pa.date32(), st.none() | st.dates(dt.date(1, 1, 1), dt.date(1, 2, 1))),
    "real": (pa.float64(), st.none() | st.sampled_from([float("nan"), 0.5, -1e300])),
    "time": (pa.timestamp("us", tz="UTC"), st.none() | st.sampled_from([-(2**62), 0, 2**62])),
    "word": (pa.dictionary(pa.int8(), pa.string()), st.none() | st.sampled_from(["x", "y"])),
}


@st.composite
def batches(draw: st.DrawFn, columns: list[str]) -> list[pa.RecordBatch]:
    """Rows with a column `row` that counts them, in batches."""
    lengths = draw(st.lists(st.integers(0, 40), max_size=6))
    made, first = [], 0
    for length in lengths:
        values: dict[str, Any] = {"row": pa.array(range(first, first + length), pa.int64())}
        for name in columns:
            kind, each = VALUES[name]
            values[name] = pa.array(draw(st.lists(each, min_size=length, max_size=length)), kind)
        made.append(pa.record_batch(values))
        first += length
    return made


def partitions(rows: pa.RecordBatch, columns: list[str]) -> Iterator[tuple[str, ...]]:
    """The partition of each row: null and the empty string are one."""
    names = [
        [repr(value or None if value == "" else value) for value in texts(rows[name])] for name in columns
    ]
    return zip(*names, strict=True)


def texts(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


def files(found: list[pa.RecordBatch], columns: list[str], most: int) -> Counter[tuple[str, ...]]:
    """The files of each partition by a writer that closes the one unused for longest."""
    made: Counter[tuple[str, ...]] = Counter()
    opened: list[tuple[str, ...]] = []
    for rows in found:
        for each in partitions(rows, columns):
            if each in opened:
                opened.remove(each)
            else:
                made[each] += 1
                if len(opened) == most:
                    opened.pop(0)
            opened.append(each)
    return made


@given(st.data(), st.sets(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3), st.integers(1, 5))
def test_each_partition_has_one_file_and_its_rows_in_order(
    data: st.DataObject, names: set[str], most: int
) -> None:
    columns = sorted(names)
    given_rows = data.draw(batches(columns))
    found = list(in_groups(iter(given_rows), columns, most))
    assert set(files(found, columns, most).values()) <= {1}

    def by_partition(all_rows: list[pa.RecordBatch]) -> dict[tuple[str, ...], list[tuple[Any, ...]]]:
        sorted_out: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
        for rows in all_rows:
            for number, each in enumerate(partitions(rows, columns)):
                sorted_out.setdefault(each, []).append((rows["row"][number].as_py(), *each))
        return sorted_out

    assert by_partition(found) == by_partition(given_rows)


def test_batches_of_several_schemas_wait_together() -> None:
    wide = pa.record_batch({"k": [1, 2, 3], "note": ["a", "b", "c"]})
    narrow = pa.record_batch({"k": pa.array([3, 2, 1], pa.int64())})
    found = list(in_groups(iter([wide, narrow, wide]), ["k"], 1))
    assert sorted(number for rows in found for number in rows["k"].to_pylist()) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert set(files(found, ["k"], 1).values()) == {1}
    assert {tuple(rows.schema.names) for rows in found} == {("k", "note"), ("k",)}


def test_rows_of_few_partitions_pass_as_they_are() -> None:
    rows = pa.record_batch({"k": [1, 2, 1], "row": [1, 2, 3]})
    assert next(in_groups(iter([rows]), ["k"], 2)) is rows
    assert next(in_groups(iter([rows]), [], 1)) is rows


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_task_writes_one_file_of_each_of_many_partitions(tmp_path: Path, kind: str) -> None:
    many = 2 * spillway.DatasetOptions.max_open_files + 5
    rows = pa.table({"part": [number % many for number in range(3 * many)], "row": range(3 * many)})
    target = Target.of(
        str(tmp_path / "to"), rows.schema, table=kind, overwrite=False, partition_by="part", options={}
    )
    job = job_of(target)
    job.begin()
    result = job.write(rows.to_batches(max_chunksize=50), 0, 0)
    assert (job.commit([result]).files, result.rows) == (many, 3 * many)
    written = [path for path in (tmp_path / "to").rglob("*.parquet") if path.parent.name.startswith("part=")]
    assert Counter(path.parent.name for path in written) == Counter(
        f"part={number}" for number in range(many)
    )
