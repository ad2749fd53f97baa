"""Bounds of values of one size are as long as the values, or not there: pyarrow and polars fail on others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("width", [1, 16, 64, 65, 100, 256, 257, 5_000])
@pytest.mark.parametrize("dictionary", [True, False])
def test_readers_filter_values_of_any_size(width: int, dictionary: bool, tmp_path: Path) -> None:  # noqa: FBT001
    values = [b"a" * width, b"b" * width, None, b"\xff" * width]
    table = pa.table({"c": pa.array(values, pa.binary(width)), "n": [1, 2, 3, 4]})
    path = str(tmp_path / "f.parquet")
    spillway.write_parquet(table, path, dictionary=dictionary, page_rows=1)
    wanted = values[1]
    assert pl.scan_parquet(path).filter(pl.col("c") == wanted).collect()["n"].to_list() == [2]
    found = duckdb.execute("select n from read_parquet(?) where c = ?", [path, wanted]).fetchall()
    assert found == [(2,)]
    chunk = pq.read_metadata(path).row_group(0).column(0)
    assert chunk.has_column_index == (width <= 256)
    if width <= 256:
        assert (chunk.statistics.min, chunk.statistics.max) == (values[0], values[3])
    like = pa.scalar(wanted, pa.binary(width))
    assert pq.read_table(path, filters=pa.compute.field("c") == like)["n"].to_pylist() == [2]


@pytest.mark.parametrize("layout", ["list", "dictionary"])
def test_they_filter_beside_such_values_in_lists_and_dictionaries(layout: str, tmp_path: Path) -> None:
    values = pa.array([b"a" * 100, b"b" * 100], pa.binary(100))
    is_list = layout == "list"
    column = pa.ListArray.from_arrays([0, 1, 2], values) if is_list else values.dictionary_encode()
    path = str(tmp_path / "f.parquet")
    spillway.write_parquet(pa.table({"c": column, "n": [1, 2]}), path)
    assert pl.scan_parquet(path).filter(pl.col("n") == 2).collect().height == 1
    assert pq.read_table(path, filters=[("n", "=", 2)]).num_rows == 1
    pq.read_metadata(path).to_dict()
