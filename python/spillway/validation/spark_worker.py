"""Functions for Spark's Python workers: partial digests, and the search for the first differing row.

Each task takes record batches whose last two columns are the file's number and the row's place in its file,
and yields a record batch of a few bytes. No row of the data leaves the worker, but the first that differs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spillway._native import digest, row_hashes
from spillway.validation.normalize import LossyValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from spillway._native import Digest
    from spillway.validation.normalize import Plan

_DIGEST_TYPES: dict[str, pa.DataType] = {"file": pa.int32(), "lossy": pa.bool_(), "digest": pa.binary()}
_ROW_TYPES: dict[str, pa.DataType] = {
    "file": pa.int32(),
    "row": pa.int64(),
    "lossy": pa.bool_(),
    "batch": pa.binary(),
}
_PLACE = "__place"


def digest_files(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task that digests rows of several files.

    It yields a file's number and its partial digest, or ``lossy`` if a value does not survive its cast.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, Digest | None] = {}
        for batch in batches:
            for file, rows, places in _split_by_file(batch):
                try:
                    part = digest(plan.apply(rows).append_column(_PLACE, places), positions=_PLACE)
                except LossyValueError:
                    found[file] = None
                    continue
                before = found.get(file, part)
                found[file] = part if before is part else before and before.merge(part)
        answers = [(file, part is None, part and part.to_bytes()) for file, part in found.items()]
        yield _to_batch(answers, _DIGEST_TYPES)

    return task


def find_differences(
    plan: Plan, expected: Mapping[int, NDArray[np.uint64]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task that compares rows with the hashes that are expected of them, by their file's number.

    It yields, for each file with a row that differs, the first one: its place, and the row as an Arrow IPC
    stream, in the reader's own types if a value of it does not survive its cast (``lossy``).
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first: dict[int, tuple[int, bool, bytes]] = {}
        for batch in batches:
            for file, rows, places in _split_by_file(batch):
                found = _first_in_batch(plan, expected[file], rows, places)
                if found is not None and (file not in first or found[0] < first[file][0]):
                    first[file] = found
        yield _to_batch([(file, *found) for file, found in first.items()], _ROW_TYPES)

    return task


def _to_batch(rows: list[tuple[Any, ...]], types: dict[str, pa.DataType]) -> pa.RecordBatch:
    schema = pa.schema(types)
    return pa.RecordBatch.from_pylist([dict(zip(types, row, strict=True)) for row in rows], schema=schema)


def _first_in_batch(
    plan: Plan,
    expected: NDArray[np.uint64],
    rows: pa.RecordBatch,
    places: pa.Array,  # type: ignore[type-arg]  # generic in the stubs only
) -> tuple[int, bool, bytes] | None:
    try:
        normal = plan.apply(rows)
    except LossyValueError as error:
        return _earlier_or_lossy(plan, expected, rows, places, error.row)
    at = places.to_numpy()
    inside = at < len(expected)
    actual = np.frombuffer(row_hashes(normal), dtype="<u8")
    differs = ~inside
    differs[inside] = expected[at[inside]] != actual[inside]
    candidates = np.flatnonzero(differs)
    if len(candidates) == 0:
        return None
    index = int(candidates[np.argmin(at[candidates])])
    return int(at[index]), False, _row_bytes(normal, index)


def _earlier_or_lossy(
    plan: Plan,
    expected: NDArray[np.uint64],
    rows: pa.RecordBatch,
    places: pa.Array,  # type: ignore[type-arg]  # generic in the stubs only
    refused: int,
) -> tuple[int, bool, bytes]:
    """A difference in the rows before the one whose cast was refused, or else that row."""
    before = _first_in_batch(plan, expected, rows.slice(0, refused), places.slice(0, refused))
    if before is not None:
        return before
    named = pa.RecordBatch.from_arrays(rows.columns, schema=_named(plan, rows))
    return places[refused].as_py(), True, _row_bytes(named, refused)


def _named(plan: Plan, rows: pa.RecordBatch) -> pa.Schema:
    return pa.schema([pa.field(n, c.type) for n, c in zip(plan.schema.names, rows.columns, strict=True)])


def _row_bytes(batch: pa.RecordBatch, index: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        # A copy: a slice would carry the whole batch's buffers.
        writer.write_batch(batch.take(pa.array([index])))
    return sink.getvalue().to_pybytes()


def _split_by_file(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch, Any]]:
    """The runs of rows of one file. A task that reads several files yields them one after the other."""
    files, places = batch.column(batch.num_columns - 2).to_numpy(), batch.column(batch.num_columns - 1)
    data = batch.select(list(range(batch.num_columns - 2)))
    borders = [0, *(np.flatnonzero(np.diff(files)) + 1).tolist(), len(files)]
    for start, end in pairwise(borders):
        if start < end:
            yield int(files[start]), data.slice(start, end - start), places.slice(start, end - start)
