"""The same rows, schema and options give the same bytes, however they arrive and wherever they go."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples
from . import strategies
from .writing import write

FEEDS = st.sampled_from(("batches", "tables", "stream", "whole"))


def to_bytes(table: pa.Table, **how: Any) -> bytes:
    out = io.BytesIO()
    write(table, out, **how)
    return out.getvalue()


@given(st.data())
def test_the_same_rows_give_the_same_bytes_however_they_are_cut(data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes())
    options = data.draw(strategies.options(recipe.schema))
    # A file object cannot be read back: tests/writer/test_verify.py compares those bytes.
    options.pop("verify", None)
    table = recipe.table()
    expected = to_bytes(table, **options)
    for _ in range(2):
        cuts, feed = data.draw(strategies.cuts(recipe.rows)), data.draw(FEEDS)
        assert to_bytes(table, cuts=cuts, feed=feed, **options) == expected


@pytest.mark.parametrize("page_bytes", range(40, 120, 8))
def test_pages_of_fixed_size_values_end_at_the_same_row_with_a_dictionary_and_in_pieces(
    page_bytes: int,
) -> None:
    values = pa.array([bytes([value]) * 19 for value in range(4)], pa.binary(19))
    column = pa.array([3, 0, 2, 3, 3, 2, 3, 2, 1, 1], pa.int8())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(column, values)})
    options: dict[str, Any] = {"row_group_rows": 2, "page_bytes": page_bytes}
    expected = to_bytes(table, **options)
    assert to_bytes(table, cuts=list(range(1, 10)), feed="batches", **options) == expected


@settings(max_examples=examples(0.08))
@given(
    st.lists(st.integers(0, 150_000), max_size=30).map(sorted),
    st.booleans(),
    st.sampled_from([10**9, 300_000]),
    st.sampled_from(["batches", "whole"]),
)
def test_large_tables_give_the_same_bytes_however_they_are_cut(
    cuts: list[int],
    v1: bool,  # noqa: FBT001
    limit: int,
    feed: Any,
) -> None:
    options: dict[str, Any] = {"row_group_bytes": limit, "row_group_rows": 70_001, "page_bytes": 20_000}
    if v1:
        options["compatibility"] = "v1"
    assert to_bytes(LARGE, cuts=cuts, feed=feed, **options) == to_bytes(LARGE, **options)


def _large() -> pa.Table:
    """More rows than a writer looks at before it chooses encodings, and columns that change character
    half way.
    """
    rng = np.random.default_rng(3)
    rows = 150_000
    drift = np.where(np.arange(rows) < rows // 2, 5, rng.integers(0, 2**60, rows))
    return pa.table(
        {
            "drift": drift,
            "time": np.cumsum(rng.integers(0, 1000, rows)).astype("datetime64[us]"),
            "text": [f"request {number} took {number % 97} ms" for number in rng.integers(0, 40_000, rows)],
            "maybe": pa.array(rng.standard_normal(rows), mask=rng.random(rows) < 0.2),
            "level": pa.array(rng.choice(["INFO", "WARN", "ERROR"], rows)).dictionary_encode(),
            "tags": pa.ListArray.from_arrays(
                np.arange(rows + 1, dtype=np.int32), pa.array(rng.integers(0, 50, rows))
            ),
        }
    )


LARGE = _large()


@given(st.data())
def test_a_path_and_a_file_object_get_the_same_bytes(data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes(max_columns=2))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.parquet"
        write(recipe.table(), path)
        assert path.read_bytes() == to_bytes(recipe.table())


@given(st.data())
def test_other_layouts_of_the_same_values_give_the_same_columns(data: st.DataObject) -> None:
    """A string column's file does not depend on whether it comes as strings, views or dictionaries."""
    seed = data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    words = pa.array(
        rng.choice(["", "a", "long enough to be out of line", "ż"], 300), mask=rng.random(300) < 0.3
    )
    schema = pa.schema([("word", pa.string())])
    expected = to_bytes(pa.table({"word": words}, schema))
    for layout in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        out = io.BytesIO()
        _write_as(out, schema, pa.table({"word": words.cast(layout)}))
        assert out.getvalue() == expected, layout


def _write_as(out: io.BytesIO, schema: pa.Schema, table: pa.Table) -> None:
    with spillway.ParquetWriter(out, schema) as writer:
        writer.write(table)
