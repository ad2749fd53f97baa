"""A name that several columns have is refused in every option that takes names, and only there."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
import spillway.delta
from spillway.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = b"0123456789abcdef"
NUMBERS = pa.array([1, 2])


def struct(*names: str) -> pa.Array:
    return pa.StructArray.from_arrays([NUMBERS] * len(names), names=list(names))


#: Tables, and the name in them that two leaf columns have.
TABLES = {
    "top": (pa.Table.from_arrays([NUMBERS, NUMBERS, NUMBERS], names=["c", "c", "d"]), "c"),
    "struct": (pa.Table.from_arrays([struct("b", "b"), NUMBERS], names=["s", "d"]), "s.b"),
    "dotted": (pa.Table.from_arrays([struct("b"), NUMBERS, NUMBERS], names=["s", "s.b", "d"]), "s.b"),
    "parts": (pa.Table.from_arrays([struct("b", "b"), NUMBERS], names=["s", "d"]), ("s", "b")),
}


def encrypted(name: Any) -> spillway.Encryption:
    return spillway.Encryption(footer_key=KEY, column_keys={name: KEY})


#: Every option that takes names of leaf columns, with a value that names one.
BY_LEAF: dict[str, Callable[[Any], Any]] = {
    "compression": lambda name: {name: "snappy"},
    "dictionary": lambda name: {name: False},
    "encoding": lambda name: {name: "plain"},
    "statistics": lambda name: {name: False},
    "field_ids": lambda name: {name: 7},
    "encryption": encrypted,
}
BLOOM_FILTERS: list[Callable[[Any], Any]] = [lambda name: [name], lambda name: {name: 0.1}]
CASES = [*BY_LEAF.items(), *(("bloom_filter", made) for made in BLOOM_FILTERS)]
#: Those that take names of top-level columns.
TOP_LEVEL = {"sorting_columns", "partition_by"}
OTHERS = {
    *("basename_template", "compatibility", "compression_level", "content_defined_chunking", "durable"),
    *("hold_batches", "on_schema_change"),
    *("dictionary_page_bytes", "mode", "max_file_bytes", "max_file_rows", "max_open_files"),
    *("memory_limit", "metadata", "metadata_file", "page_bytes", "page_checksums", "page_rows"),
    *("row_group_bytes", "row_group_rows", "sorting", "store_schema", "threads", "timestamp_loss"),
    *("timestamps", "verify"),
}


def test_every_option_is_known_to_these_tests() -> None:
    options = {field.name for of in (spillway.WriterOptions, spillway.DatasetOptions) for field in fields(of)}
    assert options == {name for name, _ in CASES} | TOP_LEVEL | OTHERS


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("option", "made"), CASES)
def test_an_ambiguous_name_is_refused(tmp_path: Path, table: str, option: str, made: Any) -> None:
    data, name = TABLES[table]
    for write, target in (
        (spillway.write_parquet, tmp_path / "a.parquet"),
        (spillway.write_dataset, tmp_path / "dataset"),
    ):
        with pytest.raises(OptionError) as caught:
            write(data, target, **{option: made(name)})  # type: ignore[arg-type]
        assert caught.value.option == option
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("mode", ["verify", "sort"])
@pytest.mark.parametrize("key", ["c", ("c", "descending")])
def test_rows_are_ordered_by_no_ambiguous_column(tmp_path: Path, mode: Any, key: Any) -> None:
    data, _ = TABLES["top"]
    with pytest.raises(OptionError) as caught:
        spillway.write_parquet(data, tmp_path / "a.parquet", sorting_columns=[key], sorting=mode)
    assert caught.value.option == "sorting_columns"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("by", ["c", ["d", "c"]])
def test_rows_are_divided_by_no_ambiguous_column(tmp_path: Path, by: Any) -> None:
    data, _ = TABLES["top"]
    with pytest.raises(OptionError) as caught:
        spillway.write_dataset(data, tmp_path / "dataset", partition_by=by)
    assert caught.value.option == "partition_by"
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("table", TABLES)
def test_ambiguous_names_that_no_option_uses_are_written(tmp_path: Path, table: str) -> None:
    data, _ = TABLES[table]
    options = {option: made("d") for option, made in CASES if option != "encryption"}
    path = tmp_path / "a.parquet"
    spillway.write_parquet(data, path, sorting_columns=["d"], **options)
    assert pq.ParquetFile(path).read().equals(data)
    spillway.write_dataset(data, tmp_path / "dataset", partition_by="d")
    read = [pq.ParquetFile(file).read() for file in sorted((tmp_path / "dataset").rglob("*.parquet"))]
    assert pa.concat_tables(read).equals(data.remove_column(data.num_columns - 1))


def test_a_nested_column_is_told_from_a_dotted_one_by_its_parts(tmp_path: Path) -> None:
    data, _ = TABLES["dotted"]
    written = spillway.write_parquet(data, tmp_path / "a.parquet", compression={("s", "b"): "snappy"})
    assert [column.path for column in written.columns] == ["s.b", "s.b", "d"]
    group = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    assert [group.column(place).compression for place in range(3)] == ["SNAPPY", "ZSTD", "ZSTD"]


@pytest.mark.parametrize("table", ["top", "struct"])
@pytest.mark.parametrize("way", ["write_rows", "write_ndjson"])
def test_rows_give_no_values_to_ambiguous_columns(tmp_path: Path, table: str, way: str) -> None:
    data, _ = TABLES[table]
    rows: dict[str, Any] = {"write_rows": [{"d": 1}], "write_ndjson": b'{"d": 1}\n'}
    with pytest.raises(SchemaError), spillway.ParquetWriter(tmp_path / "a.parquet", data.schema) as writer:
        getattr(writer, way)(rows[way])
    assert not list(tmp_path.iterdir())


def test_columns_by_name_have_no_ambiguous_one(tmp_path: Path) -> None:
    data, _ = TABLES["top"]
    with pytest.raises(SchemaError) as caught:
        spillway.write_parquet({"c": [1], "d": [2]}, tmp_path / "a.parquet", schema=data.schema)
    assert caught.value.column == "c"
    assert not list(tmp_path.iterdir())


def test_a_merge_takes_no_ambiguous_column_of_its_source(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", pa.schema({"c": pa.int64(), "d": pa.int64()}))
    twice = pa.Table.from_arrays([NUMBERS] * 3, names=["c", "d", "d"])
    insert = spillway.delta.when_not_matched_insert(["c", "d"])
    with pytest.raises(OptionError) as caught:
        table.merge(twice.rename_columns(["c", "c", "d"]), "c", insert)
    assert caught.value.option == "on"
    with pytest.raises(OptionError):
        table.merge(twice, "c", insert)
    with pytest.raises(SchemaError):
        table.merge(twice, "c")
    assert table.version == 0


def test_a_delta_table_has_no_ambiguous_column(tmp_path: Path) -> None:
    for data in (TABLES["top"][0], TABLES["struct"][0]):
        with pytest.raises(SchemaError):
            spillway.delta.write(tmp_path / "table", data)
    assert not (tmp_path / "table").exists()
