"""The job that writes a folder of files: hidden until the driver moves them to their places."""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import spillway.delta
from spillway.errors import OptionError, TableNotFoundError
from spillway.spark.job import Clock, Job, SparkWriteResult, TaskResult, peeked
from spillway.spark.storage import filesystem_of, is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa
    import pyarrow.fs

__all__ = ["FolderJob"]

#: The folder of jobs inside the destination. Spark, pyarrow and Hive read no folder that begins with `_`.
STAGING = "_temporary"
#: The file that is in a job's folder while the job is under way.
_MARK = "_job"
_THREADS = 16
#: Times that a folder is removed in which an attempt may still make files.
_TRIES = 5

_log = logging.getLogger("spillway.spark")


class FolderJob(Job):
    """Tasks write into ``_temporary/JOB/TASK-ATTEMPT/`` inside the destination; the commit moves the files.

    A killed or repeated attempt leaves its files in the job's folder, which the end of the job removes. An
    attempt that outlives its job finds no mark, removes its files, and fails. A driver that is killed while
    it moves files leaves some of them in their places, without ``_SUCCESS``: an earlier one goes first.
    """

    def begin(self) -> None:
        self.check()
        self.prepare()

    def check(self) -> None:
        """Let the writer refuse schema and options before there is a file.

        Raises:
            OptionError: The destination is a Delta table, which plain files would break.
        """
        target = self.target
        with tempfile.TemporaryDirectory() as scratch:
            self._writer(Path(scratch, "check"), "check").abort()
        self._place()
        try:
            spillway.delta.open(target.path, storage_options=target.storage_options)
        except TableNotFoundError:
            return
        message = (
            f'{target.path} is a Delta table, and table="parquet" would write files that its log does not '
            'name, or remove those that it names: say table="delta", or choose another folder'
        )
        raise OptionError(message, "table")

    def prepare(self) -> None:
        """Make the job's folder, which is the sign that the job is under way."""
        files, root = self._place()
        self._made = files.get_file_info(root).type == _types().NotFound
        if is_local(self.target.path):
            files.create_dir(self._staging(root), recursive=True)
        with files.open_output_stream(f"{self._staging(root)}/{_MARK}") as mark:
            mark.write(b"")

    def exists(self) -> bool:
        files, root = self._place()
        return any(PurePosixPath(info.path).name != STAGING for info in self._listed(files, root))

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        self.check_executor()
        filled = peeked(batches)
        files, root = self._place()
        self._check_under_way(files, root)
        if filled is None:
            return TaskResult()
        # A driver that was started again counts its attempts from the beginning.
        name = f"{task:05d}-{attempt}-{secrets.token_hex(4)}"
        try:
            written = self._placed(filled, files, root, f"{task:05d}", name)
            # The job may have ended since, and then nobody else removes the files.
            self._check_under_way(files, root)
        except BaseException:
            self._discard(files, root, name)
            raise
        return written

    def _placed(
        self, batches: Iterable[pa.RecordBatch], files: pyarrow.fs.FileSystem, root: str, task: str, name: str
    ) -> TaskResult:
        """Write the files of an attempt into the job's folder."""
        staging = self._staging(root)
        if is_local(self.target.path):
            return self._written(batches, Path(staging, name), task, name)
        with tempfile.TemporaryDirectory(prefix="spillway-") as scratch:
            written = self._written(batches, Path(scratch, name), task, name)
            self._check_under_way(files, root)
            self._upload(Path(scratch), written.files, files, staging)
        return written

    def _discard(self, files: pyarrow.fs.FileSystem, root: str, name: str) -> None:
        """Remove what an attempt wrote, and folders of the job in which nothing is left."""
        staging = self._staging(root)
        if not is_local(self.target.path):
            with contextlib.suppress(OSError):
                files.delete_dir(f"{staging}/{name}")
            return
        shutil.rmtree(Path(staging, name), ignore_errors=True)
        for folder in (Path(staging), Path(root, STAGING)):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _check_under_way(self, files: pyarrow.fs.FileSystem, root: str) -> None:
        """Refuse to write for a job that was committed or aborted."""
        staging = self._staging(root)
        if not files.get_file_info(f"{staging}/{_MARK}").is_file:
            message = (
                f"{staging} is gone: the job has ended, or this machine does not see the driver's folder"
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

    @staticmethod
    def _upload(scratch: Path, names: Sequence[str], files: pyarrow.fs.FileSystem, staging: str) -> None:
        from pyarrow import fs

        local = fs.LocalFileSystem()

        def upload(name: str) -> None:
            fs.copy_files(
                str(scratch / name),
                f"{staging}/{name}",
                source_filesystem=local,
                destination_filesystem=files,
            )

        _at_once(upload, names)

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        files, root = self._place()
        staging = self._staging(root)
        old = self._data_files(files, root) if self.target.overwrite else []
        staged = [name for result in results for name in result.files]
        # Behind the folder of the attempt, a name is that of its place.
        places = {name: f"{root}/{name.partition('/')[2]}" for name in staged}
        empty = None if staged or self.target.partition_by else self._empty_file()
        new = [*places.values(), *([f"{root}/{empty}"] if empty else [])]
        success = f"{root}/_SUCCESS"
        was_complete = files.get_file_info(success).is_file
        try:
            if was_complete:
                files.delete_file(success)
            self._publish(files, staging, places)
            if empty is not None:
                self._write_empty(files, root, empty)
            self._remove_old(files, root, old)
            self._write_success(files, root)
        except BaseException as error:
            left = [info for info in files.get_file_info(old) if info.is_file] if old else []
            if len(left) == len(old):
                # Nothing of before was removed.
                self._take_back(files, root, new)
                if was_complete:
                    self._write_success(files, root)
                raise
            if left or not isinstance(error, OSError):
                error.add_note(
                    f"{root} has all new rows, and {len(left)} of {len(old)} old files: overwrite it again"
                )
                raise
            _log.warning("all rows are in %s, without _SUCCESS: %s", root, error)
        self._end(files, root)
        return self.summary(results, None, len(staged))

    @staticmethod
    def _write_success(files: pyarrow.fs.FileSystem, root: str) -> None:
        with files.open_output_stream(f"{root}/_SUCCESS") as success:
            success.write(b"")

    def _take_back(self, files: pyarrow.fs.FileSystem, root: str, places: Sequence[str]) -> None:
        """Remove what a commit that failed has published."""
        for place in (*places, f"{root}/_SUCCESS"):
            with contextlib.suppress(OSError):
                files.delete_file(place)
        if is_local(self.target.path):
            _remove_empty(Path(root), {Path(place).parent for place in places})

    def _publish(self, files: pyarrow.fs.FileSystem, staging: str, places: dict[str, str]) -> None:
        if is_local(self.target.path):
            for folder in {place.rpartition("/")[0] for place in places.values()}:
                files.create_dir(folder, recursive=True)
        _at_once(lambda name: files.move(f"{staging}/{name}", places[name]), list(places))

    def _empty_file(self) -> str:
        return f"part-00000-{self.id}.c000.parquet"

    def _write_empty(self, files: pyarrow.fs.FileSystem, root: str, name: str) -> None:
        """Write a file without rows: it holds the schema."""
        place = f"{root}/{name}"
        with spillway.ParquetWriter(place, self.target.schema, filesystem=files, **self.target.options):
            pass

    def _remove_old(self, files: pyarrow.fs.FileSystem, root: str, old: Sequence[str]) -> None:
        def remove(path: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                files.delete_file(path)

        _at_once(remove, old)
        if is_local(self.target.path):
            _remove_empty(Path(root), {Path(path).parent for path in old})

    def _data_files(self, files: pyarrow.fs.FileSystem, root: str) -> list[str]:
        """The data files that readers see, and the checksums that Spark leaves beside its own."""
        found = []
        for info in self._listed(files, root, recursive=True):
            inside = PurePosixPath(info.path).relative_to(root)
            hidden = [part for part in inside.parts[:-1] if part[0] in "._" and "=" not in part]
            name = inside.name
            data = name.endswith(".parquet") and name[0] not in "._"
            checksum = name.startswith(".") and name.endswith(".parquet.crc")
            if info.type == _types().File and not hidden and (data or checksum):
                found.append(info.path)
        return found

    def abort(self) -> None:
        files, root = self._place()
        self._end(files, root)
        if is_local(self.target.path) and self._made:
            with contextlib.suppress(OSError):
                Path(root).rmdir()

    def _end(self, files: pyarrow.fs.FileSystem, root: str) -> None:
        """Remove the job's folder, and locally that of all jobs if no other is under way.

        What cannot be removed is logged: no reader sees it, and the rows have been decided about.
        """
        staging = self._staging(root)
        try:
            # First the mark: attempts that begin from here on refuse to write.
            with contextlib.suppress(FileNotFoundError):
                files.delete_file(f"{staging}/{_MARK}")
            if is_local(self.target.path):
                _remove_folder(Path(staging))
                with contextlib.suppress(OSError):
                    Path(staging).parent.rmdir()
            else:
                with contextlib.suppress(FileNotFoundError):
                    files.delete_dir(staging)
        except OSError as error:
            _log.warning("files of a job that has ended stay in %s: %s", staging, error)

    def _place(self) -> tuple[pyarrow.fs.FileSystem, str]:
        return filesystem_of(self.target.path, self.target.storage_options)

    def _staging(self, root: str) -> str:
        return f"{root}/{STAGING}/{self.id}"

    @staticmethod
    def _listed(
        files: pyarrow.fs.FileSystem, folder: str, *, recursive: bool = False
    ) -> list[pyarrow.fs.FileInfo]:
        from pyarrow import fs

        selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
        return list(files.get_file_info(selector))


def _types() -> type[pyarrow.fs.FileType]:
    from pyarrow import fs

    return fs.FileType


def _at_once(work: Callable[[str], object], names: Sequence[str]) -> None:
    """Do the same to many files, some at a time; raise what the first failure raised."""
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(work, names))


def _remove_folder(folder: Path) -> None:
    """Remove a folder in which attempts that outlive their job may still make files.

    Raises:
        OSError: Something is left.
    """
    for _ in range(_TRIES - 1):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    shutil.rmtree(folder)


def _remove_empty(root: Path, folders: set[Path]) -> None:
    """Remove folders below `root` in which nothing is left, and those above that only they were in."""
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        for above in (folder, *folder.parents):
            if above == root or not above.is_relative_to(root):
                break
            try:
                above.rmdir()
            except OSError:
                break
