"""Compares a reader's rows with the source: digests first, and row by row if they differ."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from spillway._native import Digest, digest, row_hashes
from spillway.errors import MissingExtraError
from spillway.validation.normalize import LossyValueError, Plan, SchemaDiffersError, plan_reader
from spillway.validation.source import Kind, Mismatch, SourceRows, empty_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Finding:
    """A reader's mismatch on a file, or None, and the time that it took."""

    mismatch: Mismatch | None
    seconds: float


_SHOWN = 160
_ERROR_SHOWN = 400


def check(reader: Reader, path: Path, source_rows: SourceRows) -> Mismatch | None:
    """Read ``path`` with ``reader`` and return the difference from the source, or None."""
    try:
        with reader.open(path) as (schema, batches):
            counted = pa.schema([field for field in schema if field.name not in source_rows.without])
            plan = plan_reader(source_rows.plan.schema, counted, engine=reader.name)
            found = _digest(map(source_rows.keep, batches), plan)
        if found is not None and found == source_rows.digest:
            return None
        with reader.open(path) as (_, batches):
            return _first_difference(map(source_rows.keep, batches), plan, found, source_rows)
    except SchemaDiffersError as error:
        return schema_differs(error)
    except _LossyAtError as error:
        return lossy(error.cause, error.row, source_rows)
    except reader.errors as error:
        return unreadable(f"{type(error).__name__}: {error}")


class _LossyAtError(Exception):
    """A value that did not survive its cast, with its row in the file."""

    def __init__(self, cause: LossyValueError, row: int) -> None:
        super().__init__(str(cause))
        self.cause, self.row = cause, row


def _normalised(
    batches: Iterable[pa.RecordBatch], plan: Plan, start: int = 0
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each batch in normal form with the place of its first row; all rows before one that is refused."""
    for batch in batches:
        try:
            normal = plan.apply(batch)
        except LossyValueError as error:
            yield from _normalised([batch.slice(0, error.row)], plan, start)
            raise _LossyAtError(error, start + error.row) from error
        yield start, normal
        start += batch.num_rows


def _digest(batches: Iterable[pa.RecordBatch], plan: Plan) -> Digest | None:
    """The digest of all rows; None if a value does not survive its cast."""
    total = empty_digest(plan.schema)
    try:
        for start, batch in _normalised(batches, plan):
            total = total.merge(digest(batch, first_row=start))
    except _LossyAtError:
        return None
    return total


def _first_difference(
    batches: Iterable[pa.RecordBatch], plan: Plan, found: Digest | None, source_rows: SourceRows
) -> Mismatch:
    expected = source_rows.hashes
    rows = 0
    for start, batch in _normalised(batches, plan):
        row = first_differing(expected, row_hashes(batch), start)
        if row is not None:
            return describe(source_rows, found, row, batch.slice(row - start, 1))
        rows = start + batch.num_rows
    return describe(source_rows, found, rows, None)


def first_differing(expected: NDArray[np.uint64], words: bytes, start: int) -> int | None:
    """The first row of a batch, counted in the file, whose hash is not the expected one."""
    actual = np.frombuffer(words, dtype="<u8")
    window = expected[start : start + len(actual)]
    differs = np.flatnonzero(window != actual[: len(window)])
    if len(differs):
        return start + int(differs[0])
    return start + len(window) if len(window) < len(actual) else None


def describe(
    source_rows: SourceRows, found: Digest | None, row: int, actual: pa.RecordBatch | None
) -> Mismatch:
    """Name the first column that differs in ``row``, given the reader's row there, or None past its end.

    ``found`` is the digest of the rows that were read; None if a later value did not survive its cast.
    """
    kind = "values" if found is None else _kind(source_rows.digest, found)
    expected = source_rows.row(row)
    if expected is None and actual is None:
        message = "its digest differs from the source's, but every row agrees on a second reading"
        return Mismatch("unstable", None, None, None, None, message)
    column, want, have = _first_column(expected, actual)
    lead = {
        "row_count": f"{found.rows if found else 'other'} rows instead of {source_rows.digest.rows}",
        "row_order": "the same rows in another order",
    }.get(kind, "values differ")
    message = f"{lead}; first at row {row}, column {column!r}: expected {want}, got {have}"
    return Mismatch(kind, column, row, want, have, message)


def schema_differs(error: SchemaDiffersError) -> Mismatch:
    """The mismatch of a reader's columns."""
    return Mismatch("schema", error.column, None, error.expected, error.actual, str(error))


def lossy(error: LossyValueError, row: int, source_rows: SourceRows) -> Mismatch:
    """The mismatch of a value that the source's type cannot represent."""
    source = source_rows.row(row)
    want = "no row" if source is None else _show(source.column(error.column)[0])
    have = f"{_show(error.value)}, which {error.target} cannot hold"
    message = f"values differ; first at row {row}, column {error.column!r}: expected {want}, got {have}"
    return Mismatch("values", error.column, row, want, have, message)


def unreadable(said: str) -> Mismatch:
    """The mismatch of a file that a reader refuses, with the reader's message."""
    return Mismatch(
        "unreadable", None, None, None, None, "cannot be read: " + " ".join(said.split())[:_ERROR_SHOWN]
    )


def _kind(expected: Digest, found: Digest) -> Kind:
    if expected.rows != found.rows:
        return "row_count"
    return "row_order" if expected.row_checksum == found.row_checksum else "values"


def _first_column(expected: pa.RecordBatch | None, actual: pa.RecordBatch | None) -> tuple[str, str, str]:
    """The first differing column of two single rows, and both values as text."""
    if expected is None or actual is None:
        row = expected if actual is None else actual
        assert row is not None, "a row that neither side has cannot differ"  # noqa: S101
        value = _show(row.column(0)[0])
        return row.schema.names[0], *((value, "no row") if actual is None else ("no row", value))
    for index, name in enumerate(expected.schema.names):
        if row_hashes(expected.select([index])) != row_hashes(actual.select([index])):
            want, have = _show_both(expected.column(index)[0], actual.column(index)[0])
            return name, want, have
    raise AssertionError("rows whose hashes differ have a column that differs")


def _show_both(want: pa.Scalar, have: pa.Scalar) -> tuple[str, str]:  # type: ignore[type-arg]  # generic in the stubs only
    """Both values as text; of long ones, the part where they begin to differ."""
    texts = _text(want), _text(have)
    same = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, same - _SHOWN // 4) if max(map(len, texts)) > _SHOWN else 0
    return _cut(texts[0], start), _cut(texts[1], start)


def _show(value: pa.Scalar) -> str:  # type: ignore[type-arg]  # generic in the stubs only
    return _cut(_text(value), 0)


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return ("…" if start else "") + shown + ("…" if start + _SHOWN < len(text) else "")


def _text(value: pa.Scalar) -> str:  # type: ignore[type-arg]  # generic in the stubs only
    """A value as Python would write it; times as Arrow writes them, to the nanosecond."""
    if not value.is_valid:
        return "null"
    if pt.is_temporal(value.type) and not pt.is_duration(value.type):
        return str(value.cast(pa.string()).as_py())
    if pt.is_duration(value.type):
        return f"{value.cast(pa.int64()).as_py()} {value.type.unit}"
    if pt.is_nested(value.type):
        return str(pa.array([value], value.type)) if _holds_times(value.type) else repr(value.as_py())
    return repr(value.as_py())


def _holds_times(kind: pa.DataType) -> bool:
    """Return True if the type may hold nanoseconds, which Python's own types cannot show."""
    return pt.is_temporal(kind) or any(_holds_times(kind.field(i).type) for i in range(kind.num_fields))


_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Reader:
    """A way to read Parquet.

    Attributes:
        name: The engine's name.
        open: From a path to the schema as the engine sees it and its batches, in file order.
        errors: The exceptions that the engine raises on a file that it cannot read.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[tuple[pa.Schema, Iterator[pa.RecordBatch]]]]
    errors: tuple[type[BaseException], ...]


def load_reader(name: str) -> Reader:
    """Load the in-process engine ``name``: pyarrow, polars or duckdb.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return {"pyarrow": _pyarrow, "polars": _polars, "duckdb": _duckdb}[name]()
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or name, "bench", f"validate with {name}") from error


def _pyarrow() -> Reader:
    @contextmanager
    def read(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file.schema_arrow, file.iter_batches(_BATCH_ROWS)

    return Reader("pyarrow", read, (pa.ArrowException, OSError, ValueError))


def _polars() -> Reader:
    import polars as pl

    newest = pl.CompatLevel.newest()

    @contextmanager
    def read(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False, include_file_paths=None)
        schema = pl.DataFrame(schema=frame.collect_schema()).to_arrow(compat_level=newest).schema
        chunks = frame.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True)
        yield (
            schema,
            (batch for chunk in chunks for batch in chunk.to_arrow(compat_level=newest).to_batches()),
        )

    # A panic in polars derives from BaseException.
    return Reader(
        "polars", read, (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, OSError)
    )


def _duckdb() -> Reader:
    import duckdb

    @contextmanager
    def read(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        with duckdb.connect(config={"preserve_insertion_order": True}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            query = "SELECT * FROM read_parquet($1, hive_partitioning = false)"
            reader = connection.sql(query, params=[str(path)]).to_arrow_reader(_BATCH_ROWS)
            yield reader.schema, iter(reader)

    return Reader("duckdb", read, (duckdb.Error, pa.ArrowException, OSError))
