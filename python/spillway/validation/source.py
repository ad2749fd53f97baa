"""The source's rows: in their normal form, as a digest, and row by row."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spillway._native import Digest, digest, row_hashes
from spillway.errors import OptionError
from spillway.validation.normalize import plan_source
from spillway.validation.verdict import Source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["SourceRows", "digest_source", "empty_digest"]

_ARROW_MAGIC = b"ARROW1"
_BATCH_ROWS = 65_536


def digest_source(path: Path, *, rows: int | None = None) -> Digest:
    """Digest the first ``rows`` rows of an Arrow IPC file or a Parquet file.

    Raises:
        FileNotFoundError: There is no such file.
        OptionError: It holds fewer rows, or is neither Arrow IPC nor Parquet.
    """
    return SourceRows(Source(path, rows)).digest


def empty_digest(schema: pa.Schema) -> Digest:
    """The digest of no rows of these columns."""
    return digest(pa.RecordBatch.from_pylist([], schema=schema))


class SourceRows:
    """The source's rows, which readers are compared with. Everything is read once, when it is first needed.

    Args:
        source: The file that holds the rows, and their number.
        without: Columns that do not count, because a reader is excused from them.
    """

    def __init__(self, source: Source, without: frozenset[str] = frozenset()) -> None:
        self.source = source
        self.without = without
        with self._open() as (schema, _):
            self.raw_schema = pa.schema([field for field in schema if field.name not in without])
        self.plan = plan_source(self.raw_schema)

    @cached_property
    def digest(self) -> Digest:
        """The digest of the source's rows.

        Raises:
            OptionError: The file holds fewer rows than were asked for.
        """
        total = empty_digest(self.plan.schema)
        for batch in self.batches():
            total = total.merge(digest(batch, first_row=total.rows))
        wanted = self.source.rows
        if wanted is not None and total.rows < wanted:
            raise OptionError(
                f"{self.source.path} holds {total.rows} rows, and {wanted} were asked for: "
                f"ask for {total.rows} at most"
            )
        return total

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """The hash of every row, in order."""
        words = b"".join(row_hashes(batch) for batch in self.batches())
        return np.frombuffer(words, dtype="<u8")

    @cached_property
    def row_bytes(self) -> float:
        """The average bytes of an Arrow row, in the batch with the largest average."""
        sizes = (batch.nbytes / batch.num_rows for batch in self.raw_batches() if batch.num_rows)
        return max(sizes, default=0.0)

    def row(self, index: int) -> pa.RecordBatch | None:
        """The row at ``index`` in normal form, or None where the source has ended."""
        start = 0
        for batch in self.batches():
            if index < start + batch.num_rows:
                return batch.slice(index - start, 1)
            start += batch.num_rows
        return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The source's rows in normal form."""
        return (self.plan.apply(batch) for batch in self.raw_batches())

    def raw_batches(self) -> Iterator[pa.RecordBatch]:
        """The source's rows as they are, cut at the number of rows that counts."""
        left = self.source.rows
        with self._open() as (_, batches):
            for batch in batches:
                counted = self.keep(batch) if left is None else self.keep(batch).slice(0, left)
                yield counted
                if left is not None:
                    left -= counted.num_rows
                    if left == 0:
                        return

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The compared columns of a batch whose columns have the source's names."""
        if not self.without:
            return batch
        # By place: two columns may share a name.
        return batch.select([at for at, name in enumerate(batch.schema.names) if name not in self.without])

    @contextmanager
    def _open(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        path = self.source.path
        with path.open("rb") as file:
            magic = file.read(len(_ARROW_MAGIC))
        if magic == _ARROW_MAGIC:
            with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
                yield reader.schema, (reader.get_batch(index) for index in range(reader.num_record_batches))
        elif magic.startswith(b"PAR1"):
            with pq.ParquetFile(path) as parquet:
                yield parquet.schema_arrow, parquet.iter_batches(_BATCH_ROWS)
        else:
            raise OptionError(
                f"{path} is neither an Arrow IPC file nor a Parquet file; a source has to be one of them"
            )
