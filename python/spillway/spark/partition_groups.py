"""Rows in an order in which a writer with few open files writes one file for each partition."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["in_groups"]


def in_groups(
    batches: Iterable[pa.RecordBatch], columns: Sequence[str], most: int
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in such an order that a writer needs at most `most` files open, and none of them twice.

    Rows of the first `most` partitions pass as they come. The rows of the others are divided by partition
    among temporary files, which are read one after the other when the input has ended. Rows of one partition
    keep their order.

    Args:
        batches: The rows.
        columns: The partition columns; without any, the rows pass as they are.
        most: The files that the writer of the rows may have open.

    Raises:
        OSError: A temporary file cannot be written.
    """
    if not columns:
        yield from batches
        return
    partitions = _Partitions(columns)
    with contextlib.ExitStack() as stack:
        waiting: dict[int, _Waiting] = {}
        for batch in batches:
            groups = partitions.groups(batch, most)
            if groups is None:
                yield batch
                continue
            for group, rows in _split(batch, groups):
                if group < 0:
                    yield rows
                    continue
                if group not in waiting:
                    waiting[group] = stack.enter_context(contextlib.closing(_Waiting()))
                waiting[group].write(rows)
        for group in sorted(waiting):
            yield from in_groups(waiting[group].read(), columns, most)
            waiting[group].close()


class _Partitions:
    """The partitions that were met, numbered in their order."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._numbers: dict[tuple[Any, ...], int] = {}

    def groups(self, batch: pa.RecordBatch, most: int) -> Any:
        """The group of each row: -1 for the first `most` partitions, which are all if it returns None."""
        codes: Any = None
        values: list[tuple[Any, ...]] = [()]
        for name in self._columns:
            place = batch.schema.get_field_index(name)
            if place < 0:
                values = [(*value, None) for value in values]
                continue
            found, own = _encoded(batch.column(place))
            together = found if codes is None else pc.add(pc.multiply(codes, len(own)), found)
            # Those that there are, of all that the values of the columns could make.
            encoded: Any = together.dictionary_encode()
            codes = encoded.indices.cast(pa.int64())
            pairs = [divmod(code, len(own)) for code in encoded.dictionary.to_pylist()]
            values = [(*values[before], own[last]) for before, last in pairs]
        numbers = [self._numbers.setdefault(value, len(self._numbers)) for value in values]
        if codes is None or max(numbers, default=0) < most:
            return None
        files = max(most, 2)
        groups = [-1 if number < most else (number // most - 1) % files for number in numbers]
        return pa.array(groups, pa.int64()).take(codes)


def _encoded(column: Any) -> tuple[Any, list[Any]]:
    """Each row's index into the distinct values, and these, as objects that equal themselves in a dict."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        # `dictionary_encode` has no kernel for them.
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    encoded: Any = pc.dictionary_encode(column, null_encoding="encode")
    values: Any = encoded.dictionary
    kind = values.type
    if pa.types.is_temporal(kind):
        # Python has no objects for times outside of its calendar.
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    elif pa.types.is_floating(kind):
        values = values.cast(pa.string())  # NaN is not equal to itself
    # Both name the same folder.
    return encoded.indices.cast(pa.int64()), [None if value == "" else value for value in values.to_pylist()]


def _split(batch: pa.RecordBatch, groups: Any) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each group of a batch."""
    order = pc.sort_indices(groups)  # which is stable
    rows, start = batch.take(order), 0
    for counted in pc.value_counts(groups.take(order)).to_pylist():
        yield counted["values"], rows.slice(start, counted["counts"])
        start += counted["counts"]


class _Waiting:
    """Rows in a temporary file: Arrow streams, one after the other where schemas differ."""

    def __init__(self) -> None:
        # `tempfile` has remembered the folder from before `choose_scratch`.
        self._file: Any = tempfile.TemporaryFile(dir=os.environ.get("TMPDIR"))  # noqa: SIM115 - see `close`
        self._stream: Any = None
        self._schema: pa.Schema | None = None

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        if self._schema is None or not self._schema.equals(rows.schema, check_metadata=True):
            self._end()
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._stream = pa.ipc.new_stream(self._file, rows.schema, options=options)
            self._schema = rows.schema
        self._stream.write_batch(rows)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        self._end()
        size = self._file.tell()
        self._file.seek(0)
        while self._file.tell() < size:
            yield from pa.ipc.open_stream(self._file)

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()
