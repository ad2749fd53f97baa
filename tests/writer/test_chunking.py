"""The same rows give the same bytes, however they were cut."""

from __future__ import annotations

import io
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

OPTIONS: list[dict[str, Any]] = [
    {},
    {"row_group_rows": 2500, "page_bytes": 2048},
    {"row_group_bytes": 20_000},
    {"compatibility": "v1", "compression": "snappy", "row_group_rows": 1000},
]


def figures_of(write: Callable[[], spillway.WriteResult]) -> tuple[int, int, int, int]:
    """Row groups, spilled bytes, the most bytes tracked and those of the file."""
    result = write()
    return result.row_groups, result.spilled_bytes, result.peak_tracked_bytes, result.bytes


def written(schema: pa.Schema, parts: Iterable[object], **options: Any) -> bytes:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema, **options) as writer:
        for part in parts:
            writer.write(part)
    return file.getvalue()


@pytest.fixture(scope="session")
def whole(table: pa.Table) -> list[bytes]:
    return [written(table.schema, [table], **options) for options in OPTIONS]


CUTS = st.lists(st.integers(0, 6_000), max_size=12).map(sorted)


def cut(table: pa.Table, cuts: list[int]) -> list[pa.Table]:
    return [table.slice(start, end - start) for start, end in pairwise([0, *cuts, table.num_rows])]


@given(cuts=CUTS, index=st.sampled_from(range(len(OPTIONS))))
def test_chunking_changes_no_byte(table: pa.Table, whole: list[bytes], cuts: list[int], index: int) -> None:
    assert written(table.schema, cut(table, cuts), **OPTIONS[index]) == whole[index]


@given(cuts=CUTS, index=st.sampled_from(range(len(OPTIONS))), threads=st.integers(1, 3))
def test_rows_that_are_written_together_give_the_same_bytes(
    table: pa.Table, whole: list[bytes], cuts: list[int], index: int, threads: int
) -> None:
    """A table is encoded column by column to the end of its row group, a reader or a list batch by batch."""
    batches = [batch for part in cut(table, cuts) for batch in part.to_batches()]
    forms: list[Any] = [
        pa.Table.from_batches(batches, table.schema),
        pa.RecordBatchReader.from_batches(table.schema, batches),
        batches,
    ]
    for data in forms:
        file = io.BytesIO()
        spillway.write_parquet(data, file, threads=threads, **OPTIONS[index])
        assert file.getvalue() == whole[index]


def test_single_rows_give_the_same_bytes(table: pa.Table) -> None:
    few = table.slice(0, 1500)
    assert written(table.schema, (few.slice(i, 1) for i in range(1500))) == written(table.schema, [few])


def test_spilled_and_kept_pages_give_the_same_bytes(tmp_path: Path) -> None:
    noise = pa.table({"x": np.random.default_rng(1).integers(0, 2**63, 2_000_000)})
    path = tmp_path / "spilled.parquet"
    with spillway.ParquetWriter(path, noise.schema, row_group_rows=1_500_000) as writer:
        for batch in noise.to_batches(max_chunksize=400_000):
            writer.write(batch)
    kept = written(noise.schema, [noise], row_group_rows=1_500_000)
    assert writer.result.spilled_bytes > 0
    assert path.read_bytes() == kept
    assert pq.read_table(io.BytesIO(kept)).equals(noise)
    assert [path.name for path in tmp_path.iterdir()] == ["spilled.parquet"]


def test_a_table_of_one_call_spills_nothing(tmp_path: Path) -> None:
    """With less than row_group_bytes, no check comes early, and a chunk is in the file before the next."""
    rng = np.random.default_rng(2)
    noise = pa.table({name: rng.integers(0, 2**63, 1_200_000) for name in ("x", "y")})
    result = spillway.write_parquet(noise, tmp_path / "noise.parquet", row_group_bytes=32 << 20, threads=1)
    assert result.spilled_bytes == 0
    assert result.peak_tracked_bytes < result.bytes
    assert pq.read_table(tmp_path / "noise.parquet").equals(noise)


def test_a_table_of_more_values_than_row_group_bytes_spills_nothing_where_its_first_rows_say_that_it_fits(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(4)
    values = pa.table({name: rng.integers(0, 1 << 19, 1_000_000) for name in "abcde"})
    limit = 30 << 20
    assert values.nbytes > 1.2 * limit
    # Pages that are not finished weigh less with fewer rows.
    page_rows = 20_000
    options = {"row_group_bytes": limit, "page_rows": page_rows, "threads": 1}
    # In a process of its own: one that wrote larger pages keeps compressors with larger buffers, which count.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        write = partial(spillway.write_parquet, values, tmp_path / "values.parquet", **options)
        row_groups, spilled, peak, size = processes.submit(figures_of, write).result()
    assert (row_groups, spilled) == (1, 0)
    assert peak < size / 2
    batches = io.BytesIO()
    with spillway.ParquetWriter(batches, values.schema, row_group_bytes=limit, page_rows=page_rows) as writer:
        for batch in values.to_batches(max_chunksize=70_000):
            writer.write(batch)
    assert (tmp_path / "values.parquet").read_bytes() == batches.getvalue()
    assert pq.read_table(tmp_path / "values.parquet").equals(values)


def many_arrays() -> pa.Table:
    """A table of 9,600 arrays, which are more than are written together."""
    columns = {f"c{i}": pa.array(range(i, i + 4_000)) for i in range(44)}
    columns["nested"] = pa.array([{"a": i, "b": [i, i % 7]} for i in range(4_000)])
    table = pa.table(columns)
    return pa.Table.from_batches(table.to_batches(max_chunksize=20), table.schema)


def test_a_table_of_more_arrays_than_are_written_together_gives_the_same_bytes() -> None:
    table, file = many_arrays(), io.BytesIO()
    result = spillway.write_parquet(table, file)
    assert result.rows == 4_000
    assert file.getvalue() == written(table.schema, table.to_batches())


class Torn(pd.DataFrame):
    """A frame whose batches end in an error."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batch = pa.record_batch({"x": range(3_000)})

        def batches() -> Iterator[pa.RecordBatch]:
            yield batch
            yield batch
            raise ValueError("the third batch is torn")

        reader = pa.RecordBatchReader.from_batches(batch.schema, batches())
        return reader.__arrow_c_stream__(requested_schema)


def test_a_table_that_fails_half_way_completes_no_file(tmp_path: Path) -> None:
    with pytest.raises(spillway.errors.SpillwayError, match="the third batch is torn"):
        spillway.write_parquet(Torn(), tmp_path / "torn.parquet")
    assert not list(tmp_path.iterdir())


def test_the_batches_before_the_failure_of_a_table_are_written() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file) as writer:
        with pytest.raises(spillway.errors.SpillwayError, match="the third batch is torn"):
            writer._write_last(Torn())
        writer.write(pa.table({"x": [7]}))
    assert pq.read_table(file)["x"].to_pylist() == [*range(3_000), *range(3_000), 7]


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


@pytest.mark.parametrize("calm_rows", [200_000, 400_000])
def test_values_that_grow_overrun_a_row_group_by_no_more_than_three_of_its_kind(calm_rows: int) -> None:
    """Nothing announces them: a row group is planned by what its rows took so far."""
    limit = 1 << 20
    calm, noise = np.zeros(calm_rows, np.int64), np.random.default_rng(3).integers(0, 2**63, 1_000_000)
    sizes = row_group_sizes(pa.table({"x": np.concatenate([calm, noise])}), limit)
    assert len(sizes) >= 4
    assert max(sizes) <= 4.1 * limit
    # With fewer calm rows the first row group is a dictionary to its end, and the next begins with it.
    assert calm_rows < 400_000 or sizes[1] <= 1.1 * limit
    assert sizes[1] <= 1.3 * limit
    assert all(size <= 1.1 * limit for size in sizes[2:])


def test_lists_of_wide_structs_overrun_a_row_group_by_a_few_thousand_rows() -> None:
    """An element is foreseen with all that it holds."""
    limit, rows, rng = 4 << 20, 100_000, np.random.default_rng(5)
    fields = [pa.array(rng.random(rows)) for _ in range(20)]
    values = pa.StructArray.from_arrays(fields, [f"f{i}" for i in range(20)])
    lists = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), values)
    sizes = row_group_sizes(pa.table({"list": lists}), limit)
    assert len(sizes) >= 3
    assert max(sizes) <= limit + 8_192 * 170
