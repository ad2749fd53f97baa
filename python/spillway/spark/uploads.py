"""Multipart uploads of a job: tasks begin them and send their parts, and the driver completes or aborts them.

An object appears when its upload is completed, and not before. So tasks upload to the final keys; nothing is
staged, copied or renamed.

No reader sees the uploads that a killed job left, and they cost storage: they are found and aborted here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spillway.dataset_writer import DatasetWriter, _split
from spillway.errors import OptionError
from spillway.spark.folder_storage import MARK, SINK, STAGING, FolderStorage
from spillway.spark.location import absolute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    import pyarrow as pa

    from spillway import _native
    from spillway.types import DatasetKeywords

__all__ = [
    "JOURNAL",
    "JobUploads",
    "Upload",
    "UploadingWriter",
    "abort_noted",
    "abort_uploads",
    "find_uploads",
    "is_note",
]

#: The journal of an attempt that uploads into its own folder of the job, inside that folder.
JOURNAL = "_uploads"


class Upload(NamedTuple):
    """A multipart upload that has all its parts and lacks its completion.

    Attributes:
        name: The key of the object, relative to the folder.
        id: The store's name of the upload; empty on Azure, which has none.
        parts: The store's names of the parts, in their order.
        bytes: The size of the object.
    """

    name: str
    id: str
    parts: list[str]
    bytes: int


class UploadingWriter(DatasetWriter):
    """A `DatasetWriter` for an object store that leaves the completion of its uploads to another process.

    Args:
        objects: The prefix.
        schema: The schema of the rows.
        journal: A folder below the prefix. Each upload is named in an object there before its first part.
        **options: As those of `DatasetWriter`. What is at the prefix is not looked at.
    """

    def __init__(
        self,
        objects: _native.ObjectFolder,
        schema: pa.Schema,
        *,
        journal: str,
        **options: Unpack[DatasetKeywords],
    ) -> None:
        self._dataset_options, self._options = _split(options)
        self._writer = objects.writer(schema, self._dataset_options, self._options, journal)
        self._result = None

    @property
    def uploads(self) -> list[Upload]:
        """The uploads, once the writer is closed."""
        return [Upload(*each) for each in self._writer.uploads]


def is_note(name: str) -> bool:
    """Return True for the name of an object of a journal, among those of a job's folder."""
    return name.rpartition("/")[2].isdigit()


def noted(objects: _native.ObjectFolder, names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the uploads that objects of a journal name: the key and the id of each, by the object's name."""
    found = {}
    for name, text in zip(names, objects.read(list(names)), strict=True):
        if text is not None:
            upload, _, key = text.decode().partition("\n")
            # The keys of a journal are relative to the folder that it was made for.
            folder, journal, _ = name.rpartition(f"{JOURNAL}/")
            found[name] = (folder + key if journal else key, upload)
    return found


def abort_noted(objects: _native.ObjectFolder, names: Sequence[str]) -> dict[str, OSError]:
    """Abort the uploads that objects of a journal name, and then delete these objects.

    An upload that was completed or aborted before is no error, and its object stays.

    Returns:
        The errors of those that may still be there, by the keys of the uploads, or by the names of the
        journal's objects. The journal still names each upload that may be there.
    """
    uploads = noted(objects, names)
    failed = dict(objects.abort(list(uploads.values())))
    ended = [name for name, (key, _) in uploads.items() if key not in failed]
    return {**failed, **dict(objects.delete(ended))}


@dataclass(frozen=True)
class JobUploads:
    """The uploads of a job that has not ended, whether it is under way or its driver was killed.

    Attributes:
        job: The id of the job, which the names of its files hold.
        idle: Seconds since a task began an upload, or the job began.
        pending: Keys of the files that are invisible, relative to the folder.
        staged: Files below the job's folder that an audit reads before they are copied.
        complete: Keys of the files that are visible: the commit got as far as them.
        is_decided: True for a micro-batch whose manifest names the uploads. The query completes them when it
            is started again, and could not go on without them.
        names: The objects of the job's folder.
    """

    job: str
    idle: float
    pending: tuple[str, ...]
    staged: tuple[str, ...]
    complete: tuple[str, ...]
    is_decided: bool
    names: tuple[str, ...]


def find_uploads(url: str, storage_options: Mapping[str, str] | None = None) -> list[JobUploads]:
    """Return the jobs that have a folder in a destination, with their uploads and staged files.

    Args:
        url: The URL of a folder that jobs write to.
        storage_options: Settings and credentials of the object store.

    Raises:
        OptionError: It is no URL of an object store, or an option is not known.
        OSError: The store refuses or does not answer.
    """
    storage = FolderStorage(absolute(url), storage_options)
    objects = storage.objects
    if objects is None:
        message = f"{url} is a path: only object stores have uploads; give a URL such as s3://bucket/folder"
        raise OptionError(message, "url")
    modified: dict[str, dict[str, int]] = {}
    for name, _, time_of_writing in objects.list(STAGING):
        job = name.partition("/")[0]
        modified.setdefault(job, {})[f"{STAGING}/{name}"] = time_of_writing
    decided = _decided(storage) if modified else set()
    return [
        _of_job(storage, job, times, is_decided=job in decided) for job, times in sorted(modified.items())
    ]


def _of_job(storage: FolderStorage, job: str, times: Mapping[str, int], *, is_decided: bool) -> JobUploads:
    notes = [name for name in times if is_note(name)]
    uploads = noted(storage.objects, notes) if storage.objects is not None else {}
    staged = sorted(name for name in times if name.endswith(".parquet"))
    # Below the folders of the job and of an attempt a file has the name of its place.
    places = [name.split("/", 3)[3] for name in staged]
    keys = sorted({key for key, _ in uploads.values()} - set(staged))
    complete = set(storage.present([*keys, *places]))
    return JobUploads(
        job=job,
        idle=max(0.0, time.time() - max(times.values()) / 1000),
        pending=tuple(key for key in keys if key not in complete),
        staged=tuple(staged),
        complete=tuple(sorted(complete)),
        is_decided=is_decided,
        names=tuple(times),
    )


def _decided(storage: FolderStorage) -> set[str]:
    """Return the ids of micro-batches whose manifest is there, and which are not complete."""
    found = {each.name.removeprefix(f"{SINK}/") for each in storage.listed(SINK, recursive=True)}
    batches = {name.removesuffix(".json") for name in found if name.endswith(".json")}
    return {name.replace("/", "-") for name in batches if f"{name}.done" not in found}


def abort_uploads(
    url: str, jobs: Sequence[JobUploads], storage_options: Mapping[str, str] | None = None
) -> list[JobUploads]:
    """Abort the uploads of jobs, and remove the jobs' folders with staged files. Visible files stay.

    A job that is still running fails, and publishes nothing.

    Args:
        url: The URL of the folder, as `find_uploads` takes it.
        jobs: The jobs; a job with `JobUploads.is_decided` is skipped.
        storage_options: Settings and credentials of the object store.

    Returns:
        The jobs whose uploads were aborted.

    Raises:
        OSError: An upload may still exist: calling this again continues.
    """
    storage = FolderStorage(absolute(url), storage_options)
    ended = []
    for job in jobs:
        if storage.objects is None or job.is_decided:
            continue
        mark = f"{STAGING}/{job.job}/{MARK}"
        # First, so that tasks which still run refuse to write.
        storage.remove([mark])
        failed = abort_noted(storage.objects, [name for name in job.names if is_note(name)])
        for error in failed.values():
            raise error
        storage.remove([name for name in job.names if not is_note(name)])
        ended.append(job)
    return ended
