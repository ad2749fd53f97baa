"""Validation by Spark: many files per job, partial digests on its workers, merged on the driver.

Functions for the workers make the digests, and search for the first differing row. Each task takes record
batches whose last two columns are the file's number and the row's place in its file, and yields a record
batch of a few bytes. No row of the data leaves the worker, but the first that differs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spillway._native import Digest, digest, row_hashes
from spillway.spark.schema import exchanged_schema, quoted
from spillway.spark.settings import NARROW_ROW_BYTES, without_limit
from spillway.validation.compare import Finding, describe, lossy, schema_differs, unreadable
from spillway.validation.normalize import LossyValueError, SchemaDiffersError, plan_reader
from spillway.validation.source import empty_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spillway.validation.normalize import Plan
    from spillway.validation.source import Mismatch, SourceRows

# Files of one job: enough to spread its fixed cost, few enough for the progress to move.
_FILES_PER_JOB = 8
_DIGESTS = "file int, lossy boolean, digest binary"
_ROWS = "file int, row bigint, lossy boolean, batch binary"


class SparkReader:
    """Spark's vectorized or its row-by-row Parquet reader.

    Args:
        session: A running session.
        vectorized: True for the vectorized reader, false for the other.
        schemas: Schemas inferred so far; they depend only on the file, so both readers share them.
    """

    def __init__(self, session: SparkSession, *, vectorized: bool, schemas: dict[Path, StructType]) -> None:
        self.name = "spark-vectorized" if vectorized else "spark-row"
        self._session = session
        self._schemas = schemas
        self._conf = {
            "spark.sql.parquet.enableVectorizedReader": str(vectorized).lower(),
            "spark.sql.parquet.enableNestedColumnVectorizedReader": str(vectorized).lower(),
        }

    def check(
        self, jobs: Mapping[Path, SourceRows], *, done: Callable[[int], None] | None = None
    ) -> dict[Path, Finding]:
        """Read every file of ``jobs``; return the differences from its source and the seconds that it took.

        The files' names have to be numbers, as in ``000017.parquet``, which identify the file of each row.

        Args:
            jobs: The files and what each should hold.
            done: Told of every few files that are done.
        """
        for name, value in self._conf.items():
            self._session.conf.set(name, value)
        results: dict[Path, Finding] = {}
        groups: dict[tuple[str, str], list[_Planned]] = defaultdict(list)
        for path, source_rows in jobs.items():
            started = time.perf_counter()
            try:
                file = self._plan(path, source_rows)
            except SchemaDiffersError as error:
                results[path] = Finding(schema_differs(error), time.perf_counter() - started)
            except self._errors as error:
                results[path] = Finding(unreadable(_said(error)), time.perf_counter() - started)
            else:
                # One job reads with one schema: only files whose schemas are equal share it.
                groups[file.schema.json(), str(file.plan)].append(file)
        tell = done or (lambda _: None)
        tell(len(results))
        for group in groups.values():
            for start in range(0, len(group), _FILES_PER_JOB):
                some = group[start : start + _FILES_PER_JOB]
                results |= self._check_together(some)
                tell(len(some))
        return results

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        return PySparkException, Py4JJavaError

    def _plan(self, path: Path, source_rows: SourceRows) -> _Planned:
        from pyspark.sql.types import StructType

        if path not in self._schemas:
            self._schemas[path] = self._session.read.parquet(str(path)).schema
        schema = StructType([field for field in self._schemas[path] if field.name not in source_rows.without])
        seen = exchanged_schema(schema)
        return _Planned(path, source_rows, schema, plan_reader(source_rows.plan.schema, seen, engine="spark"))

    def _check_together(self, group: Sequence[_Planned]) -> dict[Path, Finding]:
        """Read files of one schema in one job, and those that differ in a second."""
        started = time.perf_counter()
        try:
            mismatches = self._mismatches(group)
        except self._errors as error:
            if len(group) == 1:
                return {group[0].path: Finding(unreadable(_said(error)), time.perf_counter() - started)}
            # One bad file fails the job for all: halve until it is alone.
            middle = len(group) // 2
            return self._check_together(group[:middle]) | self._check_together(group[middle:])
        share = (time.perf_counter() - started) / len(group)
        return {file.path: Finding(mismatches.get(file.path), share) for file in group}

    def _mismatches(self, group: Sequence[_Planned]) -> dict[Path, Mismatch]:
        is_narrow = all(_is_narrow(file.source_rows) for file in group)
        with without_limit(self._session) if is_narrow else nullcontext():
            found = self._digests(group)
            differing = [file for file in group if found[file.path] != file.source_rows.digest]
            if not differing:
                return {}
            rows = self._first_differences(differing)
        return {file.path: _judge(file, found[file.path], rows.get(file.path)) for file in differing}

    def _digests(self, group: Sequence[_Planned]) -> dict[Path, Digest | None]:
        """The digest of each file; None where a value does not survive its cast."""
        parts = self._frame(group).mapInArrow(digest_files(group[0].plan), _DIGESTS).collect()
        by_number = {int(file.path.stem): file.path for file in group}
        found: dict[Path, Digest | None] = {file.path: empty_digest(file.plan.schema) for file in group}
        for part in parts:
            path = by_number[part["file"]]
            total = found[path]
            if part["lossy"] or total is None:
                found[path] = None
            else:
                found[path] = total.merge(Digest.from_bytes(bytes(part["digest"])))
        return found

    def _first_differences(self, group: Sequence[_Planned]) -> dict[Path, Any]:
        """The first row of each file that is not the source's, where one is not."""
        expected = {int(file.path.stem): file.source_rows.hashes for file in group}
        rows = self._frame(group).mapInArrow(find_differences(group[0].plan, expected), _ROWS).collect()
        by_number = {int(file.path.stem): file.path for file in group}
        first: dict[Path, Any] = {}
        for row in rows:
            path = by_number[row["file"]]
            if path not in first or row["row"] < first[path]["row"]:
                first[path] = row
        return first

    def _frame(self, group: Sequence[_Planned]) -> DataFrame:
        """The files' columns by number, then the file's number and the row's place in it."""
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        schema = group[0].schema
        frame = self._session.read.schema(schema).parquet(*[str(file.path) for file in group])
        origin = frame.metadataColumn("_metadata")
        number = F.substring_index(origin["file_name"], ".", 1).cast("int")
        columns = [F.col(quoted(name)).alias(f"c{index}") for index, name in enumerate(schema.names)]
        return frame.select(*columns, number.alias("file"), origin["row_index"].alias("place"))


@dataclass(frozen=True)
class _Planned:
    """A file with a matching schema, and the steps to the normal form of its rows."""

    path: Path
    source_rows: SourceRows
    schema: StructType
    plan: Plan


def _judge(file: _Planned, found: Digest | None, first: Any) -> Mismatch:
    if first is None:
        # Every row that is there agrees: the file ends too early.
        digest = found or file.source_rows.digest
        return describe(file.source_rows, digest, digest.rows, None)
    batch = _read_row(bytes(first["batch"]))
    if first["lossy"]:
        return lossy(_refused(file.plan, batch), first["row"], file.source_rows)
    return describe(file.source_rows, found, first["row"], batch)


def _is_narrow(source_rows: SourceRows) -> bool:
    # A dictionary's values may be repeated, so its rows are wider than their share of the batch.
    dictionaries = any(pa.types.is_dictionary(field.type) for field in source_rows.raw_schema)
    return source_rows.row_bytes <= NARROW_ROW_BYTES and not dictionaries


def _said(error: BaseException) -> str:
    """The message of a Java failure, without its stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    told = [line for line in lines if not line.startswith(("at ", "Caused by:", "JVM stacktrace", "..."))]
    return " ".join([type(error).__name__ + ":", *told[:3], *causes[-1:]])


def _read_row(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def _refused(plan: Plan, row: pa.RecordBatch) -> LossyValueError:
    try:
        plan.apply(row)
    except LossyValueError as error:
        return error
    raise AssertionError("a row whose cast failed on a worker fails here too")


def readers(session: SparkSession) -> tuple[SparkReader, ...]:
    """Both of Spark's readers on one session."""
    schemas: dict[Path, StructType] = {}
    return tuple(SparkReader(session, vectorized=vectorized, schemas=schemas) for vectorized in (True, False))


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
