"""Anything with the Arrow PyCapsule interface can be written."""

from __future__ import annotations

import ctypes
import datetime as dt
import decimal
import io
import os
import subprocess
import sys
import threading
import zoneinfo
from typing import TYPE_CHECKING, Any

import arro3.core
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import spillway

from ..beats import lets_others_run
from .tampering import CArray, Tampered, child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COLUMNS: dict[str, list[Any]] = {
    "n": [1, 2, 3],
    "s": ["a", None, "long enough to be no inline view"],
    "f": [0.5, None, 2.0],
}
TABLE = pa.table(COLUMNS)

SELECT = """
select n::bigint n, s, f::double f
from (values (1, 'a', 0.5), (2, null, null), (3, 'long enough to be no inline view', 2.0)) t(n, s, f)
"""

INPUTS = {
    "pyarrow.Table": lambda: TABLE,
    "pyarrow.RecordBatch": lambda: TABLE.to_batches()[0],
    "pyarrow.RecordBatchReader": TABLE.to_reader,
    "pyarrow.StructArray": lambda: TABLE.to_struct_array().combine_chunks(),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "pandas": lambda: pd.DataFrame(
        {"n": COLUMNS["n"], "s": pd.array(COLUMNS["s"], "string"), "f": pd.array(COLUMNS["f"], "Float64")}
    ),
    "duckdb": lambda: duckdb.sql(SELECT),
    "arro3": lambda: arro3.core.Table.from_arrow(TABLE),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("with_schema", [False, True])
def test_every_library_can_be_written_from(name: str, with_schema: bool) -> None:  # noqa: FBT001
    file = io.BytesIO()
    result = spillway.write_parquet(INPUTS[name](), file, schema=TABLE.schema if with_schema else None)
    assert result.rows == 3
    assert pq.read_table(file).to_pydict() == COLUMNS


ROWS = TABLE.to_pylist()
FORMS: dict[str, Callable[[], Any]] = {
    "a lazy frame": lambda: pl.LazyFrame(COLUMNS).filter(pl.col("n") > 0),
    "a dataset": lambda: pyarrow.dataset.dataset(TABLE),
    "a scanner": lambda: pyarrow.dataset.dataset(TABLE).scanner(),
    "a list of batches": lambda: TABLE.to_batches(max_chunksize=1),
    "a list of tables": lambda: [TABLE.slice(0, 2), TABLE.slice(2)],
    "a generator of frames": lambda: (pl.DataFrame(COLUMNS).slice(row, 1) for row in range(3)),
    "a list of dicts": lambda: ROWS,
    "a generator of dicts": lambda: (dict(row) for row in ROWS),
    "a dict of columns": lambda: COLUMNS,
    "a dict of arrays": lambda: {
        "n": pa.array(COLUMNS["n"]),
        "s": pl.Series(COLUMNS["s"]),
        "f": TABLE["f"],
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("with_schema", [False, True])
def test_one_call_writes_any_form_of_rows(form: str, with_schema: bool) -> None:  # noqa: FBT001
    file = io.BytesIO()
    result = spillway.write_parquet(FORMS[form](), file, schema=TABLE.schema if with_schema else None)
    assert result.rows == 3
    assert pq.read_table(file).to_pydict() == COLUMNS


def test_a_lazy_frame_without_rows_keeps_its_columns() -> None:
    file = io.BytesIO()
    spillway.write_parquet(pl.LazyFrame(COLUMNS).filter(pl.col("n") > 9), file)
    assert pq.read_table(file).schema.names == list(COLUMNS)
    assert pq.read_table(file).num_rows == 0


def test_batches_are_written_before_the_next_is_asked_for() -> None:
    """All that a generator makes may be larger than memory."""
    file, written = io.BytesIO(), []

    def batches() -> Iterator[pa.Table]:
        for _ in range(5):
            written.append(file.tell())
            yield TABLE

    assert spillway.write_parquet(batches(), file, row_group_rows=1).rows == 15
    assert written == sorted(set(written))


def test_the_schema_gives_columns_and_rows_their_types() -> None:
    schema = pa.schema({"day": pa.date32(), "n": pa.int8()})
    columns: dict[str, list[Any]] = {"day": [dt.date(2026, 1, 1), None], "n": [1, 2]}
    rows: list[dict[str, Any]] = [{"day": "2026-01-01", "n": 1}, {"day": None, "n": 2}]
    forms: list[Any] = [columns, rows]
    for data in forms:
        file = io.BytesIO()
        spillway.write_parquet(data, file, schema=schema)
        assert pq.read_table(file).equals(pa.table(columns, schema=schema))


NUMBERS = pa.schema({"a": pa.int64(), "b": pa.int64()})


@pytest.mark.parametrize(
    ("columns", "schema", "column"),
    [
        ({"a": [1], "b": [1], "more": [2]}, NUMBERS, "more"),
        ({"a": [1]}, NUMBERS, "b"),
        ({"a": [1], "b": ["x"]}, NUMBERS, "b"),
        ({"a": [1], "b": [2**70]}, NUMBERS, "b"),
        ({"a": [1], "b": pa.array([2**40])}, pa.schema({"a": pa.int64(), "b": pa.int8()}), "b"),
        ({"a": [1, "x"]}, None, "a"),
        ({"a": 3}, None, "a"),
        ({"a": [1], "b": [1, 2]}, None, None),
    ],
    ids=["more", "fewer", "text", "too large", "too large an array", "mixed", "no values", "uneven"],
)
def test_columns_that_do_not_fit_are_refused_by_name(
    columns: Any, schema: pa.Schema | None, column: str | None, tmp_path: Path
) -> None:
    with pytest.raises(spillway.SchemaError) as caught:
        spillway.write_parquet(columns, tmp_path / "a.parquet", schema=schema)
    assert caught.value.column == column
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data", [3, None, "a.parquet", b"rows", [1, 2], ["a"], object()], ids=lambda data: type(data).__name__
)
def test_what_has_no_rows_is_refused_and_leaves_no_file(data: Any, tmp_path: Path) -> None:
    with pytest.raises(spillway.NotArrowError, match="has neither __arrow_c_stream__"):
        spillway.write_parquet(data, tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def test_a_batch_among_rows_is_a_bad_row() -> None:
    mixed: list[Any] = [ROWS[0], TABLE]
    with pytest.raises(spillway.RowError, match="row 1"):
        spillway.write_parquet(mixed, io.BytesIO())


def test_an_iterable_of_nothing_needs_a_schema() -> None:
    with pytest.raises(spillway.SchemaError):
        spillway.write_parquet([], io.BytesIO())
    assert spillway.write_parquet([], io.BytesIO(), schema=TABLE.schema).rows == 0


def test_a_stream_is_preferred_to_an_array() -> None:
    class Both:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return TABLE.__arrow_c_stream__(requested_schema)

        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            raise AssertionError("the stream was there")

    assert spillway.write_parquet(Both(), io.BytesIO()).rows == 3


def test_nulls_of_the_top_level_struct_are_nulls_of_every_column() -> None:
    rows = pa.StructArray.from_arrays(
        [pa.array([1, 2]), pa.array(["a", "b"])], names=["n", "s"], mask=pa.array([False, True])
    )
    file = io.BytesIO()
    spillway.write_parquet(rows, file)
    assert pq.read_table(file).to_pylist() == [{"n": 1, "s": "a"}, {"n": None, "s": None}]


def tampered(column: pa.Array, change: Any) -> list[Any]:
    file = io.BytesIO()
    spillway.write_parquet(Tampered(pa.record_batch({"x": column}), change), file)
    return pq.read_table(file)["x"].to_pylist()


def test_an_unknown_null_count_is_counted() -> None:
    def change(array: CArray) -> None:
        child(array).null_count = -1

    assert tampered(pa.array([1, None, 3]), change) == [1, None, 3]


def test_a_null_pointer_for_no_bytes_is_no_bytes() -> None:
    def change(array: CArray) -> None:
        child(array).buffers[2] = None

    assert tampered(pa.array(["", ""]), change) == ["", ""]


def test_sixteen_byte_values_may_stand_at_any_address() -> None:
    values = [decimal.Decimal("1.50"), decimal.Decimal("-2.25")]
    column = pa.array(values, pa.decimal128(30, 2))
    data = column.buffers()[1]
    assert data is not None
    moved = ctypes.create_string_buffer(64)
    shift = 8 - ctypes.addressof(moved) % 16 % 8 + (8 if ctypes.addressof(moved) % 16 == 0 else 0)
    address = ctypes.addressof(moved) + shift
    address += 8 if address % 16 == 0 else 0
    ctypes.memmove(address, data.address, 32)

    def change(array: CArray) -> None:
        child(array).buffers[1] = address

    assert address % 16 == 8
    assert tampered(column, change) == values


def test_a_producers_error_is_told() -> None:
    def batches() -> Any:
        yield TABLE.to_batches()[0]
        raise OSError("the source ran dry")

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    file = io.BytesIO()
    with spillway.ParquetWriter(file, TABLE.schema) as writer:
        with pytest.raises(spillway.SpillwayError, match="the source ran dry"):
            writer.write(reader)
        writer.write(TABLE)
    assert pq.read_table(file).num_rows == 6


def test_no_reference_to_the_data_is_kept() -> None:
    column = pa.array(["some text that is no inline view"] * 3000).cast(pa.string_view())
    before = pa.total_allocated_bytes()
    writer = spillway.ParquetWriter(io.BytesIO())
    batch = pa.record_batch({"x": pa.concat_arrays([column])})
    held = pa.total_allocated_bytes()
    writer.write(batch.slice(0, 100))
    del batch, column
    assert held > before
    assert pa.total_allocated_bytes() < before
    writer.abort()


def test_other_threads_run_while_a_table_is_written(table: pa.Table) -> None:
    big = pa.concat_tables([table] * 100)
    assert lets_others_run(lambda: spillway.write_parquet(big, "/dev/null"))


def test_threads_that_share_a_writer_lose_no_row(table: pa.Table) -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, table.schema) as writer:
        parts = [table.slice(start, 500) for start in range(0, 6000, 500)]
        threads = [threading.Thread(target=writer.write, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert pq.read_table(file).sort_by("id").equals(table)


def test_keys_under_null_structs_may_name_nothing(tmp_path: Path) -> None:
    keys = pa.Array.from_buffers(pa.int8(), 3, [None, pa.py_buffer(bytes([0, 99, 1]))])
    words = pa.DictionaryArray.from_arrays(keys, pa.array(["a", "b"]), safe=False)
    structs = pa.StructArray.from_arrays([words], names=["word"], mask=pa.array([False, True, False]))
    spillway.write_parquet(pa.table({"s": structs}), tmp_path / "a.parquet")
    read = pq.ParquetFile(tmp_path / "a.parquet").read(use_threads=False)
    assert read["s"].to_pylist() == [{"word": "a"}, None, {"word": "b"}]


@pytest.mark.parametrize("kind", ["list", "map"])
def test_what_lies_outside_a_slice_is_not_converted(kind: str, tmp_path: Path) -> None:
    seconds = pa.timestamp("s")
    far = 2**62  # out of range in the milliseconds that Parquet stores
    if kind == "list":
        values = pa.array([[far], [1, 2], [far]], pa.list_(seconds))
    else:
        values = pa.array([[("a", far)], [("b", 1), ("c", 2)], [("d", far)]], pa.map_(pa.string(), seconds))
    spillway.write_parquet(pa.table({"x": values.slice(1, 1)}), tmp_path / "a.parquet")
    read = pq.ParquetFile(tmp_path / "a.parquet").read(use_threads=False)
    assert len(read["x"][0]) == 2
    with pytest.raises(spillway.SchemaError, match="out of range"):
        spillway.write_parquet(pa.table({"x": values}), tmp_path / "b.parquet")


@pytest.mark.parametrize(
    ("column", "name"),
    [(pd.Series([1]), "Series"), (np.array([1.5]), "ndarray"), (np.array(["x"]), "ndarray")],
)
def test_a_column_alone_is_refused_by_its_own_name(tmp_path: Path, column: Any, name: str) -> None:
    with pytest.raises(spillway.NotArrowError, match=f"^{name} has neither"):
        spillway.write_parquet(column, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_rows_in_an_array_are_written(tmp_path: Path) -> None:
    spillway.write_parquet(np.array([{"a": 1}, {"a": 2}]), tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"a": 1}, {"a": 2}]


def test_a_column_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        spillway.SchemaError, match="named 1, which is int, and names of columns are text: use '1'"
    ):
        spillway.write_parquet({1: [1]}, tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("path", "reason"), [("", "is an empty text"), ("a\0b", r"'a\\x00b' has a NUL character")]
)
def test_what_is_no_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(OSError, match=f"^destination {reason}"):
        spillway.write_parquet(TABLE, path)
    with pytest.raises(OSError, match=f"^directory {reason}"):
        spillway.write_dataset(TABLE, path)


AWARE = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
NAIVE = dt.datetime(2026, 1, 2)  # noqa: DTZ001 - without a zone


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5], pa.int64()),
        ([[1.5]], pa.list_(pa.int64())),
        ([1e300], pa.float32()),
        ([70000.0], pa.float16()),
        ([AWARE], pa.timestamp("us")),
        ([NAIVE], pa.timestamp("us", "UTC")),
        ([AWARE, NAIVE], pa.timestamp("us", "UTC")),
        ([NAIVE], pa.date32()),
        (["\ud800"], pa.string()),
    ],
    ids=str,
)
def test_a_column_of_python_values_is_refused_where_rows_would_be(
    tmp_path: Path, values: list[Any], kind: pa.DataType
) -> None:
    schema = pa.schema({"c": kind})
    with pytest.raises(spillway.SchemaError) as refused:
        spillway.write_parquet({"c": values}, tmp_path / "a.parquet", schema=schema)
    assert (refused.value.column or "").startswith("c")
    assert list(tmp_path.iterdir()) == []


ARRAYS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "generator": iter,
    "numpy objects": lambda values: np.array(values, object),
    "pandas objects": lambda values: pd.Series(values, dtype=object),
    "pandas index": lambda values: pd.Index(values, dtype=object),
    "pandas": pd.Series,
    "pyarrow": pa.array,
    "polars": pl.Series,
}
LOSING = {
    "a fraction": (1.5, pa.int64()),
    "a time zone": (dt.datetime(2026, 1, 31, tzinfo=dt.UTC), pa.timestamp("us")),
    "the lack of a time zone": (dt.datetime(2026, 1, 31), pa.timestamp("us", "UTC")),  # noqa: DTZ001 - without one
    "a time of day": (dt.datetime(2026, 1, 31, 23, 59), pa.date32()),  # noqa: DTZ001 - that of no zone
    "a large number": (1e300, pa.float32()),
}


@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize("lost", LOSING)
def test_a_schema_makes_no_column_lose_anything(form: str, lost: str, tmp_path: Path) -> None:
    value, kind = LOSING[lost]
    with pytest.raises(spillway.SchemaError, match=r"does not fit|was truncated"):
        spillway.write_parquet({"a": ARRAYS[form]([value])}, tmp_path / "f", schema=pa.schema({"a": kind}))


KEPT = {
    "an integer": (1.0, pa.int64(), 1),
    "a time": (dt.datetime(2026, 1, 31), pa.timestamp("ms"), dt.datetime(2026, 1, 31)),  # noqa: DTZ001 - no zone
    "a small number": (1.5, pa.float32(), 1.5),
    "a dictionary": ("x", pa.dictionary(pa.int32(), pa.string()), "x"),
    "a view": ("x", pa.string_view(), "x"),
    "long text": ("x", pa.large_string(), "x"),
}


@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize("kept", KEPT)
def test_a_schema_converts_what_it_can_hold(form: str, kept: str, tmp_path: Path) -> None:
    value, kind, expected = KEPT[kept]
    spillway.write_parquet({"a": ARRAYS[form]([value])}, tmp_path / "f", schema=pa.schema({"a": kind}))
    assert pq.read_table(tmp_path / "f")["a"].to_pylist() == [expected]


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([np.datetime64(1, "ns")], pa.timestamp("ns")),
        ([dt.datetime(2026, 1, 31, tzinfo=BERLIN)], pa.timestamp("us", "Europe/Berlin")),
        ([np.float32(1.5)], pa.float32()),
        ([np.int8(1)], pa.int8()),
        ([pa.scalar("x")], pa.string()),
        ([None], pa.null()),
        ([], pa.null()),
    ],
    ids=str,
)
def test_columns_without_a_schema_have_the_types_of_pyarrow(values: list[Any], kind: pa.DataType) -> None:
    file = io.BytesIO()
    spillway.write_parquet({"a": values, "b": [1] * len(values)}, file)
    assert pq.read_schema(file).field("a").type == kind


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([np.float16(0.5), 1], [0.5, 1.0]),
        ([1, np.float64(0.5)], [1.0, 0.5]),
    ],
    ids=str,
)
def test_columns_without_a_schema_keep_what_pyarrow_would_cut(values: list[Any], expected: list[Any]) -> None:
    file = io.BytesIO()
    spillway.write_parquet({"a": values}, file)
    assert pq.read_table(file)["a"].to_pylist() == expected


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 5)],  # noqa: DTZ001 - without a zone
        [dt.datetime(2026, 1, 31), dt.datetime(2026, 1, 31, tzinfo=BERLIN)],  # noqa: DTZ001 - without a zone
        [dt.time(1, tzinfo=dt.UTC)],
    ],
    ids=["date", "zone", "time"],
)
def test_columns_of_which_pyarrow_would_drop_a_part_are_refused(values: list[Any]) -> None:
    with pytest.raises(spillway.SchemaError):
        spillway.write_parquet({"a": values}, io.BytesIO())


def test_columns_of_arrays_need_no_pandas(tmp_path: Path) -> None:
    program = (
        "import sys, numpy as np, pyarrow as pa, spillway\n"
        "for values in (np.array([1.0]), pa.array([1.0]), [1.0]):\n"
        "    spillway.write_parquet({'a': values}, sys.argv[1], schema=pa.schema({'a': pa.float32()}))\n"
    )
    (tmp_path / "pandas.py").write_text("raise ImportError")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program, tmp_path / "f"], env=environment, check=True)
    assert pq.read_table(tmp_path / "f")["a"].to_pylist() == [1.0]


@pytest.mark.parametrize("column", [{0: 10, 1: 20}, "bob", b"bob", {1, 2}], ids=str)
def test_what_is_no_sequence_of_values_is_no_column(tmp_path: Path, column: Any) -> None:
    with pytest.raises(spillway.SchemaError, match="no sequence of values"):
        spillway.write_parquet({"c": column}, tmp_path / "a.parquet")
