"""Faults that real writers shipped, each as the claim that it is not here."""

from __future__ import annotations

import decimal
import math
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

from .anatomy import DATA_PAGE_V2, DICTIONARY_PAGE, RLE_DICTIONARY, Anatomy
from .bounds import check_bounds, decode
from .engines import ENGINES
from .readers import Truth
from .writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from .readers import Checker

V = pytest.mark.parametrize("compatibility", ["modern", "v1"])


def checked(checker: Checker, table: pa.Table, **options: Any) -> Anatomy:
    """The file's anatomy, after every engine has read it and every rule and bound was checked."""
    path = checker.check(table, lambda part, path: write(part, path, **options))
    anatomy = Anatomy(path)
    anatomy.check()
    check_bounds(anatomy, pq.ParquetFile(path).read())
    return anatomy


@V
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 1000, 100_000])
@pytest.mark.parametrize("nulls", ["none", "some"])
def test_a_dictionary_of_one_entry_is_read_everywhere(
    checker: Checker, compatibility: str, rows: int, nulls: str
) -> None:
    cells = pa.array(
        ["the only value that there is"] * rows, mask=np.arange(rows) % 3 == 1 if nulls == "some" else None
    )
    anatomy = checked(checker, pa.table({"c": cells}), compatibility=compatibility, page_bytes=1000)
    if rows == 100_000:
        assert anatomy.chunks[0].dictionary_pages, "a constant column is what dictionaries are for"


@V
@pytest.mark.parametrize("rows", [*range(1, 18), 31, 33, 63, 65, 127, 129, 511, 513])
def test_bit_packed_tails_are_whole(checker: Checker, compatibility: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    columns = {
        "three": pa.array(rng.choice(["a", "b", "c"], rows)),
        "bool": pa.array(rng.random(rows) < 0.5, mask=rng.random(rows) < 0.4),
        "wide": pa.array([f"v{number}" for number in rng.permutation(rows)]).dictionary_encode(),
        "delta": rng.integers(0, 1000, rows),
    }
    checked(checker, pa.table(columns), compatibility=compatibility)


@V
def test_a_dictionary_ends_with_its_row_group(checker: Checker, compatibility: str) -> None:
    words = [f"group {row // 5000} word {row % 7}" for row in range(20_000)]
    anatomy = checked(checker, pa.table({"word": words}), row_group_rows=5000, compatibility=compatibility)
    assert [len(chunk.dictionary_pages) for chunk in anatomy.chunks] == [1] * 4
    assert [chunk.dictionary_pages[0].values for chunk in anatomy.chunks] == [7] * 4


@V
@pytest.mark.parametrize("page_bytes", [1, 40, 300])
def test_a_record_does_not_span_pages(checker: Checker, compatibility: str, page_bytes: int) -> None:
    rng = np.random.default_rng(4)
    lengths = rng.choice([0, 1, 2, 30, 500], 200)
    lists = [list(map(int, rng.integers(0, 100, length))) if length else None for length in lengths]
    deep = [None if cells is None else [cells[: len(cells) // 2], None, cells] for cells in lists]
    anatomy = checked(
        checker, pa.table({"list": lists, "deep": deep}), page_bytes=page_bytes, compatibility=compatibility
    )
    for chunk in anatomy.chunks:
        assert len(chunk.data_pages) > 1
        for page in chunk.data_pages:
            if page.kind == DATA_PAGE_V2:
                # The first repetition level of a page starts a record: it is 0.
                assert page.detail[3] >= 1


def test_every_leaf_has_the_order_that_readers_know(tmp_path: Path) -> None:
    """Without its order, or with one that they do not know, readers ignore a column's bounds."""
    table = pa.table(
        {"n": [1, 2], "s": ["a", "b"], "f": [0.5, 1.5], "d": pa.array([1, 2], pa.date32()), "l": [[1.5], []]}
    )
    write(table.append_column("h", pa.array([1.5, 2.5], pa.float16())), tmp_path / "a.parquet")
    assert Anatomy(tmp_path / "a.parquet").footer[7] == [{1: {}}] * 6
    group = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    assert [group.column(index).statistics.has_min_max for index in range(4)] == [True] * 4


def test_decimal_bounds_are_big_endian_and_signed(checker: Checker) -> None:
    numbers = [
        decimal.Decimal(text) for text in ("-129.00", "128.01", "0.00", "-0.01", "99999999999999999.99")
    ]
    table = pa.table(
        {
            f"d{bits}": pa.array(numbers, make(19, 2))
            for bits, make in ((128, pa.decimal128), (256, pa.decimal256))
        }
    )
    anatomy = checked(checker, table)
    for chunk, data_type in zip(anatomy.chunks, table.schema.types, strict=True):
        assert decode(chunk.statistics[6], data_type, chunk.meta[1]) == -12900
        assert decode(chunk.statistics[5], data_type, chunk.meta[1]) == 9999999999999999999


@V
def test_pages_and_chunks_of_nothing_but_nulls_have_no_bounds(checker: Checker, compatibility: str) -> None:
    half = [None] * 3000 + list(range(3000))
    texts = [None if cell is None else f"text {cell}" for cell in half]
    columns = {"n": pa.array(half), "s": pa.array(texts), "all": pa.array([None] * 6000, pa.float64())}
    anatomy = checked(
        checker, pa.table(columns), page_bytes=500, compatibility=compatibility, row_group_rows=4500
    )
    for chunk in anatomy.chunks[2::3]:
        assert not {1, 2, 5, 6} & set(chunk.statistics)
        assert chunk.statistics[3] == chunk.meta[5]


def test_a_chunk_may_have_more_pages_than_an_i16_counts(checker: Checker) -> None:
    rows = 40_000
    cells = [f"{row:08}" for row in range(rows)]
    anatomy = checked(
        checker, pa.table({"c": cells}), page_bytes=1, dictionary=False, compression="uncompressed"
    )
    assert len(anatomy.chunks[0].data_pages) > 2**15


def test_a_file_may_have_more_row_groups_than_an_i16_counts(tmp_path: Path) -> None:
    table = pa.table({"n": np.arange(33_000)})
    write(table, tmp_path / "a.parquet", row_group_rows=1, compression="uncompressed")
    anatomy = Anatomy(tmp_path / "a.parquet")
    assert len(anatomy.row_groups) == 33_000
    anatomy.check()
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


@pytest.mark.parametrize(
    "data_type",
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    ids=str,
)
@pytest.mark.parametrize("dictionary", [True, False])
def test_deltas_wrap_around(checker: Checker, data_type: pa.DataType, dictionary: bool) -> None:  # noqa: FBT001
    limits = np.iinfo(data_type.to_pandas_dtype())
    edges = [limits.min, limits.max, limits.min + 1, limits.max - 1, 0, limits.max // 2 + 1]
    rng = np.random.default_rng(5)
    jumps = rng.choice(np.array(edges, data_type.to_pandas_dtype()), 2000)
    ramp = np.linspace(float(limits.min) / 2, float(limits.max) / 2, 2000).astype(data_type.to_pandas_dtype())
    table = pa.table(
        {"jumps": pa.array(jumps), "ramp": pa.array(np.sort(ramp)), "fall": pa.array(np.sort(ramp)[::-1])}
    )
    for rows in (1, 2, 31, 32, 33, 128, 129, 257, 2000):
        checked(checker, table.slice(0, rows), dictionary=dictionary)


def test_unsigned_columns_are_ordered_unsigned(checker: Checker) -> None:
    columns = {
        f"u{bits}": pa.array([0, 1, 2**bits - 1, 2 ** (bits - 1)], f"uint{bits}") for bits in (8, 16, 32, 64)
    }
    anatomy = checked(checker, pa.table(columns))
    for chunk, bits in zip(anatomy.chunks, (8, 16, 32, 64), strict=True):
        assert int.from_bytes(chunk.statistics[6], "little") == 0
        assert int.from_bytes(chunk.statistics[5], "little") == 2**bits - 1


@V
@pytest.mark.parametrize("data_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize(
    "cells",
    [
        [math.nan],
        [math.nan] * 100,
        [math.nan, 1.0, -2.0, math.nan],
        [1.0, math.nan],
        [-0.0],
        [0.0],
        [-0.0, 0.0],
        [0.0, 5.0],
        [-5.0, -0.0],
        [math.inf, -math.inf],
        [None, math.nan],
        [None, -0.0],
    ],
    ids=lambda cells: "/".join(map(str, cells[:4])),
)
def test_nan_and_zero_keep_to_the_rules_of_bounds(
    checker: Checker, compatibility: str, data_type: pa.DataType, cells: list[float | None]
) -> None:
    array = pa.array(
        [None if cell is None else np.array(cell, data_type.to_pandas_dtype())[()] for cell in cells],
        data_type,
    )
    anatomy = checked(checker, pa.table({"c": array}), compatibility=compatibility)
    nans = sum(math.isnan(cell) for cell in cells if cell is not None)
    assert anatomy.chunks[0].statistics[9] == nans
    if nans:
        assert not {1, 2, 5, 6} & set(anatomy.chunks[0].statistics)


@pytest.mark.parametrize(
    "top",
    [
        "a" * 300,
        "\U0010ffff" * 100,
        "a" * 63 + "\U0010ffff" + "b" * 50,
        "a" * 62 + "é" * 50,
        "\ud7ff" * 60,
        "\x7f" * 200,
    ],
)
def test_long_maxima_are_upper_bounds_and_valid_text(checker: Checker, top: str) -> None:
    anatomy = checked(checker, pa.table({"c": ["", "a", top, "A" * 500]}))
    statistics = anatomy.chunks[0].statistics
    if 5 in statistics:
        assert statistics[5] >= top.encode()
        statistics[5].decode()


@pytest.mark.parametrize("top", [b"\xff" * 300, b"\xff" * 63 + b"\x01" * 50, b"\xfe" + b"\xff" * 300])
def test_long_binary_maxima_are_upper_bounds(checker: Checker, top: bytes) -> None:
    anatomy = checked(checker, pa.table({"c": [b"", b"a", top], "d": [top, top, None]}))
    assert anatomy.chunks[0].statistics.get(5, top) >= top


@V
def test_batches_may_bring_different_dictionaries(checker: Checker, compatibility: str) -> None:
    batches = [
        pa.record_batch({"c": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1], pa.int8()), words)})
        for words in (
            pa.array(["a", "b"]),
            pa.array(["b", "a"]),
            pa.array(["z", None]),
            pa.array(["same", "same"]),
        )
    ]
    anatomy = checked(checker, pa.Table.from_batches(batches), compatibility=compatibility)
    for page in anatomy.chunks[0].dictionary_pages:
        assert page.values == 4, "a, b, z and same"


def test_nulls_among_a_dictionarys_values_are_nulls(checker: Checker) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 1]), pa.array(["a", None, "a"]))
    anatomy = checked(checker, pa.table({"c": column}))
    assert anatomy.chunks[0].statistics[3] == 3


def test_a_null_among_a_dictionarys_values_is_refused_in_a_required_column(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    schema = pa.schema([pa.field("c", column.type, nullable=False)])
    with pytest.raises(spillway.SchemaError, match="c"):
        spillway.write_parquet(pa.Table.from_arrays([column], schema=schema), tmp_path / "a.parquet")


@V
def test_keys_under_nulls_may_point_anywhere(checker: Checker, compatibility: str) -> None:
    keys = np.array([0, 2**31 - 1, 1, -(2**31)], np.int32)
    indices = pa.Array.from_buffers(pa.int32(), 4, [pa.py_buffer(b"\x05"), pa.py_buffer(keys.tobytes())])
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    path = checker.folder / "keys.parquet"
    spillway.write_parquet(pa.table({"c": column}), path, compatibility=compatibility)
    assert Anatomy(path).chunks[0].meta[5] == 4
    plain = pa.table({"c": pa.array(["a", None, "b", None])})
    for engine in ENGINES:
        assert Truth.of(plain).problem(checker.process, engine, path) is None


def test_bytes_under_nulls_may_be_anything(checker: Checker) -> None:
    offsets = pa.py_buffer(np.array([0, 2, 4, 6], np.int32).tobytes())
    strings = pa.Array.from_buffers(
        pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"ok\xff\xfeok")]
    )
    checked(checker, pa.table({"c": strings}))


def _garbage_lists() -> pa.ListArray:
    """Null lists whose slots hold elements, under offsets that do not start at zero."""
    offsets = pa.py_buffer(np.array([1, 3, 7, 7, 9, 10], np.int32).tobytes())
    elements = pa.array([9, 1, 2, 66, 66, 66, 66, 3, 4, 5, 99])
    return pa.Array.from_buffers(
        pa.list_(pa.int64()), 5, [pa.py_buffer(b"\x1d"), offsets], children=[elements]
    )


@V
def test_elements_in_the_slots_of_null_lists_are_not_written(checker: Checker, compatibility: str) -> None:
    lists = _garbage_lists()
    assert lists.to_pylist() == [[1, 2], None, [], [3, 4], [5]]
    anatomy = checked(checker, pa.table({"c": lists}), compatibility=compatibility)
    assert anatomy.chunks[0].meta[5] == 7
    assert (
        checked(checker, pa.table({"c": lists.slice(1, 3)}), compatibility=compatibility).chunks[0].meta[5]
        == 4
    )


@V
def test_children_of_null_structs_are_not_written(checker: Checker, compatibility: str) -> None:
    child = pa.array(["visible", "hidden", "visible", "hidden"])
    structs = pa.Array.from_buffers(
        pa.struct([("s", pa.string()), ("l", pa.list_(pa.int64()))]),
        4,
        [pa.py_buffer(b"\x05")],
        children=[child, pa.array([[1], [2, 3], [], [4]])],
    )
    anatomy = checked(checker, pa.table({"c": structs}), compatibility=compatibility)
    text = anatomy.chunks[0]
    assert text.statistics[5] == text.statistics[6] == b"visible"
    assert text.statistics[3] == 2


def test_required_children_of_null_structs_are_no_error(checker: Checker) -> None:
    kind = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    child = pa.array([1, None, 3], pa.int64())
    structs = pa.Array.from_buffers(kind, 3, [pa.py_buffer(b"\x05")], children=[child])
    path = checker.folder / "required.parquet"
    spillway.write_parquet(pa.table({"c": structs}), path)
    assert pq.read_table(path).column("c").to_pylist() == [{"n": 1}, None, {"n": 3}]


@pytest.mark.parametrize("offset", [1, 7, 8, 9, 63, 65])
def test_sliced_arrays_are_written_from_their_offset(checker: Checker, offset: int) -> None:
    rng = np.random.default_rng(6)
    base = pa.table(
        {
            "bool": pa.array(rng.random(300) < 0.5, mask=rng.random(300) < 0.3),
            "list": [[int(row)] * (row % 4) if row % 5 else None for row in range(300)],
            "fixed": pa.array(
                [[row, None] if row % 3 else None for row in range(300)], pa.list_(pa.int32(), 2)
            ),
            "struct": [{"a": row, "b": [str(row)] * (row % 3)} if row % 7 else None for row in range(300)],
            "map": pa.array(
                [[(row, "x")] if row % 2 else None for row in range(300)], pa.map_(pa.int32(), pa.string())
            ),
            "word": pa.array(rng.choice(["a", "b", None], 300)).dictionary_encode(),
        }
    )
    checked(checker, base.slice(offset, 130))


@V
def test_empty_dictionaries_are_read_everywhere(checker: Checker, compatibility: str) -> None:
    empty = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], pa.string()))
    table = pa.table({"c": empty, "d": pa.array([None, None], pa.string()), "e": pa.array(["", ""])})
    checked(checker, table, compatibility=compatibility)


@V
def test_pages_may_have_no_values(checker: Checker, compatibility: str) -> None:
    table = pa.table(
        {
            "nulls": pa.array([None] * 1000, pa.int64()),
            "texts": pa.array([None] * 1000, pa.string()),
            "lists": pa.array([[]] * 1000, pa.list_(pa.int32())),
            "bools": pa.array([None] * 1000, pa.bool_()),
            "reals": pa.array([None] * 999 + [1.5], pa.float64()),
        }
    )
    checked(checker, table, compatibility=compatibility, page_bytes=16)


@V
def test_files_without_rows_have_their_schema(checker: Checker, compatibility: str) -> None:
    schema = pa.schema([("n", pa.int64()), ("s", pa.struct([("l", pa.list_(pa.string()))]))])
    anatomy = checked(checker, schema.empty_table(), compatibility=compatibility)
    assert anatomy.footer[3] == 0
    path = checker.folder / "never.parquet"
    with spillway.ParquetWriter(path, schema):
        pass
    assert pq.read_schema(path).equals(schema)


def test_children_are_named_as_the_format_says(tmp_path: Path) -> None:
    table = pa.table(
        {
            "list": pa.array([[1]], pa.list_(pa.field("weird", pa.int64()))),
            "large": pa.array([[1]], pa.large_list(pa.int64())),
            "fixed": pa.array([[1]], pa.list_(pa.int64(), 1)),
            "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    write(table, tmp_path / "a.parquet")
    paths = [chunk.path[1:] for chunk in Anatomy(tmp_path / "a.parquet").chunks]
    assert paths == [("list", "element")] * 3 + [("key_value", "key"), ("key_value", "value")]


def test_a_dictionary_comes_before_the_data_and_both_offsets_say_so(checker: Checker) -> None:
    table = pa.table({"a": ["x", "y"] * 3000, "b": ["p", "q", "r"] * 2000})
    anatomy = checked(checker, table, row_group_rows=2500)
    for chunk in anatomy.chunks:
        assert [page.kind for page in chunk.pages].index(DICTIONARY_PAGE) == 0
        assert chunk.meta[9] == chunk.pages[1].offset
        assert chunk.data_pages[0].encoding == RLE_DICTIONARY


def test_values_read_by_another_engines_filter_are_all_there(tmp_path: Path) -> None:
    """Row groups and pages that bounds rule out must hold nothing that is looked for."""
    rng = np.random.default_rng(7)
    table = pa.table(
        {"n": rng.integers(-500, 500, 20_000), "s": [f"k{n:04}" for n in rng.integers(0, 3000, 20_000)]}
    )
    path = tmp_path / "a.parquet"
    write(table, path, row_group_rows=3000, page_bytes=512)
    for number in (-500, -1, 0, 499):
        expected = int((table.column("n").to_numpy() == number).sum())
        assert pq.read_table(path, filters=[("n", "==", number)]).num_rows == expected
        assert pl.scan_parquet(path).filter(pl.col("n") == number).collect().height == expected
        found = duckdb.sql(
            "select count(*) from read_parquet(?) where n = ?", params=[str(path), number]
        ).fetchall()
        assert found == [(expected,)]
    words = table.column("s").to_pylist()
    for word in ("k0000", "k1500", words[0], words[-1]):
        assert pq.read_table(path, filters=[("s", "==", word)]).num_rows == words.count(word)
        assert pl.scan_parquet(path).filter(pl.col("s") == word).collect().height == words.count(word)


def test_sixteen_byte_values_may_lie_at_any_address(checker: Checker) -> None:
    numbers = pa.array([decimal.Decimal("1.23"), decimal.Decimal("-4.56"), None], pa.decimal128(20, 2))
    data = b"\x00" * 3 + numbers.buffers()[1].to_pybytes()
    shifted = pa.Array.from_buffers(numbers.type, 3, [numbers.buffers()[0], pa.py_buffer(data).slice(3)])
    assert shifted.buffers()[1].address % 16
    checked(checker, pa.table({"c": shifted}))


def test_seconds_that_do_not_fit_milliseconds_are_refused(tmp_path: Path) -> None:
    table = pa.table({"moment": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises((spillway.SpillwayError, ValueError, OverflowError), match="moment"):
        spillway.write_parquet(table, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "column",
    [
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([{}], pa.struct([])),
        pa.array([b""], pa.binary(0)),
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
        pa.array([decimal.Decimal(100)], pa.decimal128(5, -2)),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_parquet_has_not_are_refused_by_name(tmp_path: Path, column: pa.Array) -> None:
    with pytest.raises(spillway.SchemaError, match="odd one"):
        spillway.write_parquet(pa.table({"odd one": column}), tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_run_end_encoded_columns_are_written_as_their_values(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3, 4, 9], pa.int32()), pa.array(["a", None, "b"]))
    table = pa.table({"c": runs})
    write(table.slice(2, 5), tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").column("c").to_pylist() == ["a", None, "b", "b", "b"]


def test_repeated_column_names_are_kept(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["c", "c"])
    spillway.write_parquet(table, tmp_path / "a.parquet")
    assert pq.ParquetFile(tmp_path / "a.parquet").read().equals(table)
