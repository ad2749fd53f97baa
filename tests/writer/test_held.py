"""Batches that are held until they make a round: the same files, and buffers that are freed when promised."""

from __future__ import annotations

import io
import itertools
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Unpack

    from spillway.types import WriterKeywords

ROWS = 6_000
TABLE = pa.table(
    {
        "number": pa.array(np.random.default_rng(0).integers(0, 3_000, ROWS)),
        "text": [f"item {i % 700}" if i % 11 else None for i in range(ROWS)],
        "list": [[i, i + 1] if i % 3 else [] for i in range(ROWS)],
    }
)


def written(batches: list[pa.RecordBatch], **options: Unpack[WriterKeywords]) -> bytes:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, TABLE.schema, **options) as writer:
        for batch in batches:
            writer.write(batch)
    return file.getvalue()


def batches(cuts: list[int]) -> list[pa.RecordBatch]:
    edges = [0, *sorted(cuts), ROWS]
    whole = TABLE.combine_chunks().to_batches()[0]
    return [whole.slice(start, end - start) for start, end in itertools.pairwise(edges)]


@settings(max_examples=examples(0.5), deadline=None)
@given(
    cuts=st.lists(st.integers(0, ROWS), max_size=12),
    hold=st.booleans(),
    limit=st.sampled_from([None, "1MB"]),
)
def test_held_batches_and_those_of_a_reader_make_the_same_file(
    cuts: list[int],
    hold: bool,  # noqa: FBT001 - an example
    limit: str | None,
) -> None:
    whole = written(batches([]), memory_limit=limit)
    assert written(batches(cuts), hold_batches=hold, memory_limit=limit) == whole
    file = io.BytesIO()
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches(cuts))
    spillway.write_parquet(reader, file, hold_batches=hold, memory_limit=limit)
    assert file.getvalue() == whole


def numbers() -> tuple[pa.RecordBatch, weakref.ref[np.ndarray]]:
    """A batch of a NumPy array, and whether that is still referenced."""
    array = np.arange(5_000)
    return pa.record_batch({"number": pa.array(array)}), weakref.ref(array)


@pytest.mark.parametrize("open_writer", [spillway.ParquetWriter, spillway.DatasetWriter])
def test_buffers_are_referenced_until_the_call_returns_or_until_close(
    open_writer: type[spillway.ParquetWriter | spillway.DatasetWriter], tmp_path: Path
) -> None:
    schema = pa.schema({"number": pa.int64()})
    for hold in (False, True):
        with open_writer(tmp_path / str(hold), schema, hold_batches=hold) as writer:
            batch, array = numbers()
            writer.write(batch)
            del batch
            assert (array() is not None) == hold
        assert array() is None


def test_flush_abort_and_a_full_round_free_what_is_held() -> None:
    schema = pa.schema({"number": pa.int64()})
    writer = spillway.ParquetWriter(io.BytesIO(), schema, hold_batches=True)
    batch, array = numbers()
    writer.write(batch)
    del batch
    writer.flush()
    assert array() is None
    arrays = []
    for _ in range(20):
        batch, array = numbers()
        arrays.append(array)
        writer.write(batch)
        del batch
    assert not any(array() is not None for array in arrays)
    batch, array = numbers()
    writer.write(batch)
    del batch
    assert array() is not None
    writer.abort()
    assert array() is None


def test_batches_of_a_generator_are_freed_in_rounds_and_with_their_call() -> None:
    arrays = []

    def produced() -> Iterator[pa.RecordBatch]:
        for _ in range(30):
            batch, array = numbers()
            arrays.append(array)
            yield batch
            del batch
            assert sum(array() is not None for array in arrays) <= 21

    schema = pa.schema({"number": pa.int64()})
    with spillway.ParquetWriter(io.BytesIO(), schema) as writer:
        writer.write(pa.RecordBatchReader.from_batches(schema, produced()))
        assert not any(array() is not None for array in arrays)


def test_what_is_held_is_tracked_and_within_the_limit() -> None:
    tracked = {}
    for hold in (False, True):
        with spillway.ParquetWriter(io.BytesIO(), TABLE.schema, hold_batches=hold) as writer:
            for _ in range(5):
                writer.write(TABLE)
        tracked[hold] = writer.result.peak_tracked_bytes
    assert tracked[True] > tracked[False] + TABLE.nbytes
    with spillway.ParquetWriter(io.BytesIO(), TABLE.schema, hold_batches=True, memory_limit="1MB") as writer:
        for _ in range(5):
            writer.write(TABLE)
    assert writer.result.peak_tracked_bytes <= 1_000_000


def test_rows_after_a_held_batch_that_does_not_fit_are_written() -> None:
    file = io.BytesIO()
    schema = pa.schema([pa.field("number", pa.int64(), nullable=False)])
    with spillway.ParquetWriter(file, schema, hold_batches=True) as writer:
        writer.write(pa.record_batch([pa.array([1, 2])], schema=schema))
        with pytest.raises(spillway.SchemaError):
            writer.write(pa.record_batch([pa.array([None, 3])], schema=schema))
        writer.write(pa.record_batch([pa.array([4])], schema=schema))
    assert writer.result.rows == 3
