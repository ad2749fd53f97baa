from __future__ import annotations

import contextlib
import datetime as dt
import os
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway
from spillway.inspection import (
    ColumnChunkReport,
    FileReport,
    PageEncoding,
    RowGroupReport,
    compare_reports,
    inspect_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 10_000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "name": [None if i % 10 == 0 else f"name-{i % 100:03d}" for i in range(ROWS)],
        "ratio": [i / 7 for i in range(ROWS)],
    }
)
NESTED = pa.table(
    {
        "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
        "http": pa.array([{"status": 200}, None, {"status": None}], pa.struct([("status", pa.int16())])),
        "attributes": pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())),
    }
)


def write_with_duckdb(table: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("rows", table)
        connection.execute(f"COPY rows TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 4096)")


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "parquet-cpp-arrow": lambda table, path: pq.write_table(table, path, row_group_size=4096),
    "Polars": lambda table, path: pl.from_arrow(table).write_parquet(path, row_group_size=4096),
    "DuckDB": write_with_duckdb,
    "spillway": lambda table, path: spillway.write_parquet(table, path, row_group_rows=4096),
}


def report_of(*paths: str) -> FileReport:
    """A report on a file with one row group, whose columns have these paths."""
    facts: dict[str, Any] = {"physical_type": "INT64", "logical_type": None, "codec": "ZSTD"}
    facts |= {"field_id": None, "max_definition_level": 1, "max_repetition_level": 0, "encodings": ("PLAIN",)}
    facts |= {"encoding_stats": None, "values": 10, "nulls": 0, "distinct": None, "min": None, "max": None}
    facts |= {"min_exact": False, "max_exact": False, "compressed_bytes": 50, "uncompressed_bytes": 80}
    facts |= {"dictionary_page": False, "data_pages": 1, "column_index": True, "offset_index": True}
    facts |= {"bloom_filter": False, "bloom_filter_bytes": None}
    columns = tuple(ColumnChunkReport(path=path, **facts) for path in paths)
    return FileReport(
        path=Path("rows.parquet"),
        bytes=100,
        footer_bytes=50,
        created_by=None,
        version=2,
        rows=10,
        schema="message schema {\n}",
        metadata_keys=(),
        row_groups=(RowGroupReport(10, 50, 80, (), columns),),
    )


REPORTS = [report_of("a"), report_of("a", "b"), report_of("a", "b.c", "b.d")]
#: Changes of a column, and what they are a difference of.
CHANGES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"physical_type": "INT32"}, ("schema",)),
    ({"logical_type": "uint64"}, ("schema",)),
    ({"field_id": 1}, ("schema",)),
    ({"max_definition_level": 0}, ("schema",)),
    ({"codec": "SNAPPY"}, ("encodings",)),
    ({"dictionary_page": True}, ("encodings",)),
    ({"bloom_filter": True}, ("encodings",)),
    ({"offset_index": False}, ("encodings",)),
    ({"compressed_bytes": 51}, ("sizes",)),
    ({"uncompressed_bytes": 81}, ("sizes",)),
    ({"nulls": None}, ("sizes",)),
    ({"data_pages": 2}, ("sizes",)),
    ({"codec": "SNAPPY", "compressed_bytes": 70}, ("encodings", "sizes")),
]


def chunks(report: FileReport, path: str) -> list[ColumnChunkReport]:
    return [column for group in report.row_groups for column in group.columns if column.path == path]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_of_any_writer_is_reported(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "rows.parquet"
    WRITERS[writer](TABLE, path)
    report = inspect_file(path)
    assert report.path == path
    assert report.bytes == path.stat().st_size
    assert 0 < report.footer_bytes < report.bytes
    assert writer.lower() in (report.created_by or "").lower()
    assert report.rows == ROWS
    assert len(report.row_groups) > 1
    assert sum(group.rows for group in report.row_groups) == ROWS
    stored = sum(group.compressed_bytes for group in report.row_groups)
    assert 0 < stored < report.bytes
    for group in report.row_groups:
        assert [column.path for column in group.columns] == TABLE.column_names
        assert sum(column.compressed_bytes for column in group.columns) == group.compressed_bytes
    assert sum(column.nulls or 0 for column in chunks(report, "name")) == TABLE["name"].null_count
    assert [column.logical_type for column in report.row_groups[0].columns][1:] == ["string", None]


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_reported_is_what_pyarrow_reads_from_the_footer(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "rows.parquet"
    WRITERS[writer](TABLE, path)
    report, metadata = inspect_file(path), pq.read_metadata(path)
    assert report.row_groups[0].uncompressed_bytes == metadata.row_group(0).total_byte_size
    for index, group in enumerate(report.row_groups):
        for position, column in enumerate(group.columns):
            expected = metadata.row_group(index).column(position)
            assert column.codec.rstrip("_RAW") == expected.compression.rstrip("_RAW")
            assert column.physical_type == expected.physical_type
            assert set(column.encodings) == set(expected.encodings)
            assert column.values == expected.num_values
            assert column.compressed_bytes == expected.total_compressed_size
            assert column.uncompressed_bytes == expected.total_uncompressed_size
            assert column.dictionary_page == expected.has_dictionary_page
            assert column.column_index == expected.has_column_index
            assert column.offset_index == expected.has_offset_index


def test_columns_are_totalled_over_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path, row_group_size=2_500, use_dictionary=["name"], write_page_index=True)
    report = inspect_file(path)
    totals = {column.path: column for column in report.column_totals()}
    name, ratio = totals["name"], totals["ratio"]
    assert (name.chunks, name.dictionary_chunks, ratio.dictionary_chunks) == (4, 4, 0)
    assert (name.values, name.nulls) == (ROWS, ROWS // 10)
    assert name.encodings == (("RLE_DICTIONARY", 4),)
    assert ratio.encodings == (("PLAIN", 4),)
    assert name.compressed_bytes == sum(column.compressed_bytes for column in chunks(report, "name"))
    assert (name.data_pages, name.column_indexes, name.offset_indexes, name.bloom_filters) == (4, 4, 4, 0)


@pytest.mark.parametrize("page_index", [True, False])
def test_page_indexes_are_seen_and_counted(tmp_path: Path, *, page_index: bool) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(
        TABLE,
        path,
        write_page_index=page_index,
        use_dictionary=False,
        data_page_size=8_000,
        write_batch_size=500,
    )
    (column,) = chunks(inspect_file(path), "ratio")
    assert (column.column_index, column.offset_index) == (page_index, page_index)
    # With an index or without, the number of pages is known: here from the encoding statistics.
    assert column.data_pages == sum(
        entry.pages for entry in column.encoding_stats or () if entry.page_type.startswith("DATA_PAGE")
    )
    assert (column.data_pages or 0) > 5


@pytest.mark.parametrize("writer", WRITERS)
def test_pages_are_those_of_the_chunk(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "rows.parquet"
    WRITERS[writer](pa.concat_tables([TABLE, TABLE]), path)
    plain, report = inspect_file(path), inspect_file(path, pages=True)
    assert {column.pages for group in plain.row_groups for column in group.columns} == {None}
    for group in report.row_groups:
        for column in group.columns:
            pages = column.pages or ()
            data = [page for page in pages if page.page_type.startswith("DATA_PAGE")]
            assert sum(page.compressed_bytes for page in pages) == column.compressed_bytes
            assert sum(page.uncompressed_bytes for page in pages) == column.uncompressed_bytes
            assert sum(page.values for page in data) == column.values
            assert len(pages) - len(data) == column.dictionary_page
            assert column.data_pages in {None, len(data)}
            assert {page.encoding for page in pages} <= set(column.encodings) | {"PLAIN", "PLAIN_DICTIONARY"}
            assert [page.offset for page in pages] == sorted(page.offset for page in pages)
            # Flat columns tell their rows without an index, too.
            assert [page.first_row for page in data] == [
                sum(before.rows or 0 for before in data[:number]) for number in range(len(data))
            ]
            assert sum(page.rows or 0 for page in data) == group.rows


def test_a_page_has_the_bounds_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(TABLE, path, page_rows=1000, page_checksums=True)
    (column,) = chunks(inspect_file(path, pages=True), "id")
    pages = [page for page in column.pages or () if page.page_type.startswith("DATA_PAGE")]
    assert [(page.first_row, page.rows, page.min, page.max) for page in pages] == [
        (start, 1000, str(start), str(start + 999)) for start in range(0, ROWS, 1000)
    ]
    (name,) = chunks(inspect_file(path, pages=True), "name")
    assert [page.nulls for page in name.pages or () if page.first_row is not None] == [100] * 10
    assert all(page.checksum for page in name.pages or ())
    dictionary = (name.pages or ())[0]
    assert (dictionary.page_type, dictionary.values, dictionary.rows) == ("DICTIONARY_PAGE", 90, None)


def test_rows_of_nested_pages_are_those_of_the_offset_index(tmp_path: Path) -> None:
    table = pa.table({"list": [[1, 2, 3]] * 500})
    for index in (True, False):
        path = tmp_path / f"{index}.parquet"
        pq.write_table(
            table, path, write_page_index=index, data_page_size=400, write_batch_size=50, use_dictionary=False
        )
        (column,) = inspect_file(path, pages=True).row_groups[0].columns
        pages = column.pages or ()
        assert sum(page.values for page in pages) == 1500
        assert len(pages) > 1
        rows = [page.rows for page in pages]
        assert sum(rows) == 500 if index else set(rows) == {None}  # type: ignore[arg-type]


def test_a_damaged_page_header_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path)
    content = bytearray(path.read_bytes())
    content[4:20] = b"\xff" * 16
    path.write_bytes(content)
    assert inspect_file(path).rows == ROWS
    with pytest.raises(spillway.CorruptFileError, match="page at byte 4 is damaged"):
        inspect_file(path, pages=True)


def test_levels_and_field_ids_are_told(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"}),
            pa.field("tags", pa.list_(pa.string())),
        ]
    )
    pq.write_table(schema.empty_table(), tmp_path / "x.parquet")
    found = [
        (column.field_id, column.max_definition_level, column.max_repetition_level)
        for column in inspect_file(tmp_path / "x.parquet").row_groups[0].columns
    ]
    assert found == [(7, 0, 0), (None, 3, 1)]


@given(st.data())
def test_a_comparison_names_what_differs_and_nothing_else(data: st.DataObject) -> None:
    report = data.draw(st.sampled_from(REPORTS))
    assert spillway.compare_reports(report, report).is_equal
    columns = list(report.row_groups[0].columns)
    place = data.draw(st.integers(0, len(columns) - 1))
    change, kinds = data.draw(st.sampled_from(CHANGES))
    columns[place] = replace(columns[place], **change)
    group = replace(report.row_groups[0], columns=tuple(columns))
    other = replace(report, row_groups=(group, *report.row_groups[1:]))
    for left, right in ((report, other), (other, report)):
        comparison = spillway.compare_reports(left, right)
        assert not comparison.is_equal
        first, *rest = comparison.columns
        assert (first.path, first.differences) == (columns[place].path, kinds)
        assert [column.differences for column in rest] == [()] * (len(columns) - 1)
        assert sorted(column.path for column in comparison.columns) == sorted(c.path for c in columns)


@given(report=st.sampled_from(REPORTS), is_other=st.booleans())
def test_encodings_are_compared_by_name_where_one_writer_did_not_count_them(
    *, report: FileReport, is_other: bool
) -> None:
    (group,) = report.row_groups
    stats = (PageEncoding("DATA_PAGE", "PLAIN", 1),)
    columns = [replace(each, encoding_stats=None, data_pages=None) for each in group.columns]
    if is_other:
        columns[0] = replace(columns[0], encodings=("BYTE_STREAM_SPLIT",))
    counted, other = (
        replace(report, row_groups=(replace(group, columns=tuple(each)),))
        for each in ([replace(each, encoding_stats=stats) for each in group.columns], columns)
    )
    for left, right in ((counted, other), (other, counted)):
        found = {each.path: each.differences for each in spillway.compare_reports(left, right).columns}
        assert "encodings" in found.pop(columns[0].path) or not is_other
        assert set(found.values()) <= {()}
        assert spillway.compare_reports(left, right).is_equal != is_other


def test_a_column_of_one_file_alone_is_in_the_comparison(tmp_path: Path) -> None:
    for name, table in (("a", TABLE), ("b", TABLE.drop_columns(["id"]))):
        spillway.write_parquet(table, tmp_path / name)
    comparison = spillway.compare_reports(inspect_file(tmp_path / "a"), inspect_file(tmp_path / "b"))
    first, *rest = comparison.columns
    assert (first.path, first.differences, first.right) == ("id", ("schema",), None)
    assert [column.differences for column in rest] == [(), ()]
    assert {"schema", "bytes"} <= set(comparison.differences)
    assert not {"rows", "row_groups", "version", "created_by"} & set(comparison.differences)


def test_bloom_filters_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path, bloom_filter_options={"name": {"ndv": 100, "fpp": 0.01}})
    (name,), (identity,) = (chunks(inspect_file(path), column) for column in ("name", "id"))
    assert name.bloom_filter
    assert (name.bloom_filter_bytes or 0) > 32
    assert not identity.bloom_filter
    assert identity.bloom_filter_bytes is None


@pytest.mark.parametrize("writer", WRITERS)
def test_nested_columns_have_dotted_paths(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "nested.parquet"
    WRITERS[writer](NESTED, path)
    report = inspect_file(path)
    paths = [column.path for column in report.row_groups[0].columns]
    assert len(paths) == 4
    assert paths[0].startswith("tags.list.")
    assert "http.status" in paths
    assert {"attributes.key_value.key", "attributes.key_value.value"} <= set(paths)
    assert "optional group http" in report.schema.lower()


def test_sorting_columns_and_metadata_keys_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    sorting = [pq.SortingColumn(0), pq.SortingColumn(2, descending=True, nulls_first=True)]
    table = TABLE.replace_schema_metadata({"origin": "test"})
    pq.write_table(table, path, sorting_columns=sorting)
    report = inspect_file(path)
    by = [
        (column.path, column.descending, column.nulls_first)
        for column in report.row_groups[0].sorting_columns
    ]
    assert by == [("id", False, False), ("ratio", True, True)]
    assert report.metadata_keys == ("origin", "ARROW:schema")


def test_a_declared_order_differs_once_however_many_row_groups_have_it(tmp_path: Path) -> None:
    def differences(*writes: dict[str, Any]) -> tuple[str, ...]:
        for place, options in enumerate(writes):
            pq.write_table(TABLE, tmp_path / f"{place}.parquet", **options)
        left, right = (inspect_file(tmp_path / f"{place}.parquet") for place in range(2))
        return compare_reports(left, right).differences

    order = [pq.SortingColumn(0)]
    groups = differences({}, {"row_group_size": 1000})
    assert "row_groups" in groups
    assert "sorting_columns" not in groups
    of_sorted = differences({"sorting_columns": order}, {"sorting_columns": order, "row_group_size": 1000})
    assert "sorting_columns" not in of_sorted
    assert "sorting_columns" in differences({}, {"sorting_columns": order})


BOUNDS: dict[str, tuple[pa.DataType, list[Any], str, str, str | None]] = {
    "bool": (pa.bool_(), [False, True], "false", "true", None),
    "int8": (pa.int8(), [-5, 7], "-5", "7", "int8"),
    "uint32": (pa.uint32(), [1, 2**32 - 1], "1", "4294967295", "uint32"),
    "uint64": (pa.uint64(), [1, 2**64 - 1], "1", "18446744073709551615", "uint64"),
    "double": (pa.float64(), [-0.5, 2.25], "-0.5", "2.25", None),
    "float16": (pa.float16(), [-0.5, 2.25], "-0.5", "2.25", "float16"),
    "string": (pa.string(), ["a", "ü"], "a", "ü", "string"),
    "long string": (pa.string(), ["a", "b" * 200], "a", "b" * 64 + "…", "string"),
    "binary": (pa.binary(), [b"\x00\x01", b"\xff"], "0x0001", "0xff", None),
    "date": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 1, 2)], "1969-12-31", "2026-01-02", "date"),
    "time": (pa.time64("us"), [dt.time(1), dt.time(2, 3, 4, 5)], "01:00:00", "02:03:04.000005", "time(us)"),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)],
        "1969-12-31 23:59:59.999999Z",
        "2026-01-02 00:00:00Z",
        "timestamp(us, utc)",
    ),
    "local timestamp": (
        pa.timestamp("ms"),
        [dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 3)],  # noqa: DTZ001 - a local time
        "2026-01-02 00:00:00",
        "2026-01-03 00:00:00",
        "timestamp(ms)",
    ),
    "decimal": (
        pa.decimal128(20, 2),
        [Decimal("-0.05"), Decimal("123.40")],
        "-0.05",
        "123.40",
        "decimal(20, 2)",
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_are_written_as_their_type_has_them(tmp_path: Path, name: str) -> None:
    kind, values, low, high, logical = BOUNDS[name]
    pq.write_table(pa.table({"x": pa.array(values, kind)}), tmp_path / "x.parquet")
    (column,) = chunks(inspect_file(tmp_path / "x.parquet"), "x")
    assert (column.min, column.max, column.logical_type) == (low, high, logical)
    assert column.nulls == 0


def test_a_uuid_is_written_as_one(tmp_path: Path) -> None:
    values = [uuid.UUID(int=1), uuid.UUID(int=2**127 - 5)]
    storage = pa.array([value.bytes for value in values], pa.binary(16))
    pq.write_table(
        pa.table({"x": pa.ExtensionArray.from_storage(pa.uuid(), storage)}), tmp_path / "x.parquet"
    )
    (column,) = chunks(inspect_file(tmp_path / "x.parquet"), "x")
    assert column.physical_type == "FIXED_LEN_BYTE_ARRAY(16)"
    assert (column.min, column.max) == (str(values[0]), str(values[1]))


def test_without_statistics_nothing_is_claimed(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "x.parquet", write_statistics=False)
    (column,) = chunks(inspect_file(tmp_path / "x.parquet"), "name")
    assert (column.nulls, column.distinct, column.min, column.max) == (None, None, None, None)
    assert {total.nulls for total in inspect_file(tmp_path / "x.parquet").column_totals()} == {None}


def test_a_file_without_rows_is_reported(tmp_path: Path) -> None:
    pq.write_table(TABLE.slice(0, 0), tmp_path / "x.parquet")
    report = inspect_file(tmp_path / "x.parquet")
    assert report.rows == 0
    assert sum(group.rows for group in report.row_groups) == 0


REFUSED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "is empty"),
    "text": (lambda _: b"id,name\n1,a\n", "not a Parquet file"),
    "cut short": (lambda whole: whole[:-100], "truncated"),
    "only the magic": (lambda _: b"PAR1", "truncated"),
    "a hole in the footer": (
        lambda whole: whole[:-1_500] + b"\xff" * 1_400 + whole[-100:],
        "footer is damaged",
    ),
    "encrypted": (lambda whole: b"PARE" + whole[4:-4] + b"PARE", "encrypted"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_a_whole_parquet_file_is_refused_with_the_reason(tmp_path: Path, case: str) -> None:
    change, reason = REFUSED[case]
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLE, path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(spillway.CorruptFileError, match=f"rows.parquet: .*{reason}"):
        inspect_file(path)


def test_a_file_that_cannot_be_read_is_an_os_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.parquet"):
        inspect_file(tmp_path / "absent.parquet")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        inspect_file(tmp_path)


@given(place=st.integers(0, 700), byte=st.integers(0, 255))
def test_a_damaged_footer_is_reported_or_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    path = tmp_path_factory.mktemp("damage") / "rows.parquet"
    pq.write_table(TABLE.slice(0, 100), path)
    content = bytearray(path.read_bytes())
    content[-9 - place] = byte
    path.write_bytes(content)
    with contextlib.suppress(spillway.CorruptFileError):
        assert isinstance(inspect_file(path), FileReport)


def test_inspection_is_public() -> None:
    assert spillway.inspect_file is inspect_file
    assert spillway.FileReport is FileReport


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        spillway.inspect_file(tmp_path / "pipe")
