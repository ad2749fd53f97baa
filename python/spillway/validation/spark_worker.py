"""What runs on Spark's Python workers: partial digests, and the search for the first differing row.

Each function takes the record batches of one task, whose last two columns are the file's number and the row's
place in its file, and yields record batches of a few bytes. No row of the data leaves the worker, but the first
that differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway._native import digest, row_hashes
from spillway.validation.forms import LossyValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from spillway._native import Digest
    from spillway.validation.forms import Plan

__all__ = ["DIGESTS", "ROWS", "digest_files", "find_difference"]

Task = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"

DIGESTS = pa.schema({"file": pa.int32(), "digest": pa.binary(), "lossy_row": pa.int64()})
"""A partial digest of a file; or, where a value does not survive its cast, the row it stands in."""

ROWS = pa.schema({"row": pa.int64(), "lossy": pa.bool_(), "batch": pa.binary()})
"""A row that differs, as an Arrow IPC stream of that row; in the reader's own types if ``lossy``."""

_PLACE = "__place"


def digest_files(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task that digests the rows of several files, yielding `DIGESTS`."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, Digest] = {}
        lossy: dict[int, int] = {}
        for batch in batches:
            for file, rows, places in _split_by_file(batch):
                try:
                    part = digest(plan.apply(rows).append_column(_PLACE, places), positions=_PLACE)
                except LossyValueError as error:
                    place = places[error.row].as_py()
                    lossy[file] = min(place, lossy.get(file, place))
                    continue
                found[file] = found[file].merge(part) if file in found else part
        files = sorted(found | lossy)
        columns = [
            files,
            [found[f].to_bytes() if f in found else None for f in files],
            [lossy.get(f) for f in files],
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, t) for c, t in zip(columns, DIGESTS.types, strict=True)], schema=DIGESTS
        )

    return task


def find_difference(
    plan: Plan, expected: NDArray[np.uint64]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task that compares one file's rows with the hashes expected of them, yielding `ROWS`."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first: tuple[int, bool, bytes] | None = None
        for batch in batches:
            for _, rows, places in _split_by_file(batch):
                found = _first_in_batch(plan, expected, rows, places)
                if found is not None and (first is None or found[0] < first[0]):
                    first = found
        rows_found = [] if first is None else [first]
        columns = zip(*rows_found, strict=True) if rows_found else ([], [], [])
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(c), t) for c, t in zip(columns, ROWS.types, strict=True)], schema=ROWS
        )

    return task


def _first_in_batch(
    plan: Plan, expected: NDArray[np.uint64], rows: pa.RecordBatch, places: pa.Int64Array
) -> tuple[int, bool, bytes] | None:
    try:
        normal = plan.apply(rows)
    except LossyValueError as error:
        place = places[error.row].as_py()
        return (
            place,
            True,
            _row_bytes(pa.RecordBatch.from_arrays(rows.columns, schema=_named(plan, rows)), error.row),
        )
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


def _named(plan: Plan, rows: pa.RecordBatch) -> pa.Schema:
    return pa.schema([pa.field(n, c.type) for n, c in zip(plan.schema.names, rows.columns, strict=True)])


def _row_bytes(batch: pa.RecordBatch, index: int) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        # A copy: a slice would carry the whole batch's buffers.
        writer.write_batch(batch.take(pa.array([index])))
    return sink.getvalue().to_pybytes()


def _split_by_file(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch, pa.Int64Array]]:
    """The runs of rows of one file; a task that reads several files gives them one after the other."""
    files, places = batch.column(batch.num_columns - 2), batch.column(batch.num_columns - 1)
    data = batch.select(list(range(batch.num_columns - 2)))
    runs = pc.run_end_encode(files)
    start = 0
    for end, file in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield file, data.slice(start, end - start), places.slice(start, end - start)
        start = end
