"""Validation by Spark: many files per job, partial digests on its workers, merged here."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spillway._native import Digest
from spillway.spark.schema import exchanged_schema, quoted
from spillway.spark.settings import NARROW_ROW_BYTES, without_limit
from spillway.validation.compare import Finding, describe, lossy, schema_differs, unreadable
from spillway.validation.normalize import LossyValueError, SchemaDiffersError, plan_reader
from spillway.validation.source import empty_digest
from spillway.validation.spark_worker import digest_files, find_differences

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

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
