"""Times as INT96, for readers that know nothing else."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = st.integers(-9_000_000_000, 9_000_000_000)


@settings(max_examples=examples(0.4), deadline=None)
@given(
    st.lists(st.none() | SECONDS, min_size=1, max_size=50),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from([None, "UTC", "Europe/Berlin"]),
    st.booleans(),
)
def test_pyarrow_reads_the_same_times(
    seconds: list[int | None],
    unit: str,
    zone: str | None,
    dictionary: bool,  # noqa: FBT001
) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = [None if value is None else value * scale + value % scale for value in seconds]
    table = pa.table({"t": pa.array(ticks, pa.timestamp(unit, zone))})
    file = io.BytesIO()
    result = spillway.write_parquet(table, file, timestamps="int96", dictionary=dictionary)
    assert result.columns[0].physical_type == "INT96"
    # pyarrow reads INT96 without its zone, also from files of its own.
    nanoseconds = [None if tick is None else tick * (10**9 // scale) for tick in ticks]
    assert pq.read_table(file)["t"].combine_chunks().equals(pa.array(nanoseconds, pa.timestamp("ns")))


def test_the_values_are_those_that_pyarrow_writes(tmp_path: Path) -> None:
    ticks = [None if i % 5 == 0 else i * 3_600_000_001 for i in range(3_000)]
    table = pa.table({"t": pa.array(ticks, pa.timestamp("us")), "n": list(range(3_000))})
    spillway.write_parquet(table, tmp_path / "ours.parquet", timestamps="int96")
    pq.write_table(table, tmp_path / "theirs.parquet", use_deprecated_int96_timestamps=True)
    with duckdb.connect() as connection:
        rows = [
            connection.read_parquet(str(tmp_path / f"{name}.parquet")).order("n").fetchall()
            for name in ("ours", "theirs")
        ]
    assert rows[0] == rows[1]
    assert [row[0] for row in rows[0]] == table["t"].to_pylist()


def test_there_are_no_bounds_since_nobody_agrees_on_an_order() -> None:
    file = io.BytesIO()
    table = pa.table({"t": pa.array([1, None, 3], pa.timestamp("us"))})
    spillway.write_parquet(table, file, timestamps="int96")
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    assert chunk.statistics is None or not chunk.statistics.has_min_max
    assert not chunk.has_column_index


def test_times_inside_nested_columns_stay() -> None:
    file = io.BytesIO()
    at = pa.timestamp("us", "UTC")
    table = pa.table({"l": pa.array([[1, 2], None], pa.list_(at)), "t": pa.array([5, 6], at)})
    result = spillway.write_parquet(table, file, timestamps="int96")
    assert [column.physical_type for column in result.columns] == ["INT64", "INT96"]
    assert pq.read_table(file)["l"].to_pylist() == table["l"].to_pylist()


def test_a_time_that_int96_cannot_hold_is_refused() -> None:
    table = pa.table({"t": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(spillway.SchemaError, match='"t": the time 4611686018427387904 in row 0'):
        spillway.write_parquet(table, io.BytesIO(), timestamps="int96")
