"""Parquet files joined and split by row group, without reading a row."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from spillway._rewrite import join, split
from spillway.dataset_writer import DatasetOptions
from spillway.errors import OptionError
from spillway.reading.files import TITLES
from spillway.reading.sources import partitions
from spillway.shell.inputs import find, left_out
from spillway.shell.outputs import STANDARD_OUTPUT, Written, check_output
from spillway.shell.run import Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.shell.inputs import Found
    from spillway.shell.job import Job
    from spillway.shell.run import Progress


def run_copy(job: Job, progress: Progress) -> Done:
    """Copy the row groups of a job's files.

    Raises:
        SpillwayError: As `rewrite` and `check_output`; and an `OptionError` for inputs of another format, or
            in folders that name columns.
        OSError: An input cannot be read, or the output not be written.
        KeyboardInterrupt: Ctrl-C came; the output is as it was.
    """
    started = time.perf_counter()
    with find(job) as found:
        _check_inputs(job, found)
        check_output(job, found)
        if (unread := left_out(found)) is not None:
            progress.say(unread)
    progress.begin(f"copying to {job.output}", found.size)
    rows, written = _copied(job, list(map(str, found.paths)), progress)
    return Done(
        rows=rows,
        left_out=None,
        files=len(found.paths),
        bytes_read=found.bytes_read,
        written=written,
        seconds=time.perf_counter() - started,
    )


def _check_inputs(job: Job, found: Found) -> None:
    if found.files is None or found.format != "parquet":
        title = "a pipe" if found.files is None else TITLES[found.format]
        raise OptionError(
            f"--copy-row-groups is for Parquet files, and {job.inputs[0]} is {title}: leave the option out"
        )
    columns, _ = partitions(found.files)
    if columns:
        names = ", ".join(column.name for column in columns)
        raise OptionError(
            f"--copy-row-groups adds no columns, and folders of {job.inputs[0]} have values of {names}: "
            f"leave the option out, or name the files of one folder"
        )


def _copied(job: Job, files: Sequence[str], progress: Progress) -> tuple[int, Written]:
    storage = job.storage_options or None
    if job.is_folder:
        options = DatasetOptions(max_file_bytes=job.max_file_bytes, mode=job.mode or "error")
        parts = split(
            files,
            job.output,
            options,
            max_file_row_groups=job.max_file_row_groups,
            storage_options=storage,
            progress=progress.show,
        )
        return parts.rows, Written(parts.bytes, len(parts.files), job.output)
    out = sys.stdout.buffer if job.output == "-" else job.output
    result = join(files, out, storage_options=storage, progress=progress.show)
    return result.rows, Written(result.bytes, 1, STANDARD_OUTPUT if job.output == "-" else job.output)
