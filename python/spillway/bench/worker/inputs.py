"""The input of a write in the measured process: record batches of a mapped file, or rows made of them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import mmap
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_POPULATE_READ = 22  # MADV_POPULATE_READ, Linux 5.14; Python has no name for it


class MappedInput:
    """The first `rows` rows of an Arrow IPC file, by mapping.

    Its pages are made resident here, so that they belong to the baseline and no read waits in the phase.
    """

    def __init__(self, path: str, rows: int) -> None:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib is one more import in the measured process
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._buffer = pa.py_buffer(self._map)
        self._reader = pa.ipc.open_file(self._buffer)
        self._lengths = self._lengths_of(rows)
        self.rows = sum(self._lengths)
        self.arrow_bytes = sum(batch.nbytes for batch in self.batches())
        self.schema = self._reader.schema
        self._populate()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The record batches one at a time; none is kept here."""
        for index, length in enumerate(self._lengths):
            batch = self._reader.get_batch(index)
            yield batch if batch.num_rows == length else batch.slice(0, length)

    def table(self) -> pa.Table:
        """All rows as one table over the mapped pages."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def head(self, rows: int) -> pa.RecordBatch:
        """The first few rows, for a warm-up."""
        return self._reader.get_batch(0).slice(0, min(rows, self._lengths[0]))

    def _lengths_of(self, rows: int) -> list[int]:
        lengths: list[int] = []
        wanted = rows
        for index in range(self._reader.num_record_batches):
            if wanted == 0:
                break
            lengths.append(min(wanted, self._reader.get_batch(index).num_rows))
            wanted -= lengths[-1]
        if wanted:
            raise ValueError(f"the input holds {rows - wanted} rows, {rows} were asked for")
        return lengths

    def _populate(self) -> None:
        """Map the pages from the first buffer of the cell's batches to the last."""
        start = self._buffer.size
        end = 0
        for batch in self.batches():
            for buffer in _buffers(batch):
                offset = buffer.address - self._buffer.address
                if 0 <= offset < self._buffer.size:
                    start = min(start, offset)
                    end = max(end, offset + buffer.size)
        start -= start % mmap.PAGESIZE
        if start < end:
            try:
                self._map.madvise(_POPULATE_READ, start, end - start)
            except OSError:  # an older kernel
                for page in range(start, end, mmap.PAGESIZE):
                    self._map[page]


def _buffers(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    for column in batch.columns:
        yield from (buffer for buffer in column.buffers() if buffer is not None)
        if isinstance(column, pa.DictionaryArray):
            yield from (buffer for buffer in column.dictionary.buffers() if buffer is not None)


def dicts(batches: Iterable[pa.RecordBatch]) -> list[list[dict[str, Any]]]:
    """A list of dicts for each batch; all rows share their key objects, as those of one piece of code do."""
    return [batch.to_pylist() for batch in batches]


def dicts_from_json(batches: Iterable[pa.RecordBatch]) -> list[list[dict[str, Any]]]:
    """A list of dicts for each batch, each parsed from a separate line, so every row has new key objects."""
    return [[json.loads(line) for line in chunk.splitlines()] for chunk in ndjson(batches)]


def ndjson(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    """The lines of each batch: no blanks, nulls written, times as RFC 3339 and decimals as text."""
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_text)
    return ["".join(f"{encoder.encode(row)}\n" for row in batch.to_pylist()).encode() for batch in batches]


def _text(value: object) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"JSON has no {type(value).__name__}: leave the row modes out for this input")
