"""Batches that fit a writer, and the state that a refused one leaves behind."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
GOOD = pa.table({"id": [1, 2], "name": ["a", None], "at": [0, 1]}, schema=SCHEMA)


def written(schema: pa.Schema, *parts: Any, **options: Any) -> pa.Table:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema, **options) as writer:
        for part in parts:
            writer.write(part)
    return pq.read_table(file)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (GOOD.drop_columns(["at"]), "'at' is missing|\"at\" is missing"),
        (GOOD.append_column("more", pa.array([1, 2])), '"more" is not in the writer'),
        (GOOD.select(["name", "id", "at"]), 'column 0 is "name", the writer has "id"'),
        (
            GOOD.set_column(0, "id", pa.array([1, 2], pa.int32())),
            'column "id" is Int32, the writer has Int64',
        ),
        (GOOD.set_column(2, "at", pa.array([0, 1], pa.timestamp("us"))), 'column "at" is'),
        (GOOD.set_column(2, "at", pa.array([0, 1], pa.timestamp("ms", "UTC"))), 'column "at" is'),
    ],
)
def test_a_misfit_is_refused_and_the_writer_goes_on(change: pa.Table, says: str) -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, SCHEMA) as writer:
        writer.write(GOOD)
        with pytest.raises(spillway.SchemaError, match=says):
            writer.write(change)
        assert not writer.closed
        writer.write(GOOD)
    assert pq.read_table(file).equals(pa.concat_tables([GOOD, GOOD]))


def test_metadata_and_nullability_make_no_difference_to_fit() -> None:
    fields = [field.with_metadata({"k": "v"}).with_nullable(False) for field in SCHEMA]  # noqa: FBT003  # pyarrow's
    other = GOOD.slice(0, 1).cast(pa.schema(fields, {"more": "metadata"}))
    assert written(SCHEMA, GOOD, other).equals(pa.concat_tables([GOOD, GOOD.slice(0, 1)]))


@pytest.mark.parametrize(
    "form", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("nested", [False, True])
def test_forms_of_one_type_fit_each_other(form: pa.DataType, nested: bool) -> None:  # noqa: FBT001
    values: list[Any] = ["a", None, "b", "a"]
    plain, other = pa.string(), form
    if nested:
        values = [[value] for value in values]
        plain, other = pa.list_(plain), pa.list_(other)
    first, second = pa.table({"x": pa.array(values, plain)}), pa.table({"x": pa.array(values, other)})
    assert written(first.schema, first, second)["x"].to_pylist() == values * 2
    assert written(second.schema, first, second)["x"].to_pylist() == values * 2


def test_list_layouts_fit_each_other() -> None:
    values = [[1, 2], None, [], [3]]
    forms = [
        pa.list_(pa.int64()),
        pa.large_list(pa.int64()),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
    ]
    tables = [pa.table({"x": pa.array(values, form)}) for form in forms]
    for table in tables:
        assert written(table.schema, *tables)["x"].to_pylist() == values * len(tables)


@pytest.mark.parametrize(
    ("data_type", "value", "path"),
    [
        (pa.int64(), None, "x"),
        (pa.struct([pa.field("a", pa.int64(), nullable=False)]), {"a": None}, "x.a"),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), [1, None], "x.element"),
    ],
    ids=str,
)
def test_a_null_where_none_may_be_is_refused(data_type: pa.DataType, value: Any, path: str) -> None:
    relaxed = {"x": pa.struct([("a", pa.int64())]), "y": pa.list_(pa.field("element", pa.int64()))}
    loose = (
        relaxed["x"]
        if pa.types.is_struct(data_type)
        else relaxed["y"]
        if pa.types.is_list(data_type)
        else data_type
    )
    strict = pa.schema([pa.field("x", data_type, nullable=loose is not data_type)])
    file = io.BytesIO()
    with spillway.ParquetWriter(file, strict) as writer:
        with pytest.raises(spillway.SchemaError, match=f'"{path}" is not nullable'):
            writer.write(pa.table({"x": pa.array([value], loose)}))
        writer.write(pa.table({"x": pa.array([], loose)}))
    assert pq.read_table(file).num_rows == 0


def test_a_null_under_a_null_parent_is_no_null() -> None:
    inner = pa.field("a", pa.int64(), nullable=False)
    array = pa.StructArray.from_arrays(
        [pa.array([None, 7])], fields=[pa.field("a", pa.int64())], mask=pa.array([True, False])
    )
    schema = pa.schema([("x", pa.struct([inner]))])
    assert written(schema, pa.table({"x": array}))["x"].to_pylist() == [None, {"a": 7}]


def test_a_stream_is_written_up_to_the_batch_that_does_not_fit() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    batches = [pa.record_batch({"x": pa.array(values, pa.int64())}) for values in ([1, 2], [3, None], [4])]
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema) as writer:
        with pytest.raises(spillway.SchemaError):
            writer.write(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
        writer.write(batches[2])
    assert pq.read_table(file)["x"].to_pylist() == [1, 2, 4]


def test_the_first_batch_gives_the_schema() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file) as writer:
        writer.write(GOOD)
        with pytest.raises(spillway.SchemaError):
            writer.write(pa.table({"other": [1]}))
    assert pq.read_schema(file).equals(SCHEMA)


@pytest.mark.parametrize(
    "data_type",
    [
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.struct([]),
        pa.month_day_nano_interval(),
        pa.binary(0),
        pa.decimal128(5, -2),
    ],
    ids=str,
)
def test_a_type_that_parquet_has_not_is_refused_by_column(data_type: pa.DataType) -> None:
    with pytest.raises(spillway.SchemaError, match=r'column "deep\.x" has type'):
        spillway.ParquetWriter(io.BytesIO(), pa.schema([("deep", pa.struct([("x", data_type)]))]))


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(spillway.SchemaError, match="no columns"):
        spillway.ParquetWriter(io.BytesIO(), pa.schema([]))


@pytest.mark.parametrize("thing", [None, 1, [GOOD.schema], {"a": 1}])
def test_what_is_not_arrow_says_what_would_be(thing: Any) -> None:
    writer = spillway.ParquetWriter(io.BytesIO(), SCHEMA)
    with pytest.raises(spillway.NotArrowError, match="__arrow_c_stream__ nor __arrow_c_array__"):
        writer.write(thing)
    if thing is not None:
        with pytest.raises(spillway.NotArrowError, match="__arrow_c_schema__"):
            spillway.ParquetWriter(io.BytesIO(), thing)


def test_a_column_is_no_table() -> None:
    with pytest.raises(spillway.SchemaError, match="not rows"):
        spillway.write_parquet(pa.array([1, 2]), io.BytesIO())
    with pytest.raises(spillway.SchemaError, match="not rows"):
        spillway.write_parquet(pa.chunked_array([[1], [2]]), io.BytesIO())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("wrap", [False, True])
def test_timestamps_become_microseconds_on_request(unit: str, wrap: bool) -> None:  # noqa: FBT001
    ticks = [-1, 0, 1, 1_500, None]
    array = pa.array(ticks, pa.timestamp(unit, "UTC"))  # type: ignore[call-overload]  # every unit is one
    scale = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[unit]
    micros = [None if tick is None else tick // 1000 if unit == "ns" else tick * scale for tick in ticks]
    column: pa.Array = pa.StructArray.from_arrays([array], names=["t"]) if wrap else array
    read = written(pa.schema([("x", column.type)]), pa.table({"x": column}), timestamps="us")[
        "x"
    ].combine_chunks()
    read = read.field("t") if wrap else read
    assert read.type == pa.timestamp("us", "UTC")
    assert read.cast(pa.int64()).to_pylist() == micros


def test_a_timestamp_out_of_range_is_refused() -> None:
    far = pa.table({"x": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(spillway.SchemaError, match="out of range"):
        spillway.write_parquet(far, io.BytesIO())
