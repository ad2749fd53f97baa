"""Runs the job of a shell: rows that are written, or row groups that are copied without a row being read."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway._rewrite import join, split
from spillway._wording import counted
from spillway.dataset_writer import DatasetOptions
from spillway.errors import OptionError
from spillway.harness.progress import ProgressLine
from spillway.reading.files import TITLES
from spillway.reading.sources import partitions
from spillway.shell.inputs import find, left_out, open_rows, with_keys
from spillway.shell.outputs import STANDARD_OUTPUT, FileOutput, Written, check_output, open_output
from spillway.shell.schemas import BadLines, Slice, batches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from spillway.shell.inputs import Found, Rows
    from spillway.shell.job import Job
    from spillway.shell.outputs import Output

_SILENT_SECONDS = 10.0
_THOUSAND = 1000
_UNITS = ("kB", "MB", "GB", "TB")


class Progress(ProgressLine):
    """A line on a terminal; elsewhere one that stays every ten seconds.

    Args:
        console: Where it is.
        clock: Seconds that pass.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, refreshes=4, clock=clock)
        self._what = ""

    def begin(self, what: str, total: float | None = None) -> None:
        """Begin a stage.

        Args:
            what: Its name.
            total: Bytes, or rows, at the end; None if unknown.
        """
        self._what = what
        self._begin(what, total)

    def show(self, rows: int, done: float | None = None) -> None:
        """Show how far the stage is.

        Args:
            rows: Rows so far.
            done: The part of the total.
        """
        self._update(completed=done or 0, count=counted(rows, "row"))
        if not self._console.is_terminal and self._clock() - self._said_at >= _SILENT_SECONDS:
            self.say(f"{self._what}: {counted(rows, 'row')}")


def sized(size: int) -> str:
    """Bytes as people write them: 812 B, 4.2 MB, 1.9 GB; a kilobyte has a thousand."""
    if size < _THOUSAND:
        return f"{size} B"
    power = min((len(str(size)) - 1) // 3, len(_UNITS))
    return f"{size / _THOUSAND**power:.1f} {_UNITS[power - 1]}"


@dataclass(frozen=True)
class Done:
    """A job that is done.

    Attributes:
        rows: Rows that were written.
        left_out: Lines of NDJSON, or rows of CSV, that were bad, in words; None if there were none.
        files: Files that were read; 0 for a pipe.
        bytes_read: Their bytes, as they are on disk or came through the pipe.
        written: What was written.
        seconds: How long it took.
    """

    rows: int
    left_out: str | None
    files: int
    bytes_read: int
    written: Written
    seconds: float


def run_write(job: Job, progress: Progress) -> Done:
    """Write the rows of a job.

    Raises:
        SpillwayError: As `find`, `open_rows`, `check_output` and `open_output`; and a `RowError` for a bad
            line of NDJSON, if bad lines end the job.
        OSError: An input cannot be read, or the output not be written.
        KeyboardInterrupt: Ctrl-C came; the message says what is left.
    """
    started = time.perf_counter()
    with find(job) as found:
        check_output(job, found)
        if (unread := left_out(found)) is not None:
            progress.say(unread)
        count, bad, output = _moved(job, found, progress)
    try:
        written = output.written()
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(output.left()) from interrupt
    return Done(
        rows=count,
        left_out=counted(bad.count, bad.noun) if bad.count else None,
        files=len(found.paths),
        bytes_read=found.bytes_read,
        written=written,
        seconds=time.perf_counter() - started,
    )


def _moved(job: Job, found: Found, progress: Progress) -> tuple[int, BadLines, Output]:
    """Write all rows; their number, the bad lines and the output."""
    bad = BadLines(skips=job.on_error == "skip", say=progress.say)
    with open_rows(job, found, bad) as rows:
        bad.is_inferred = rows.is_inferred
        output = open_output(job, rows.schema)
        progress.begin(f"writing {job.output}", found.size if rows.position else rows.rows)
        try:
            with output.writing():
                count = _write(rows, output, bad, progress)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(output.left()) from interrupt
    return count, bad, output


def _write(rows: Rows, output: Output, bad: BadLines, progress: Progress) -> int:
    """Write all parts; the number of rows."""
    count, fed = 0, 0
    for part in rows.parts:
        if not isinstance(part, Slice):
            output.write(part)
            count += part.num_rows
        elif isinstance(output, FileOutput) and not rows.values:
            count += output.writer.write_ndjson(part.data, on_error=bad.of(part, fed))
            fed += part.data.count(b"\n")
        else:
            count += _write_slice(part, rows, output, bad)
        progress.show(count, rows.position() if rows.position else count)
    return count


def _write_slice(part: Slice, rows: Rows, output: Output, bad: BadLines) -> int:
    values = rows.values.get(part.path, {})
    count = 0
    for batch in with_keys(batches_of(part, rows.own_schema, bad), rows.schema, values):
        output.write(batch)
        count += batch.num_rows
    return count


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
