"""A chunk with NaN has no bounds and no column index, and every chunk of floats counts its NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

from .anatomy import Anatomy
from .bounds import check_bounds, decode
from .writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from .anatomy import Chunk

FLOATS = [pa.float16(), pa.float32(), pa.float64()]
NUMBERS = [-math.inf, -1.5, -0.0, 0.0, 2.5, math.inf]
# The fields of `Statistics` in parquet.thrift.
MAX, MIN, NULLS, MAX_VALUE, MIN_VALUE, NANS = 1, 2, 3, 5, 6, 9


def floats(cells: list[float | None], beneath: float, data_type: pa.DataType) -> pa.Array:
    """An array with the value `beneath` in the slots of its nulls."""
    values = np.array([beneath if cell is None else cell for cell in cells], data_type.to_pandas_dtype())
    return pa.array(values, data_type, mask=np.array([cell is None for cell in cells], bool))


def laid_out(values: pa.Array, layout: str) -> pa.Array:
    """The values in a column of this layout; some of its lists and structs are null over values."""
    rows = len(values)
    missing = np.arange(rows) % 5 == 3
    if layout == "dictionary":
        # Each row has a value of its own, and a NaN is in the dictionary that no row has.
        unused = pa.array(np.array([math.nan], values.type.to_pandas_dtype()))
        keys = pa.array(np.arange(1, rows + 1), pa.int32(), mask=np.asarray(values.is_null()))
        filled = pa.array(values.to_numpy(zero_copy_only=False), values.type, from_pandas=False)
        return pa.DictionaryArray.from_arrays(keys, pa.concat_arrays([unused, filled]))
    if layout == "struct":
        return pa.StructArray.from_arrays([values], ["x"], mask=pa.array(missing))
    offsets = pa.array(np.arange(rows + 1), pa.int32(), mask=np.append(missing, False))
    if layout == "map":
        keys = pa.array(np.zeros(rows), pa.int64())
        return pa.MapArray.from_arrays(offsets, keys, values)
    if layout == "list of structs":
        values = pa.StructArray.from_arrays([values], ["x"])
    return pa.ListArray.from_arrays(offsets, values) if layout.startswith("list") else values


def leaf(array: pa.Array) -> pa.Array:
    """The values of the one leaf of floats, those of null lists and structs left out."""
    if pa.types.is_map(array.type):
        return leaf(array.items if array.null_count == 0 else array.drop_null().items)
    if pa.types.is_list(array.type):
        return leaf(array.flatten())
    if pa.types.is_struct(array.type):
        return leaf(array.drop_null().field(0) if array.null_count else array.field(0))
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def check_chunk(chunk: Chunk, values: pa.Array) -> None:
    numbers = [value for value in values.drop_null().to_pylist() if not math.isnan(value)]
    nans = len(values) - values.null_count - len(numbers)
    found = chunk.statistics
    assert found[NANS] == nans
    if nans or not numbers:
        assert not {MAX, MIN, MAX_VALUE, MIN_VALUE} & found.keys()
    else:
        low, high = (decode(found[field], values.type, chunk.meta[1])[0] for field in (MIN_VALUE, MAX_VALUE))
        assert (low, high) == (min(numbers), max(numbers))
    assert (chunk.column_index is None) == (nans > 0)


ENCODED_LEAF = {
    "flat": "c",
    "dictionary": "c",
    "list": "c.list.element",
    "struct": "c.x",
    "map": "c.key_value.value",
    "list of structs": "c.list.element.x",
}
CELLS = st.lists(st.sampled_from([None, math.nan, *NUMBERS, *NUMBERS]), min_size=1, max_size=60)
NUMBER_CELLS = st.lists(st.sampled_from([None, *NUMBERS]), min_size=1, max_size=60)


@given(
    runs=st.lists(CELLS | NUMBER_CELLS, min_size=1, max_size=4),
    data_type=st.sampled_from(FLOATS),
    layout=st.sampled_from(sorted(ENCODED_LEAF)),
    encoding=st.sampled_from(["auto", "plain", "dictionary", "byte_stream_split"]),
    page_bytes=st.sampled_from([64, 4096]),
    row_group_rows=st.sampled_from([10, 1000]),
    before=st.integers(0, 9),
    v1=st.booleans(),
)
def test_nan_is_counted_and_ends_bounds_in_every_layout(  # noqa: PLR0913, PLR0917 - a file has many parts
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[list[float | None]],
    data_type: pa.DataType,
    layout: str,
    encoding: str,
    page_bytes: int,
    row_group_rows: int,
    before: int,
    v1: bool,  # noqa: FBT001 - hypothesis gives it by name
) -> None:
    # NaN that no row has: outside the slice and beneath nulls.
    cells = [cell for run in runs for cell in run]
    around = [math.nan] * before
    column = laid_out(floats([*around, *cells, *around], math.nan, data_type), layout)
    table = pa.table({"c": column.slice(before, len(cells))})
    path = tmp_path_factory.mktemp("nan", numbered=True) / "a.parquet"
    options: dict[str, Any] = {"page_bytes": page_bytes, "row_group_rows": row_group_rows}
    if encoding != "auto" and not v1:
        options["encoding"] = {ENCODED_LEAF[layout]: encoding}
    write(table, path, compatibility="v1" if v1 else "modern", **options)
    file = pq.ParquetFile(path)
    for number, group in enumerate(Anatomy(path).row_groups):
        (chunk,) = (each for each in group.chunks if each.path[-1] != "key")
        check_chunk(chunk, leaf(pa.concat_arrays(file.read_row_group(number)["c"].chunks)))


@pytest.mark.parametrize("data_type", FLOATS, ids=str)
def test_nan_in_one_page_or_one_row_group_spares_the_others(tmp_path: Path, data_type: pa.DataType) -> None:
    cells = np.arange(3000, dtype=data_type.to_pandas_dtype())
    cells[1500] = math.nan
    table = pa.table({"nan": cells, "none": np.arange(3000, dtype=data_type.to_pandas_dtype())})
    write(table, tmp_path / "a.parquet", row_group_rows=1000, page_bytes=256)
    anatomy = Anatomy(tmp_path / "a.parquet")
    for number, group in enumerate(anatomy.row_groups):
        nan, none = group.chunks
        assert len(nan.data_pages) > 3
        assert (nan.statistics[NANS], none.statistics[NANS]) == (int(number == 1), 0)
        assert (MAX_VALUE in nan.statistics, nan.column_index is not None) == (number != 1, number != 1)
        assert MAX_VALUE in none.statistics
        assert none.column_index is not None
    check_bounds(anatomy, pq.ParquetFile(tmp_path / "a.parquet").read())


def test_only_floats_count_nan(tmp_path: Path) -> None:
    table = pa.table({"i": [1], "t": ["a"], "b": [True], "f": [None], "s": pa.array([b"ab"], pa.binary(2))})
    table = table.append_column("x", pa.array([None], pa.float32()))
    spillway.write_parquet(table, tmp_path / "a.parquet")
    found = {chunk.path: chunk.statistics.get(NANS) for chunk in Anatomy(tmp_path / "a.parquet").chunks}
    assert {path: count for path, count in found.items() if count is not None} == {("x",): 0}
