"""Rows to write, as they are read: record batches, or slices of NDJSON."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spillway._wording import counted
from spillway.errors import CorruptFileError, OptionError
from spillway.reading.files import TITLES, open_lines, open_pipe, recognise
from spillway.reading.sources import FileSource, find_all, of_folder, open_files, partitions
from spillway.reading.text import interruptible
from spillway.shell.schemas import Slice, inferred_of, slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spillway.reading.files import OpenPipe
    from spillway.reading.sources import Files
    from spillway.shell.job import Job
    from spillway.shell.schemas import BadLines

STANDARD_INPUT = "standard input"
_TOLD = 3


@dataclass(frozen=True)
class Found:
    """The inputs of a job, found and recognised; nothing of their rows is read yet.

    Attributes:
        format: As `recognise` says it.
        files: The files; None for a pipe.
        size: Bytes of all files when they were found; None for a pipe. A sender may remove a file once its
            rows are written.
        pipe: What comes through a pipe; None for files.
    """

    format: str
    files: Files | None = None
    size: int | None = None
    pipe: OpenPipe | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, none for a pipe."""
        return () if self.files is None else self.files.paths

    @property
    def bytes_read(self) -> int:
        """Bytes that came through the pipe so far; those of all files."""
        return (self.size or 0) if self.pipe is None else self.pipe.source.taken


@dataclass(frozen=True)
class Rows:
    """Rows to write.

    Attributes:
        schema: Of all of them.
        parts: Record batches, or slices of NDJSON.
        values: The columns that the names of folders have, and their values, for each file: of slices.
            Batches have them already.
        rows: The number of rows; None if it is known only after reading to the end.
        is_inferred: True if types were inferred from the first lines.
        of_lines: The schema of lines of NDJSON, without columns that only the names of folders have.
        position: Bytes of files that were read so far; None if this is unknown.
    """

    schema: pa.Schema
    parts: Iterator[pa.RecordBatch] | Iterator[Slice]
    values: dict[Path, dict[str, Any]] = field(default_factory=dict)
    rows: int | None = None
    is_inferred: bool = False
    of_lines: pa.Schema | None = None
    position: Callable[[], int] | None = None

    @property
    def own_schema(self) -> pa.Schema:
        """The schema of the lines, which may lack columns that come from the names of folders."""
        named = {name for values in self.values.values() for name in values}
        return pa.schema([each.with_nullable(True) if each.name in named else each for each in self.schema])  # noqa: FBT003 - pyarrow's own


@contextmanager
def find(job: Job) -> Iterator[Found]:
    """Find the inputs of a job, and look at their first bytes.

    Raises:
        FileNotFoundError: No file or folder has the name of one of them.
        OptionError: They are not read, or not together; or an option of the job is not for their format.
        CorruptFileError: One is empty, or begins as no file of its name does.
    """
    with ExitStack() as stack:
        found = _find(job, stack)
        _check_options(job, found)
        yield found


def _check_options(job: Job, found: Found) -> None:
    """Refuse options that are for another format."""
    title = TITLES[found.format]
    if job.schema is not None and found.format not in {"csv", "ndjson"}:
        raise OptionError(f"--schema is for CSV and NDJSON; {job.inputs[0]} is {title}, which has one")
    if job.on_error == "skip" and found.format not in {"csv", "ndjson"}:
        raise OptionError(f"--on-error skip is for CSV and NDJSON; {job.inputs[0]} is {title}: leave it out")


def _find(job: Job, stack: ExitStack) -> Found:
    piped = [each for each in job.inputs if _is_pipe(each)]
    if not piped:
        files = find_all(job.inputs, job.text)
        if files.is_matched:
            raise OptionError(f"{_named(files.unknown)}: name other files, or pass --format")
        return Found(files.format, files=files, size=sum(path.stat().st_size for path in files.paths))
    if len(job.inputs) > 1:
        raise OptionError(f"{piped[0]} is a pipe, which must be the only input: name it without other inputs")
    typed = piped[0]
    if typed == "-":
        source = stack.enter_context(interruptible(sys.stdin.buffer))
        pipe = open_pipe(source, STANDARD_INPUT, job.text)
    else:
        file = stack.enter_context(Path(typed).open("rb"))  # noqa: SIM115 - the stack closes it
        pipe = open_pipe(stack.enter_context(interruptible(file)), typed, job.text)
    return Found(pipe.form.kind, pipe=pipe)


def left_out(found: Found) -> str | None:
    """The files in folders that are not read, for people; None if all are."""
    unknown = () if found.files is None else found.files.unknown
    return f"not read: {_named(unknown)}" if unknown else None


def _named(unknown: tuple[Path, ...]) -> str:
    first = ", ".join(map(str, unknown[:_TOLD]))
    more = f" and {len(unknown) - _TOLD:,} more" if len(unknown) > _TOLD else ""
    return f"{counted(len(unknown), 'file')} of no known format, {first}{more}"


def _is_pipe(typed: str) -> bool:
    if typed == "-":
        return True
    try:
        mode = os.stat(typed).st_mode  # noqa: PTH116 - of text that may be no path
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def open_rows(job: Job, found: Found, bad: BadLines) -> Iterator[Rows]:
    """Open the inputs as one stream of rows, file after file.

    Columns of several files are matched by name, as `open_files` does it; the keys of NDJSON have to be those
    of the schema, in all files.

    Args:
        job: The job.
        found: Its inputs.
        bad: Called with CSV rows that are left out.

    Raises:
        OSError: A file cannot be read.
        CorruptFileError: A file is truncated, damaged or not in its encoding; also raised while parts are
            read.
        OptionError: Columns of several files do not go together, or do not fit the schema that was given.
        SchemaError: The values of a field do not go together, or an integer would be rounded; also raised
            while parts are read.
        RowError: No line of the NDJSON that types are inferred from is good.
    """
    if found.format == "ndjson":
        yield _lines(job, found)
        return
    block = job.memory.block
    if found.pipe is not None:
        with _advising(job), found.pipe.rows(job.text, job.schema, block, bad.of_csv) as stream:
            _check_columns(stream.schema, job.schema, stream.name)
            yield Rows(stream.schema, stream.batches, rows=stream.rows)
        return
    files = _of(found)
    source = FileSource(files.name, job.text)
    opened = open_files(source, files, schema=job.schema, block_bytes=block, on_bad_row=bad.of_csv)
    with _advising(job), opened as stream:
        keys, _ = partitions(files)
        _check_columns(stream.schema, job.schema, stream.name, {key.name for key in keys})
        yield Rows(stream.schema, stream.batches, rows=stream.rows)


@contextmanager
def _advising(job: Job) -> Iterator[None]:
    """Say what to do about a row of CSV whose fields are too many, too few, or of another type."""
    try:
        yield
    except CorruptFileError as error:
        if "CSV conversion error" in str(error) and job.schema is None:
            advice = "types were inferred from the first lines: give them with --schema FILE"
        elif "CSV parse error" in str(error) and ": Expected" in str(error):
            advice = "leave such rows out with --on-error skip"
        else:
            raise
        raise CorruptFileError(f"{error}; {advice}") from error


def _of(found: Found) -> Files:
    if found.files is None:
        raise ValueError("there are no files where a pipe is read")
    return found.files


def _check_columns(
    found: pa.Schema, given: pa.Schema | None, name: str, keys: set[str] | frozenset[str] = frozenset()
) -> None:
    """Refuse CSV that has other columns than the schema that was given."""
    if given is None:
        return
    for column in found.names:
        if column not in given.names and column not in keys:
            raise OptionError(f"{name} has a column {column}, which --schema does not list: add it")
    for column in given.names:
        if column not in found.names:
            raise OptionError(f"--schema lists a column {column}, which {name} does not have: leave it out")


def _lines(job: Job, found: Found) -> Rows:
    reading = _Reading(job, found)
    parts: Iterator[Slice] = reading.slices()
    schema = job.schema
    if schema is None:
        sample, read = [], 0
        for piece in parts:
            sample.append(piece)
            read += len(piece.data)
            if read >= job.memory.sample:
                break
        if not any(piece.data.strip() for piece in sample):
            raise CorruptFileError(f"{reading.name} holds no line")
        schema = inferred_of(sample, reading.name)
        parts = chain(_emptied(sample), parts)
    keys, values = ([], {}) if found.files is None else partitions(found.files, schema)
    lacking = [key for key in keys if key.name not in schema.names]
    return Rows(
        pa.schema([*schema, *lacking]),
        parts,
        values=values if keys else {},
        is_inferred=job.schema is None,
        of_lines=schema,
        position=None if found.files is None else reading.position,
    )


def _emptied(sample: list[Slice]) -> Iterator[Slice]:
    """The slices of a sample, each given up once it is taken."""
    while sample:
        yield sample.pop(0)


class _Reading:
    """The NDJSON of the inputs, file after file."""

    def __init__(self, job: Job, found: Found) -> None:
        self._job = job
        self._found = found
        self._read = 0
        self._file: Any = None

    @property
    def name(self) -> str:
        return self._job.inputs[0] if self._found.pipe is None else str(self._found.pipe.pipe.path)

    def position(self) -> int:
        """Bytes of the files that were read so far."""
        return self._read + (0 if self._file is None else self._file.tell())

    def slices(self) -> Iterator[Slice]:
        memory = self._job.memory
        if self._found.pipe is not None:
            pipe = self._found.pipe.pipe
            source = open_lines(pipe, pipe.path, self._job.text, None)
            yield from slices(source, pipe.path, memory.slice, memory.line)
            return
        for path in _of(self._found).paths:
            compression = recognise(path, self._job.text).compression
            with path.open("rb") as file:
                self._file = file
                source = open_lines(file, path, self._job.text, compression)
                yield from slices(source, path, memory.slice, memory.line)
                self._read += file.tell()
                self._file = None


def with_keys(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, values: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Fill the columns that come from the names of a file's folders, if its lines lack them.

    Args:
        batches: Rows of the lines.
        schema: Of the rows.
        values: Of this file's folders.

    Raises:
        OptionError: A value does not have its column's type.
    """
    for batch in batches:
        columns = [
            _filled(batch.column(place), each, values.get(each.name)) for place, each in enumerate(schema)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _filled(column: pa.Array[Any], each: pa.Field[Any], value: Any) -> pa.Array[Any]:
    if value is None or column.null_count == 0:
        return column
    filled: pa.Array[Any] = pc.coalesce(column, of_folder(value, each, len(column)))
    return filled
