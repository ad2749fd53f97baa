"""Jobs of micro-batches: a batch that Spark replays after a failure is written once all the same.

A batch is known by the id of its query and its number. Both jobs take these for the job's own id, so that the
replay of a batch finds, and removes, what the batch left before.
"""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.spark.delta_job import DeltaJob
from spillway.spark.folder_job import FolderJob
from spillway.spark.job import SparkWriteResult, TaskResult
from spillway.spark.storage import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    import pyarrow.fs

    from spillway.spark.job import Job, Target

__all__ = ["DeltaBatch", "FolderBatch", "batch_of"]

_log = logging.getLogger("spillway.spark")

#: The folder of manifests inside the destination. Readers skip folders that begin with `_`.
SINK = "_spillway_sink"
#: Batches whose manifests are kept. Spark replays the last batch alone.
_KEPT = 100


class DeltaBatch(DeltaJob):
    """A micro-batch of a Delta table: its query and number are the application's id and version."""

    def __init__(self, target: Target, query: str, batch: int) -> None:
        super().__init__(replace(target, app_id=query, app_version=batch))
        self.id = f"{query}/{batch:08d}"

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        self._opened()
        if is_local(self.target.path):
            Path(self.target.path, self._folder).mkdir(parents=True, exist_ok=True)
        return super().write(batches, task, attempt)


class FolderBatch(FolderJob):
    """A micro-batch of a folder: its manifest decides which files it has, before one of them is seen.

    ``_spillway_sink/QUERY/BATCH.json`` is written once. Whoever commits the batch again, after a kill, moves
    the files that the manifest names, and discards those of the replay.
    """

    def __init__(self, target: Target, query: str, batch: int) -> None:
        super().__init__(target)
        self.id = f"{query}-{batch:08d}"
        self._query = query
        self._batch = batch

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:
        self.prepare()
        return super().write(batches, task, attempt)

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        files, root = self._place()
        done = f"{self._name(root, self._batch)}.done"
        if files.get_file_info(done).is_file:
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
        with files.open_output_stream(done) as mark:
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
            with files.open_input_stream(name) as stream:
                found: dict[str, Any] = json.loads(stream.read())
            return found
        manifest = {
            "form": 1,
            "query": self._query,
            "batch": self._batch,
            "rows": sum(result.rows for result in results),
            # The name of a file in the job's folder, and that of its place.
            "files": {name: name.partition("/")[2] for result in results for name in result.files},
        }
        if is_local(self.target.path):
            files.create_dir(name.rpartition("/")[0], recursive=True)
        with files.open_output_stream(f"{name}.new") as stream:
            stream.write(json.dumps(manifest, indent=1).encode())
        # A kill leaves a whole manifest, or none.
        files.move(f"{name}.new", name)
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


def batch_of(target: Target, query: str, batch: int) -> Job:
    """Return the job of a micro-batch."""
    kind = DeltaBatch if target.table == "delta" else FolderBatch
    return kind(target, query, batch)
