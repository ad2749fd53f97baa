"""The source's rows, in their normal form and as a digest, and the verdicts on files compared with it."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spillway._native import Digest, digest, row_hashes
from spillway.errors import OptionError
from spillway.reading.files import explained
from spillway.validation.normalize import LossyValueError, plan_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

ENGINES = ("spark", "pyarrow", "polars", "duckdb")
"""The available engines; Spark has two readers."""

READERS = {
    "spark": ("spark-vectorized", "spark-row"),
    "pyarrow": ("pyarrow",),
    "polars": ("polars",),
    "duckdb": ("duckdb",),
}
"""The readers of each engine; each gives a separate verdict."""

Kind = Literal["unreadable", "schema", "row_count", "values", "row_order", "unstable"]


@dataclass(frozen=True)
class Source:
    """The source of a file: the first ``rows`` rows of an Arrow IPC or Parquet file, or all of them."""

    path: Path
    rows: int | None = None


@dataclass(frozen=True)
class Mismatch:
    """A difference between a reader's rows and the source.

    Attributes:
        kind: ``unreadable``: the reader failed. ``schema``: names, order or logical types differ.
            ``row_count``: there are more or fewer rows. ``values``: a row differs. ``row_order``: the same
            rows in a different order. ``unstable``: the digests differ, and a second reading agrees.
        column: The first column that differs, if any.
        row: The first row that differs, from 0, if any.
        expected: The source's value there, as text.
        actual: The reader's value there, as text.
        message: All of it in one sentence.
    """

    kind: Kind
    column: str | None
    row: int | None
    expected: str | None
    actual: str | None
    message: str


@dataclass(frozen=True)
class Verdict:
    """One reader's answer for one file.

    Attributes:
        file: The file that was read.
        engine: The reader: ``spark-vectorized``, ``spark-row``, ``pyarrow``, ``polars`` or ``duckdb``.
        ok: The reader saw the source's rows, in their order.
        excused: It did not, but only in columns in which it fails alike on pyarrow's file of the same table:
            the reader's limit, not the file's fault. An excused verdict is never ``ok``.
        mismatch: The difference from the source, unless ``ok``.
        seconds: Time taken; a share of the total time if files were read together.
    """

    file: Path
    engine: str
    ok: bool
    excused: bool
    mismatch: Mismatch | None
    seconds: float

    @property
    def failed(self) -> bool:
        """True if the file is at fault: neither good nor excused."""
        return not (self.ok or self.excused)

    def as_json(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {**asdict(self), "file": str(self.file)}


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """One line per engine, as in ``validated by spark: 44 of 45 (1 excused)``.

    A file counts when every reader of the engine found it good.
    """
    lines = []
    for engine, readers in READERS.items():
        by_file: dict[Path, list[Verdict]] = defaultdict(list)
        for verdict in verdicts:
            if verdict.engine in readers:
                by_file[verdict.file].append(verdict)
        if not by_file:
            continue
        good = sum(all(v.ok for v in each) for each in by_file.values())
        failed = sum(any(v.failed for v in each) for each in by_file.values())
        excused = len(by_file) - good - failed
        notes = [f"{count} {word}" for count, word in ((failed, "failed"), (excused, "excused")) if count]
        lines.append(
            f"validated by {engine}: {good} of {len(by_file)}" + (f" ({', '.join(notes)})" if notes else "")
        )
    return lines


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
        with explained(source.path), self._open() as (schema, _):
            self.raw_schema = pa.schema([field for field in schema if field.name not in without])
        self.plan = plan_source(self.raw_schema)

    @cached_property
    def digest(self) -> Digest:
        """The digest of the source's rows.

        Raises:
            OptionError: The file contains fewer rows than requested, or a type that cannot be compared.
            CorruptFileError: It is damaged.
        """
        try:
            total = empty_digest(self.plan.schema)
        except (ValueError, pa.ArrowNotImplementedError) as error:  # a type that has no digest
            raise OptionError(f"{self.source.path} cannot be compared: {error}") from error
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
        """The row at ``index`` in normal form, or None after the end of the source."""
        start = 0
        for batch in self.batches():
            if index < start + batch.num_rows:
                return batch.slice(index - start, 1)
            start += batch.num_rows
        return None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The source's rows in normal form."""
        return (self._normal(batch) for batch in self.raw_batches())

    def _normal(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return self.plan.apply(batch)
        except LossyValueError as error:
            raise OptionError(
                f"{self.source.path}: column {error.column} is compared as {error.target}, which cannot hold "
                f"its value {error.value}"
            ) from error

    def raw_batches(self) -> Iterator[pa.RecordBatch]:
        """The source's rows as they are, cut at the number of rows that counts."""
        left = self.source.rows
        with explained(self.source.path), self._open() as (_, batches):
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


def write_reference(source_rows: SourceRows, path: Path) -> bool:
    """Write the source's rows with pyarrow and its defaults; False if pyarrow cannot write such a table."""
    try:
        with pq.ParquetWriter(path, source_rows.raw_schema) as writer:
            for batch in source_rows.raw_batches():
                writer.write_batch(batch)
    except (pa.ArrowException, ValueError):
        return False
    return True


def excuses(found: Mismatch, on_reference: Mismatch | None) -> bool:
    """Return True if a reader's failure on pyarrow's file explains its failure on another one.

    It has to fail there in the same way and on the same column, or with the same error: a reader that knows
    no nanoseconds is not excused from values swapped elsewhere, nor from a file that is cut off.
    """
    if on_reference is None or found.kind != on_reference.kind or found.column != on_reference.column:
        return False
    return found.column is not None or _without_places(found) == _without_places(on_reference)


def _without_places(found: Mismatch) -> str:
    """The error without names of files and numbers, which differ between two files of the same rows."""
    return re.sub(r"\S*[/\\]\S*|\d+", "", found.message)
