"""Declared orders: verified, or made."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples

ROWS = st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | st.text("abc", max_size=3)), max_size=60)
KEYS: list[Any] = ["n", ("s", "descending", "nulls_first")]


def table(rows: list[tuple[int | None, str | None]]) -> pa.Table:
    return pa.table(
        {
            "s": pa.array([text for _, text in rows], pa.string()),
            "n": pa.array([number for number, _ in rows], pa.int64()),
            "at": pa.array(range(len(rows)), pa.int64()),
        }
    )


def written(data: pa.Table, **options: Any) -> pq.ParquetFile:
    file = io.BytesIO()
    spillway.write_parquet(data, file, **options)
    return pq.ParquetFile(file)


def in_order(data: pa.Table) -> pa.Table:
    """The same by pyarrow, which sorts nulls of all keys to one end."""
    keys = data.append_column("no_n", pc.is_null(data["n"])).append_column("no_s", pc.is_valid(data["s"]))
    order = [("no_n", "ascending"), ("n", "ascending"), ("no_s", "ascending"), ("s", "descending")]
    return data.take(pc.sort_indices(keys, sort_keys=[*order, ("at", "ascending")]))


@settings(max_examples=examples(0.4), deadline=None)
@given(ROWS)
def test_sorting_is_stable_and_nulls_go_where_they_are_put(rows: list[tuple[int | None, str | None]]) -> None:
    file = written(table(rows), sorting_columns=KEYS, sorting="sort")
    assert file.read().equals(in_order(table(rows)))


def test_every_row_group_declares_its_order() -> None:
    data = in_order(table([(i % 10, "x") for i in range(3_000)]))
    for mode in ("verify", "sort"):
        file = written(data, sorting_columns=KEYS, sorting=mode, row_group_rows=1_000)
        expected = (pq.SortingColumn(1), pq.SortingColumn(0, descending=True, nulls_first=True))
        for index in range(3):
            assert file.metadata.row_group(index).sorting_columns == expected


def test_a_column_behind_nested_ones_is_declared_by_its_leaf() -> None:
    data = pa.table({"at": [{"x": 1, "y": 2}], "l": [[1]], "n": [1]})
    assert written(data, sorting_columns=["n"]).metadata.row_group(0).sorting_columns == (
        pq.SortingColumn(3),
    )


@pytest.mark.parametrize(
    "layout", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_the_order_goes_on_from_batch_to_batch_in_any_layout(layout: pa.DataType) -> None:
    schema = pa.schema({"s": pa.string()})
    with spillway.ParquetWriter(io.BytesIO(), schema, sorting_columns=["s"]) as writer:
        writer.write(pa.table({"s": ["a", "b"]}))
        writer.write(pa.table({"s": pa.array(["b", "c"]).cast(layout)}))
        with pytest.raises(spillway.SchemaError, match="row 1 of the batch, row 5 of the file"):
            writer.write(pa.table({"s": pa.array(["c", "b"]).cast(layout)}))
        with pytest.raises(spillway.SchemaError, match="row 0 of the batch, row 4 of the file"):
            writer.write(pa.table({"s": ["bb"]}))
        writer.write(pa.table({"s": ["c", None]}))
        writer.flush()
        writer.write(pa.table({"s": ["a"]}))
    assert writer.result.rows == 7


@pytest.mark.parametrize("width", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_are_ordered_as_numbers(width: pa.DataType) -> None:
    nan = np.array([np.nan, -np.nan], "f8")
    rising = pa.array(np.concatenate([[-np.inf, -1.0, 0.0, -0.0, 0.0, 1.0, np.inf], nan])).cast(width)
    data = pa.table({"x": rising, "at": list(range(len(rising)))})
    for mode in ("verify", "sort"):
        file = written(data, sorting_columns=["x"], sorting=mode)
        assert file.read()["at"].to_pylist() == list(range(len(rising)))


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"sorting": "sort"}, spillway.OptionError, "without sorting_columns"),
        ({"sorting": "no", "sorting_columns": ["n"]}, spillway.OptionError, '"verify", "sort"'),
        ({"sorting_columns": ["x"]}, spillway.OptionError, 'choose among "s", "n", "at"'),
        ({"sorting_columns": [("n", "up")]}, spillway.OptionError, '"ascending", "descending"'),
        (
            {"sorting_columns": [("n", "ascending", "first")]},
            spillway.OptionError,
            '"nulls_first", "nulls_last"',
        ),
        (
            {"sorting_columns": ["n"], "sorting": "sort", "memory_limit": "16MB"},
            spillway.OptionError,
            "beside memory_limit",
        ),
        ({"sorting_columns": [3]}, TypeError, "must be column names"),
        ({"sorting_columns": [()]}, TypeError, "must be column names"),
    ],
)
def test_an_order_that_is_none_is_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        written(table([(1, "a")]), **options)


@pytest.mark.parametrize("index", [pd.RangeIndex(10, 13), pd.Index([7, 8, 9])], ids=["range", "values"])
def test_rows_of_a_frame_that_are_sorted_get_the_labels_of_no_others(index: pd.Index) -> None:
    frame = pd.DataFrame({"a": [3, 1, 2]}, index=index)
    file = io.BytesIO()
    spillway.write_parquet(frame, file, sorting_columns=["a"], sorting="sort")
    read = pd.read_parquet(file)
    assert read["a"].to_list() == [1, 2, 3]
    ranged = isinstance(index, pd.RangeIndex)
    assert read.index.equals(pd.RangeIndex(3) if ranged else frame.sort_values("a").index)
    # Where rows keep their places, the frame comes back as it was.
    plain = io.BytesIO()
    spillway.write_parquet(frame, plain)
    assert pd.read_parquet(plain).index.equals(index)
