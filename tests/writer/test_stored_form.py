"""The options on what a file tells of its values, and on the sizes of its pages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.types import Timestamps

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def written(table: pa.Table, **options: Any) -> tuple[pq.ParquetFile, spillway.WriteResult]:
    file = io.BytesIO()
    result = spillway.write_parquet(table, file, **options)
    return pq.ParquetFile(file), result


def chunks(file: pq.ParquetFile) -> list[Any]:
    groups, columns = file.metadata.num_row_groups, file.metadata.num_columns
    found = [file.metadata.row_group(group) for group in range(groups)]
    return [group.column(index) for group in found for index in range(columns)]


def test_statistics_are_left_out_everywhere(table: pa.Table) -> None:
    file, result = written(table, statistics=False, row_group_rows=2_500)
    assert file.read().equals(table)
    for chunk in chunks(file):
        assert chunk.statistics is None
        assert not chunk.has_column_index
        assert chunk.has_offset_index
    with_them = written(table, row_group_rows=2_500)[1]
    assert [column.nulls for column in result.columns] == [column.nulls for column in with_them.columns]
    assert result.bytes < with_them.bytes


def test_statistics_are_left_out_by_column(table: pa.Table) -> None:
    file, _ = written(table, statistics={"note": False, ("tags", "list", "element"): False, "id": True})
    assert file.read().equals(table)
    without = {chunk.path_in_schema for chunk in chunks(file) if chunk.statistics is None}
    assert without == {"note", "tags.list.element"}
    assert {chunk.path_in_schema for chunk in chunks(file) if not chunk.has_column_index} == without


def test_other_engines_filter_columns_without_statistics(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(table, path, statistics=False, row_group_rows=2_500)
    assert duckdb.read_parquet(str(path)).filter("id >= 5000").count("*").fetchall() == [(1_000,)]
    assert pl.scan_parquet(path).filter(pl.col("id") >= 5_000).select("id").collect().height == 1_000
    assert pq.read_table(path, filters=[("id", ">=", 5_000)]).num_rows == 1_000


def test_a_delta_table_takes_files_without_statistics(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, None], "m": ["a", "b", "c"]})
    spillway.delta.write(tmp_path / "t", table, statistics={"n": False})
    rows = pa.table(spillway.delta.open(tmp_path / "t").scan(where=[("n", "=", 2)]))
    assert rows.to_pylist() == [{"n": 2, "m": "b"}]


def test_a_column_without_statistics_has_to_be_there(table: pa.Table) -> None:
    with pytest.raises(spillway.OptionError, match=r'statistics names the column "wrod".* it has "id"'):
        written(table, statistics={"wrod": False})
    with pytest.raises(TypeError, match="statistics must be True, False or a mapping"):
        spillway.WriterOptions(statistics=3)  # type: ignore[arg-type]


def test_the_arrow_schema_is_left_out(table: pa.Table) -> None:
    described = table.set_column(1, "word", table["word"].dictionary_encode())
    file, _ = written(described, store_schema=False, metadata={"kept": "yes"})
    assert file.metadata.metadata == {b"kept": b"yes"}
    assert file.read().equals(table)
    assert written(described)[0].read().equals(described)


def test_uuids_and_json_are_told_by_the_format_itself(tmp_path: Path) -> None:
    identities = pa.array([b"0123456789abcdef", None], pa.binary(16))
    texts = pa.array(['{"a": 1}', None])
    table = pa.table(
        {
            "id": pa.ExtensionArray.from_storage(pa.uuid(), identities),
            "text": pa.ExtensionArray.from_storage(pa.json_(), texts),
        }
    )
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(table, path, store_schema=False)
    kinds = [column.logical_type for column in spillway.inspect_file(path).row_groups[0].columns]
    assert [str(kind).lower() for kind in kinds] == ["uuid", "json"]
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(path))
        assert [str(kind) for kind in relation.types] == ["UUID", "JSON"]
        assert [str(cell) for cell in relation.fetchall()[0]] == [
            "30313233-3435-3637-3839-616263646566",
            '{"a": 1}',
        ]
    assert pq.read_table(path, arrow_extensions_enabled=True).equals(table)


@settings(max_examples=examples(0.4), deadline=None)
@given(rows=st.integers(1, 4_000), page_rows=st.integers(1, 3_000), limit=st.sampled_from([None, "1MB"]))
def test_no_page_has_more_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: int, page_rows: int, limit: str | None
) -> None:
    table = pa.table({"n": list(range(rows)), "l": [[i] * (i % 3) for i in range(rows)]})
    path = tmp_path_factory.mktemp("pages") / "rows.parquet"
    spillway.write_parquet(table, path, page_rows=page_rows, memory_limit=limit)
    assert pq.read_table(path).equals(table)
    least = -(-rows // page_rows)
    for column in spillway.inspect_file(path).row_groups[0].columns:
        assert column.data_pages is not None
        assert column.data_pages == least if limit is None else column.data_pages >= least


def test_a_page_may_have_more_rows_than_by_default(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(pa.table({"n": [7] * 100_000}), path, page_rows=100_000)
    (column,) = spillway.inspect_file(path).row_groups[0].columns
    assert column.data_pages == 1


@settings(max_examples=examples(0.2), deadline=None)
@given(limit=st.integers(1, 40_000), width=st.integers(1, 40))
def test_no_dictionary_page_is_larger(limit: int, width: int) -> None:
    words = [f"{i % 1_000:0{width}d}" for i in range(10_000)]
    table = pa.table({"word": words})
    file, result = written(
        table, dictionary_page_bytes=limit, encoding="dictionary", compression="uncompressed"
    )
    assert file.read().equals(table)
    (chunk,) = chunks(file)
    if chunk.has_dictionary_page:
        header = 64
        assert chunk.data_page_offset - chunk.dictionary_page_offset <= limit + header
    fits = 1_000 * (max(width, 3) + 4) <= limit
    assert (result.columns[0].encodings == ("RLE_DICTIONARY",)) == fits


def test_a_dictionary_may_be_larger_than_by_default() -> None:
    table = pa.table({"word": [f"{i % 60_000:064d}" for i in range(130_000)]})
    chosen = {
        limit: written(table, encoding="dictionary", dictionary_page_bytes=limit)[1].columns[0].encodings
        for limit in (2 << 20, 8 << 20)
    }
    assert chosen[8 << 20] == ("RLE_DICTIONARY",)
    assert "PLAIN" in chosen[2 << 20]


def times(unit: str, ticks: list[int | None]) -> pa.Array:
    return pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, "UTC"))


@settings(max_examples=examples(0.4), deadline=None)
@given(
    unit=st.sampled_from(["s", "ms", "us", "ns"]),
    stored=st.sampled_from(["ms", "us"]),
    ticks=st.lists(st.none() | st.integers(-(10**15), 10**15), min_size=1, max_size=20),
    nested=st.booleans(),
)
def test_a_time_that_would_be_rounded_is_refused(
    unit: str,
    stored: Timestamps,
    ticks: list[int | None],
    nested: bool,  # noqa: FBT001
) -> None:
    ratio = PER_SECOND[unit] // PER_SECOND[stored] if PER_SECOND[unit] > PER_SECOND[stored] else 1
    lost = [place for place, tick in enumerate(ticks) if tick is not None and tick % ratio]
    column: pa.Array = times(unit, ticks)
    if nested:
        column = pa.ListArray.from_arrays(pa.array(range(len(ticks) + 1), pa.int32()), column)
    table = pa.table({"at": column})
    rounded = written(table, timestamps=stored)[0].read()["at"]
    expected = [None if tick is None else tick // ratio for tick in ticks]
    scale = 1 if ratio > 1 else PER_SECOND[stored] // PER_SECOND[unit]
    flat = pc.list_flatten(rounded) if nested else rounded
    assert flat.cast(pa.int64()).to_pylist() == [None if tick is None else tick * scale for tick in expected]
    if not lost:
        assert written(table, timestamps=stored, timestamp_loss="refuse")[0].read()["at"].equals(rounded)
        return
    with pytest.raises(spillway.SchemaError, match=rf'column "at" has a time in row {lost[0]} ') as caught:
        written(table, timestamps=stored, timestamp_loss="refuse")
    assert caught.value.column == "at"


def test_the_writer_goes_on_after_a_refused_time() -> None:
    file = io.BytesIO()
    schema = pa.schema({"at": pa.timestamp("us")})
    with spillway.ParquetWriter(file, schema, timestamps="ms", timestamp_loss="refuse") as writer:
        writer.write(pa.table({"at": pa.array([1_000], pa.timestamp("us"))}))
        with pytest.raises(spillway.SchemaError, match="timestamp_loss"):
            writer.write(pa.table({"at": pa.array([1_001], pa.timestamp("us"))}))
        writer.write(pa.table({"at": pa.array([2_000], pa.timestamp("us"))}))
    assert pq.read_table(file)["at"].cast(pa.int64()).to_pylist() == [1, 2]
