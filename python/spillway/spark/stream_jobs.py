"""Jobs of micro-batches: a batch that Spark replays after a failure is still written only once.

A batch is known by the id of its query and its number. Both jobs use these as the job's id, so the replay of
a batch finds and removes the leftover files of the batch. For a batch that is already committed, an attempt
consumes its rows, as Spark expects, but writes none.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import spillway.delta
from spillway.errors import TableNotFoundError
from spillway.spark.delta_job import DeltaJob, nullable
from spillway.spark.folder_contents import has_data, in_folders_of
from spillway.spark.folder_job import SUCCESS, FolderJob, Staged, staged_files
from spillway.spark.folder_storage import SINK
from spillway.spark.uploads import Upload
from spillway.spark.write_job import SparkWriteResult, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from spillway.spark.folder_storage import FolderStorage
    from spillway.spark.write_job import Job, Target

__all__ = ["DeltaBatch", "FolderBatch", "FolderRun", "batch_of", "check_store"]

_log = logging.getLogger("spillway.spark")

#: The file that says that the store has conditional PUT.
_CHECKED = "checked"
#: Batches whose manifests are kept. Spark replays the last batch alone.
_KEPT = 100
#: The namespace of the names of runs.
_RUNS = uuid.UUID("5b0f1c5e-6b59-4f0e-9d0e-2f6f3f6f2c11")


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
        try:
            result = super().write(rest, task, attempt)
        except FileNotFoundError:
            # The commit of a quicker attempt has removed files before they were synced.
            if self._is_done():
                return _without(rest)
            raise
        if self._is_done():
            # Another attempt was quicker; no commit is to come which would name or remove these files.
            self._remove(result.files)
            return TaskResult()
        return result

    def _is_done(self) -> bool:
        table = self._opened()
        self._check_partition_by(table)
        known = table.transaction_version(self._query)
        return known is not None and known >= self._batch

    def _opened(self) -> spillway.delta.Table:
        """The table, which the first task of a query makes: no driver is asked before it."""
        try:
            return self._open()
        except TableNotFoundError:
            target = self.target
            return spillway.delta.create(
                target.path,
                nullable(target.schema),
                partition_by=target.partition_by,
                mode="ignore",
                storage_options=target.storage_options,
            )

    def _remove(self, names: Sequence[str]) -> None:
        self._storage().remove([unquote(name) for name in names])

    def _check_under_way(self) -> None:
        """Let every attempt write: the commit of the batch, or of its replay, finds all its files."""


class FolderBatch(FolderJob):
    """A micro-batch of a folder: its manifest decides which files it has, before one of them is seen.

    ``_spillway_sink/QUERY/BATCH.json`` is written once. Whoever commits the batch again, after a kill, moves
    or copies the files that the manifest names, or completes the uploads that it names, and discards those of
    the replay. If two drivers commit it at the same time, one creates the manifest, with a hard link or in a
    store with a conditional PUT, and the other reads it.
    """

    def __init__(self, target: Target, query: str, batch: int) -> None:
        super().__init__(target)
        self.id = f"{query}-{batch:08d}"
        self._query = query
        self._batch = batch

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        storage = self._storage()
        rest = iter(batches)
        if storage.has(self._done):
            return _without(rest)
        self.prepare()
        try:
            result = super().write(rest, task, attempt)
        except FileNotFoundError:
            # The commit removes the batch's folder.
            if not storage.has(self._done):
                raise
            result = _without(rest)
        if storage.has(self._done):
            # The attempt made the folder again, or wrote beside the commit that removes it.
            self._end(storage)
            return TaskResult()
        return result

    def claim(self) -> None:
        """Let every process commit the batch: the manifest decides."""

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        storage = self._storage()
        if storage.has(self._done):
            _log.info("%s already has batch %d of %s", self.target.path, self._batch, self._query)
            self._end(storage)
            return SparkWriteResult(0, 0, 0, None, 0.0)
        staged, outgoing = self._decided(storage, results)
        self._fulfil(storage, staged)
        # In a power cut the new files outlive the old ones, and the mark does not outlive the new ones.
        storage.sync_folders(each.place for each in staged)
        self._remove_old(storage, outgoing)
        self._complete(storage, staged)
        storage.sync_folders([SUCCESS, *outgoing])
        storage.mark(self._done)
        self._end(storage, {each.attempt for each in staged})
        self._forget(storage)
        return self.summary(results, None, len(staged))

    @property
    def _is_durable(self) -> bool:
        """True for local files: Spark does not replay a batch that it takes for committed."""
        return self._storage().is_local

    def _complete(self, storage: FolderStorage, staged: Sequence[Staged]) -> None:
        """Do what is due when all files are there, before the batch is marked as done."""

    def _before_decision(self, storage: FolderStorage) -> None:
        """Do what has to precede the manifest, once nothing refuses the files any more."""

    def _decided(
        self, storage: FolderStorage, results: Sequence[TaskResult]
    ) -> tuple[list[Staged], list[str]]:
        """The new files and those that they replace, by the manifest, which is written unless it was before.

        Whoever completes the batch replaces what the manifest says: files that another write has added since
        stay.

        Raises:
            OSError: A file of a task is not as the task left it: no manifest names it, and a replay writes it
                again.
            OptionError: An overwrite is refused.
        """
        name = self._manifest
        if storage.has(name):
            return self._parsed(storage, name)
        outgoing = self._outgoing(storage)
        try:
            self._check_staged(storage, results)
        except OSError:
            # Another driver may have committed the batch since, and removed its folder.
            if not storage.has(name):
                raise
            return self._parsed(storage, name)
        staged = staged_files(results)
        wanted = {each.place for each in staged}
        if self.replaces_touched(results):
            outgoing = in_folders_of(self.target, outgoing, wanted)
        outgoing = [each for each in outgoing if each not in wanted]
        manifest: dict[str, Any] = {
            "form": 1,
            "query": self._query,
            "batch": self._batch,
            "rows": sum(result.rows for result in results),
            # The name of a file in the job's folder, and that of its place.
            "files": {each.name: each.place for each in staged},
            # What completes the upload to the place, by the same names.
            "uploads": {each.name: each.upload._asdict() for each in staged if each.upload},
            "replaces": outgoing,
            # Two drivers write different manifests, even of no files.
            "commit": secrets.token_hex(8),
        }
        self._before_decision(storage)
        # What the manifest names has to be found after a power cut.
        storage.sync_folders(f"{self._staging}/{each.name}" for each in staged)
        if not storage.create_once(name, json.dumps(manifest, indent=1).encode()):
            _log.info("another driver decided about batch %d of %s", self._batch, self._query)
            return self._parsed(storage, name)
        return staged, outgoing

    def _fulfil(self, storage: FolderStorage, staged: list[Staged]) -> None:
        """Make the files appear that have not yet."""
        waiting, places = staged, []
        if not all(each.upload for each in staged):
            # Until it is in its place, a file is in the job's folder.
            kept = {each.name for each in storage.listed(self._staging, recursive=True)}
            moved = {each.name for each in staged if f"{self._staging}/{each.name}" not in kept}
            waiting = [each for each in staged if each.upload or each.name not in moved]
            places = [each.place for each in staged if not each.upload and each.name in moved]
        try:
            # An upload that was completed before is no error.
            self._publish(storage, waiting)
        except FileNotFoundError as error:
            self._check_there(storage, [each.place for each in staged])
            # Another driver was quicker.
            _log.info("batch %d of %s is published: %s", self._batch, self._query, error)
        self._check_there(storage, places)

    def _check_there(self, storage: FolderStorage, places: list[str]) -> None:
        """Refuse to go on with a batch of which a file is gone for good."""
        there = set(storage.present(places))
        missing = sorted(set(places) - there)
        if missing:
            manifest = f"{storage.root}/{self._name(self._batch)}"
            in_place = f", and the files in their places, whose names contain {self.id}" if there else ""
            where = f"in {self._staging}" if storage.is_local else "uploaded"
            message = (
                f"{manifest}.json names {len(missing)} files that are neither {where} nor in "
                f"their places, such as {missing[0]}: somebody removed them before the batch was complete. "
                f"To let the query write the batch again, delete {manifest}.json{in_place}; to go on without "
                f"its rows, create an empty file {manifest}.done. Then start the query again"
            )
            raise FileNotFoundError(message)

    def _parsed(self, storage: FolderStorage, name: str) -> tuple[list[Staged], list[str]]:
        """The files that the manifest of this name has, and those that they replace.

        Raises:
            OSError: It is damaged.
        """
        try:
            found: dict[str, Any] = json.loads(storage.read(name))
            names = list(dict(found["files"]))
            uploads = {name: Upload(**each) for name, each in found.get("uploads", {}).items()}
            staged = [Staged(name, uploads.get(name)) for name in names]
            return staged, list(found["replaces"])
        except (ValueError, KeyError, TypeError) as error:
            message = (
                f"{storage.root}/{name} is damaged ({error}). To let the query write the batch again, delete "
                f"it and all files whose names contain {self.id}, and start the query again"
            )
            raise OSError(message) from error

    def _forget(self, storage: FolderStorage) -> None:
        """Remove the manifest of a batch that no replay comes to."""
        storage.remove([f"{self._name(self._batch - _KEPT)}.{suffix}" for suffix in ("json", "done")])

    @property
    def _manifest(self) -> str:
        return f"{self._name(self._batch)}.json"

    @property
    def _done(self) -> str:
        """The mark of a batch that is complete."""
        return f"{self._name(self._batch)}.done"

    def _name(self, batch: int) -> str:
        return f"{SINK}/{self._query}/{batch:08d}"


class FolderRun(FolderBatch):
    """A write of a named run to a folder: once it is decided which files it has, it is not written again.

    If a run was killed after it wrote its manifest, the next run with the same name completes it, without
    writing rows. If it was killed earlier, the next run writes all rows, and the leftover files of the first
    are removed with its folder. In a stream, each micro-batch is such a write.

    Args:
        target: The destination.
        run_id: The name of the run.
    """

    def __init__(self, target: Target, run_id: str) -> None:
        # The name becomes part of names of files, and may have any characters.
        super().__init__(target, uuid.uuid5(_RUNS, run_id).hex, target.batch)
        self._has_removed_mark = False

    def is_repeated(self) -> bool:
        storage = self._storage()
        if storage.has(self._done):
            # A driver that was killed at the end of the run has left its folder.
            self._end(storage)
            return True
        if not storage.has(self._manifest):
            return False
        super().commit(())
        return True

    def _before_decision(self, storage: FolderStorage) -> None:
        complete = storage.present([SUCCESS])
        if complete:
            # Before the mark goes: a store without conditional PUT refuses the manifest.
            check_store(storage)
        self._has_removed_mark = bool(complete)
        storage.remove(complete)

    def _decided(
        self, storage: FolderStorage, results: Sequence[TaskResult]
    ) -> tuple[list[Staged], list[str]]:
        try:
            return super()._decided(storage, results)
        except BaseException:
            # A run that is not decided leaves the folder as it was, with its mark if it had one.
            with contextlib.suppress(OSError):
                if self._has_removed_mark and not storage.has(self._manifest):
                    storage.mark(SUCCESS)
            raise

    def _complete(self, storage: FolderStorage, staged: Sequence[Staged]) -> None:
        # Before the run is done: afterwards, a missing `_SUCCESS` says that another write is under way.
        # Nothing is refused any more: the run is decided, and whoever repeats it comes here again.
        if not staged and not self.target.partition_by and not has_data(storage):
            self._write_empty(storage, f"part-00000-{self.id}.c000.parquet")
        storage.mark(SUCCESS)

    def abort(self) -> None:
        if not self._storage().has(self._manifest):
            super().abort()


def check_store(storage: FolderStorage) -> None:
    """Let an object store refuse what manifests need, before anything of a destination changes.

    The first check leaves a file that later checks find.

    Raises:
        OSError: It has no conditional PUT, or refuses the credentials of the native module.
    """
    name = f"{SINK}/{_CHECKED}"
    if storage.is_local or storage.has(name):
        return
    try:
        storage.create_once(name, secrets.token_hex(8).encode())
    except OSError as error:
        # A store may have made it all the same.
        if storage.discard([name]):
            error.add_note(
                f"{storage}/{name} may be there, and could not be removed: delete it before the write is run "
                "again, as it says that the store has conditional PUT"
            )
        raise


def _without(rest: Iterator[pa.RecordBatch]) -> TaskResult:
    """Take all rows, since Spark keeps the state of a query only of tasks that did; write none."""
    for _ in rest:
        pass
    return TaskResult()


def batch_of(target: Target, query: str, batch: int) -> Job:
    """Return the job of a micro-batch."""
    kind = DeltaBatch if target.table == "delta" else FolderBatch
    return kind(target, query, batch)
