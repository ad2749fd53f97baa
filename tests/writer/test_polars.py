"""Frames of polars: files that every reader can use, columns of nulls at any depth, and clear refusals."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

import spillway

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FRAME = pl.DataFrame(
    {
        "x": [1, 2, 3],
        "s": ["a", None, "long enough to be no inline view"],
        "b": [b"x", None, b"y" * 40],
        "l": [["p"], [], ["q", None]],
        "st": [{"t": "a", "u": [b"z"]}, None, {"t": None, "u": []}],
        "c": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
        "e": pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"])),
        "f": pl.Series([["a", "b"], None, ["c", "d"]], dtype=pl.Array(pl.String, 2)),
    }
)


def written(frame: pl.DataFrame) -> io.BytesIO:
    file = io.BytesIO()
    spillway.write_parquet(frame, file)
    file.seek(0)
    return file


def written_by_polars(frame: pl.DataFrame) -> io.BytesIO:
    file = io.BytesIO()
    frame.write_parquet(file)
    file.seek(0)
    return file


READS: dict[str, Callable[[io.BytesIO], Any]] = {
    "pandas": pd.read_parquet,
    "filters": lambda file: pq.read_table(file, filters=[("x", ">", 1)]),
    "take": lambda file: pq.read_table(file).take([2, 0]),
    "sort_by": lambda file: pq.read_table(file).sort_by([("s", "descending"), ("x", "ascending")]),
    "join": lambda file: pq.read_table(file, columns=["s", "b"]).join(
        pq.read_table(file, columns=["s"]), "s"
    ),
    "equal": lambda file: pc.equal(pq.read_table(file)["s"], pq.read_table(file)["s"]),
    "is_in": lambda file: pc.is_in(pq.read_table(file)["s"], pa.array(["a"], pa.large_string())),
    "upper": lambda file: pc.utf8_upper(pq.read_table(file)["s"]),
    "group_by": lambda file: pq.read_table(file).group_by("s").aggregate([("x", "sum")]),
    "csv": lambda file: pq.read_table(file, columns=["x", "s"]).to_pandas().to_csv(),
}


@pytest.mark.parametrize("name", READS)
def test_what_works_on_polars_own_file_works_on_this_one(name: str) -> None:
    by_polars = READS[name](written_by_polars(FRAME))
    found = READS[name](written(FRAME))
    if isinstance(found, pa.Table):
        assert found.to_pylist() == by_polars.to_pylist()
    elif isinstance(found, pd.DataFrame):
        pd.testing.assert_frame_equal(found, by_polars, check_categorical=False)
    else:
        assert found == by_polars


def test_columns_are_declared_as_polars_declares_them() -> None:
    ours, theirs = pq.read_schema(written(FRAME)), pq.read_schema(written_by_polars(FRAME))
    assert [str(field.type) for field in ours] == [str(field.type) for field in theirs]


def test_views_of_pyarrow_are_declared_as_what_all_readers_have(tmp_path: Path) -> None:
    kinds = {
        pa.string_view(): pa.large_string(),
        pa.binary_view(): pa.large_binary(),
        pa.list_view(pa.string_view()): pa.list_(pa.field("element", pa.large_string())),
        pa.large_list_view(pa.int64()): pa.large_list(pa.field("element", pa.int64())),
        pa.struct([("a", pa.string_view())]): pa.struct([("a", pa.large_string())]),
        pa.map_(pa.string_view(), pa.binary_view()): pa.map_(pa.large_string(), pa.large_binary()),
    }
    columns = {str(place): pa.nulls(2, kind) for place, kind in enumerate(kinds)}
    path = tmp_path / "a.parquet"
    spillway.write_parquet(pa.table(columns), path)
    assert [field.type for field in pq.read_schema(path)] == list(kinds.values())
    assert pl.read_parquet(path).height == 2  # panics where the stored schema has a list view


@given(dataframes(min_cols=1, excluded_dtypes=[pl.Object, pl.Int128, pl.UInt128], allow_masked=False))
def test_any_frame_comes_back_equal(frame: pl.DataFrame) -> None:
    file = written(frame)
    assert_frame_equal(pl.read_parquet(file), frame, categorical_as_str=True)
    file.seek(0)
    table = pq.read_table(file)
    rows = pa.array(range(frame.height), pa.int64())
    assert table.take(rows).num_rows == frame.height


CATEGORIES = st.lists(
    st.sampled_from(["x", "y", "a;b", "", "ü", "3;zz"]), min_size=1, max_size=4, unique=True
)


@given(enums=st.lists(CATEGORIES, min_size=1, max_size=4), nested=st.booleans(), as_text=st.booleans())
def test_no_value_of_an_enum_is_lost_where_later_frames_have_others(
    *, enums: list[list[str]], nested: bool, as_text: bool
) -> None:
    frames = []
    for categories in enums:
        values = pl.Series(categories, dtype=pl.Enum(categories))
        frames.append(pl.DataFrame({"a": [values] if nested else values}))
    if as_text:
        text = pl.List(pl.String) if nested else pl.String
        frames[1:] = [frame.cast({"a": text}) for frame in frames[1:]]
    file = io.BytesIO()
    with spillway.ParquetWriter(file, row_group_rows=3) as writer:
        for frame in frames:
            writer.write(frame)
    file.seek(0)
    found = pl.read_parquet(file)["a"]
    assert found.to_list() == [value for frame in frames for value in frame["a"].to_list()]
    dtype = found.dtype.inner if isinstance(found.dtype, pl.List) else found.dtype
    others = {value for categories in enums for value in categories} - set(enums[0])
    assert isinstance(dtype, pl.Enum) == (not others)


def test_a_dictionary_without_other_values_keeps_the_enum() -> None:
    """Rows of Python, whose dictionary has the values that they have."""
    file = io.BytesIO()
    schema = pl.DataFrame(schema={"a": pl.Enum(["x", "y"])}).to_arrow().schema
    with spillway.ParquetWriter(file, schema) as writer:
        writer.write_rows([{"a": "y"}, {"a": None}])
    file.seek(0)
    assert pl.read_parquet(file).schema == {"a": pl.Enum(["x", "y"])}


NULLS = {
    "flat": pl.DataFrame({"a": [None, None], "b": [1, 2]}),
    "list": pl.DataFrame({"a": [[None], []]}),
    "list of lists": pl.DataFrame({"a": [[[None], None], None]}),
    "struct": pl.DataFrame({"a": [{"x": 1, "n": None}, {"x": 2, "n": None}]}),
    "list of structs": pl.DataFrame({"a": [[{"n": None, "s": "x"}], []]}),
    "array": pl.DataFrame({"a": pl.Series([[None, None]] * 2, dtype=pl.Array(pl.Null, 2))}),
    "no rows": pl.DataFrame({"a": [None], "b": [1]}).clear(),
    "slice": pl.DataFrame({"a": [None] * 5, "b": range(5)}).slice(2, 2),
}


@pytest.mark.parametrize("name", NULLS)
def test_a_column_of_nulls_comes_back(name: str, tmp_path: Path) -> None:
    frame = NULLS[name]
    assert_frame_equal(pl.read_parquet(written(frame)), frame)
    with spillway.ParquetWriter(tmp_path / "a.parquet") as writer:
        for _ in range(3):
            writer.write(frame)
    assert_frame_equal(pl.read_parquet(tmp_path / "a.parquet"), pl.concat([frame] * 3))
    with spillway.DatasetWriter(tmp_path / "d") as dataset:
        dataset.write(frame)
        dataset.write(frame)
    assert dataset.result is not None
    assert_frame_equal(
        pl.concat([pl.read_parquet(file.path) for file in dataset.result.files]), pl.concat([frame] * 2)
    )


def test_nulls_hold_on_to_nothing_once_they_are_written() -> None:
    class Counted:
        """A stream whose producer says when it was released."""

        def __init__(self, frame: pl.DataFrame) -> None:
            self.frame = frame

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self.frame.__arrow_c_stream__(requested_schema)

    text = pa.array(["some text that is no inline view"] * 3000)
    before = pa.total_allocated_bytes()
    copy = pa.concat_arrays([text, text])
    frame = pl.DataFrame({"t": pl.from_arrow(copy), "n": [None] * 6000})
    writer = spillway.ParquetWriter(io.BytesIO())
    writer.write(Counted(frame))
    del copy, frame
    assert pa.total_allocated_bytes() <= before
    writer.abort()


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128], ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_integers_of_128_bits_are_refused_by_name(kind: Any, nested: bool) -> None:  # noqa: FBT001
    series = pl.Series("big", [1, 2], dtype=kind)
    frame = pl.DataFrame({"n": [1, 2], "big": series})
    path = "big"
    if nested:
        frame, path = frame.select(pl.concat_list(pl.struct("n", "big")).alias("s")), "s.big"
    with pytest.raises(spillway.SchemaError, match=rf'column "{path}" has type {kind}.*Decimal\(38, 0\)'):
        spillway.write_parquet(frame, io.BytesIO())
    cast = pl.DataFrame({"big": series.cast(pl.Decimal(38, 0))})
    assert_frame_equal(pl.read_parquet(written(cast)), cast)


def test_python_objects_are_refused_by_name() -> None:
    frame = pl.DataFrame({"n": [1], "o": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(spillway.SchemaError, match='column "o" has type Object'):
        spillway.write_parquet(frame, io.BytesIO())
    fixed = pa.table({"o": pa.array([b"12345678"], pa.binary(8))})
    file = io.BytesIO()
    spillway.write_parquet(fixed, file)
    assert pq.read_table(file).equals(fixed)


def test_a_lazy_frame_is_refused_with_what_to_do() -> None:
    with spillway.ParquetWriter(io.BytesIO()) as writer:
        with pytest.raises(spillway.NotArrowError, match=r"write_parquet .*\.collect\(\)"):
            writer.write(FRAME.lazy())
        for batch in FRAME.lazy().collect_batches():
            writer.write(batch)
