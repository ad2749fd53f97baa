"""``spillway uploads``: uploads that killed Spark jobs left in an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from spillway.cli.common import fail, pairs, reason

if TYPE_CHECKING:
    from spillway.spark.left_uploads import JobUploads

_HOUR = 3600


def uploads(
    url: Annotated[
        str, typer.Argument(help="The folder that jobs write to: s3://bucket/folder, gs:// or az://.")
    ],
    *,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort them. Without it they are only listed.")
    ] = False,
    older_than: Annotated[
        float, typer.Option(help="Hours since a job last began an upload: only such jobs are aborted.", min=0)
    ] = 24,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE for an object store, such as AWS_ENDPOINT_URL=...; as often as needed. What is "
            "not said comes from the environment."
        ),
    ] = None,
) -> None:
    """List, and abort, the uploads of Spark jobs that have not ended.

    A job uploads its files while it runs, and completes the uploads at its
    commit. A pipeline with an audit completes them in a folder of its own,
    and copies the files at its commit: these are listed as staged, and are
    removed. A driver that is killed leaves its uploads: no reader sees them,
    and they cost storage. Only uploads of `format("spillway")` and
    `spillway.spark.write` are listed, and only those of this folder. A job
    that is under way is listed, too; one that is aborted fails.

    Files that are visible stay. Uploads of a micro-batch that a query still
    completes, when it is started again, are never aborted.

    Exit status 2: the store refuses, or an upload could not be aborted.
    """
    from spillway.errors import SpillwayError
    from spillway.spark.left_uploads import abort_uploads, find_uploads

    try:
        options = pairs("--storage-option", storage_option or [])
        jobs = find_uploads(url, options)
        dead = [job for job in jobs if job.idle >= older_than * _HOUR]
        aborted = abort_uploads(url, dead, options) if abort else []
    except (SpillwayError, OSError) as error:
        fail("uploads", reason(error))
    for job in jobs:
        typer.echo(_line(job, is_aborted=job in aborted))
    if not jobs:
        typer.echo("no job has uploads there")


def _line(job: JobUploads, *, is_aborted: bool) -> str:
    staged = f" and {len(job.staged)} files staged" if job.staged else ""
    pending = f"{len(job.pending)} uploads pending{staged}"
    if is_aborted:
        pending = f"{len(job.pending)} uploads aborted{staged and staged.replace('staged', 'removed')}"
    elif job.is_decided:
        pending += ", which the query completes when it is started again"
    there = f"; {len(job.complete)} files are visible: the commit did not finish" if job.complete else ""
    return f"{job.job}: {pending}; idle for {job.idle / _HOUR:.1f} hours{there}"
