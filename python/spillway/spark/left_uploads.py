"""Uploads that jobs left in a folder of an object store: no reader sees them, and they cost storage."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.errors import OptionError
from spillway.spark.folder_job import MARK, STAGING
from spillway.spark.folder_storage import FolderStorage
from spillway.spark.location import absolute
from spillway.spark.stream_jobs import SINK
from spillway.spark.uploads import abort_noted, is_note, noted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["JobUploads", "abort_uploads", "find_uploads"]


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
