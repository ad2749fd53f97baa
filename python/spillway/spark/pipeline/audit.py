"""The audit of a pipeline: files that are not published yet, and rows that the destination keeps."""

from __future__ import annotations

import contextlib
import functools
import operator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

import spillway.delta
from spillway._wording import and_joined, counted
from spillway.errors import AuditError, CheckFailedError, TableNotFoundError, UnsupportedTableError
from spillway.spark.location import is_local, unquoted
from spillway.spark.pipeline.checks import column_of
from spillway.spark.row_sums import RowSums, sums_by, sums_of_frame
from spillway.spark.schema import quoted
from spillway.spark.settings import changed_settings
from spillway.spark.write_job import StagedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spillway.spark.pipeline.checks import Unique
    from spillway.spark.write_job import Job, Target, TaskResult
    from spillway.types import Condition


def staying(
    session: SparkSession,
    target: Target,
    touched: DataFrame | None,
    read: Callable[[Sequence[StagedFile] | None], DataFrame],
) -> DataFrame | None:
    """Return the rows of a destination that a write keeps; None if there cannot be any.

    Args:
        session: The session that reads them.
        target: The destination.
        touched: The partitions that the write replaces, if it replaces only the partitions of its rows.
        read: Reads columns of files, or with None of the folder that the destination is.

    Raises:
        UnsupportedTableError: Rows of a Delta table are marked as deleted, and this Spark has no Delta.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    if target.overwrite and target.where is None and touched is None:
        return None
    present = read(None) if target.table == "parquet" else _of_delta(session, target, read)
    if present is None or not target.overwrite:
        return present
    if touched is not None:
        same = [present[quoted(name)].eqNullSafe(touched[quoted(name)]) for name in touched.columns]
        return present.join(F.broadcast(touched), same, "left_anti")
    replaced = _condition(target.where or ())
    return present.where(~F.coalesce(replaced, F.lit(False)))  # noqa: FBT003 - Spark's signature


def _of_delta(
    session: SparkSession, target: Target, read: Callable[[Sequence[StagedFile] | None], DataFrame]
) -> DataFrame | None:
    """The rows of a Delta table; None if it is not there, or has no files."""
    root = unquoted(target.path)
    try:
        table = spillway.delta.open(target.path, storage_options=target.storage_options)
    except TableNotFoundError:
        return None
    files = table.files()
    if any(file.deleted_rows for file in files):
        try:
            return session.read.format("delta").load(of_hadoop(root))
        except Exception as error:
            raise UnsupportedTableError(
                f"{target.path} marks rows as deleted, which format('delta') alone leaves out, and "
                f"this session does not read it ({type(error).__name__}): add Delta's jars, or optimize it"
            ) from error
    paths = (unquote(file.path) for file in files)
    found = [
        StagedFile(path if "://" in path else f"{root}/{path}", file.partition_values)
        for path, file in zip(paths, files, strict=True)
    ]
    return read(found) if found else None


_OPERATORS: dict[str, Callable[[Column, Any], Column]] = {
    "=": lambda column, value: column.isNull() if value is None else column == value,
    "!=": lambda column, value: column.isNotNull() if value is None else column != value,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda column, values: column.isin(list(values)),
}


def _condition(conditions: str | Sequence[Condition]) -> Column:
    """The conditions of an overwrite as Spark has them."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    if isinstance(conditions, str):
        return F.expr(conditions)
    each = (_OPERATORS[sign](F.col(quoted(name)), value) for name, sign, value in conditions)
    return functools.reduce(operator.and_, each, F.lit(True))  # noqa: FBT003 - Spark's signature


def of_hadoop(path: str) -> str:
    """Return the location as Spark spells it."""
    # Without a scheme it would be a path on Hadoop's default file system.
    return f"file:{path}" if is_local(path) else path.replace("s3://", "s3a://", 1)


#: A sample reads one of this many tasks with files.
SAMPLED = 10
_SHOWN = 3
#: The column of the file that a row was read from.
_FILE = "_spillway_file"
#: Delta refuses to read files below a table as plain Parquet.
_FORMAT_CHECK = {"spark.databricks.delta.formatCheck.enabled": "false"}
#: The text of a timestamp in a partition's name is in UTC.
_UTC = {"spark.sql.session.timeZone": "UTC"}


@dataclass(frozen=True)
class AuditOutcome:
    """The reading of files before they were published.

    Args:
        kind: ``"full"``, ``"sample"`` or ``"none"``.
        files: The files that were read.
        rows: Their rows.
        row_checksum: The checksum of these rows, whatever their order, which is the one taken while they were
            written; None where no file was read, and of a stream, whose micro-batches have theirs.
    """

    kind: str
    files: int = 0
    rows: int = 0
    row_checksum: str | None = None


class Staged:
    """The files of a job before the commit, as Spark reads them.

    Args:
        session: The session that reads them.
        job: The job.
        results: The results of its tasks.
        schema: Spark's schema of the rows; None to take it from the files.
    """

    def __init__(
        self, session: SparkSession, job: Job, results: Sequence[TaskResult], schema: StructType | None
    ) -> None:
        self._session = session
        self._job = job
        self._schema = schema
        self._results = [result for result in results if result.files]

    def audited(self, kind: str) -> AuditOutcome:
        """Compare the rows of files with the sums that tasks took while they wrote them.

        Args:
            kind: ``"full"`` for all files; ``"sample"`` for all files of every tenth task that has any, from
                the first on; ``"none"``.

        Raises:
            AuditError: They differ.
        """
        chosen = self._results[:: SAMPLED if kind == "sample" else 1]
        if kind == "none" or not chosen:
            return AuditOutcome(kind)
        expected = sum((result.sums for result in chosen if result.sums is not None), RowSums())
        files = [file for result in chosen for file in self._job.staged(result)]
        with self._read(files) as frame:
            found = sums_of_frame(frame)
            if found != expected:
                message = (
                    f"Spark reads other values than were written to {self._job.target.path}: "
                    f"{self._difference(chosen, found, expected)}. Nothing was published"
                )
                raise AuditError(message)
        return AuditOutcome(kind, len(files), found.rows, found.checksum)

    def _difference(self, chosen: Sequence[TaskResult], found: RowSums, expected: RowSums) -> str:
        """The difference in words: the number of rows, and the files of each task whose rows differ."""
        said = []
        if found.rows != expected.rows:
            said.append(f"{counted(found.rows, 'row')} instead of {expected.rows:,}")
        staged = [self._job.staged(result) for result in chosen]
        with self._read([file for files in staged for file in files], by_file=True) as frame:
            by_file = {unquote(url): sums for url, sums in sums_by(frame, _FILE).items()}
        wrong = []
        for result, files in zip(chosen, staged, strict=True):
            names = [_tail(of_hadoop(file.path)) for file in files]
            if sum((by_file.get(name, RowSums()) for name in names), RowSums()) != result.sums:
                wrong += [name.rpartition("/")[2] for name in names]
        if wrong:
            more = [f"{len(wrong) - _SHOWN:,} more"] if len(wrong) > _SHOWN else []
            said.append(f"the rows of {and_joined([*wrong[:_SHOWN], *more])} differ from those written")
        return "; ".join(said) or "their checksum differs, but not when the files are read again"

    def check_unique(self, check: Unique) -> None:
        """Refuse rows that have the same values in the columns of a check.

        Raises:
            CheckFailedError: There are some.
        """
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        files = [file for result in self._results for file in self._job.staged(result)]
        if not files:
            return
        names = self._job.target.schema.names
        columns = [column_of(names, name, check.name) for name in check.columns]
        with self._read(files) as frame:
            keys = [F.col(quoted(name)).alias(f"k{place}") for place, name in enumerate(columns)]
            filled = frame.select(*keys)
            # `dropna` would leave out NaN, too, of which all are equal here.
            for name in filled.columns:
                filled = filled.where(F.col(name).isNotNull())
            twice = filled.groupBy(*filled.columns).count().where("count > 1")
            total = twice.agg(F.sum("count"), F.count("count")).first()
            rows, values = (0, 0) if total is None else (total[0] or 0, total[1])
            shown = twice.orderBy(F.desc("count"), *filled.columns).limit(_SHOWN).collect() if rows else []
            if rows:
                some = "; ".join(
                    f"{counted(row['count'], 'row')} with {', '.join(map(repr, row[:-1]))}" for row in shown
                )
                message = (
                    f"{check.name}: {counted(rows, 'row')} share {counted(values, 'value')}, such as {some}. "
                    "Nothing was published"
                )
                raise CheckFailedError(message, {check.name: rows})
            if check.in_table:
                self._check_absent(check, frame, filled, columns)

    def _check_absent(self, check: Unique, rows: DataFrame, keys: DataFrame, columns: Sequence[str]) -> None:
        """Refuse rows whose values the destination has already, in rows that stay there."""
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        partitions = self._job.partition_columns
        names = [*columns, *(name for name in partitions if name not in columns)]
        touched = None
        if self._job.replaces_touched(self._results):
            touched = rows.select(*(F.col(quoted(name)) for name in partitions)).distinct()
        present = staying(self._session, self._job.target, touched, partial(self._columns, names))
        if present is None:
            return
        old = present.select(*(F.col(quoted(name)).alias(f"k{at}") for at, name in enumerate(columns)))
        both = keys.join(old, keys.columns, "left_semi").cache()
        try:
            count = both.count()
            shown = both.orderBy(*both.columns).limit(_SHOWN).collect() if count else []
        finally:
            both.unpersist()
        if count:
            some = "; ".join(", ".join(map(repr, row)) for row in shown)
            message = (
                f"{check.name}: {self._job.target.path} has the values of {counted(count, 'row')} already, "
                f"such as {some}. Nothing was published"
            )
            raise CheckFailedError(message, {check.name: count})

    def _columns(self, names: Sequence[str], files: Sequence[StagedFile] | None) -> DataFrame:
        """Some columns of files, or of the folder that the destination is."""
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
        from pyspark.sql.types import StructType

        if files is not None:
            return self._frame(files, names)
        schema = self._spark_schema()
        folder = self._session.read.schema(StructType([schema[name] for name in names]))
        path = _literal(of_hadoop(unquoted(self._job.target.path)))
        return folder.parquet(path).select(*(F.col(quoted(name)) for name in names))

    @contextlib.contextmanager
    def rows(self) -> Iterator[DataFrame]:
        """All rows that are staged."""
        files = [file for result in self._results for file in self._job.staged(result)]
        with self._read(files) as frame:
            yield frame

    @contextlib.contextmanager
    def _read(self, files: Sequence[StagedFile], *, by_file: bool = False) -> Iterator[DataFrame]:
        """The rows of files in the order of their columns; if asked, with their files in a last column."""
        schema = self._job.target.schema
        timed = any(pa.types.is_timestamp(schema.field(name).type) for name in self._job.partition_columns)
        with changed_settings(self._session, {**_FORMAT_CHECK, **(_UTC if timed else {})}):
            yield self._frame(files, by_file=by_file)

    def _spark_schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = self._job.target.schema
        return self._schema or from_arrow_schema(schema, prefer_timestamp_ntz=True)

    def _frame(
        self, files: Sequence[StagedFile], names: Sequence[str] = (), *, by_file: bool = False
    ) -> DataFrame:
        """The rows of files: these columns, or those of the rows that were written."""
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
        from pyspark.sql.types import StructType

        wanted = names or self._job.target.schema.names
        partitions = self._job.partition_columns
        reader = self._session.read
        schema = self._spark_schema() if names or partitions else self._schema
        if schema is not None:
            own = [each for each in schema if each.name in wanted and each.name not in partitions]
            reader = reader.schema(StructType(own))
        frame = reader.parquet(*(_literal(of_hadoop(file.path)) for file in files))
        columns = [F.col(quoted(name)) for name in wanted if name not in partitions]
        file = F.regexp_replace("_metadata.file_path", "^[^:]+:/*", "").alias(_FILE)
        if not partitions:
            return frame.select(*columns, *([file] if by_file else []))
        frame = frame.select(*columns, file)
        # Files of several attempts have no folder in common below which all folders are of partitions.
        by_path = {_tail(of_hadoop(file.path)): file.partition for file in files}
        keys = [f"_spillway_p{place}" for place in range(len(partitions))]
        rows = [
            (url, *(by_path[unquote(url)][name] for name in partitions))
            for url in map(_tail, frame.inputFiles())
        ]
        values = self._session.createDataFrame(rows, ", ".join(f"{name} string" for name in (_FILE, *keys)))
        assert schema is not None  # noqa: S101 - there are partition columns
        typed = {
            name: F.col(key).cast(schema[name].dataType) for name, key in zip(partitions, keys, strict=True)
        }
        columns = [typed[name].alias(name) if name in typed else F.col(quoted(name)) for name in wanted]
        return frame.join(F.broadcast(values), _FILE).select(*columns, *([_FILE] if by_file else []))


def _literal(path: str) -> str:
    """The pattern that stands for this path alone."""
    return "".join(f"\\{each}" if each in "{}[]*?\\" else each for each in path)


def _tail(url: str) -> str:
    """What is behind the scheme, however many slashes there are."""
    return url.partition(":")[2].lstrip("/")
