"""The options on what a file tells of its values, and on the sizes of its pages."""

from __future__ import annotations

import datetime as dt
import io
import random
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
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
    from collections.abc import Callable
    from pathlib import Path

    from spillway.types import TimestampLoss, Timestamps

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


VALID: dict[str, Callable[[int], bool]] = {
    "all": lambda _: True,
    "most": lambda row: row % 3 > 0,
    "few": lambda row: row % 400 == 7,
    "late": lambda row: row > 25_000,
}


@pytest.mark.parametrize("valid", VALID)
def test_a_page_goes_on_where_its_encoding_is_decided_within_it(tmp_path: Path, valid: str) -> None:
    """The first 20,000 rows decide, and a page may have 32,768."""
    rows = 70_000
    rng = np.random.default_rng(6)
    noise, few = rng.integers(0, 2**62, rows), rng.integers(0, 900, rows)
    values = {
        "rising": range(rows),
        "noise": noise.tolist(),
        "few": few.tolist(),
        "real": rng.random(rows).tolist(),
        "hex": [f"{value:x}" for value in noise],
        "word": [f"the word {value}" for value in few],
        "late": [f"early {i % 9}" if i < 20_000 else f"late {value:x}" for i, value in enumerate(noise)],
        "list": [[f"{value}", "same"][: i % 3] for i, value in enumerate(noise)],
        "struct": [{"a": int(value)} for value in few],
    }
    table = pa.table(
        {
            name: [value if VALID[valid](row) else None for row, value in enumerate(column)]
            for name, column in values.items()
        }
    )
    path, streamed = tmp_path / "rows.parquet", io.BytesIO()
    spillway.write_parquet(table, path)
    assert pq.read_table(path).equals(table)
    assert pl.read_parquet(path).to_arrow().cast(table.schema).equals(table)
    with spillway.ParquetWriter(streamed, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=7_001):
            writer.write(batch)
    assert streamed.getvalue() == path.read_bytes()
    pages = {column.path: column.data_pages for column in spillway.inspect_file(path).row_groups[0].columns}
    assert pages["few"] == 3 if valid == "all" else pages["few"] >= 3


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


def test_pages_of_very_many_rows_end_by_their_levels_and_indices(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(
        pa.table({"n": pa.repeat(7, 100_000)}), path, page_rows=1_000_000, page_bytes=25_000
    )
    (column,) = spillway.inspect_file(path).row_groups[0].columns
    assert column.data_pages >= 100_000 // 25_000
    assert pq.read_table(path)["n"].unique().to_pylist() == [7]


@pytest.mark.parametrize("page_rows", [1, 5, 20])
def test_pages_of_few_rows_have_dictionaries_only_where_values_repeat(page_rows: int) -> None:
    table = pa.table(
        {
            "word": [f"a longer word {i % 50}" for i in range(10_000)],
            "ratio": [i / 7 for i in range(10_000)],
        }
    )
    file, result = written(table, page_rows=page_rows)
    assert file.read().equals(table)
    word, ratio = result.columns
    assert word.encodings == ("RLE_DICTIONARY",)
    assert ratio.encodings[0] == "PLAIN"


def test_a_larger_dictionary_is_counted_on_where_encodings_are_chosen() -> None:
    drawn = random.Random(1)  # noqa: S311 - rows, not secrets
    table = pa.table({"word": [f"{drawn.randrange(60_000):064d}" for _ in range(300_000)]})
    options: Any = {"compression": "uncompressed"}
    usual = written(table, **options)[1]
    larger = written(table, dictionary_page_bytes=16 << 20, **options)[1]
    assert usual.columns[0].encodings != ("RLE_DICTIONARY",)
    assert larger.columns[0].encodings == ("RLE_DICTIONARY",)
    assert larger.bytes < usual.bytes


def test_values_behind_a_dictionary_that_came_with_rows_keep_to_its_limit() -> None:
    known = pa.array(["a", "b"]).dictionary_encode()
    plain = pa.array([f"{i:064d}" for i in range(20_000)]).dictionary_encode()
    both = pa.chunked_array([known, plain], known.type)
    file, result = written(pa.table({"word": both}), dictionary_page_bytes=8 << 20)
    assert file.read()["word"].cast(pa.string()).equals(both.cast(pa.string()))
    assert result.columns[0].encodings == ("RLE_DICTIONARY",)


def test_a_sparse_column_without_statistics_is_encoded_as_with_them() -> None:
    def column(start: int) -> list[int | None]:
        # The first row group tells next to nothing of the column.
        sparse: list[int | None] = [i if i < 20 else None for i in range(10_000)]
        return sparse if start == 0 else [i % 5 * 10**9 for i in range(10_000)]

    table = pa.table({"n": [value for start in range(3) for value in column(start)]})
    encodings = [
        [chunk.encodings for chunk in chunks(written(table, row_group_rows=10_000, statistics=on)[0])]
        for on in (True, False)
    ]
    assert encodings[0] == encodings[1]


def times(unit: str, ticks: list[int | None]) -> pa.Array:
    return pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, "UTC"))


@settings(max_examples=examples(0.4), deadline=None)
@given(
    unit=st.sampled_from(["s", "ms", "us", "ns"]),
    stored=st.sampled_from(["ms", "us"]),
    # The largest seconds that are in range as microseconds, about.
    ticks=st.lists(st.none() | st.integers(-9 * 10**12, 9 * 10**12), min_size=1, max_size=20),
    nested=st.booleans(),
)
def test_a_time_that_would_be_rounded_is_refused(
    unit: str,
    stored: Timestamps,
    ticks: list[int | None],
    nested: bool,  # noqa: FBT001
) -> None:
    ratio = PER_SECOND[unit] // PER_SECOND[stored] if PER_SECOND[unit] > PER_SECOND[stored] else 1
    scale = 1 if ratio > 1 else PER_SECOND[stored] // PER_SECOND[unit]
    lost = [place for place, tick in enumerate(ticks) if tick is not None and tick % ratio]
    column: pa.Array = times(unit, ticks)
    if nested:
        column = pa.ListArray.from_arrays(pa.array(range(len(ticks) + 1), pa.int32()), column)
    table = pa.table({"at": column})
    rounded = written(table, timestamps=stored)[0].read()["at"]
    expected = [None if tick is None else tick // ratio for tick in ticks]
    flat = pc.list_flatten(rounded) if nested else rounded
    assert flat.cast(pa.int64()).to_pylist() == [None if tick is None else tick * scale for tick in expected]
    if not lost:
        assert written(table, timestamps=stored, timestamp_loss="refuse")[0].read()["at"].equals(rounded)
        return
    with pytest.raises(spillway.SchemaError, match=rf'column "at" has a time in row {lost[0]} ') as caught:
        written(table, timestamps=stored, timestamp_loss="refuse")
    assert caught.value.column == "at"


@pytest.mark.parametrize("loss", ["allow", "refuse"])
def test_a_time_out_of_range_in_the_stored_unit_is_refused(loss: TimestampLoss) -> None:
    table = pa.table({"at": times("s", [2**63 // 1_000_000 + 1])})
    with pytest.raises(spillway.SchemaError, match=r'"at": a time is out of range .* store a coarser unit'):
        written(table, timestamps="us", timestamp_loss=loss)
    assert written(table, timestamps="ms", timestamp_loss=loss)[0].read().num_rows == 1


def test_the_writer_goes_on_after_a_refused_time() -> None:
    file = io.BytesIO()
    schema = pa.schema({"at": pa.timestamp("us")})
    with spillway.ParquetWriter(file, schema, timestamps="ms", timestamp_loss="refuse") as writer:
        writer.write(pa.table({"at": pa.array([1_000], pa.timestamp("us"))}))
        with pytest.raises(spillway.SchemaError, match="timestamp_loss"):
            writer.write(pa.table({"at": pa.array([1_001], pa.timestamp("us"))}))
        writer.write(pa.table({"at": pa.array([2_000], pa.timestamp("us"))}))
    assert pq.read_table(file)["at"].cast(pa.int64()).to_pylist() == [1, 2]


def test_a_dataset_goes_on_after_a_refused_time(tmp_path: Path) -> None:
    def rows(days: list[int], ticks: list[int]) -> pa.Table:
        return pa.table({"day": days, "at": pa.array(ticks, pa.timestamp("us"))})

    options: Any = {"timestamps": "ms", "timestamp_loss": "refuse", "partition_by": "day"}
    with spillway.DatasetWriter(
        tmp_path / "to", rows([], []).schema.set(0, pa.field("day", pa.int64())), **options
    ) as writer:
        writer.write(rows([1, 2], [1_000, 2_000]))
        with pytest.raises(spillway.SchemaError, match='column "at" has a time in row 2 of this batch'):
            writer.write(rows([1, 2, 2], [3_000, 4_000, 4_001]))
        writer.write(rows([2], [5_000]))
    found = pq.read_table(tmp_path / "to").sort_by("at")
    assert found["at"].cast(pa.int64()).to_pylist() == [1, 2, 5]


def test_times_that_name_partitions_are_not_rounded(tmp_path: Path) -> None:
    at = pa.array([1_001, 2_001], pa.timestamp("us"))
    table = pa.table({"at": at, "n": [1, 2]})
    options: Any = {"timestamps": "ms", "timestamp_loss": "refuse"}
    result = spillway.write_dataset(table, tmp_path / "to", partition_by="at", **options)
    assert [file.result.rows for file in result.files] == [1, 1]


def test_a_call_with_rows_keeps_none_when_a_time_would_be_rounded() -> None:
    file = io.BytesIO()
    schema = pa.schema({"n": pa.int64(), "at": pa.timestamp("us")})
    many = [{"n": n, "at": dt.datetime(2026, 1, 1)} for n in range(50_000)]  # noqa: DTZ001 - without a zone
    lossy = [{"n": -1, "at": dt.datetime(2026, 1, 1, 0, 0, 0, 1)}]  # noqa: DTZ001 - without a zone
    with spillway.ParquetWriter(file, schema, timestamps="ms", timestamp_loss="refuse") as writer:
        with pytest.raises(spillway.SchemaError, match="timestamp_loss"):
            writer.write_rows(many + lossy)
        assert writer.write_rows(many[:7]) == 7
    assert pq.read_table(file)["n"].to_pylist() == list(range(7))


def test_a_call_with_rows_keeps_none_when_one_is_out_of_order() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, pa.schema({"n": pa.int64()}), sorting_columns=["n"]) as writer:
        assert writer.write_rows([{"n": 3}]) == 1
        with pytest.raises(spillway.SchemaError, match="sorting_columns"):
            writer.write_rows([{"n": n} for n in [*range(3, 50_000), 0]])
        assert writer.write_rows([{"n": 3}, {"n": 4}]) == 2
    assert pq.read_table(file)["n"].to_pylist() == [3, 3, 4]


@pytest.mark.parametrize("table_first", [True, False])
def test_a_delta_table_takes_no_milliseconds(tmp_path: Path, table_first: bool) -> None:  # noqa: FBT001
    table = pa.table({"at": pa.array([1_767_225_600_000_000], pa.timestamp("us", "UTC"))})
    path = tmp_path / "t"
    if table_first:
        spillway.delta.write(path, table)
    with pytest.raises(spillway.OptionError, match="in microseconds") as caught:
        spillway.delta.write(path, table, timestamps="ms")
    assert caught.value.option == "timestamps"
    assert path.exists() == table_first
    if table_first:
        opened = spillway.delta.open(path)
        with (
            pytest.raises(spillway.OptionError, match="in microseconds"),
            opened.append(timestamps="ms") as append,
        ):
            append.write(table)
        assert pa.table(opened.scan(where=[("at", ">=", "2026-01-01T00:00:00Z")])).num_rows == 1


def seconds(ticks: list[int], others: list[int]) -> pa.Table:
    return pa.table({"at": pa.array(ticks, pa.timestamp("us")), "n": others})


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_rows_are_in_order_by_the_times_that_are_stored(direction: Any) -> None:
    keys: Any = [("at", direction), "n"]
    table = seconds([1_000_100, 1_000_200], [5, 3])
    if direction == "descending":
        table = seconds([1_000_200, 1_000_100], [5, 3])
    with pytest.raises(spillway.SchemaError, match="sorting_columns"):
        written(table, timestamps="ms", sorting_columns=keys)
    file, _ = written(table, timestamps="ms", sorting_columns=keys, sorting="sort")
    assert file.read()["n"].to_pylist() == [3, 5]
    rounded = written(
        table, timestamps="ms", sorting_columns=["at" if direction == "ascending" else keys[0]]
    )[0]
    assert rounded.read()["n"].to_pylist() == [5, 3]
    kept = written(table, sorting_columns=keys)[0].read()
    assert kept["n"].to_pylist() == [5, 3]
