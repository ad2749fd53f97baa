"""Validation by Spark: many files a job, partial digests on its workers, merged here."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spillway._native import Digest
from spillway.validation.compare import describe, lossy, schema_differs, unreadable
from spillway.validation.forms import LossyValueError, SchemaDiffersError, plan_reader
from spillway.validation.spark_worker import digest_files, find_difference
from spillway.validation.truth import empty_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spillway.validation.forms import Plan
    from spillway.validation.truth import Truth
    from spillway.validation.verdict import Mismatch

__all__ = ["SparkReader"]

# Files of one job: enough to spread its fixed cost, few enough for the progress to move.
_FILES_PER_JOB = 8
_DIGESTS = "file int, digest binary, lossy_row bigint"
_ROWS = "row bigint, lossy boolean, batch binary"


class SparkReader:
    """Spark's vectorized or its row-by-row Parquet reader.

    Args:
        session: A running session.
        vectorized: Which of the two readers.
    """

    def __init__(self, session: SparkSession, *, vectorized: bool) -> None:
        self.name = "spark-vectorized" if vectorized else "spark-row"
        self._session = session
        self._conf = {
            "spark.sql.parquet.enableVectorizedReader": str(vectorized).lower(),
            "spark.sql.parquet.enableNestedColumnVectorizedReader": str(vectorized).lower(),
        }

    def check(
        self, jobs: Mapping[Path, Truth], *, done: Callable[[int], None] = lambda count: None
    ) -> dict[Path, tuple[Mismatch | None, float]]:
        """Read every file of ``jobs`` and say how it differs from its source, and the seconds that took.

        The files' names have to be numbers, as in ``000017.parquet``: that is how rows tell where they come from.

        Args:
            jobs: The files and what each should hold.
            done: Told of every few files that are done.
        """
        for name, value in self._conf.items():
            self._session.conf.set(name, value)
        results: dict[Path, tuple[Mismatch | None, float]] = {}
        groups: dict[tuple[str, str], list[tuple[Path, Plan, Any]]] = defaultdict(list)
        for path, truth in jobs.items():
            started = time.perf_counter()
            try:
                schema, plan = self._plan(path, truth)
            except SchemaDiffersError as error:
                results[path] = schema_differs(error), time.perf_counter() - started
            except self._errors as error:
                results[path] = unreadable(_said(error)), time.perf_counter() - started
            else:
                # One job reads with one schema: only files whose schemas are equal share it.
                groups[schema.json(), str(plan)].append((path, plan, schema))
        done(len(results))
        for group in groups.values():
            for start in range(0, len(group), _FILES_PER_JOB):
                some = group[start : start + _FILES_PER_JOB]
                results |= self._check_together(some, jobs)
                done(len(some))
        return results

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        return PySparkException, Py4JJavaError

    def _plan(self, path: Path, truth: Truth) -> tuple[Any, Plan]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = self._session.read.parquet(str(path)).schema
        return schema, plan_reader(truth.plan.schema, to_arrow_schema(schema, timezone="UTC"), engine="spark")

    def _check_together(
        self, group: Sequence[tuple[Path, Plan, Any]], jobs: Mapping[Path, Truth]
    ) -> dict[Path, tuple[Mismatch | None, float]]:
        started = time.perf_counter()
        plan, schema = group[0][1], group[0][2]
        try:
            found = self._digests([path for path, _, _ in group], plan, schema)
        except self._errors as error:
            if len(group) == 1:
                return {group[0][0]: (unreadable(_said(error)), time.perf_counter() - started)}
            # One bad file fails the job for all: read each alone.
            alone: dict[Path, tuple[Mismatch | None, float]] = {}
            for each in group:
                alone |= self._check_together([each], jobs)
            return alone
        share = (time.perf_counter() - started) / len(group)
        results = {}
        for path, _, _ in group:
            began = time.perf_counter()
            mismatch = self._judge(path, plan, schema, jobs[path], found[path])
            results[path] = mismatch, share + time.perf_counter() - began
        return results

    def _judge(
        self,
        path: Path,
        plan: Plan,
        schema: Any,
        truth: Truth,
        found: tuple[Digest, bool],
    ) -> Mismatch | None:
        total, is_lossy = found
        if not is_lossy and total == truth.digest:
            return None
        try:
            return self._first_difference(path, plan, schema, truth, total)
        except self._errors as error:
            return unreadable(_said(error))

    def _digests(self, paths: Sequence[Path], plan: Plan, schema: Any) -> dict[Path, tuple[Digest, bool]]:
        """The digest of each file, and whether a value of it did not survive its cast."""
        rows = self._frame(paths, schema).mapInArrow(digest_files(plan), _DIGESTS)
        by_file = {int(path.stem): path for path in paths}
        found = {path: (empty_digest(plan.schema), False) for path in paths}
        for row in rows.collect():
            path = by_file[row["file"]]
            total, is_lossy = found[path]
            if row["digest"] is not None:
                total = total.merge(Digest.from_bytes(bytes(row["digest"])))
            found[path] = total, is_lossy or row["lossy_row"] is not None
        return found

    def _first_difference(
        self,
        path: Path,
        plan: Plan,
        schema: Any,
        truth: Truth,
        found: Digest,
    ) -> Mismatch:
        search = find_difference(plan, truth.hashes)
        rows = self._frame([path], schema).mapInArrow(search, _ROWS).collect()
        if not rows:
            return describe(truth, found, found.rows, None)
        first = min(rows, key=lambda row: row["row"])
        batch = _read_row(bytes(first["batch"]))
        if first["lossy"]:
            return lossy(_refused(plan, batch), first["row"], truth)
        return describe(truth, found, first["row"], batch)

    def _frame(self, paths: Sequence[Path], schema: Any) -> DataFrame:
        """The files' columns by number, then the file's number and the row's place in it."""
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        frame = self._session.read.schema(schema).parquet(*map(str, paths))
        origin = frame.metadataColumn("_metadata")
        number = F.substring_index(origin["file_name"], ".", 1).cast("int")
        columns = [F.col(_quoted(name)).alias(f"c{index}") for index, name in enumerate(schema.names)]
        return frame.select(*columns, number.alias("file"), origin["row_index"].alias("place"))


def _said(error: BaseException) -> str:
    """What a Java failure says, without its stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    told = [line for line in lines if not line.startswith(("at ", "Caused by:", "JVM stacktrace", "..."))]
    return " ".join([type(error).__name__ + ":", *told[:3], *causes[-1:]])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _read_row(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def _refused(plan: Plan, row: pa.RecordBatch) -> LossyValueError:
    try:
        plan.apply(row)
    except LossyValueError as error:
        return error
    raise AssertionError("a row whose cast failed on a worker fails here too")


def readers(session: SparkSession) -> Iterator[SparkReader]:
    """Both of Spark's readers on one session."""
    for vectorized in (True, False):
        yield SparkReader(session, vectorized=vectorized)
