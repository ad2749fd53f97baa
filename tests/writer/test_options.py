"""The effect of each option, as strict readers see it."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
from spillway.types import Compression, WriterKeywords

if TYPE_CHECKING:
    from pathlib import Path


def written(table: pa.Table, **options: Any) -> tuple[pq.ParquetFile, spillway.WriteResult]:
    file = io.BytesIO()
    result = spillway.write_parquet(table, file, **options)
    return pq.ParquetFile(file), result


def encodings(file: pq.ParquetFile, column: int) -> set[str]:
    return set(file.metadata.row_group(0).column(column).encodings)


@pytest.mark.parametrize("codec", get_args(Compression))
def test_every_codec_is_read(table: pa.Table, codec: str) -> None:
    file, result = written(table, compression=codec)
    assert file.read().equals(table)
    named = {column.compression for column in result.columns}
    assert named == {{"lz4": "LZ4_RAW"}.get(codec, codec.upper())}
    stored = file.metadata.row_group(0).column(0).compression
    assert stored == {"lz4": "LZ4"}.get(codec, codec.upper())


@pytest.mark.parametrize(
    ("codec", "level"), [("zstd", 1), ("zstd", 22), ("gzip", 0), ("gzip", 9), ("brotli", 11)]
)
def test_every_level_is_read(table: pa.Table, codec: str, level: int) -> None:
    assert written(table, compression=codec, compression_level=level)[0].read().equals(table)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"compression": "lzo"}, '"zstd", "snappy", "lz4", "gzip", "brotli", "uncompressed"'),
        ({"compression": "ZSTD"}, "choose one of"),
        ({"compression_level": 23}, "takes 1 to 22"),
        ({"compression": "snappy", "compression_level": 1}, "has no levels"),
        ({"row_group_rows": 0}, "from 1 to"),
        ({"row_group_bytes": -1}, "from 1 to"),
        ({"page_bytes": 2**40}, "from 1 to 536870912"),
        ({"compatibility": "v2"}, '"modern", "v1"'),
        ({"timestamps": "ns"}, '"keep", "us", "ms", "int96"'),
        ({"timestamp_loss": "never"}, '"allow", "refuse"'),
        ({"verify": "all"}, '"footer", "pages", "values"'),
        ({"page_rows": 0}, "from 1 to"),
        ({"dictionary_page_bytes": 2**40}, "from 1 to 536870912"),
        ({"statistics": {(): True}}, "dotted path"),
        ({"compression": "zstd(23)"}, "takes 1 to 22"),
        ({"compression": "zstd()"}, "write the level once"),
        ({"compression": "zstd(3)", "compression_level": 3}, "write the level once"),
        ({"compression": "snappy(1)"}, "has no levels"),
        ({"compression": {"id": "lzo"}}, '"zstd", "snappy"'),
        ({"compression": {"id": "gzip"}, "compression_level": 3}, r"zstd\(3\)"),
        ({"dictionary": {(): True}}, "dotted path"),
        ({"metadata": {"ARROW:schema": "x"}}, "the writer sets itself"),
        ({"field_ids": {"id": -1}}, "from 0 to 2147483647"),
        ({"field_ids": {"id": 2**31}}, "from 0 to 2147483647"),
        ({"field_ids": {"id": 1, "word": 1}}, 'of "id" and of "word"'),
        ({"field_ids": {(): 1}}, "dotted path"),
    ],
)
def test_a_value_that_is_not_accepted_says_which_are(options: dict[str, Any], says: str) -> None:
    with pytest.raises(spillway.OptionError, match=says):
        spillway.WriterOptions(**options)
    with pytest.raises(spillway.OptionError, match=says):
        spillway.ParquetWriter(io.BytesIO(), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_rows": "many"},
        {"dictionary": 3},
        {"field_ids": {"id": "one"}},
        {"field_ids": ["id"]},
        {"no_such_option": 1},
    ],
)
def test_a_value_of_another_type_is_a_type_error(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        spillway.WriterOptions(**options)


def test_the_keywords_are_the_options() -> None:
    fields = {field.name for field in dataclasses.fields(spillway.WriterOptions)}
    assert fields == set(WriterKeywords.__annotations__)


def test_options_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(spillway.OptionError):
        spillway.ParquetWriter(tmp_path / "rows.parquet", page_bytes=0)
    assert list(tmp_path.iterdir()) == []


def test_codecs_and_levels_are_chosen_by_column(table: pa.Table) -> None:
    codecs = {"id": "snappy", "note": "zstd(19)", ("tags", "list", "element"): "gzip(9)", "score": "lz4"}
    file, result = written(table, compression=codecs)
    assert file.read().equals(table)
    chosen = {column.path: column.compression for column in result.columns}
    assert chosen == {
        "id": "SNAPPY",
        "word": "ZSTD",
        "note": "ZSTD",
        "score": "LZ4_RAW",
        "seen": "ZSTD",
        "tags.list.element": "GZIP",
    }
    note = {level: written(table, compression={"note": f"zstd({level})"})[1].columns[2] for level in (1, 19)}
    assert note[19].compressed_bytes < note[1].compressed_bytes
    with pytest.raises(spillway.OptionError, match=r'it has "id", "word"'):
        written(table, compression={"wrod": "gzip"})


def test_a_level_may_stand_behind_its_codec(table: pa.Table) -> None:
    files = io.BytesIO(), io.BytesIO()
    spillway.write_parquet(table, files[0], compression="zstd(3)")  # type: ignore[arg-type]
    spillway.write_parquet(table, files[1], compression="zstd", compression_level=3)
    assert files[0].getvalue() == files[1].getvalue()


def test_dictionaries_can_be_forbidden_everywhere(table: pa.Table) -> None:
    file, result = written(table, dictionary=False)
    assert file.read().equals(table)
    assert not any("RLE_DICTIONARY" in column.encodings for column in result.columns)
    assert not any(file.metadata.row_group(0).column(i).has_dictionary_page for i in range(6))


@pytest.mark.parametrize("key", ["tags.list.element", ("tags", "list", "element")])
def test_dictionaries_can_be_forbidden_by_column(table: pa.Table, key: str | tuple[str, ...]) -> None:
    result = written(table, dictionary={key: False})[1]
    used = {column.path: "RLE_DICTIONARY" in column.encodings for column in result.columns}
    assert not used["tags.list.element"]
    assert used["word"]


def test_names_with_dots_are_told_apart_by_tuples() -> None:
    table = pa.table({"a.b": ["x"] * 100, "a": pa.array([{"b": "x"}] * 100)})
    result = written(table, dictionary={("a", "b"): False})[1]
    assert [column.encodings for column in result.columns] == [
        ("RLE_DICTIONARY",),
        ("DELTA_LENGTH_BYTE_ARRAY",),
    ]


def test_a_column_that_is_not_there_is_an_error(table: pa.Table) -> None:
    with pytest.raises(spillway.OptionError, match=r'it has "id", "word"'):
        written(table, dictionary={"wrod": False})


def test_version_one_has_plain_and_dictionaries_only(table: pa.Table) -> None:
    file, result = written(table, compatibility="v1")
    assert file.read().equals(table)
    assert {encoding for column in result.columns for encoding in column.encodings} <= {
        "PLAIN",
        "RLE_DICTIONARY",
    }


def test_metadata_goes_over_that_of_the_schema(table: pa.Table) -> None:
    described = table.replace_schema_metadata({"kept": "yes", "replaced": "old"})
    file = written(described, metadata={"replaced": "new", "more": "ü"})[0]
    stored = file.metadata.metadata
    assert {stored[b"kept"], stored[b"replaced"], stored[b"more"]} == {b"yes", b"new", "ü".encode()}
    assert file.schema_arrow.field("id").equals(table.schema.field("id"))


def test_metadata_may_come_until_the_file_is_closed(table: pa.Table) -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, metadata={"first": "1", "replaced": "old"}) as writer:
        writer.add_metadata({"early": "yes"})
        writer.write(table)
        writer.add_metadata({"replaced": "new", "rows": str(table.num_rows)})
        with pytest.raises(spillway.OptionError, match="the writer sets itself"):
            writer.add_metadata({"ARROW:schema": "x"})
        with pytest.raises(TypeError, match="from str to str"):
            writer.add_metadata({"n": 1})  # type: ignore[dict-item]
    stored = dict(pq.ParquetFile(file).metadata.metadata)
    assert stored.pop(b"ARROW:schema")
    assert stored == {b"first": b"1", b"replaced": b"new", b"early": b"yes", b"rows": b"6000"}
    with pytest.raises(spillway.ClosedError):
        writer.add_metadata({"late": "no"})


def test_field_ids_come_with_the_schema() -> None:
    def field(name: str, data_type: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, data_type, metadata={"PARQUET:field_id": str(number)})

    schema = pa.schema(
        [
            field("id", pa.int64(), 7),
            field("word", pa.dictionary(pa.int32(), pa.string()), 2**31 - 1),
            field("at", pa.struct([field("time", pa.timestamp("us"), 11)]), 10),
            field("list", pa.list_(field("element", pa.string(), 13)), 12),
            pa.field("none", pa.int8()),
        ]
    )
    for times in ("keep", "int96"):
        file = written(schema.empty_table(), timestamps=times)[0]
        lines = str(file.schema).splitlines()
        found = {int(line.split("field_id=")[1].split(" ")[0]) for line in lines if "field_id=" in line}
        assert {7, 2**31 - 1, 10, 11, 12, 13} <= found
        assert file.schema_arrow.field("id").metadata == {b"PARQUET:field_id": b"7"}


def test_columns_get_the_encodings_that_suit_them() -> None:
    count = range(50_000)
    table = pa.table(
        {
            "counter": pa.array(count, pa.int64()),
            "unique": [f"{i * 2654435761 % 2**32:08x}-{i}" for i in count],
            "few": [f"level {i % 5}" for i in count],
            "noise": pa.array([(i * 2654435761 % 2**32) / 7 for i in count], pa.float64()),
        }
    )
    result = written(table)[1]
    chosen = {column.path: column.encodings[0] for column in result.columns}
    assert chosen["counter"] == "DELTA_BINARY_PACKED"
    assert chosen["few"] == "RLE_DICTIONARY"
    assert chosen["unique"] in {"PLAIN", "DELTA_LENGTH_BYTE_ARRAY"}
    assert chosen["noise"] == "PLAIN"  # Spark's vectorized reader refuses BYTE_STREAM_SPLIT


def test_flush_closes_the_row_group(table: pa.Table) -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, table.schema) as writer:
        writer.flush()
        writer.write(table.slice(0, 10))
        writer.flush()
        writer.flush()
        writer.write(table.slice(10))
    metadata = pq.ParquetFile(file).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [10, 5990]


def test_the_result_is_what_the_footer_says(table: pa.Table) -> None:
    file, result = written(table, row_group_rows=2500)
    metadata = file.metadata
    assert (result.rows, result.row_groups) == (metadata.num_rows, metadata.num_row_groups)
    for index, column in enumerate(result.columns):
        chunks = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
        assert column.path == chunks[0].path_in_schema
        assert column.physical_type == chunks[0].physical_type
        assert column.compressed_bytes == sum(chunk.total_compressed_size for chunk in chunks)
        assert column.uncompressed_bytes == sum(chunk.total_uncompressed_size for chunk in chunks)
        assert column.values == sum(chunk.num_values for chunk in chunks)
        assert column.nulls == sum(chunk.statistics.null_count for chunk in chunks)
    assert result.peak_tracked_bytes > 0


def test_a_closed_writer_stays_closed(table: pa.Table) -> None:
    writer = spillway.ParquetWriter(io.BytesIO(), table.schema)
    with pytest.raises(ValueError, match="still open"):
        _ = writer.result
    writer.close()
    writer.close()
    writer.abort()
    assert writer.result.rows == 0
    for call in (lambda: writer.write(table), writer.flush):
        with pytest.raises(spillway.ClosedError, match="closed"):
            call()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (options, field.name)
        for options in (spillway.WriterOptions, spillway.DatasetOptions)
        for field in dataclasses.fields(options)
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_option(options: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be "):
        options(**{name: object()})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sorting_columns": "time"}, r"a list of column names, such as \[\"time\"\].*not 'time'"),
        ({"dictionary": ["id"]}, r"such as \{\"id\": False\}"),
        ({"dictionary": {"id": "no"}}, r"mapping from column paths to bool.*not 'id': 'no'"),
        ({"field_ids": {"id": "one"}}, r"mapping from column paths to int.*not 'id': 'one'"),
        ({"row_group_rows": "1M"}, "must be an int, not '1M'"),
        ({"row_group_rows": True}, "must be an int, not True"),
        ({"threads": True}, "must be an int or None, not True"),
    ],
)
def test_a_type_error_shows_what_to_write(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        spillway.WriterOptions(**options)


def test_a_column_without_a_name_is_named_by_options() -> None:
    table = pa.table({"": ["x"], "s": [{"": 1}]})
    for key in ("", ("",), ("s", "")):
        file = io.BytesIO()
        spillway.write_parquet(table, file, statistics={key: False})
        columns = [pq.read_metadata(file).row_group(0).column(place) for place in range(2)]
        assert [each.is_stats_set for each in columns] == [len(key) > 1, len(key) < 2]
    with pytest.raises(spillway.OptionError, match="a key is a column's dotted path"):
        spillway.write_parquet(table, io.BytesIO(), statistics={(): False})
