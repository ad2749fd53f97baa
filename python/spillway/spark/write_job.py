"""Jobs: tasks write files where nobody sees them, and the driver publishes all of them at once."""

from __future__ import annotations

import itertools
import logging
import platform
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import spillway
from spillway import _native
from spillway.errors import OptionError, SpillwayError, TableNotFoundError
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.location import absolute, check_default
from spillway.spark.settings import Settings
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Self

    import pyarrow as pa

    from spillway.spark.uploads import Upload

__all__ = ["Clock", "Job", "SparkWriteResult", "Target", "TaskResult", "job_of", "messages_of", "peeked"]

_log = logging.getLogger("spillway.spark")

TableKind = Literal["parquet", "delta"]
Mode = Literal["append", "overwrite", "error", "ignore"]

_TABLES = ("parquet", "delta")

_Message = TypeVar("_Message")


@dataclass(frozen=True)
class SparkWriteResult:
    """A finished write from Spark.

    Args:
        rows: Rows in all files.
        bytes: Bytes of all files.
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
    """The destination of a job, and all that is to be known to write there.

    Args:
        path: An absolute path, or a URL.
        schema: The Arrow schema of the rows.
        table: The kind of the destination.
        overwrite: True if the new rows take the place of the present ones.
        partition_by: Columns that rows are stored apart by.
        limits: ``max_file_bytes`` and ``max_file_rows``, where they are given.
        storage_options: Settings and credentials of an object store.
        options: The fields of `WriterOptions` that are given.
        app_id: The application's id, for a Delta table.
        app_version: The application's version of these rows.
        schema_mode: ``"merge"`` adds columns to a Delta table.
        given: The path as the caller gave it.
        partition_overwrite: ``"dynamic"`` or ``"static"``, where an option or the session says so.
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
    schema_mode: str | None = None
    given: str = ""
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
        schema_mode: str | None = None,
        partition_overwrite: str | None = None,
        settings: Settings | None = None,
        options: Mapping[str, Any],
    ) -> Self:
        """Check what a caller said, and find out the kind of the destination where that is not said.

        `settings` is what Spark's configuration says, as far as it can be read. A ``partition_overwrite`` of
        the caller goes before that of the settings, as an option of Spark's own writers does.

        Raises:
            OptionError: A value is not accepted, or goes with Delta tables alone; or Spark takes the path for
                another place.
        """
        location = absolute(path)
        known = settings or Settings()
        known.check_path(path)
        if partition_overwrite not in {None, "static", "dynamic"}:
            message = f'partitionOverwriteMode={partition_overwrite!r} is not accepted: choose "static"'
            raise OptionError(message, "partitionOverwriteMode", ["static"])
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
                    message = f'{name} goes with a Delta table: say table="delta", or leave it out'
                    raise OptionError(message, name)
        if (app_id is None) != (app_version is None):
            raise OptionError("app_id and app_version go together: give both or neither")
        return cls(
            path=location,
            schema=schema,
            table=kind,
            overwrite=overwrite,
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            limits={name: value for name, value in limits.items() if value is not None},
            storage_options=storage,
            options=dict(options),
            app_id=app_id,
            app_version=app_version,
            schema_mode=schema_mode,
            given=path,
            partition_overwrite=partition_overwrite or known.partition_overwrite,
        )

    def check_overwrite(self, partition_overwrite: str | None) -> None:
        """Refuse a dynamic overwrite of a destination with partitions: those without new rows would go, too.

        Args:
            partition_overwrite: The mode that applies.

        Raises:
            OptionError: It is ``"dynamic"``.
        """
        if self.overwrite and partition_overwrite == "dynamic":
            message = (
                f"an overwrite of {self.path} replaces all of its partitions, and "
                'spark.sql.sources.partitionOverwriteMode is "dynamic", in which partitions without new rows '
                'stay: set it, or the option partitionOverwriteMode of format("spillway"), to "static" to '
                "replace all rows. To replace some partitions of a Delta table, use spillway.delta.write"
            )
            raise OptionError(message, "partitionOverwriteMode", ["static"])


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
        uploads: The uploads of the files, in an object store: the commit completes them.
    """

    rows: int = 0
    size: int = 0
    files: tuple[str, ...] = ()
    seconds: float = 0.0
    part: bytes | None = None
    uploads: tuple[Upload, ...] = ()


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
        is_new_only: True if the job may create its destination, and add to no other.
        is_partitioned: True if `begin` found that the destination has partitions, or will have.
    """

    is_new_only = False
    is_partitioned = False

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
        """Return the result of a write that leaves the destination as it is."""
        return SparkWriteResult(0, 0, 0, None, 0.0)

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        """Write the rows of one attempt of a task.

        Args:
            batches: The rows.
            task: The number of the task, which is that of its partition.
            attempt: The number of the attempt, which no other attempt of the job has.
        """
        raise NotImplementedError

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        """Publish the files of these attempts, and remove those of all others."""
        raise NotImplementedError

    def abort(self) -> None:
        """Remove the files of all attempts."""
        raise NotImplementedError

    def check_partitions(self, *, partitioned: bool) -> None:
        """Note whether the destination has partitions, and refuse a dynamic overwrite of them.

        Raises:
            OptionError: As `Target.check_overwrite`.
        """
        self.is_partitioned = partitioned
        if partitioned:
            self.target.check_overwrite(self.target.partition_overwrite)

    def check_task(self, settings: Settings) -> None:
        """Refuse on an executor what the process that planned the write could not know of the session.

        Raises:
            OptionError: Spark takes the path for another place, or overwrites partitions dynamically.
        """
        check_default(self.target.given, settings.default_fs, settings.source)
        if self.is_partitioned and self.target.partition_overwrite is None:
            self.target.check_overwrite(settings.partition_overwrite)

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


def job_of(target: Target) -> Job:
    """Return the job that writes to a destination."""
    from spillway.spark.delta_job import DeltaJob
    from spillway.spark.folder_job import FolderJob

    return DeltaJob(target) if target.table == "delta" else FolderJob(target)


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
    """Return the batches that have rows; None where no batch has."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    return None if first is None else itertools.chain((first,), filled)
