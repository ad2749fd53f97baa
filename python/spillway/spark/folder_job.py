"""The job that writes a folder of files: hidden until the driver moves them to their places."""

from __future__ import annotations

import contextlib
import logging
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import spillway.delta
from spillway.errors import OptionError, TableNotFoundError
from spillway.spark.folder_contents import check_listed_elsewhere, replaced_files
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.location import unquoted
from spillway.spark.write_job import (
    Clock,
    Job,
    SparkWriteResult,
    StagedFile,
    TaskResult,
    claimed,
    peeked,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from spillway.spark.settings import Settings
    from spillway.spark.write_job import Target

__all__ = ["STAGING", "SUCCESS", "FolderJob", "in_folders_of", "place_of"]

#: The folder of jobs inside the destination. Spark, pyarrow and Hive read no folder that begins with `_`.
#: `_temporary` is Hadoop's: its committer removes that whole folder when a job of Spark's own ends.
STAGING = "_spillway_jobs"
#: The folder in which the native module looks if a store has conditional PUTs.
_ANNOUNCEMENTS = "_spillway"
#: The file that is in a job's folder while the job is under way.
_MARK = "_job"
#: The file that is there once a commit was begun that may be begun twice.
_CLAIM = "_commit"
SUCCESS = "_SUCCESS"
#: The value of a null in the name of a partition's folder.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: What is left of jobs that failed, this package's or Hadoop's, and no content of a folder.
_LEFT = (STAGING, "_temporary")
#: Names of files that a message shows.
_SHOWN = 5
#: Bytes of a file on S3, which copies no object of more than 5 GB by one request. The rest is for the rows
#: by which a file may exceed its limit.
_MOST_ON_S3 = 4 << 30

_log = logging.getLogger("spillway.spark")


class FolderJob(Job):
    """Tasks write into ``_spillway_jobs/JOB/TASK-ATTEMPT/`` in the destination; the commit moves the files.

    A killed or repeated attempt leaves its files in the job's folder, which the end of the job removes. An
    attempt that outlives its job finds no mark, removes its files, and fails. A driver that is killed while
    it moves files leaves some of them in their places, without ``_SUCCESS``: an earlier one goes first.

    Raises:
        OptionError: ``max_file_bytes`` is more than S3 copies.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(_limited(target))
        # None until something may have been made.
        self._made: bool | None = None
        self._has_partitions = False

    def begin(self) -> None:
        self.check()
        self.prepare()

    def check(self) -> None:
        """Let the writer refuse schema and options before there is a file.

        Raises:
            OptionError: The destination is a Delta table, which plain files would break; or a list of its
                files would miss the new ones; or an overwrite would break a table in it, leave files that
                readers see, or replace partitions that Spark's overwrite mode keeps.
        """
        target = self.target
        with tempfile.TemporaryDirectory() as scratch:
            self._writer(Path(scratch, "check"), "check").abort()
        storage = self._storage()
        with contextlib.suppress(TableNotFoundError):
            spillway.delta.open(target.path, storage_options=target.storage_options)
            message = (
                f'{target.path} is a Delta table, and table="parquet" would write files that its log does '
                'not name, or remove those that it names: say table="delta", or choose another folder'
            )
            raise OptionError(message, "table")
        check_listed_elsewhere(target.path, target.storage_options, overwrite=target.overwrite)
        old = replaced_files(storage) if target.overwrite else []
        folders = {part for name in old for part in name.split("/")[:-1]}
        self.partition_columns = target.partition_by
        self._has_partitions = any("=" in part for part in folders)
        self._check_dynamic(target.partition_overwrite)

    def check_task(self, settings: Settings) -> None:
        super().check_task(settings)
        if self.target.partition_overwrite is None:
            self._check_dynamic(settings.partition_overwrite)

    def _check_dynamic(self, mode: str | None) -> None:
        """Refuse to replace all partitions of a folder where those without new rows are to stay.

        Raises:
            OptionError: The folder has partitions, and the rows are written without.
        """
        unnamed = self._has_partitions and not self.partition_columns
        if self.target.overwrite and mode == "dynamic" and unnamed:
            message = (
                f"{self.target.path} has partitions, and spark.sql.sources.partitionOverwriteMode is "
                '"dynamic", which replaces those that have new rows: say partition_by, or set the mode, or '
                'the option partitionOverwriteMode, to "static" to replace all rows'
            )
            raise OptionError(message, "partition_overwrite")

    def prepare(self) -> None:
        """Make the job's folder, which is the sign that the job is under way."""
        storage = self._storage()
        self._made = not storage.exists()
        storage.mark(f"{self._staging}/{_MARK}")

    def exists(self) -> bool:
        own = {*_LEFT, _ANNOUNCEMENTS}
        return any(each.name not in own for each in self._storage().listed())

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        self.check_executor()
        filled = peeked(batches)
        storage = self._storage()
        self._check_under_way(storage)
        if filled is None:
            return TaskResult()
        # A driver that was started again counts its attempts from the beginning.
        name = f"{task:05d}-{attempt}-{secrets.token_hex(4)}"
        try:
            written = self._placed(filled, storage, f"{task:05d}", name)
            # The job may have ended since, and then nobody else removes the files.
            self._check_under_way(storage)
        except BaseException:
            self._discard(storage, name)
            raise
        return written

    def _placed(
        self, batches: Iterable[pa.RecordBatch], storage: FolderStorage, task: str, name: str
    ) -> TaskResult:
        """Write the files of an attempt into the job's folder."""
        if storage.is_local:
            return self._written(batches, Path(storage.root, self._staging, name), task, name)
        with tempfile.TemporaryDirectory(prefix="spillway-") as scratch:
            written = self._written(batches, Path(scratch, name), task, name)
            self._check_under_way(storage)
            storage.upload(Path(scratch), written.files, self._staging)
        return written

    def _discard(self, storage: FolderStorage, name: str) -> None:
        """Remove what an attempt wrote, and folders of the job in which nothing is left."""
        with contextlib.suppress(OSError):
            storage.remove_folder(f"{self._staging}/{name}")
        storage.remove_if_empty(self._staging, STAGING)

    def _check_under_way(self, storage: FolderStorage) -> None:
        """Refuse to write for a job that was committed or aborted."""
        if not storage.has(f"{self._staging}/{_MARK}"):
            message = (
                f"{storage.root}/{self._staging} is gone: the job has ended, or this machine does not see "
                "the driver's folder"
            )
            raise FileNotFoundError(message)

    def _written(self, batches: Iterable[pa.RecordBatch], folder: Path, task: str, name: str) -> TaskResult:
        clock = Clock()
        with self._writer(folder, task) as writer:
            for batch in batches:
                with clock:
                    writer.write(batch)
            with clock:
                writer.close()
        result = writer.result
        # Its paths are resolved.
        inside = folder.resolve()
        relative = (file.path.resolve().relative_to(inside).as_posix() for file in result.files)
        return TaskResult(
            rows=result.rows,
            size=result.bytes,
            files=tuple(f"{name}/{path}" for path in relative),
            seconds=clock.seconds,
        )

    def _writer(self, folder: Path, task: str) -> spillway.DatasetWriter:
        target = self.target
        return spillway.DatasetWriter(
            folder,
            target.schema,
            partition_by=target.partition_by,
            basename_template=f"part-{task}-{self.id}.c{{i:03d}}.parquet",
            **target.limits,
            **target.options,
        )

    def staged(self, result: TaskResult) -> list[StagedFile]:
        root = f"{unquoted(self.target.path)}/{self._staging}"
        return [StagedFile(f"{root}/{name}", _partition_of(place_of(name))) for name in result.files]

    def claim(self) -> None:
        claimed(self._storage(), f"{self._staging}/{_CLAIM}", self.target.path)

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        storage = self._storage()
        old = replaced_files(storage) if self.target.overwrite else []
        self._check_staged(storage, results)
        staged = [name for result in results for name in result.files]
        places = {name: place_of(name) for name in staged}
        if self.replaces_touched(results):
            old = in_folders_of(old, places.values())
        empty = None if staged or self.target.partition_by else f"part-00000-{self.id}.c000.parquet"
        was_complete = storage.has(SUCCESS)
        is_published = False
        try:
            if was_complete:
                storage.remove([SUCCESS])
            self._publish(storage, places)
            if empty is not None:
                self._write_empty(storage, empty)
            is_published = True
            self._remove_old(storage, old)
            storage.mark(SUCCESS)
        except BaseException as error:
            left = _left(storage, old, error) if is_published else old
            if left is not None and len(left) == len(old):
                # Nothing of before was removed.
                new = [*places.values(), *([empty] if empty else [])]
                self._take_back(storage, new, error, was_complete=was_complete)
                raise
            if left is None or left or not isinstance(error, OSError):
                count = "an unknown number" if left is None else str(len(left))
                error.add_note(
                    f"{storage.root} has all new rows, and {count} of {len(old)} old files: overwrite it "
                    "again"
                )
                raise
            _log.warning("all rows are in %s, without _SUCCESS: %s", storage, error)
        self._end(storage)
        return self.summary(results, None, len(staged))

    def _check_staged(self, storage: FolderStorage, results: Sequence[TaskResult]) -> None:
        """Refuse to publish files that are not as their tasks left them.

        Raises:
            OSError: A file is gone, or has another size.
        """
        found = {
            each.name.removeprefix(f"{self._staging}/"): each.size
            for each in storage.listed(self._staging, recursive=True)
            if each.kind == "file"
        }
        missing = [name for result in results for name in result.files if name not in found]
        if missing:
            message = (
                f"{storage.root}/{self._staging} has lost {len(missing)} files of tasks: {_shown(missing)}. "
                "Nothing was published: run the write again"
            )
            raise FileNotFoundError(message)
        for result in results:
            size = sum(found[name] for name in result.files)
            if size != result.size:
                message = (
                    f"{_shown(result.files)} in {storage.root}/{self._staging}: {size} bytes are there, "
                    f"and the task wrote {result.size}. Nothing was published: run the write again"
                )
                raise OSError(message)

    @staticmethod
    def _take_back(
        storage: FolderStorage, names: Sequence[str], failure: BaseException, *, was_complete: bool
    ) -> None:
        """Remove what a commit that failed has published, and note on its error what cannot be undone."""
        stay = storage.discard([*names, SUCCESS])
        stay.pop(SUCCESS, None)
        if stay:
            failure.add_note(
                f"{len(stay)} files of this failed write could not be removed from {storage} "
                f"({next(iter(stay.values()))}), where readers see their rows: {_shown(sorted(stay))}. "
                "Remove them before the write is run again, which would double the rows"
            )
        if was_complete:
            try:
                storage.mark(SUCCESS)
            except OSError as error:
                failure.add_note(f"{storage} had {SUCCESS}, which could not be made again: {error}")

    def _publish(self, storage: FolderStorage, places: dict[str, str]) -> None:
        """Move files of the job to their places."""
        storage.move({f"{self._staging}/{name}": place for name, place in places.items()})

    def _write_empty(self, storage: FolderStorage, name: str) -> None:
        """Write a file without rows: it holds the schema."""
        place = f"{storage.root}/{name}"
        options = self.target.options
        with spillway.ParquetWriter(place, self.target.schema, filesystem=storage.files, **options):
            pass

    def _remove_old(self, storage: FolderStorage, old: Sequence[str]) -> None:
        """Remove the files that an overwrite replaces."""
        storage.remove(old)

    def abort(self) -> None:
        if self._made is None:
            return
        storage = self._storage()
        self._end(storage)
        if self._made:
            storage.remove_if_empty("")

    def _end(self, storage: FolderStorage) -> None:
        """Remove the job's folder, and locally that of all jobs if no other is under way.

        What cannot be removed is logged: no reader sees it, and the rows have been decided about.
        """
        try:
            # First the mark: attempts that begin from here on refuse to write.
            with contextlib.suppress(FileNotFoundError):
                storage.files.delete_file(f"{storage.root}/{self._staging}/{_MARK}")
            storage.remove_folder(self._staging)
            storage.remove_if_empty(STAGING)
        except OSError as error:
            place = f"{storage.root}/{self._staging}"
            _log.warning("files of a job that has ended stay in %s: %s", place, error)

    def _storage(self) -> FolderStorage:
        return FolderStorage(self.target.path, self.target.storage_options)

    @property
    def _staging(self) -> str:
        """The job's folder inside the destination."""
        return f"{STAGING}/{self.id}"


def place_of(staged: str) -> str:
    """Return the name that a file of a task gets: its own, behind the folder of the attempt."""
    return staged.partition("/")[2]


def _partition_of(name: str) -> dict[str, str | None]:
    """The values of partition columns that the name of a file has."""
    pairs = (part.partition("=") for part in name.split("/")[:-1])
    values = {unquote(column): unquote(value) for column, _, value in pairs}
    return {column: None if value == _NULL else value for column, value in values.items()}


def in_folders_of(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return those old files that are in the folder of a new one, which is a partition's.

    Writers escape different characters of a value in the name of its folder, so names are compared decoded.
    """
    touched = {_folder_of(name) for name in new}
    return [name for name in old if _folder_of(name) in touched]


def _folder_of(name: str) -> str:
    return unquote(name.rpartition("/")[0])


def _left(storage: FolderStorage, old: Sequence[str], failure: BaseException) -> list[str] | None:
    """Return which old files are still there; None where that is not known, as the error then notes."""
    try:
        return storage.present(old)
    except OSError as error:
        failure.add_note(f"which of the old files {storage} still has is not known: {error}")
        return None


def _shown(names: Sequence[str]) -> str:
    """The first of some names."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _limited(target: Target) -> Target:
    """Give files on S3 a limit below the size at which they could not be moved to their places."""
    if not target.path.startswith("s3://"):
        return target
    given = target.limits.get("max_file_bytes", _MOST_ON_S3)
    if given > _MOST_ON_S3:
        message = (
            f"max_file_bytes={given} is not accepted for a folder on S3, which moves no file of more than "
            f"5 GB: choose {_MOST_ON_S3} or less, or write a Delta table, whose files are not moved"
        )
        raise OptionError(message, "max_file_bytes")
    return replace(target, limits={**target.limits, "max_file_bytes": given})
