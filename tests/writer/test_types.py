"""Every Arrow type that pyarrow can write comes back as pyarrow would write it."""

from __future__ import annotations

import decimal
import io
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

if TYPE_CHECKING:
    from pathlib import Path

INT, TEXT = pa.array([1, None, -3, 4, 4], pa.int32()), pa.array(["a", None, "", "dé", "a"])
NUMBERS = [None, 0, 1, 1, 7]
DECIMALS = [None, *(decimal.Decimal(text) for text in ["1.25", "-3.50", "0.00", "99.99"])]

ARRAYS: dict[str, pa.Array] = {
    "null": pa.nulls(5),
    "bool": pa.array([True, None, False, True, True]),
    **{
        str(kind): pa.array(NUMBERS, kind)
        for kind in [
            *(
                pa.int8(),
                pa.int16(),
                pa.int32(),
                pa.int64(),
                pa.uint8(),
                pa.uint16(),
                pa.uint32(),
                pa.uint64(),
            ),
            *(
                pa.float32(),
                pa.float64(),
                pa.date32(),
                pa.time32("s"),
                pa.time32("ms"),
                pa.time64("us"),
                pa.time64("ns"),
            ),
            *(
                pa.timestamp(unit, zone)
                for unit in ("s", "ms", "us", "ns")
                for zone in (None, "UTC", "Europe/Paris")
            ),
            *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        ]
    },
    "uint64 high": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "half": pa.array([1.5, None, float("inf"), -0.0, 2.0], pa.float16()),
    "nan": pa.array([float("nan"), 0.0, -0.0, None, float("-inf")]),
    "date64": pa.array([None, 0, 86_400_000, -86_400_000], pa.date64()),
    **{
        str(kind): pa.array(DECIMALS, kind)
        for kind in [
            pa.decimal32(7, 2),
            pa.decimal64(15, 2),
            pa.decimal128(9, 2),
            pa.decimal128(30, 2),
            pa.decimal256(60, 2),
        ]
    },
    "string": TEXT,
    **{
        str(kind): TEXT.cast(kind)
        for kind in [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()]
    },
    "binary_view": TEXT.cast(pa.binary()).cast(pa.binary_view()),
    "fixed": pa.array([b"0123456789abcdef", None, b"\0" * 16], pa.binary(16)),
    "list": pa.array([[1, None], None, [], [2]], pa.list_(pa.int32())),
    "large_list": pa.array([["x", None], None, []], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1, None, 3], None, [4, 5, 6]], pa.list_(pa.int32(), 3)),
    "list_view": pa.array([[1, None], None, [], [2]], pa.list_view(pa.int32())),
    "large_list_view": pa.array([[1, None], None, [], [2]], pa.large_list_view(pa.int32())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "map": pa.array([[("k", 1), ("l", None)], None, []], pa.map_(pa.string(), pa.int32())),
    "dictionary": TEXT.dictionary_encode(),
    "dictionary of ints": INT.dictionary_encode(),
    "dictionary of decimals": pa.array(DECIMALS, pa.decimal128(30, 2)).dictionary_encode(),
    "dictionary of bools": pa.DictionaryArray.from_arrays([0, 1, None], [True, False]),
    "deep": pa.array(
        [[[{"m": [("k", [decimal.Decimal("1.5"), None])]}]], None, [None, []], [[{"m": None}, None]]],
        pa.list_(pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.decimal128(5, 2))))]))),
    ),
    "list of dictionary": pa.ListArray.from_arrays([0, 2, 2, 5], TEXT.dictionary_encode()),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef", None], pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None])),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    ),
}


# Views are declared as what every reader can use.
DECLARED = {
    "string_view": pa.large_string(),
    "binary_view": pa.large_binary(),
    "list_view": pa.list_(pa.int32()),
    "large_list_view": pa.large_list(pa.int32()),
}


def by_pyarrow(table: pa.Table) -> pa.Table:
    file = io.BytesIO()
    pq.write_table(table, file)
    return pq.read_table(file)


def declared(name: str, table: pa.Table) -> pa.Table:
    kind = DECLARED.get(name)
    return table if kind is None else pa.table({"x": pa.array(table["x"].to_pylist(), kind)})


def by_spillway(*parts: Any, schema: pa.Schema, **options: Any) -> pa.Table:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema, **options) as writer:
        for part in parts:
            writer.write(part)
    return pq.read_table(file)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("compatibility", ["modern", "v1"])
def test_a_type_comes_back_as_pyarrow_writes_it(name: str, compatibility: str) -> None:
    table = pa.table({"x": ARRAYS[name]})
    expected = by_pyarrow(declared(name, table))
    read = by_spillway(table, schema=table.schema, compatibility=compatibility)
    assert read.schema.field("x").type == expected.schema.field("x").type
    assert str(read["x"].to_pylist()) == str(expected["x"].to_pylist())
    read.validate(full=True)


@pytest.mark.parametrize("name", ARRAYS)
def test_slices_and_empty_batches_come_back(name: str) -> None:
    table = pa.table({"x": pa.chunked_array([ARRAYS[name]] * 3).combine_chunks()})
    parts = [table.slice(1, 3), table.slice(0, 0), table.slice(4), table.slice(2, 1)]
    read = by_spillway(*parts, schema=table.schema, row_group_rows=3)
    assert str(read["x"].to_pylist()) == str(by_pyarrow(pa.concat_tables(parts))["x"].to_pylist())


@pytest.mark.parametrize("name", ARRAYS)
def test_no_rows_at_all_keep_the_schema(name: str) -> None:
    table = pa.table({"x": ARRAYS[name]}).slice(0, 0)
    for parts in ([], [table]):
        read = by_spillway(*parts, schema=table.schema)
        assert read.num_rows == 0
        assert read.schema.field("x").type == by_pyarrow(declared(name, table)).schema.field("x").type


def test_runs_are_written_as_their_values() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["a", None]))
    table = pa.table({"x": runs})
    assert by_spillway(table, table.slice(1, 3), schema=table.schema)["x"].to_pylist() == [
        "a",
        "a",
        None,
        None,
        None,
        "a",
        None,
        None,
    ]


def test_null_and_repeated_dictionary_values_are_what_they_say() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 1]), pa.array(["a", None, "a"]))
    table = pa.table({"x": array})
    assert by_spillway(table, schema=table.schema)["x"].to_pylist() == ["a", None, None, "a", None]


def test_dictionaries_may_differ_from_batch_to_batch() -> None:
    batches = [
        pa.table({"x": pa.array(values).dictionary_encode()})
        for values in (["a", "b"], ["b", "c", None], ["a"])
    ]
    assert by_spillway(*batches, schema=batches[0].schema)["x"].to_pylist() == ["a", "b", "b", "c", None, "a"]


def test_children_have_the_names_that_parquet_asks_for() -> None:
    table = pa.table({"l": ARRAYS["list"].slice(0, 3), "m": ARRAYS["map"]})
    file = io.BytesIO()
    spillway.write_parquet(table, file)
    paths = [pq.ParquetFile(file).schema.column(i).path for i in range(3)]
    assert paths == ["l.list.element", "m.key_value.key", "m.key_value.value"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_empty_text_in_lists_may_begin_anywhere(tmp_path: Path, kind: pa.DataType) -> None:
    width = "<q" if kind in {pa.large_string(), pa.large_binary()} else "<i"
    buffers = [None, pa.py_buffer(struct.pack(width, 3)), pa.py_buffer(b"abc")]
    nothing = pa.Array.from_buffers(kind, 0, buffers)
    lists = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), nothing)
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), lists)
    batch = pa.record_batch({"lists": lists})
    batch.validate(full=True)
    with spillway.ParquetWriter(tmp_path / "a.parquet", batch.schema) as writer:
        writer.write(batch)
        writer.write(batch)
    assert pq.read_table(tmp_path / "a.parquet").equals(pa.Table.from_batches([batch, batch]))
