"""Encodings that the caller names."""

from __future__ import annotations

import datetime as dt
import io
import random
import struct
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 5_000
COLUMNS: dict[str, pa.Array] = {
    "flag": pa.array([None if row % 7 == 0 else row % 3 == 0 for row in range(ROWS)]),
    "small": pa.array([row % 251 - 100 for row in range(ROWS)], pa.int16()),
    "int": pa.array([None if row % 5 == 0 else row * 77 % 4_001 for row in range(ROWS)], pa.int32()),
    "time": pa.array(
        [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=row) for row in range(ROWS)],
        pa.timestamp("us", "UTC"),
    ),
    "float": pa.array([row / 7 for row in range(ROWS)], pa.float32()),
    "double": pa.array([None if row % 11 == 0 else row / 3 for row in range(ROWS)]),
    "text": pa.array(
        [None if row % 4 == 0 else f"/path/{row % 900}/{'x' * (row % 40)}" for row in range(ROWS)]
    ),
    "bytes": pa.array([bytes([row % 256]) * (row % 19) for row in range(ROWS)]),
    "fixed": pa.array([row.to_bytes(8, "big") for row in range(ROWS)], pa.binary(8)),
}
SUITING: dict[str, tuple[str, ...]] = {
    "plain": tuple(COLUMNS),
    "dictionary": tuple(name for name in COLUMNS if name != "flag"),
    "rle": ("flag",),
    "delta_binary_packed": ("small", "int", "time"),
    "delta_length_byte_array": ("text", "bytes"),
    "delta_byte_array": ("text", "bytes", "fixed"),
    "byte_stream_split": ("small", "int", "time", "float", "double", "fixed"),
}
PAIRS = [(encoding, column) for encoding, columns in SUITING.items() for column in columns]
MISFITS = [
    (encoding, column) for encoding, columns in SUITING.items() for column in COLUMNS if column not in columns
]

# What these readers lack; `"auto"` never takes it.
REFUSED_BY_DUCKDB = {("byte_stream_split", "fixed")}
REFUSED_BY_POLARS = {("byte_stream_split", "fixed"), ("delta_byte_array", "fixed")}


@pytest.mark.parametrize(("encoding", "column"), PAIRS)
def test_a_named_encoding_is_used_and_read(encoding: Any, column: str, tmp_path: Path) -> None:
    table, path = pa.table({column: COLUMNS[column]}), tmp_path / "a.parquet"
    result = spillway.write_parquet(table, path, encoding=encoding, row_group_rows=2_100)
    wanted = "RLE_DICTIONARY" if encoding == "dictionary" else encoding.upper()
    assert result.columns[0].encodings == (wanted,)
    assert pq.ParquetFile(path).read(use_threads=False).equals(table)
    if (encoding, column) not in REFUSED_BY_DUCKDB:
        read = duckdb.read_parquet(str(path)).to_arrow_table()
        assert read[column].to_pylist() == table[column].to_pylist()
    if (encoding, column) not in REFUSED_BY_POLARS:
        assert pl.read_parquet(path)[column].to_list() == table[column].to_pylist()


@pytest.mark.parametrize(("encoding", "column"), MISFITS)
def test_an_encoding_that_does_not_suit_the_type_is_refused(
    encoding: Any, column: str, tmp_path: Path
) -> None:
    table = pa.table({column: COLUMNS[column]})
    with pytest.raises(spillway.OptionError, match=f'encoding="{encoding}" does not suit column "{column}"'):
        spillway.write_parquet(table, tmp_path / "a.parquet", encoding=encoding)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("encoding", ["delta_length_byte_array", "delta_byte_array"])
def test_a_dictionary_of_text_is_refused_what_pyarrow_reads_no_dictionary_from(
    encoding: Any, tmp_path: Path
) -> None:
    table = pa.table({"kind": pa.array(["a", "b", "a"]).dictionary_encode()})
    with pytest.raises(
        spillway.OptionError, match=r'does not suit column "kind": pyarrow .* cast the column'
    ):
        spillway.write_parquet(table, tmp_path / "a.parquet", encoding=encoding)
    values = pa.table({"kind": table["kind"].cast(pa.string())})
    spillway.write_parquet(values, tmp_path / "a.parquet", encoding=encoding)
    assert pq.read_table(tmp_path / "a.parquet").equals(values)


@pytest.mark.parametrize("encoding", ["plain", "dictionary", "auto"])
def test_a_dictionary_of_text_comes_back_as_one(encoding: Any, tmp_path: Path) -> None:
    table = pa.table({"kind": pa.array(["a", "b", None, "a"]).dictionary_encode()})
    spillway.write_parquet(table, tmp_path / "a.parquet", encoding=encoding)
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


def test_columns_that_are_not_named_get_what_suits_them(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(ROWS)), "text": COLUMNS["text"]})
    result = spillway.write_parquet(table, tmp_path / "a.parquet", encoding={"text": "delta_byte_array"})
    assert [column.encodings for column in result.columns] == [
        ("DELTA_BINARY_PACKED",),
        ("DELTA_BYTE_ARRAY",),
    ]


def test_a_name_goes_over_a_forbidden_dictionary(tmp_path: Path) -> None:
    table = pa.table({"text": COLUMNS["text"]})
    result = spillway.write_parquet(table, tmp_path / "a.parquet", encoding="dictionary", dictionary=False)
    assert result.columns[0].encodings == ("RLE_DICTIONARY",)


# What hashes of dictionaries begin with, which everybody can read: behind it, all values hash to the same.
SEED = 0x243F6A8885A308D3


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(16)], ids=str)
@pytest.mark.parametrize("keyed", [False, True])
def test_values_that_collide_go_on_without_a_dictionary(kind: pa.DataType, keyed: bool) -> None:  # noqa: FBT001
    """A table of all of them would cost their number squared: 60,000 took a minute."""
    values = [struct.pack("<QQ", SEED, number) for number in range(60_000)]
    column = pa.array(values).cast(kind)
    if keyed:
        column = pa.DictionaryArray.from_arrays(pa.array(range(60_000), pa.int32()), column)
    table = pa.table({"a": pa.concat_arrays([column, column])})
    files = [io.BytesIO(), io.BytesIO()]
    for file, rows in zip(files, (120_000, 999), strict=True):
        with spillway.ParquetWriter(file, table.schema, encoding="dictionary") as writer:
            for batch in table.to_batches(max_chunksize=rows):
                writer.write(batch)
        assert set(writer.result.columns[0].encodings) == {"RLE_DICTIONARY", "PLAIN"}
    assert files[0].getvalue() == files[1].getvalue()
    assert pq.read_table(files[0])["a"].cast(pa.binary()).to_pylist() == values * 2


def test_leaves_of_nested_columns_are_named_by_their_paths(tmp_path: Path) -> None:
    table = pa.table({"list": pa.array([[row, row + 1] for row in range(ROWS)])})
    path = tmp_path / "a.parquet"
    result = spillway.write_parquet(table, path, encoding={"list.list.element": "delta_binary_packed"})
    assert result.columns[0].encodings == ("DELTA_BINARY_PACKED",)
    assert pq.ParquetFile(path).read(use_threads=False).equals(table)


def test_version_one_refuses_what_it_does_not_have() -> None:
    schema = pa.schema({"id": pa.int64()})
    with pytest.raises(spillway.OptionError, match="allows"):
        spillway.ParquetWriter("never.parquet", schema, encoding="delta_binary_packed", compatibility="v1")


def test_unknown_names_and_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(spillway.OptionError, match='encoding="delta" is not accepted: choose one of "auto"'):
        spillway.WriterOptions(encoding="delta")  # type: ignore[arg-type]
    with pytest.raises(spillway.OptionError, match='encoding names the column "wrod"'):
        spillway.write_parquet(pa.table({"word": ["a"]}), tmp_path / "a.parquet", encoding={"wrod": "plain"})
    with pytest.raises(TypeError, match="encoding must be the name of an encoding or a mapping"):
        spillway.WriterOptions(encoding=7)  # type: ignore[arg-type]


def chosen(column: pa.Array, **options: Any) -> tuple[str, ...]:
    """The encodings of a column that is written by `auto`, and comes back as it was."""
    table, file = pa.table({"a": column}), io.BytesIO()
    result = spillway.write_parquet(table, file, **options)
    assert pq.read_table(file).equals(table)
    return result.columns[0].encodings


def names(rows: int) -> pa.Array:
    """Text that repeats in parts, and one in five times as a whole."""
    syllables = ["ba", "den", "hei", "burg", "lin", "stadt", "mün", "ster", "wald", "kirch", "ober", "nieder"]
    draw = random.Random(7)  # noqa: S311
    made = ["".join(draw.choices(syllables, k=5)) for _ in range(rows)]
    return pa.array([draw.choice(made[: row + 1]) if row % 5 == 0 else made[row] for row in range(rows)])


@pytest.mark.parametrize("rows", [900, 30_000])
def test_text_that_repeats_in_parts_gets_no_dictionary(rows: int) -> None:
    """A codec finds the parts: as a dictionary, the text took a fifth more."""
    assert not set(chosen(names(rows))) & {"RLE_DICTIONARY"}
    sizes = {}
    for encoding in ("auto", "dictionary", "plain", "delta_length_byte_array"):
        table = pa.table({"a": names(rows)})
        sizes[encoding] = spillway.write_parquet(table, io.BytesIO(), encoding=encoding).bytes
    assert sizes["auto"] <= 1.01 * min(sizes.values())


def test_sequences_that_come_again_get_no_dictionary() -> None:
    """A codec finds them among values, and not among indices of 11 bits."""
    codes = pa.array([f"{code * 7919 % 10_007:05d}" for code in range(1_201)] * 20)
    assert not set(chosen(codes)) & {"RLE_DICTIONARY"}


def test_sequences_that_come_again_are_found_among_indices() -> None:
    """A codec finds them among indices in whole bytes, and not among indices of 11 bits."""
    codes = pa.array([f"{code * 7919 % 10_007:05d}" for code in range(1_201)] * 20)
    written = spillway.write_parquet(pa.table({"a": codes}), io.BytesIO(), encoding="dictionary")
    # 24,020 indices of 11 bits are 33,027 bytes, which hide what comes again.
    assert written.columns[0].compressed_bytes < 33_027 / 4


def least(column: pa.Array) -> int:
    """The fewest bytes of a file with this column in one named encoding."""
    deltas = "delta_length_byte_array" if column.type == pa.string() else "delta_binary_packed"
    names: tuple[Any, ...] = ("dictionary", "plain", deltas)
    table = pa.table({"a": column})
    return min(spillway.write_parquet(table, io.BytesIO(), encoding=name).bytes for name in names)


def of_zones() -> pa.Array:
    """Times of which many zones have the same ones: each sequence comes again 24,000 bytes later."""
    draw = random.Random(7)  # noqa: S311
    times = sorted(draw.sample(range(2**31), 3_000))
    return pa.array([time for _ in range(6) for time in times])


def of_counties(rows: int) -> pa.Array:
    """Names with a common ending, some of them of several states."""
    draw = random.Random(7)  # noqa: S311
    stems = ["".join(draw.choices("aeioulnrst", k=draw.randint(4, 9))).title() for _ in range(rows * 2 // 3)]
    return pa.array([f"{draw.choice(stems)} County" for _ in range(rows)])


@pytest.mark.parametrize("column", [of_zones(), of_counties(3_000)], ids=["zones", "counties"])
def test_repeats_that_16_kib_do_not_show_are_found(column: pa.Array) -> None:
    assert spillway.write_parquet(pa.table({"a": column}), io.BytesIO()).bytes <= 1.01 * least(column)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(8), pa.float64(), pa.int64()], ids=str)
def test_values_that_never_repeat_get_no_dictionary_however_they_come(kind: pa.DataType) -> None:
    numbers = [row * 2_654_435_761 % 2**26 for row in range(30_000)]
    if kind == pa.binary(8):
        column = pa.array([number.to_bytes(8, "big") for number in numbers], kind)
    else:
        column = pa.array(numbers, pa.int64()).cast(kind)
    files = [io.BytesIO(), io.BytesIO()]
    for file, rows in zip(files, (30_000, 77), strict=True):
        with spillway.ParquetWriter(file, pa.schema({"a": column.type})) as writer:
            for batch in pa.table({"a": column}).to_batches(max_chunksize=rows):
                writer.write(batch)
        assert not set(writer.result.columns[0].encodings) & {"RLE_DICTIONARY"}
    assert files[0].getvalue() == files[1].getvalue()
    assert pq.read_table(files[0])["a"].combine_chunks().equals(column)


@pytest.mark.parametrize("late", [2_048, 5_000, 25_000])
def test_values_that_begin_to_repeat_late_come_back(late: int) -> None:
    """The dictionary is left after the first 2,048 of them, and the first page is decided without it."""
    column = pa.array([f"value {row if row < late else row % 7}" for row in range(30_000)])
    assert not set(chosen(column)) & {"RLE_DICTIONARY"}


def test_large_values_that_repeat_are_stored_once() -> None:
    """A page holds one of them, and shows no repeat."""
    documents = [random.Random(seed).randbytes(300_000) for seed in range(5)]  # noqa: S311
    table = pa.table({"a": pa.array([documents[row % 5] for row in range(60)])})
    assert spillway.write_parquet(table, io.BytesIO()).bytes < 2_000_000


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary(6), pa.int64(), pa.list_(pa.string())], ids=str)
def test_columns_of_hardly_any_value_come_back(kind: pa.DataType, dictionary: bool) -> None:  # noqa: FBT001
    """No page of theirs has enough values to choose an encoding by."""
    values: list[Any] = [None] * 90_000
    for row in range(0, 90_000, 3_001):
        values[row] = {"string": f"row {row}", "fixed_size_binary[6]": b"%06d" % row, "int64": row}.get(
            str(kind), ["a"]
        )
    chosen(pa.array(values, kind), dictionary=dictionary)
