"""Write folders of Parquet files: `DatasetWriter`, `write_dataset`, their options and their results."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._context import WithBlock
from spillway._destination import naming_modes, resolve_folder
from spillway._inputs import write_all
from spillway._options import checks_names, refuse_unknown, shows_options
from spillway._results import dataset_html
from spillway._wording import counted
from spillway.errors import ClosedError
from spillway.writer import WriteResult, WriterOptions, _write_result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from spillway.types import (
        ArrowArray,
        ArrowSchema,
        ArrowStream,
        Data,
        DatasetKeywords,
        DatasetMode,
        Extra,
        OnError,
        OnSchemaChange,
        ReadableFile,
    )

__all__ = ["DatasetFile", "DatasetOptions", "DatasetResult", "DatasetWriter", "write_dataset"]


@checks_names
@dataclass(frozen=True)
class DatasetOptions:
    """Options of a dataset. Every field is a keyword argument of `DatasetWriter`.

    Args:
        partition_by: One or several columns, outermost first, whose values name folders as in Hive and Spark:
            ``day=2026-01-31/kind=click/``. The files do not contain these columns. They may be integers,
            floats, booleans, strings, dates, timestamps and decimals. Null and the empty string both go to
            ``__HIVE_DEFAULT_PARTITION__``, which readers read as null, so this string itself raises
            `SchemaError`; special characters are percent-escaped; a timestamp with a time zone is written in
            UTC and ends in ``Z``.
        max_file_bytes: Maximum size of a file. A file is closed as soon as 1,024 more rows (or 4 MiB of
            values) of the average size so far would not fit. Unfinished pages count with their size before
            compression, so files end below the limit: by up to a page for each column, which is little for
            128 MiB and much for 1 MiB. Only two things can exceed it: later rows that are larger than earlier
            ones, by the difference, and a file's first 2,048 rows (or 4 MiB of values), which are never
            divided.
        max_file_rows: Rows of a file, exactly.
        max_open_files: Maximum number of open files; each holds a row group in memory. When rows arrive for
            one more, the least recently used file is completed, and its partition continues in a new file.
            Rows sorted by partition need one open file at a time.
        basename_template: The template for file names, with ``{i}`` or ``{i:05d}`` for the number of a file
            in its folder; it ends in ``.parquet``.
        mode: ``"error"`` refuses a directory that contains anything except hidden files; ``"append"`` keeps
            existing files and continues their numbers; ``"overwrite"`` continues the numbers as well, and
            removes every other ``*.parquet`` file in and below the directory once all new ones are in place.
            In between, a reader sees both; a process killed in between leaves both, and repeating the call
            fixes that. In an object store, numbers begin at 0, and names contain a part that is unique to the
            writer. ``"append"`` refuses a directory with a file ``_metadata``, which would not list the new
            files. ``"overwrite"`` also removes that file and ``_common_metadata``.
        metadata_file: Write a file ``_metadata`` into the directory, with the footers of all files: the row
            groups, each with the path of its file. Readers such as `pyarrow.dataset.parquet_dataset` and Dask
            use it to plan without opening the files. It covers the files of one writer, so it cannot be
            combined with ``mode="append"``, nor with ``encryption``, because it would reveal statistics. A
            partitioned dataset without rows gets no such file.
        on_schema_change: (Preview.) What to do if rows have a column or a field of a struct that is new, or
            need a wider type. ``"raise"`` refuses them. ``"rotate"`` completes the open files and continues
            with the wider schema in new ones; readers have to unify the files by name. ``"widen"`` converts
            the rows of a file whose first row group has not begun, and completes other files. For that it
            holds up to 64 MiB of rows, or an eighth of ``memory_limit``, in addition to the writer's own
            memory. With both, batches are matched by name: missing columns are null, and narrower types are
            cast. A column of Arrow's null type, or one whose rows are null so far, waits for its first type:
            held rows take it, and files that were begun before lack the column. A column of rows without any
            value becomes text.

    Raises:
        OptionError: A value is not accepted; the message lists the accepted ones.

    Example:
        >>> import spillway
        >>> spillway.DatasetOptions(partition_by="day", max_file_bytes=256 << 20).partition_by
        ('day',)
    """

    _: KW_ONLY
    partition_by: str | Sequence[str] = ()
    max_file_bytes: int | None = None
    max_file_rows: int | None = None
    max_open_files: int = 64
    basename_template: str = "part-{i:05d}.parquet"
    mode: DatasetMode = "error"
    metadata_file: bool = False
    on_schema_change: OnSchemaChange = "raise"

    def __post_init__(self) -> None:
        columns = (self.partition_by,) if isinstance(self.partition_by, str) else self.partition_by
        if isinstance(columns, Iterable):  # what is not is refused with the others
            object.__setattr__(self, "partition_by", tuple(columns))
        _native.check_dataset_options(self)


@dataclass(frozen=True)
class DatasetFile:
    """One file of a finished dataset.

    Args:
        path: The absolute path, as a ``pathlib.Path``; in an object store the URL, as a string in which ``%``
            and other special characters are escaped.
        partition: The partition columns and their values as text, unescaped; ``None`` is null.
        result: The result of its writer.
    """

    path: Path | Any
    partition: Mapping[str, str | None]
    result: WriteResult


@dataclass(frozen=True, repr=False)
class DatasetResult:
    """The result of a finished dataset. A notebook shows it as a table of files.

    Args:
        files: The files, ordered by the first row of their partition, and within a partition by their rows.
    """

    files: tuple[DatasetFile, ...]

    def __repr__(self) -> str:
        files = counted(len(self.files), "file")
        return f"DatasetResult(rows={self.rows}, bytes={self.bytes}, files=<{files}>)"

    def _repr_html_(self) -> str:
        return dataset_html(self)

    @property
    def rows(self) -> int:
        """Number of rows in all files."""
        return sum(file.result.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.result.bytes for file in self.files)


@shows_options(DatasetOptions, WriterOptions)
class DatasetWriter(WithBlock):
    """Writes record batches to a folder of Parquet files: rolled by size, partitioned by columns.

    As a context manager, it makes all files appear when the block ends without an exception, and none if the
    block raises: until then they are in a hidden folder inside `directory`, from which they are renamed. If a
    rename fails, the others are undone. A process that is *killed* during these renames leaves some files
    published and the others in the hidden folder: a folder cannot publish several files in one step, which is
    what table formats are for.

    In an object store, each file is a multipart upload, and `close` completes all of them. A failure aborts
    the uploads, and removes the files that were already completed. A killed process leaves uploads that no
    reader sees, which a lifecycle rule of the store should remove; if it is killed during the completions,
    some files are published. Names are unique to their writer, so writers never replace each other's files.
    With ``mode="error"``, the prefix is listed when the writer is opened and when it is closed; if two
    writers are closed at the same moment, both may succeed. The parts of all files take up to 24 MiB of
    memory in addition to `memory_limit`; further parts wait in temporary files.

    The files and their contents depend only on the rows, not on how they are divided into batches, as long as
    there are at most `max_open_files` partitions. Threads can share a writer, as they can share a
    `ParquetWriter`.

    Args:
        directory: The folder of the dataset, as a path or a ``file://`` URL; it is created if its parent
            exists. Or a prefix of an object store, as a URL (``s3://``, ``gs://``, ``az://``, ``abfss://``).
            On other file systems, use `ParquetWriter` for single files.
        schema: The schema of the rows, including partition columns, from any object with
            ``__arrow_c_schema__``; by default, that of the first batch.
        storage_options: Settings and credentials of the object store, as in `ParquetWriter`.
        **options: The fields of `DatasetOptions`, and those of `WriterOptions` for each file.

    Raises:
        OptionError: An option has a value that is not accepted, names a column that cannot partition, or
            `directory` is a table whose log lists its files (Delta, Iceberg, Hudi), or a partition of one.
        SchemaError: The schema has a type that Parquet cannot hold.
        NotArrowError: ``schema`` is not an Arrow schema.
        FileExistsError: `directory` is not empty, and ``mode="error"``.
        OSError: The directory cannot be written, or the object store refuses a request or does not answer.

    Example:
        >>> import pyarrow as pa, spillway
        >>> table = pa.table({"day": ["mon", "tue", "mon"], "id": [1, 2, 3]})
        >>> with spillway.DatasetWriter("visits", table.schema, partition_by="day") as writer:
        ...     writer.write(table)
        >>> [(file.path.parent.name, file.result.rows) for file in writer.result.files]
        [('day=mon', 2), ('day=tue', 1)]
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        schema: ArrowSchema | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        **options: Unpack[DatasetKeywords],
    ) -> None:
        self._dataset_options, self._options = _split(options)
        place, settings = resolve_folder(directory, storage_options, "directory")
        with naming_modes(self._dataset_options.mode):
            self._writer = _native.DatasetWriter(
                place, schema, self._dataset_options, self._options, storage_options=settings
            )
        self._result: DatasetResult | None = None

    @property
    def options(self) -> WriterOptions:
        """The options of each file."""
        return self._options

    @property
    def dataset_options(self) -> DatasetOptions:
        """The options of the dataset."""
        return self._dataset_options

    @property
    def closed(self) -> bool:
        """True if the writer accepts no more batches."""
        return self._writer.closed

    @property
    def bytes_written(self) -> int:
        """Bytes of all files so far, not counting pages of open row groups."""
        return self._writer.bytes_written

    @property
    def left_behind(self) -> tuple[str, ...]:
        """The URLs of files that are, or may be, in the object store although `close` failed.

        It is empty unless the store refused to remove them: delete them before you write the rows again. They
        are percent-escaped like all URLs: the key of ``a%20b`` is ``a b``.
        """
        return tuple(self._writer.left)

    @property
    def result(self) -> DatasetResult:
        """The files of the dataset, available once the writer is closed.

        Raises:
            ClosedError: The writer was aborted, so there are no files.
            ValueError: The writer is still open.
        """
        if self._result is None:
            self._result = _result(self._writer)
        return self._result

    def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write a table, a data frame, a record batch or a stream of them.

        A batch fits under the same rules as in `ParquetWriter`, or by `on_schema_change`. One that does not
        fit is refused as a whole, and the writer can continue. Rows that violate `sorting_columns`, and
        values too large for `memory_limit`, are detected only when their file is written: they fail the
        dataset.

        Args:
            data: Anything with ``__arrow_c_stream__`` (preferred) or ``__arrow_c_array__``.

        Raises:
            SchemaError: A batch does not fit, has a null in a field that is not nullable, or a time that
                cannot name a folder.
            NotArrowError: ``data`` has no Arrow interface.
            ClosedError: The writer is closed, was aborted or failed before.
            OSError: The file system failed; every file is discarded.
        """
        self._writer.write(data)

    def write_rows(
        self,
        rows: Iterable[dict[str, Any]],
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
    ) -> int:
        """Write dicts, one for each row, as `ParquetWriter.write_rows` does.

        Rows include the partition columns; a row without them goes to the partition of null. With
        `on_schema_change`, a key that the schema lacks becomes a column, and a value that does not fit
        widens its column if a type holds both. A field that is null waits for its first value.

        Args:
            rows: A list, or any iterable, of dicts.
            on_error: ``"raise"`` raises for the first bad row. If `rows` is a list or a tuple, none of them
                is written in that case, so they are held as Arrow columns until the last one has been
                checked; other iterables are written as they arrive, and the rows before the bad one are kept.
                ``"skip"`` leaves bad rows out; a callable also leaves them out, and gets a `RowError` for
                each.
            extra: ``"ignore"`` ignores keys that the schema lacks; ``"error"`` treats the row as bad.

        Returns:
            The number of rows written.

        Raises:
            RowError: A row is bad and ``on_error`` is ``"raise"``.
            SchemaError: No schema fits the first rows, or Parquet cannot hold it; or a time cannot name a
                folder, which raises whatever ``on_error`` is, like a time that `timestamp_loss` refuses.
            OptionError: ``on_error`` or ``extra`` is not accepted; or the schema inferred from the first rows
                lacks a column that an option names.
            ClosedError: The writer is closed, was aborted or failed before.
            OSError: The file system refused; every file is discarded.

        Example:
            >>> import spillway
            >>> with spillway.DatasetWriter("clicks", partition_by="day") as writer:
            ...     writer.write_rows([{"day": "mon", "id": 1}, {"day": "tue", "id": 2}])
            2
            >>> [file.partition for file in writer.result.files]
            [{'day': 'mon'}, {'day': 'tue'}]
        """
        return self._writer.write_rows(rows, on_error, extra)

    def write_ndjson(
        self,
        source: bytes | bytearray | memoryview | ReadableFile,
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
    ) -> int:
        r"""Write JSON objects, one on each line, as `ParquetWriter.write_ndjson` does.

        Args:
            source: UTF-8 bytes, which may end inside a line, or a file object opened for reading bytes.
            on_error: As in `write_rows`: bytes count as a list, and a file counts as another iterable.
            extra: As in `write_rows`.

        Returns:
            The number of rows written.

        Raises:
            RowError: A row is bad and ``on_error`` is ``"raise"``.
            SchemaError: As in `write_rows`.
            OptionError: As in `write_rows`.
            ClosedError: As in `write_rows`.
            OSError: As in `write_rows`.

        Example:
            >>> import spillway
            >>> with spillway.DatasetWriter("taps", partition_by="day") as writer:
            ...     writer.write_ndjson(b'{"day": "mon", "id": 1}\n{"day": "tue", "id": 2}\n')
            2
        """
        return self._writer.write_ndjson(source, on_error, extra)

    def close(self) -> None:
        """Complete every file and make all of them appear. Closing again does nothing.

        Without rows, there is one empty file, or none if there are partition columns.

        Raises:
            RowError: The last line of NDJSON had no line break and is bad, and its call had
                ``on_error="raise"``. The line is dropped, and the writer stays open.
            SchemaError: There was neither a schema nor a batch.
            ClosedError: The writer was aborted or failed before.
            FileExistsError: Another writer was faster, and ``mode="error"``.
            OSError: As `write`. The files in `left_behind` may still be in the object store. If there is a
                `result`, all files have appeared, but old files that ``mode="overwrite"`` should have removed
                from an object store are still there.
        """
        with naming_modes(self._dataset_options.mode):
            self._writer.close()

    def abort(self) -> None:
        """Discard every file: the directory is as it was before. A closed writer stays closed."""
        self._aborted = True
        self._writer.abort()

    def _complete(self) -> None:
        self.close()


@shows_options(DatasetOptions, WriterOptions)
def write_dataset(
    data: Data,
    directory: str | os.PathLike[str],
    *,
    schema: ArrowSchema | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[DatasetKeywords],
) -> DatasetResult:
    """Write all of `data` to a folder of Parquet files; see `DatasetWriter`.

    Args:
        data: Anything that `write_parquet` accepts, such as an object with ``__arrow_c_stream__`` or
            ``__arrow_c_array__``, or rows as dicts.
        directory: The folder of the dataset, or the URL of a prefix of an object store.
        schema: The schema of the rows; without it, that of `data`.
        storage_options: Settings and credentials of the object store.
        **options: The fields of `DatasetOptions`, and those of `WriterOptions` for each file.

    Returns:
        The files.

    Raises:
        SpillwayError: As `DatasetWriter` and its methods.
        MissingExtraError: ``data`` is a dict of columns, and pyarrow is not installed.
        OSError: The directory cannot be written.

    Example:
        >>> import pyarrow as pa, spillway
        >>> table = pa.table({"id": range(10_000)})
        >>> [file.path.name for file in spillway.write_dataset(table, "ids", max_file_rows=6000).files]
        ['part-00000.parquet', 'part-00001.parquet']
    """
    with DatasetWriter(directory, schema, storage_options=storage_options, **options) as writer:
        write_all(data, writer, schema)
    return writer.result


def _split(options: Mapping[str, Any]) -> tuple[DatasetOptions, WriterOptions]:
    """Sort the keyword arguments by what they are about."""
    refuse_unknown(options, DatasetOptions, WriterOptions)
    ours = {field.name for field in fields(DatasetOptions)}
    dataset = {name: value for name, value in options.items() if name in ours}
    each = {name: value for name, value in options.items() if name not in ours}
    return DatasetOptions(**dataset), WriterOptions(**each)


def _result(writer: _native.DatasetWriter) -> DatasetResult:
    found = writer.result
    if found is None:
        if writer.closed:
            raise ClosedError("the writer was aborted or failed, so there is no result")
        raise ValueError("the writer is still open: its result is available after close()")
    return DatasetResult(tuple(_file(entry) for entry in found))


def _file(entry: _native.DatasetFileDict) -> DatasetFile:
    path = os.fsdecode(entry["path"])
    return DatasetFile(
        path=Path(path) if path.startswith("/") else path,
        partition=entry["partition"],
        result=_write_result(entry["file"], path),
    )
