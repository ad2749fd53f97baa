"""The job that writes a folder of files: hidden until the driver makes them appear."""

from __future__ import annotations

import contextlib
import logging
import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import spillway.delta
from spillway.errors import OptionError, TableNotFoundError
from spillway.spark.folder_contents import (
    check_listed_elsewhere,
    in_folders_of,
    partition_of,
    replaced_files,
    where_holds,
)
from spillway.spark.folder_storage import MARK, SINK, STAGING, FolderStorage
from spillway.spark.location import scheme_of, unquoted
from spillway.spark.row_sums import check_hashed
from spillway.spark.uploads import JOURNAL, Upload, UploadingWriter, abort_noted, is_note
from spillway.spark.write_job import (
    Clock,
    Job,
    SparkWriteResult,
    StagedFile,
    TaskResult,
    choose_scratch,
    claimed,
    peeked,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from spillway.spark.settings import Settings
    from spillway.spark.write_job import Target

__all__ = ["SUCCESS", "FolderJob", "Staged", "staged_files"]

#: The folder in which the native module looks if a store has conditional PUTs.
_ANNOUNCEMENTS = "_spillway"
#: The file that is there once a commit was begun that may be begun twice.
_CLAIM = "_commit"
SUCCESS = "_SUCCESS"
#: What is left of jobs that failed, this package's or Hadoop's, and no content of a folder.
_LEFT = (STAGING, "_temporary")
#: The most bytes of an object that S3 copies by one request.
_MOST_COPIED = 5 << 30
#: The size at which a file ends that is copied: a writer may exceed its limit a little.
_COPIED_FILE = 4 << 30
#: Names of files that a message shows.
_SHOWN = 5

_log = logging.getLogger("spillway.spark")


class Staged(NamedTuple):
    """A file of a task, which no reader sees yet.

    Attributes:
        name: Its name in the folder of the job: the folder of the attempt, followed by its final path.
        upload: The upload to its final path, in an object store.
    """

    name: str
    upload: Upload | None = None

    @property
    def attempt(self) -> str:
        """The folder of the attempt that wrote it."""
        return self.name.partition("/")[0]

    @property
    def place(self) -> str:
        """Its place, relative to the destination."""
        return self.name.partition("/")[2]


class FolderJob(Job):
    """Tasks write files that no reader sees, and the commit makes those of one attempt of each task appear.

    Locally a task writes into ``_spillway_jobs/JOB/TASK-ATTEMPT/`` in the destination, and the commit moves
    the files. In an object store it uploads them to their places, but does not complete the uploads: the
    commit does. Small objects in the same folder name the uploads, so that the end of the job finds and
    aborts those of attempts that do not count. A job that is `readable` uploads into that folder in a store,
    too, and the commit copies the files.

    A killed or repeated attempt leaves its files or uploads to the end of the job, which removes the job's
    folder. An attempt that outlives its job finds no marker, removes its files, and fails. A driver that is
    killed in the middle of a commit leaves some of the files in their places, without ``_SUCCESS``: an
    earlier one goes first. `spillway uploads` aborts the uploads that a killed driver left.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
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
                readers see, or replace partitions that Spark's overwrite mode keeps; or `where` is no
                condition on its partition columns.
            SchemaError: An audit could not compare a column.
        """
        target = self.target
        if self.readable:
            check_hashed(target.schema)
        with tempfile.TemporaryDirectory() as scratch:
            self._writer(Path(scratch, "check"), "check").abort()
        storage = self._storage()
        with contextlib.suppress(TableNotFoundError):
            spillway.delta.open(target.path, storage_options=target.storage_options)
            message = (
                f'{target.path} is a Delta table, and table="parquet" would write files that its log does '
                'not name, or remove those that it names: pass table="delta", or choose another folder'
            )
            raise OptionError(message, "table")
        check_listed_elsewhere(target.path, target.storage_options, overwrite=target.overwrite)
        if target.where is not None and not target.partition_by:
            message = (
                f"where={target.where!r} is not accepted without partition_by: in a folder, "
                f"where selects the partitions that an overwrite replaces"
            )
            raise OptionError(message, "where")
        old = self._outgoing(storage)
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
                '"dynamic", which replaces partitions with new rows: pass partition_by, or set the mode, or '
                'the option partitionOverwriteMode, to "static" to replace all rows'
            )
            raise OptionError(message, "partition_overwrite")

    def prepare(self) -> None:
        """Make the job's folder, which is the sign that the job is under way."""
        storage = self._storage()
        self._made = not storage.exists()
        storage.mark(f"{self._staging}/{MARK}")

    def exists(self) -> bool:
        own = {*_LEFT, _ANNOUNCEMENTS, SINK}
        return any(each.name not in own for each in self._storage().listed())

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        self.check_executor()
        choose_scratch()
        filled = peeked(self._grouped(batches, self.target.partition_by))
        storage = self._storage()
        self._check_under_way(storage)
        if filled is None:
            return TaskResult()
        # A driver that was started again counts its attempts from the beginning.
        name = f"{task:05d}-{attempt}-{secrets.token_hex(4)}"
        try:
            if storage.objects is None:
                folder = Path(storage.root, self._staging, name)
                written = self._written(filled, folder, f"{task:05d}", name)
            else:
                written = self._uploaded(filled, storage, f"{task:05d}", name)
            # The job may have ended since, and then nobody else removes the files.
            self._check_under_way(storage)
        except BaseException:
            self._discard(storage, name)
            raise
        return written

    def _discard(self, storage: FolderStorage, name: str) -> None:
        """Remove what an attempt wrote, and folders of the job in which nothing is left."""
        with contextlib.suppress(OSError):
            if storage.is_local:
                storage.remove_folder(f"{self._staging}/{name}")
            else:
                self._abort_uploads(storage, f"{self._staging}/{name}")
        storage.remove_if_empty(self._staging, STAGING)

    def _check_under_way(self, storage: FolderStorage) -> None:
        """Refuse to write for a job that was committed or aborted."""
        if not storage.has(f"{self._staging}/{MARK}"):
            message = (
                f"{storage.root}/{self._staging} is gone: the job has ended, or this machine does not see "
                "the driver's folder"
            )
            raise FileNotFoundError(message)

    def _written(self, batches: Iterable[pa.RecordBatch], folder: Path, task: str, name: str) -> TaskResult:
        """Write the files of an attempt into the job's folder."""
        writer = self._writer(folder, task)
        seconds = _filled(writer, batches)
        # Its paths are resolved.
        inside = folder.resolve()
        relative = (Path(file.path).resolve().relative_to(inside).as_posix() for file in writer.result.files)
        return TaskResult(
            rows=writer.result.rows,
            size=writer.result.bytes,
            files=tuple(f"{name}/{path}" for path in relative),
            seconds=seconds,
        )

    def _uploaded(
        self, batches: Iterable[pa.RecordBatch], storage: FolderStorage, task: str, name: str
    ) -> TaskResult:
        """Upload the files of an attempt to their places, but for the completions.

        Where they have to be readable they are uploaded into the job's folder, and completed.
        """
        journal = f"{self._staging}/{name}"
        if self._is_copied:
            storage = FolderStorage(f"{storage.root}/{journal}", self.target.storage_options)
            journal = JOURNAL
        objects = storage.objects
        assert objects is not None  # noqa: S101 - the caller looked
        writer = UploadingWriter(objects, self.target.schema, journal=journal, **self._options(task))
        seconds = _filled(writer, batches)
        if self._is_copied:
            objects.complete(writer.uploads)
        return TaskResult(
            rows=writer.result.rows,
            size=writer.result.bytes,
            files=tuple(f"{name}/{upload.name}" for upload in writer.uploads),
            seconds=seconds,
            uploads=() if self._is_copied else tuple(writer.uploads),
        )

    @property
    def _is_copied(self) -> bool:
        """True if files are read before the commit in an object store, which has no names to change."""
        return self.readable and not self._storage().is_local

    def _writer(self, folder: Path, task: str) -> spillway.DatasetWriter:
        return spillway.DatasetWriter(folder, self.target.schema, **self._options(task))

    def _options(self, task: str) -> dict[str, Any]:
        target = self.target
        limits = dict(target.limits)
        if self._is_copied:
            limits["max_file_bytes"] = min(limits.get("max_file_bytes", _COPIED_FILE), _COPIED_FILE)
        return {
            "partition_by": target.partition_by,
            "basename_template": f"part-{task}-{self.id}.c{{i:03d}}.parquet",
            **limits,
            **self._written_options,
        }

    @property
    def _written_options(self) -> dict[str, Any]:
        """The options of a file's writer.

        A file is synced where it is written: a driver cannot have another machine sync it.
        """
        return {**self.target.options, **({"durable": True} if self._is_durable else {})}

    @property
    def _is_durable(self) -> bool:
        """True if a power cut must not lose local files: somebody asks for that, or they replace others."""
        wanted = self.target.overwrite or self.target.options.get("durable")
        return bool(wanted) and self._storage().is_local

    def staged(self, result: TaskResult) -> list[StagedFile]:
        root = f"{unquoted(self.target.path)}/{self._staging}"
        return [
            StagedFile(f"{root}/{each.name}", partition_of(each.place)) for each in staged_files([result])
        ]

    def claim(self) -> None:
        claimed(self._storage(), f"{self._staging}/{_CLAIM}", self.target.path)

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        storage = self._storage()
        old = self._outgoing(storage)
        self._check_staged(storage, results)
        staged = staged_files(results)
        if self.replaces_touched(results):
            old = in_folders_of(self.target, old, (each.place for each in staged))
        empty = None if staged or self.target.partition_by else f"part-00000-{self.id}.c000.parquet"
        was_complete = storage.has(SUCCESS)
        is_published = is_unsynced = False
        try:
            if was_complete:
                storage.remove([SUCCESS])
                if self._is_durable:
                    # After a power cut, no mark may be left for files that are partly replaced.
                    storage.sync_folders([SUCCESS])
            self._publish(storage, staged)
            if empty is not None:
                self._write_empty(storage, empty)
            if self._is_durable:
                storage.sync_folders([SUCCESS, *(each.place for each in staged)])
            is_published = True
            self._remove_old(storage, old)
            is_unsynced = bool(old)
            storage.sync_folders(old)
            is_unsynced = False
            storage.mark(SUCCESS)
        except BaseException as error:
            left = _left(storage, old, error) if is_published else old
            if left is not None and len(left) == len(old):
                # No old file was removed.
                stay = self._withdrawn(storage, staged, [empty] if empty else [])
                self._report(storage, stay, error, was_complete=was_complete)
                raise
            if left is None or left or is_unsynced or not isinstance(error, OSError):
                count = "an unknown number" if left is None else str(len(left))
                error.add_note(
                    f"{storage} has all new rows, and {count} of {len(old)} old files: overwrite it again"
                )
                raise
            _log.warning("all rows are in %s, without _SUCCESS: %s", storage, error)
        self._end(storage, {each.attempt for each in staged})
        return self.summary(results, None, len(staged))

    def _outgoing(self, storage: FolderStorage) -> list[str]:
        """The files that an overwrite removes, unless it replaces the partitions of its rows alone.

        Raises:
            OptionError: There are some that it would leave to readers, or about which `where` says nothing.
        """
        target = self.target
        found = replaced_files(storage) if target.overwrite else []
        return found if target.where is None else where_holds(target, found)

    def _check_where(self, places: Sequence[str]) -> None:
        """Refuse rows that an overwrite of the same conditions would not replace.

        Raises:
            OptionError: There are some.
        """
        target = self.target
        if target.where is None:
            return
        outside = sorted(set(places) - set(where_holds(target, places)))
        if outside:
            message = (
                f"rows of {outside[0].rpartition('/')[0]} are outside of where={target.where!r}, which says "
                "what they replace. Nothing was published: leave them out, or widen where"
            )
            raise OptionError(message, "where")

    def _check_staged(self, storage: FolderStorage, results: Sequence[TaskResult]) -> None:
        """Refuse to publish files that are not as their tasks left them.

        A store checks the parts of an upload itself.

        Raises:
            OSError: A file is gone, or has another size.
            OptionError: Rows are outside of what they replace.
        """
        self._check_where([each.place for each in staged_files(results)])
        results = [result for result in results if result.files and not result.uploads]
        if not results:
            return
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
            self._check_copied({name: found[name] for name in result.files})

    def _check_copied(self, sizes: Mapping[str, int]) -> None:
        """Refuse a file that S3 does not copy.

        Raises:
            OptionError: There is one: a row group was larger than a file is to be.
        """
        large = [name for name, size in sizes.items() if size > _MOST_COPIED]
        if large and self._is_copied and scheme_of(self.target.path) == "s3":
            message = (
                f"{_shown(large)} in {self._storage().root}/{self._staging}: {sizes[large[0]]:,} bytes, and "
                f"S3 copies at most {_MOST_COPIED:,} by one request. Nothing was published: choose fewer "
                'row_group_rows or a smaller max_file_bytes; or table="delta", or audit="none" and no '
                "unique(), which copy nothing"
            )
            raise OptionError(message, "row_group_rows")

    @staticmethod
    def _withdrawn(
        storage: FolderStorage, staged: Sequence[Staged], others: Sequence[str]
    ) -> dict[str, OSError]:
        """Remove what a commit that failed has published; return the errors of files that stay."""
        places = [each.place for each in staged if each.upload is None]
        stay = storage.discard([*places, *others, SUCCESS])
        if storage.objects is None:
            return stay
        return {**dict(storage.objects.take_back([each.upload for each in staged if each.upload])), **stay}

    @staticmethod
    def _report(
        storage: FolderStorage, stay: dict[str, OSError], failure: BaseException, *, was_complete: bool
    ) -> None:
        """Note on the error of a commit that was undone what cannot be undone."""
        stay.pop(SUCCESS, None)
        if stay:
            failure.add_note(
                f"{len(stay)} files of this failed write could not be removed from {storage} "
                f"({next(iter(stay.values()))}), where readers see their rows: {_shown(sorted(stay))}. "
                "Remove them before you run the write again, or the rows are duplicated"
            )
        if was_complete:
            try:
                storage.mark(SUCCESS)
            except OSError as error:
                failure.add_note(f"{storage} had {SUCCESS}, which could not be written again: {error}")

    def _publish(self, storage: FolderStorage, staged: Sequence[Staged]) -> None:
        """Move or copy files of the job to their places, or complete their uploads."""
        places = {f"{self._staging}/{each.name}": each.place for each in staged if each.upload is None}
        if storage.objects is None:
            storage.move(places)
            return
        if places:
            storage.copy(places)
        try:
            storage.objects.complete([each.upload for each in staged if each.upload])
        except FileNotFoundError as error:
            error.add_note(
                "an upload of a task no longer exists: a lifecycle rule that aborts uploads must "
                "allow more days than a job takes"
            )
            raise

    def _write_empty(self, storage: FolderStorage, name: str) -> None:
        """Write a file without rows: it holds the schema."""
        target = self.target
        place = f"{storage.root}/{name}"
        settings = None if storage.is_local else dict(target.storage_options or {})
        options = self._written_options
        with spillway.ParquetWriter(place, target.schema, storage_options=settings, **options):
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

    def _end(self, storage: FolderStorage, counted: Collection[str] = ()) -> None:
        """Remove the job's folder, and locally that of all jobs if no other is under way.

        What cannot be removed is logged: no reader sees it, and the rows have been decided about.

        Args:
            storage: The destination.
            counted: The attempts whose uploads are complete; those of others are aborted.
        """
        place = f"{storage}/{self._staging}"
        try:
            # First the mark: attempts that begin from here on refuse to write.
            storage.remove([f"{self._staging}/{MARK}"])
            if storage.is_local:
                storage.remove_folder(self._staging)
                storage.remove_if_empty(STAGING)
            else:
                self._abort_uploads(storage, self._staging, counted)
        except OSError as error:
            _log.warning("files of a finished job were left in %s: %s", place, error)

    def _abort_uploads(self, storage: FolderStorage, folder: str, counted: Collection[str] = ()) -> None:
        """Abort the uploads that are named below a folder of the job, and remove all that is in it.

        Raises:
            OSError: An upload may still be there: then the store still has its name.
        """
        if storage.objects is None:
            return
        names = [each.name for each in storage.listed(folder, recursive=True)]
        stray = [name for name in names if is_note(name) and name.split("/")[2] not in counted]
        # Another attempt of a micro-batch may have made the mark again.
        ended = sorted(set(names) - set(stray))
        for error in {**abort_noted(storage.objects, stray), **storage.discard(ended)}.values():
            raise error

    @property
    def _staging(self) -> str:
        """The job's folder inside the destination."""
        return f"{STAGING}/{self.id}"


def staged_files(results: Iterable[TaskResult]) -> list[Staged]:
    """Return the files of the attempts that count."""
    found = []
    for result in results:
        uploads = result.uploads or (None,) * len(result.files)
        found += [Staged(name, upload) for name, upload in zip(result.files, uploads, strict=True)]
    return found


def _filled(writer: spillway.DatasetWriter, batches: Iterable[pa.RecordBatch]) -> float:
    """Write batches and close the writer; return the seconds inside it."""
    clock = Clock()
    with writer:
        for batch in batches:
            with clock:
                writer.write(batch)
        with clock:
            writer.close()
    return clock.seconds


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
