"""Places that rows are written to: a file or an object, a folder of files, a Delta table."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

import spillway.delta
from spillway import _native
from spillway._destination import resolve_folder
from spillway._wording import counted
from spillway.dataset_writer import DatasetWriter
from spillway.errors import OptionError, SpillwayError, TableNotFoundError
from spillway.writer import ParquetWriter, WriterOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from spillway.shell.inputs import Found
    from spillway.shell.job import Job

STANDARD_OUTPUT = "standard output"

# Versions that other writers may have made since.
_LATEST = 256


class Written(NamedTuple):
    """The files that were written.

    Attributes:
        bytes: Total size of all files; None if it cannot be determined for a table.
        files: Their number; None likewise.
        place: The output for people, with the version of a table.
    """

    bytes: int | None
    files: int | None
    place: str


class Output(Protocol):
    """A place that rows are written to."""

    def writing(self) -> AbstractContextManager[object]:
        """Return a context manager that publishes the output, or discards it if the block raises."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""

    def written(self) -> Written:
        """Describe the output, after the block has ended without an exception."""

    def left(self) -> str:
        """Say what is left after an interrupt, whether the block has ended or not."""


class FileOutput:
    """A file, an object of a store, or standard output."""

    def __init__(self, job: Job, schema: pa.Schema) -> None:
        self._job = job
        self._place = STANDARD_OUTPUT if job.output == "-" else job.output
        self.writer = ParquetWriter(
            sys.stdout.buffer if job.output == "-" else job.output,
            schema,
            storage_options=job.storage_options or None,
            memory_limit=job.memory.writer,
            **job.options,
        )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Complete the file at the end of a block, unless another one has appeared there until then."""
        with self.writer:
            yield
            if self._job.output != "-":
                refuse_existing(self._job)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self.writer.write(batch)

    def written(self) -> Written:
        """Say what was written."""
        return Written(self.writer.result.bytes, 1, self._place)

    def left(self) -> str:
        """Say what is left after an interrupt."""
        if self._place == STANDARD_OUTPUT:
            return "what was written stays"
        return _left(self.writer, self._place)


class FolderOutput:
    """A folder of files, or a prefix of an object store, partitioned as Hive does it."""

    def __init__(self, job: Job, schema: pa.Schema) -> None:
        self._place = job.output
        self._replaces_objects = job.mode == "overwrite" and job.is_url
        number, each = job.memory.open_files(_leaves(schema))
        self.writer = DatasetWriter(
            job.output,
            schema,
            storage_options=job.storage_options or None,
            partition_by=job.partition_by,
            mode=job.mode or "error",
            max_open_files=number,
            memory_limit=each,
            **job.options,
        )

    def writing(self) -> AbstractContextManager[object]:
        """Return the writer's own block."""
        return self.writer

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self.writer.write(batch)

    def written(self) -> Written:
        """Say what was written."""
        result = self.writer.result
        return Written(result.bytes, len(result.files), self._place)

    def left(self) -> str:
        """Say what is left after an interrupt."""
        if left := self.writer.left_behind:
            return f"{counted(len(left), 'file')} may be left: delete {', '.join(left)}"
        if self._replaces_objects and _is_done(self.writer):
            return f"all rows are in {self._place}, and old ones may be: --mode overwrite again removes these"
        return _left(self.writer, self._place)


def _left(writer: ParquetWriter | DatasetWriter, place: str) -> str:
    return f"all rows are in {place}" if _is_done(writer) else f"{place} is as it was"


def _is_done(writer: ParquetWriter | DatasetWriter) -> bool:
    try:
        _ = writer.result
    except ValueError:  # open, or aborted
        return False
    return True


class TableOutput:
    """A Delta table. One that is not there is made by the commit of the rows."""

    def __init__(self, job: Job, schema: pa.Schema) -> None:
        self._job = job
        table, is_new = _table(job, schema)
        memory, columns = job.memory, _leaves(schema)
        limit = memory.each_of_a_table(columns) if table.partition_columns else memory.writer
        self._made = _made(job) if is_new else None
        with self._unmade_on_error():
            self.writer = table._append(  # noqa: SLF001 - one package
                replace=() if job.mode == "overwrite" and not is_new else None,
                options=WriterOptions(memory_limit=limit, **job.options),
            )
            # A table without rows has its columns all the same.
            self.write(pa.RecordBatch.from_pylist([], schema))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Commit the rows at the end of a block; if this fails, a folder created for them is removed."""
        with self._unmade_on_error(), self.writer:
            yield

    @contextmanager
    def _unmade_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._made is not None:
                _remove_empty(self._made)
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self.writer.write(batch)

    def written(self) -> Written:
        """Say what was written."""
        version = self.writer.version or 0
        place = f"{self._job.output}, version {version}"
        # The rows are committed: what cannot be said of them is no reason to write them again.
        with suppress(SpillwayError, OSError):
            table = spillway.delta.open(self._job.output, storage_options=self._job.storage_options or None)
            for entry in table.history(_LATEST):
                if entry.version == version:
                    measures = entry.info.get("operationMetrics", {})
                    return Written(
                        int(measures.get("numOutputBytes", 0)), int(measures.get("numFiles", 0)), place
                    )
        return Written(None, None, place)

    def left(self) -> str:
        """Say what is left after an interrupt."""
        if self.writer.version is not None:
            return f"the rows are in {self._job.output}, version {self.writer.version}"
        if self.writer.token is not None:
            return f"it is not known yet whether the rows are in {self._job.output}"
        return f"{self._job.output} is as it was"


def _table(job: Job, schema: pa.Schema) -> tuple[spillway.delta.Table, bool]:
    """The table that is there, or the planned one; true for the latter."""
    options = job.storage_options or None
    try:
        table = spillway.delta.open(job.output, storage_options=options)
    except TableNotFoundError:
        plan = _native.DeltaTable.plan(schema, list(job.partition_by))
        place, settings = resolve_folder(job.output, options, "output")
        native = _native.DeltaTable.planned(place, plan, settings)
        return spillway.delta.Table(native, settings), True
    if job.mode == "error":
        raise OptionError(
            f"{job.output} is a Delta table already: pass --mode append to add the rows, or --mode "
            f"overwrite to replace the existing ones"
        )
    if job.partition_by and list(job.partition_by) != table.partition_columns:
        there = ", ".join(table.partition_columns) or "no column"
        raise OptionError(
            f"--partition-by {','.join(job.partition_by)}: {job.output} is a table partitioned by {there}: "
            f"leave the option out"
        )
    return table, False


def _made(job: Job) -> Path | None:
    """The folder of a new table, if it is one that was not there."""
    if job.is_url:
        return None
    folder = Path(job.output)
    try:
        folder.mkdir()
    except FileExistsError:
        return None
    return folder


def _remove_empty(folder: Path) -> None:
    """Remove a folder and the folders in it, as far as they are empty."""
    for each in sorted(folder.rglob("*"), reverse=True):
        if each.is_dir():
            with suppress(OSError):
                each.rmdir()
    with suppress(OSError):
        folder.rmdir()


def open_output(job: Job, schema: pa.Schema) -> Output:
    """Open the output of a job.

    Raises:
        OptionError: The output does not go with an option; or the memory is too little for the columns.
        SchemaError: Parquet, or the table, cannot hold a column.
        OSError: The output cannot be written.
    """
    kind = TableOutput if job.to_delta else FolderOutput if job.partition_by else FileOutput
    try:
        return kind(job, schema)
    except FileExistsError as error:
        raise OptionError(
            f"{job.output} is not empty: pass --mode append to add files, --mode overwrite to replace "
            "the existing ones, or name another place"
        ) from error
    except OptionError as error:
        if "memory_limit" not in str(error):
            raise
        message = f"--memory {job.memory.limit}: its share for files is too little: {error}"
        raise OptionError(message) from error


def check_output(job: Job, found: Found) -> None:
    """Refuse an output that already exists, or that is also an input.

    Raises:
        OptionError: The output exists, or is an input; the message says what to do.
        OSError: The store does not answer.
    """
    if job.output == "-" and (job.is_folder or job.to_delta):
        raise OptionError("standard output takes one file: leave out what makes a folder or a table")
    if job.output == "-":
        return
    if not job.is_url:
        _refuse_inputs(Path(job.output), found.paths)
    # A table and a prefix are looked at when they are opened.
    if job.to_delta:
        return
    if not job.is_folder:
        refuse_existing(job)
    elif not job.is_url:
        _refuse_filled(job)


def _refuse_filled(job: Job) -> None:
    path = Path(job.output)
    if job.mode in {None, "error"} and path.is_dir() and any(_visible(path.iterdir())):
        raise OptionError(
            f"{path} is not empty: pass --mode append to add files, --mode overwrite to replace the existing "
            "ones, or name another folder"
        )


def refuse_existing(job: Job) -> None:
    """Refuse a file or an object that is there, unless it may be replaced."""
    path = Path(job.output)
    if not job.is_url and path.is_dir():
        raise OptionError(
            f"{path} is a folder: name a file in it, or pass --partition-by COLUMN or --to-delta"
        )
    what = "object" if job.is_url else "file"
    if job.mode != "overwrite" and (_is_object(job) if job.is_url else path.is_file()):
        raise OptionError(
            f"{job.output} already exists: pass --mode overwrite to replace it, or name another {what}"
        )


def _is_object(job: Job) -> bool:
    """True if the store says that the object exists; a key that may only write is not told."""
    try:
        return _native.is_object(job.output, dict(job.storage_options))
    except PermissionError:
        return False


def _refuse_inputs(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that is one of the inputs, or a folder that holds one."""
    place = output.resolve()
    for path in inputs:
        read = path.resolve()
        if place == read or (place in read.parents and place.is_dir()):
            raise OptionError(
                f"{path} is both an input and the output: name another output; --rewrite rewrites "
                f"Parquet files in place"
            )


def _visible(paths: Iterable[Path]) -> Iterable[Path]:
    return (path for path in paths if not path.name.startswith("."))


def _leaves(schema: pa.Schema) -> int:
    """Leaf columns of a file."""
    return sum(_leaves_of(each.type) for each in schema)


def _leaves_of(kind: pa.DataType) -> int:
    if kind.num_fields == 0:
        return 1
    return sum(_leaves_of(kind.field(number).type) for number in range(kind.num_fields))
