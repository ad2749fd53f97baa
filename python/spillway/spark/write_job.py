"""Jobs: tasks write files that readers do not see, and the driver publishes all of them at once."""

from __future__ import annotations

import itertools
import logging
import os
import platform
import secrets
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import spillway
from spillway import _native
from spillway.errors import OptionError, SpillwayError, TableNotFoundError
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.location import absolute, check_default
from spillway.spark.schema import row_metadata, version_metadata
from spillway.spark.settings import Settings
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spillway.spark.row_sums import RowSums
    from spillway.spark.uploads import Upload
    from spillway.types import Condition

__all__ = [
    "Clock",
    "Job",
    "SparkWriteResult",
    "StagedFile",
    "Target",
    "TaskResult",
    "choose_scratch",
    "claimed",
    "described",
    "messages_of",
    "peeked",
]

_log = logging.getLogger("spillway.spark")

TableKind = Literal["parquet", "delta"]

_TABLES = ("parquet", "delta")
_OVERWRITE_MODES = ("static", "dynamic")

_Message = TypeVar("_Message")


@dataclass(frozen=True)
class SparkWriteResult:
    """The result of a finished write from Spark.

    Args:
        rows: Rows in all files.
        bytes: Total size of all files.
        files: The number of files.
        version: The version of the Delta table; None for a folder of files.
        writer_seconds: Seconds inside the native writer, summed over tasks.
    """

    rows: int
    bytes: int
    files: int
    version: int | None
    writer_seconds: float


@dataclass(frozen=True)
class Target:
    """The destination of a job, and everything needed to write there.

    Args:
        path: An absolute path, or a URL.
        schema: The Arrow schema of the rows.
        table: The kind of the destination.
        overwrite: True if the new rows replace existing ones.
        partition_by: Columns that rows are stored apart by.
        limits: ``max_file_bytes`` and ``max_file_rows``, if given.
        storage_options: Settings and credentials of an object store.
        options: The fields of `WriterOptions` that are given.
        app_id: The application's id, for a Delta table.
        app_version: The application's version of these rows.
        run_id: The id of the run whose rows these are: its rows are in the destination once.
        batch: The number of the run's micro-batch, for a stream.
        schema_mode: ``"merge"`` adds columns to a Delta table.
        given: The path as the caller passed it.
        where: Conditions on partition columns: the rows that an overwrite replaces.
        partition_overwrite: ``"dynamic"`` or ``"static"``, if an option or the session sets it.
    """

    path: str
    schema: pa.Schema
    table: TableKind
    overwrite: bool = False
    partition_by: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    app_id: str | None = None
    app_version: int | None = None
    run_id: str | None = None
    batch: int = 0
    schema_mode: str | None = None
    given: str = ""
    where: str | tuple[Condition, ...] | None = None
    partition_overwrite: str | None = None

    @classmethod
    def of(  # noqa: PLR0913 - all that a caller may say
        cls,
        path: str,
        schema: pa.Schema,
        *,
        table: str | None = None,
        overwrite: bool,
        partition_by: str | Sequence[str] = (),
        max_file_bytes: int | None = None,
        max_file_rows: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        app_id: str | None = None,
        app_version: int | None = None,
        run_id: str | None = None,
        batch: int = 0,
        schema_mode: str | None = None,
        where: str | Sequence[Condition] | None = None,
        partition_overwrite: str | None = None,
        settings: Settings | None = None,
        options: Mapping[str, Any],
    ) -> Self:
        """Check the caller's arguments, and determine the kind of the destination if it is not given.

        `settings` is what Spark's configuration says, as far as it can be read. The caller's
        ``partition_overwrite`` takes precedence over the settings, like an option of Spark's own writers.

        Raises:
            OptionError: A value is not accepted, or applies only to Delta tables; or Spark would resolve the
                path differently.
        """
        location = absolute(path)
        known = settings or Settings()
        known.check_path(path)
        if partition_overwrite not in {None, *_OVERWRITE_MODES}:
            message = (
                f"partition_overwrite={partition_overwrite!r} is not accepted: choose one of "
                f"{', '.join(map(repr, _OVERWRITE_MODES))}"
            )
            raise OptionError(message, "partition_overwrite", _OVERWRITE_MODES)
        if where is not None and not overwrite:
            message = 'where selects the rows to overwrite, so it needs mode="overwrite"'
            raise OptionError(message, "where")
        if where is not None and partition_overwrite == "dynamic":
            message = (
                'partition_overwrite="dynamic" replaces the partitions with new rows, and where those that '
                "it selects: leave one of them out"
            )
            raise OptionError(message, "partition_overwrite")
        storage = dict(storage_options) if storage_options else None
        kind = _kind(location, table, storage)
        if kind == "delta":
            _native.check_delta_options(WriterOptions(**options))
        limits = {"max_file_bytes": max_file_bytes, "max_file_rows": max_file_rows}
        if kind == "parquet":
            for name, value in (
                ("app_id", app_id),
                ("app_version", app_version),
                ("schema_mode", schema_mode),
            ):
                if value is not None:
                    message = f'{name} needs a Delta table: pass table="delta", or leave it out'
                    raise OptionError(message, name)
        _check_transaction(app_id, app_version, run_id)
        return cls(
            path=location,
            schema=schema,
            table=kind,
            overwrite=overwrite,
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            limits={name: value for name, value in limits.items() if value is not None},
            storage_options=storage,
            options={"threads": 1, **options},  # a task has a core of its executor
            app_id=app_id,
            app_version=app_version,
            run_id=run_id,
            batch=batch,
            schema_mode=schema_mode,
            given=path,
            where=where if where is None or isinstance(where, str) else tuple(where),
            partition_overwrite=partition_overwrite or known.partition_overwrite,
        )


def _check_transaction(app_id: str | None, app_version: int | None, run_id: str | None) -> None:
    if (app_id is None) != (app_version is None):
        raise OptionError("app_id and app_version go together: give both or neither")
    if run_id is not None and app_id is not None:
        message = "run_id and app_id are two names for the transaction of a write: leave one of them out"
        raise OptionError(message, "run_id")
    if run_id is not None and not run_id:
        raise OptionError("run_id is empty: give the run a name, or leave it out", "run_id")


def described(target: Target, schema: StructType | None) -> Target:
    """Let the files tell Spark how their dates are counted, and its own schema of their rows.

    The log of a Delta table has that schema, and rows that executors make have none.
    """
    of_spark = version_metadata()
    if target.table != "delta" and schema is not None:
        of_spark |= row_metadata(schema, without=target.partition_by)
    given = target.options.get("metadata") or {}
    return replace(target, options={**target.options, "metadata": {**of_spark, **given}})


def _kind(path: str, table: str | None, storage_options: Mapping[str, str] | None) -> TableKind:
    if table is None:
        try:
            spillway.delta.open(path, storage_options=storage_options)
        except TableNotFoundError:
            return "parquet"
        return "delta"
    match table:
        case "parquet" | "delta":
            return table
    message = f'table={table!r} is not accepted: choose "parquet" or "delta", or leave it out'
    raise OptionError(message, "table", _TABLES)


@dataclass(frozen=True)
class TaskResult:
    """The files of one attempt of a task.

    Args:
        rows: Their rows.
        size: Their bytes.
        files: Their names; for a Delta table, in the folder of the job.
        seconds: Seconds inside the native writer.
        part: The part of a Delta append.
        partition_overwrite: The session's overwrite mode, as Spark passed it to the task.
        uploads: The uploads of the files, in an object store: the commit completes them.
        sums: The sums of the hashes of the rows, if an audit needs them.
    """

    rows: int = 0
    size: int = 0
    files: tuple[str, ...] = ()
    seconds: float = 0.0
    part: bytes | None = None
    partition_overwrite: str | None = None
    uploads: tuple[Upload, ...] = ()
    sums: RowSums | None = None


class StagedFile(NamedTuple):
    """A file of a task before the commit.

    Args:
        path: Its absolute path, or its URL, with nothing escaped.
        partition: The values of the columns that it is stored by, as text; None for a null.
    """

    path: str
    partition: Mapping[str, str | None]


class Clock:
    """A sum of the seconds of blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started


class Job:
    """A write of many tasks. It is made on the driver, and pickled for the tasks.

    The order is `begin` on the driver, `write` once for each attempt of a task, and then `commit` with the
    results of the attempts that count, or `abort`, on the driver again.

    Attributes:
        id: The job's own id, which the names of its files hold.
        target: The destination.
        is_new_only: True if the job must create its destination, and may not write to an existing one.
        partition_columns: The partition columns at the time of `begin`.
        readable: True if the files of tasks have to be readable before the commit.
        is_sorted: True if the rows of a task come sorted by the partition columns.
    """

    is_new_only = False
    readable = False
    is_sorted = False
    partition_columns: tuple[str, ...] = ()

    def __init__(self, target: Target) -> None:
        self.target = target
        self._folder_storage: FolderStorage | None = None
        self.id = uuid.uuid4().hex
        self._versions = (spillway.__version__, platform.python_version_tuple()[:2])

    def __getstate__(self) -> dict[str, Any]:
        # Clients of a store belong to their process.
        return {**self.__dict__, "_folder_storage": None}

    def _storage(self) -> FolderStorage:
        """The folder of the destination."""
        if self._folder_storage is None:
            self._folder_storage = FolderStorage(self.target.path, self.target.storage_options)
        return self._folder_storage

    def begin(self) -> None:
        """Check what can be checked before the first row, and make what tasks need.

        Raises:
            SpillwayError: The rows cannot be written so.
            OSError: The storage refused.
        """
        raise NotImplementedError

    def exists(self) -> bool:
        """Return True if there is something at the destination already."""
        raise NotImplementedError

    def is_repeated(self) -> bool:
        """Return True if the destination has these rows already, by the application's version."""
        return False

    def present(self) -> SparkWriteResult:
        """Return the result of a write that does not change the destination."""
        return SparkWriteResult(0, 0, 0, None, 0.0)

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        """Write the rows of one attempt of a task.

        Args:
            batches: The rows.
            task: The number of the task, which equals that of its partition.
            attempt: The number of the attempt, which no other attempt of the job has.
        """
        raise NotImplementedError

    def _grouped(
        self, batches: Iterable[pa.RecordBatch], partition_by: Sequence[str]
    ) -> Iterable[pa.RecordBatch]:
        """Return the rows of a task so that each of its partitions has one file, however many there are."""
        if self.is_sorted:
            return batches
        from spillway.spark.partition_groups import in_groups

        return in_groups(batches, partition_by, spillway.DatasetOptions.max_open_files)

    def staged(self, result: TaskResult) -> list[StagedFile]:
        """Return the paths of an attempt's files before the commit, for a job that is `readable`."""
        raise NotImplementedError

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        """Publish the files of these attempts, and remove those of all others."""
        raise NotImplementedError

    def claim(self) -> None:
        """Record that the commit begins, if another process may begin it a second time.

        Raises:
            SpillwayError: It was begun before.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Remove the files of all attempts."""
        raise NotImplementedError

    def replaces_touched(self, results: Iterable[TaskResult]) -> bool:
        """Return True for an overwrite of only the partitions with new rows.

        The caller's arguments take precedence over the session's settings, and conditions over both, as for
        Spark's own tables. Without partition columns there is one partition: all rows.
        """
        target = self.target
        if not (target.overwrite and target.where is None and self.partition_columns):
            return False
        told = (target.partition_overwrite, *(result.partition_overwrite for result in results))
        return next((mode for mode in told if mode is not None), "static") == "dynamic"

    def check_task(self, settings: Settings) -> None:
        """Refuse on an executor what the process that planned the write could not know about the session.

        Raises:
            OptionError: Spark takes the path for another place.
        """
        check_default(self.target.given, settings.default_fs, settings.source)

    def check_executor(self) -> None:
        """Refuse to write in a process whose versions differ from the driver's.

        Raises:
            SpillwayError: Spillway or the minor version of Python is another one here.
        """
        here = (spillway.__version__, platform.python_version_tuple()[:2])
        names = ("Spillway", "Python")
        for name, driver, executor in zip(names, self._versions, here, strict=True):
            if driver != executor:
                version = [text if isinstance(text, str) else ".".join(text) for text in (driver, executor)]
                raise SpillwayError(
                    f"the driver has {name} {version[0]} and the executor on {platform.node()} has "
                    f"{version[1]}: give all of them the same environment, as spark.archives does"
                )

    def summary(self, results: Iterable[TaskResult], version: int | None, files: int) -> SparkWriteResult:
        """Sum the results of tasks, and log the sum."""
        results = list(results)
        done = SparkWriteResult(
            rows=sum(result.rows for result in results),
            bytes=sum(result.size for result in results),
            files=files,
            version=version,
            writer_seconds=sum(result.seconds for result in results),
        )
        _log.info(
            "%d rows, %d bytes in %d files of %d tasks committed to %s%s after %.3f s in the writer",
            done.rows,
            done.bytes,
            done.files,
            len(results),
            self.target.path,
            "" if version is None else f", version {version},",
            done.writer_seconds,
        )
        return done


def claimed(storage: FolderStorage, name: str, path: str) -> None:
    """Create a marker file that did not exist before.

    Raises:
        SpillwayError: It is there.
    """
    # Where an answer of the store is lost, the content tells whose mark it is.
    if not storage.create_once(name, secrets.token_hex(8).encode()):
        raise SpillwayError(
            f"the commit to {path} was started by a task attempt that Spark has lost, so it may have "
            "succeeded. Look for the rows before you run the write again; a write with run_id can always be "
            "run again"
        )


def messages_of(kind: type[_Message], messages: Sequence[object]) -> list[_Message]:
    """Return the messages of all tasks, each of which is one of `kind`.

    Raises:
        SpillwayError: One is not: without the files that it should name, rows would be missing.
    """
    found = [message for message in messages if isinstance(message, kind)]
    if len(found) < len(messages):
        strange = {type(message).__name__ for message in messages if not isinstance(message, kind)}
        raise SpillwayError(
            f"{len(messages) - len(found)} of {len(messages)} tasks sent {', '.join(sorted(strange))} in "
            f"place of {kind.__name__}, so their files are not known and nothing is committed: run the write "
            "again, with one version of Spillway on the driver and on executors"
        )
    return found


def peeked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """Return the batches that have rows; None if no batch has any."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    return None if first is None else itertools.chain((first,), filled)


def choose_scratch() -> None:
    """Let temporary files of this process lie in Spark's local directories, unless ``TMPDIR`` is set.

    The native module looks at ``TMPDIR``, too. Spark passes its local directories to each Python worker; the
    root disks of executors are often small.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if local and Path(local).is_dir():
        os.environ.setdefault("TMPDIR", local)
