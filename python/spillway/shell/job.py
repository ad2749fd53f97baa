"""A job of `spillway write`: what is asked for, and its run. Rows are written, or row groups are copied."""

from __future__ import annotations

import sys
import time
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from spillway._destination import local_path
from spillway._rewrite import join, split
from spillway._wording import counted
from spillway.dataset_writer import DatasetOptions
from spillway.errors import OptionError
from spillway.harness.progress import ProgressLine
from spillway.reading.files import TITLES
from spillway.reading.sources import partitions
from spillway.reading.text import TextOptions
from spillway.shell.inputs import find, left_out, open_rows, with_keys
from spillway.shell.outputs import (
    STANDARD_OUTPUT,
    FileOutput,
    Written,
    check_output,
    open_output,
    refuse_existing,
)
from spillway.shell.schemas import BadLines, Slice, batches_of, infer_types
from spillway.types import DatasetMode
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from rich.console import Console

    from spillway.reading.sources import FileSource
    from spillway.shell.inputs import Found, Rows
    from spillway.shell.outputs import Output

LEAST_MEMORY = 4_000_000

_KIB = 1 << 10
_MIB = 1 << 20
# A limit that a writer accepts at zstd 1: for a file, and for each of its columns. Other codecs may need
# more, which the writer says.
_FILE_BYTES = 320 * _KIB
_COLUMN_BYTES = 16 * _KIB
_USUAL_FILE_BYTES = _MIB
_MOST_OPEN_FILES = 64
# That of `spillway write` by default.
_SAMPLED_IN = 256_000_000


@dataclass(frozen=True)
class Memory:
    """Shares of the memory that the rows of a command may take.

    Half is for writers. What is read takes several times the bytes that are read together: as text, parsed
    and as Arrow columns. The rest is for what allocators do not give back.

    Args:
        limit: Bytes in all.

    Raises:
        OptionError: It is below `LEAST_MEMORY`.
    """

    limit: int

    def __post_init__(self) -> None:
        if self.limit < LEAST_MEMORY:
            raise OptionError(f"--memory {self.limit}: give at least {LEAST_MEMORY // 10**6}MB")

    @property
    def writer(self) -> int:
        """The limit of all open files together."""
        return self.limit // 2

    @property
    def block(self) -> int:
        """Bytes of CSV, or of decoded values of Parquet, that are read together."""
        return min(max(self.limit // 16, 256 * _KIB), 32 * _MIB)

    @property
    def sample(self) -> int:
        """Bytes of NDJSON that types are inferred from."""
        return min(max(self.limit // 32, 128 * _KIB), 16 * _MIB)

    @property
    def slice(self) -> int:
        """Bytes of NDJSON that are read together."""
        return min(self.limit // 64, _MIB)

    @property
    def line(self) -> int:
        """Bytes of the longest line of NDJSON."""
        return self.limit // 8

    def open_files(self, columns: int) -> tuple[int, int]:
        """The number of files of a folder that are open at once, and the limit of each.

        Args:
            columns: Leaf columns of a file.
        """
        usual = max(_USUAL_FILE_BYTES, 2 * (_FILE_BYTES + columns * _COLUMN_BYTES))
        number = min(max(self.writer // usual, 1), _MOST_OPEN_FILES)
        return number, self.writer // number

    def each_of_a_table(self, columns: int) -> int:
        """The limit of each data file of a partitioned table, which has up to 64 of them open.

        Args:
            columns: Leaf columns of a file.

        Raises:
            OptionError: There is less than 64 files need.
        """
        each, least = self.writer // _MOST_OPEN_FILES, _FILE_BYTES + columns * _COLUMN_BYTES
        if each < least:
            needed = -(-2 * _MOST_OPEN_FILES * least // 10**6)
            raise OptionError(
                f"--memory {self.limit}: a partitioned table has up to {_MOST_OPEN_FILES} files open: "
                f"give at least {needed}MB for its {columns} columns"
            )
        return each


@dataclass(frozen=True)
class Job:
    """Rows of files or of a pipe, and their destination.

    Args:
        inputs: Files, folders and globs as they were typed, or one pipe; ``-`` is standard input.
        output: A path, or a URL; that of a file becomes its path.
        memory: Shares of the memory.
        text: Properties that text does not state itself.
        schema: The columns of text; None infers them.
        partition_by: Columns that name folders.
        to_delta: True if `output` is a Delta table.
        mode: What to do with an existing `output`: ``"error"`` refuses it, ``"append"`` adds to a folder or a
            table, ``"overwrite"`` replaces it. By default rows are appended to a table, and all else is
            refused.
        on_error: What to do with bad lines of NDJSON and CSV rows with a different number of fields: the
            command fails, or continues without them.
        storage_options: Settings of the object store.
        options: Fields of `WriterOptions`, except ``memory_limit``.
        copies_row_groups: True if row groups of Parquet files are copied, and no row is read.
        max_file_bytes: The most bytes of a file of a folder that row groups are copied into.
        max_file_row_groups: The most row groups of such a file.

    Raises:
        OptionError: An option of the writer has a value that is not accepted, or `output` is on another
            machine.
    """

    inputs: tuple[str, ...]
    output: str
    memory: Memory
    _: KW_ONLY
    text: TextOptions = field(default_factory=TextOptions)
    schema: pa.Schema | None = None
    partition_by: tuple[str, ...] = ()
    to_delta: bool = False
    mode: DatasetMode | None = None
    on_error: Literal["raise", "skip"] = "raise"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    copies_row_groups: bool = False
    max_file_bytes: int | None = None
    max_file_row_groups: int | None = None

    def __post_init__(self) -> None:
        scheme, separator, rest = self.output.partition("://")
        if separator and scheme.lower() == "file":
            # What is there already, or is read, is looked for as of any path.
            object.__setattr__(self, "output", local_path(rest))
        object.__setattr__(self, "text", replace(self.text, is_exact=True))
        # Before anything is read.
        WriterOptions(**self.options)
        if self.on_error not in {"raise", "skip"}:
            raise OptionError(f"--on-error {self.on_error}: choose raise or skip")
        if self.mode not in {None, *get_args(DatasetMode)}:
            raise OptionError(f"--mode {self.mode}: choose error, append or overwrite")
        if self.mode == "append" and not (self.is_folder or self.to_delta):
            raise OptionError(
                "--mode append adds rows to a folder or a table, not to a Parquet file: pass --partition-by "
                "COLUMN or --to-delta"
            )

    @property
    def is_folder(self) -> bool:
        """True if the output is a folder of files, or a prefix of an object store."""
        limits = (self.max_file_bytes, self.max_file_row_groups)
        return bool(self.partition_by) or any(limit is not None for limit in limits)

    @property
    def is_url(self) -> bool:
        """True if the output is an object, or a table in an object store."""
        return "://" in self.output


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


def types_of_lines(source: FileSource) -> pa.Schema | None:
    """The columns of NDJSON files that `run_write` infers from their first lines.

    Raises:
        SchemaError: The values of a field do not go together.
        RowError: No line is good.
    """
    job = Job((source.path,), "-", Memory(_SAMPLED_IN), text=source.text)
    with find(job) as found, open_rows(job, found, BadLines(skips=True, say=print)) as rows:
        return rows.of_lines


def _moved(job: Job, found: Found, progress: Progress) -> tuple[int, BadLines, Output]:
    """Write all rows; their number, the bad lines and the output."""
    bad = BadLines(skips=job.on_error == "skip", say=progress.say)
    output = None
    try:
        with open_rows(job, found, bad) as rows:
            bad.is_inferred = rows.is_inferred
            output = open_output(job, rows.schema)
            progress.begin(f"writing {job.output}", found.size if rows.position else rows.rows)
            with output.writing():
                count = _write(rows, output, bad, progress)
    except KeyboardInterrupt as interrupt:
        if output is None:
            raise
        raise KeyboardInterrupt(output.left()) from interrupt
    return count, bad, output


def _write(rows: Rows, output: Output, bad: BadLines, progress: Progress) -> int:
    """Write all parts; the number of rows."""
    count, fed = 0, 0
    if rows.is_inferred and isinstance(output, FileOutput):
        infer_types(output.writer)
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
        KeyboardInterrupt: Ctrl-C came; the message says what may be left.
    """
    started = time.perf_counter()
    with find(job) as found:
        _check_inputs(job, found)
        check_output(job, found)
        if (unread := left_out(found)) is not None:
            progress.say(unread)
    progress.begin(f"copying to {job.output}", found.size)
    try:
        rows, written = _copied(job, list(map(str, found.paths)), progress)
    except KeyboardInterrupt as interrupt:
        left = "is as it was, or complete"
        if job.is_folder and job.is_url:
            left = "may have some or all of the new files"
        raise KeyboardInterrupt(f"{job.output} {left}: look there before you copy again") from interrupt
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

    def show(rows: int, done: int) -> None:
        progress.show(rows, done)
        if job.output != "-" and not job.is_url:
            # Another file may have appeared there since the first look.
            refuse_existing(job)

    result = join(files, out, storage_options=storage, progress=show)
    return result.rows, Written(result.bytes, 1, STANDARD_OUTPUT if job.output == "-" else job.output)
