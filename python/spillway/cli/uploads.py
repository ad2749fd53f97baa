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
        str, typer.Argument(help="The folder to which jobs write: s3://bucket/folder, gs:// or az://.")
    ],
    *,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort the uploads; by default they are only listed.")
    ] = False,
    older_than: Annotated[
        float, typer.Option(help="Abort only jobs that have started no upload for this many hours.", min=0)
    ] = 24,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE for an object store, such as AWS_ENDPOINT_URL=...; may be repeated. "
            "Other settings come from the environment."
        ),
    ] = None,
) -> None:
    """List or abort unfinished uploads of Spark jobs.

    A job uploads its files while it runs, and completes the uploads when it
    commits. A pipeline with an audit completes them in a separate folder, and
    copies the files when it commits: these files are listed as staged, and
    --abort removes them. A killed driver leaves its uploads behind: no reader
    sees them, but they occupy storage. Only uploads of `format("spillway")`
    and `spillway.spark.write` to this folder are listed. The list includes
    running jobs; a job whose uploads are aborted fails.

    Visible files stay. Uploads of a micro-batch that a restarted query would
    still complete are never aborted.

    Exit status 2: the store refused a request, or an upload could not be
    aborted.
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
