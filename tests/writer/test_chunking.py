"""The same rows give the same bytes, however they were cut."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

if TYPE_CHECKING:
    from collections.abc import Iterable

OPTIONS: list[dict[str, Any]] = [
    {},
    {"row_group_rows": 2500, "page_bytes": 2048},
    {"row_group_bytes": 20_000},
    {"compatibility": "v1", "compression": "snappy", "row_group_rows": 1000},
]


def written(schema: pa.Schema, parts: Iterable[object], **options: Any) -> bytes:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema, **options) as writer:
        for part in parts:
            writer.write(part)
    return file.getvalue()


@pytest.fixture(scope="session")
def whole(table: pa.Table) -> list[bytes]:
    return [written(table.schema, [table], **options) for options in OPTIONS]


@given(cuts=st.lists(st.integers(0, 6_000), max_size=12), index=st.sampled_from(range(len(OPTIONS))))
def test_chunking_changes_no_byte(table: pa.Table, whole: list[bytes], cuts: list[int], index: int) -> None:
    edges = [0, *sorted(cuts), table.num_rows]
    parts = [table.slice(start, end - start) for start, end in pairwise(edges)]
    assert written(table.schema, parts, **OPTIONS[index]) == whole[index]


def test_single_rows_give_the_same_bytes(table: pa.Table) -> None:
    few = table.slice(0, 1500)
    assert written(table.schema, (few.slice(i, 1) for i in range(1500))) == written(table.schema, [few])


def test_spilled_and_kept_pages_give_the_same_bytes(tmp_path: Any) -> None:
    noise = pa.table({"x": np.random.default_rng(1).integers(0, 2**63, 2_000_000)})
    spillway.write_parquet(noise, tmp_path / "spilled.parquet", row_group_rows=1_500_000)
    kept = written(noise.schema, [noise], row_group_rows=1_500_000)
    assert (tmp_path / "spilled.parquet").read_bytes() == kept
    assert pq.read_table(io.BytesIO(kept)).equals(noise)
    assert [path.name for path in tmp_path.iterdir()] == ["spilled.parquet"]


@pytest.mark.parametrize(
    "form",
    [
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.uint16(), pa.large_string()),
    ],
    ids=str,
)
def test_the_layout_of_strings_changes_no_byte(table: pa.Table, form: pa.DataType) -> None:
    plain = table.select(["id", "word"])
    other = plain.set_column(1, "word", plain["word"].combine_chunks().cast(form))
    assert written(plain.schema, [other]) == written(plain.schema, [plain])


def test_garbage_under_nulls_changes_no_byte() -> None:
    values, gaps = ["x" * (i % 50) for i in range(4000)], [i % 3 == 0 for i in range(4000)]
    clean = pa.array([None if gap else value for value, gap in zip(values, gaps, strict=True)])
    mask = pa.array([not gap for gap in gaps]).buffers()[1]
    dirty = pa.array(values)
    dirty = pa.Array.from_buffers(pa.string(), 4000, [mask, *dirty.buffers()[1:]])
    dirty.validate(full=True)
    schema = pa.schema([("s", pa.string())])
    for options in OPTIONS:
        kept = [written(schema, [pa.table({"s": array})], **options) for array in (clean, dirty)]
        assert kept[0] == kept[1]


def test_row_groups_have_exactly_the_rows_asked_for(table: pa.Table) -> None:
    file = io.BytesIO(written(table.schema, table.to_batches(max_chunksize=333), row_group_rows=2500))
    groups = pq.ParquetFile(file).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [2500, 2500, 1000]


def row_group_sizes(table: pa.Table, row_group_bytes: int) -> list[int]:
    """Bytes of each row group of an uncompressed file, which is read back."""
    data = written(table.schema, [table], row_group_bytes=row_group_bytes, compression="uncompressed")
    file = pq.ParquetFile(io.BytesIO(data))
    assert file.read().equals(table)
    return [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]


def test_rows_of_many_columns_end_a_row_group_in_time() -> None:
    """Their bytes fill what is looked at together before its rows do."""
    wide = pa.table({f"c{i}": [f"{row:09}{i * row:031}" for row in range(6_000)] for i in range(200)})
    sizes = row_group_sizes(wide, 16 << 20)
    assert len(sizes) >= 2
    assert max(sizes) <= 24 << 20


def test_heavy_rows_end_a_row_group_early() -> None:
    heavy = pa.table({"blob": [bytes([i]) * (1 << 20) for i in range(40)]})
    sizes = row_group_sizes(heavy, 8 << 20)
    assert len(sizes) >= 3
    assert max(sizes) <= 16 << 20
