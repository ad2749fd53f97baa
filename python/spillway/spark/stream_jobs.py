"""Jobs of micro-batches: a batch that Spark replays after a failure is written once all the same.

A batch is known by the id of its query and its number. Both jobs take these for the job's own id, so that the
replay of a batch finds, and removes, what the batch left before. Of a batch that is committed, an attempt
leaves nothing: it takes its rows, as Spark expects of it, and writes none.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from spillway.spark.delta_job import DeltaJob
from spillway.spark.folder_job import FolderJob
from spillway.spark.job import SparkWriteResult, TaskResult
from spillway.spark.storage import filesystem_of, is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.fs

    from spillway.spark.job import Job, Target

__all__ = ["DeltaBatch", "FolderBatch", "batch_of"]

_log = logging.getLogger("spillway.spark")

#: The folder of manifests inside the destination. Readers skip folders that begin with `_`.
SINK = "_spillway_sink"
#: Batches whose manifests are kept. Spark replays the last batch alone.
_KEPT = 100
#: Errors of file systems without hard links, such as some network mounts.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class DeltaBatch(DeltaJob):
    """A micro-batch of a Delta table: its query and number are the application's id and version."""

    def __init__(self, target: Target, query: str, batch: int) -> None:
        super().__init__(replace(target, app_id=query, app_version=batch))
        self.id = f"{query}/{batch:08d}"
        self._query = query
        self._batch = batch

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        rest = iter(batches)
        if self._is_done():
            return _without(rest)
        result = super().write(rest, task, attempt)
        if self._is_done():
            # Another attempt was quicker; no commit is to come which would name or remove these files.
            self._remove(result.files)
            return TaskResult()
        return result

    def _is_done(self) -> bool:
        known = self._opened().transaction_version(self._query)
        return known is not None and known >= self._batch

    def _remove(self, names: Sequence[str]) -> None:
        if not names or not (is_local(self.target.path) or self.target.path.startswith("s3://")):
            return
        files, root = filesystem_of(self.target.path, self.target.storage_options)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                files.delete_file(f"{root}/{unquote(name)}")
        if is_local(self.target.path):
            with contextlib.suppress(OSError):
                Path(root, self._folder).rmdir()

    def _check_under_way(self) -> None:
        """Let every attempt write: the commit of the batch, or of its replay, finds all its files."""


class FolderBatch(FolderJob):
    """A micro-batch of a folder: its manifest decides which files it has, before one of them is seen.

    ``_spillway_sink/QUERY/BATCH.json`` is written once. Whoever commits the batch again, after a kill, moves
    the files that the manifest names, and discards those of the replay. Of two drivers that commit it at
    once, one makes the manifest and the other reads it, by a hard link. Nothing excludes the second on S3.
    """

    def __init__(self, target: Target, query: str, batch: int) -> None:
        super().__init__(target)
        self.id = f"{query}-{batch:08d}"
        self._query = query
        self._batch = batch

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        files, root = self._place()
        rest = iter(batches)
        if self._is_done(files, root):
            return _without(rest)
        self.prepare()
        try:
            result = super().write(rest, task, attempt)
        except FileNotFoundError:
            # The commit removes the batch's folder.
            if not self._is_done(files, root):
                raise
            result = _without(rest)
        if self._is_done(files, root):
            # The attempt made the folder again, or wrote beside the commit that removes it.
            self._end(files, root)
            return TaskResult()
        return result

    def _is_done(self, files: pyarrow.fs.FileSystem, root: str) -> bool:
        return bool(files.get_file_info(self._done(root)).is_file)

    def _done(self, root: str) -> str:
        return f"{self._name(root, self._batch)}.done"

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        files, root = self._place()
        if self._is_done(files, root):
            _log.info("%s has batch %d of %s already", self.target.path, self._batch, self._query)
            self._end(files, root)
            return SparkWriteResult(0, 0, 0, None, 0.0)
        manifest = self._decided(files, root, results)
        self._fulfil(files, root, manifest["files"])
        if self.target.overwrite:
            wanted = {f"{root}/{place}" for place in manifest["files"].values()}
            self._remove_old(
                files, root, [name for name in self._data_files(files, root) if name not in wanted]
            )
        with files.open_output_stream(self._done(root)) as mark:
            mark.write(b"")
        self._end(files, root)
        self._forget(files, root)
        return self.summary(results, None, len(manifest["files"]))

    def _decided(
        self, files: pyarrow.fs.FileSystem, root: str, results: Sequence[TaskResult]
    ) -> dict[str, Any]:
        """The manifest of the batch, which is written unless it was before."""
        name = f"{self._name(root, self._batch)}.json"
        if files.get_file_info(name).is_file:
            return _read(files, name)
        manifest = {
            "form": 1,
            "query": self._query,
            "batch": self._batch,
            "rows": sum(result.rows for result in results),
            # The name of a file in the job's folder, and that of its place.
            "files": {name: name.partition("/")[2] for result in results for name in result.files},
        }
        content = json.dumps(manifest, indent=1).encode()
        if is_local(self.target.path):
            try:
                _write_once(Path(name), content)
            except FileExistsError:
                _log.info("another driver decided about batch %d of %s", self._batch, self._query)
                return _read(files, name)
        else:
            # An object appears whole.
            with files.open_output_stream(name) as stream:
                stream.write(content)
        return manifest

    def _fulfil(self, files: pyarrow.fs.FileSystem, root: str, wanted: dict[str, str]) -> None:
        """Move the files that are not in their places yet."""
        staging = self._staging(root)
        places = {name: f"{root}/{place}" for name, place in wanted.items()}
        names = list(places)
        # Until it is in its place, a file is in the job's folder.
        present = files.get_file_info([f"{staging}/{name}" for name in names]) if names else []
        waiting = {name: places[name] for name, info in zip(names, present, strict=True) if info.is_file}
        self._publish(files, staging, waiting)
        missing = [places[name] for name in names if name not in waiting]
        if missing and not all(info.is_file for info in files.get_file_info(missing)):
            message = (
                f"{self._name(root, self._batch)}.json names files that are neither in {staging} nor in "
                f"their places, such as {missing[0]}: somebody removed them before the batch was complete"
            )
            raise FileNotFoundError(message)

    def _forget(self, files: pyarrow.fs.FileSystem, root: str) -> None:
        """Remove the manifest of a batch that no replay comes to."""
        for suffix in ("json", "done"):
            with contextlib.suppress(FileNotFoundError):
                files.delete_file(f"{self._name(root, self._batch - _KEPT)}.{suffix}")

    def _name(self, root: str, batch: int) -> str:
        return f"{root}/{SINK}/{self._query}/{batch:08d}"


def _without(rest: Iterator[pa.RecordBatch]) -> TaskResult:
    """Take all rows, since Spark keeps the state of a query only of tasks that did; write none."""
    for _ in rest:
        pass
    return TaskResult()


def _read(files: pyarrow.fs.FileSystem, name: str) -> dict[str, Any]:
    with files.open_input_stream(name) as stream:
        found: dict[str, Any] = json.loads(stream.read())
    return found


def _write_once(path: Path, content: bytes) -> None:
    """Make a file that appears whole, and that nobody else has made as far as the file system can tell.

    Raises:
        FileExistsError: It is there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        new.write_bytes(content)
        try:
            # A rename would replace what is there.
            os.link(new, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def batch_of(target: Target, query: str, batch: int) -> Job:
    """Return the job of a micro-batch."""
    kind = DeltaBatch if target.table == "delta" else FolderBatch
    return kind(target, query, batch)
