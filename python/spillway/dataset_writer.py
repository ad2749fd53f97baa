"""Writing folders of Parquet files: `DatasetWriter`, `write_dataset`, their options and their results."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._context import WithBlock
from spillway._destination import OBJECT_STORES, local_path
from spillway._inputs import write_all
from spillway._options import checks_names, refuse_unknown, shows_options
from spillway._result_html import dataset_html
from spillway._wording import counted
from spillway.errors import ClosedError, OptionError
from spillway.writer import WriteResult, WriterOptions, _write_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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
        partition_by: A column, or several from the outermost in, whose values name folders as Hive and Spark
            do: ``day=2026-01-31/kind=click/``. The files leave those columns out. They may be integers,
            booleans, strings, dates, timestamps and decimals. Null and the empty string both go to
            ``__HIVE_DEFAULT_PARTITION__``, which readers take for null, so that this text itself is a
            `SchemaError`; special characters are
            percent-escaped; a timestamp with a time zone is written in UTC and ends in ``Z``.
        max_file_bytes: Bytes that a file has at most. It is closed as soon as 1,024 more rows (or 4 MiB of
            values) of the weight of those before would not fit. Pages that are not finished count as
            they are before compression, so files end below the limit: by up to a page for each column, which
            is little of 128 MiB and much of 1 MiB. Only two things exceed it: next rows that are heavier than
            those before, by what they are heavier, and a file's first 2,048 rows (or 4 MiB of values), which
            are never divided.
        max_file_rows: Rows of a file, exactly.
        max_open_files: Files open at once; each holds a row group in memory. When rows come for one more,
            the file without rows for the longest time is completed, and its partition goes on in another.
            Rows sorted by partition need one file at a time.
        basename_template: The names of files, with ``{i}`` or ``{i:05d}`` for the number of a file in its
            folder; it ends in ``.parquet``.
        mode: ``"error"`` refuses a directory with anything in it but hidden files; ``"append"`` keeps
            what is there and counts on from it; ``"overwrite"`` counts on as well, and removes every other
            ``*.parquet`` file in and below the directory once all new ones are there. A reader that looks
            in between sees both; a process killed in between leaves both, and the same call puts it right.
            In an object store numbers begin at 0, and each name has a part of its own for each writer.
            ``"append"`` is refused where there is a file ``_metadata``, which would not list the new files.
            ``"overwrite"`` removes that and ``_common_metadata``, too.
        metadata_file: Write a file ``_metadata`` into the directory, with the footers of all files: the row
            groups, each with the path of its file. Readers such as `pyarrow.dataset.parquet_dataset` and Dask
            plan by it without opening the files. It is made of the files of one writer, so that it does not
            go with ``mode="append"``, nor with ``encryption``, whose statistics it would show. A
            partitioned dataset without rows has none.
        on_schema_change: What to do when rows have a column, or a field of a struct, that those before had
            not, or need a wider type. ``"raise"`` refuses them. ``"rotate"`` completes the open files and
            goes on with the wider schema in new ones, so that readers have to unify the files by name.
            ``"widen"`` converts the rows of a file whose first row group is not begun, which are held for
            that (up to 64 MiB of them, or an eighth of ``memory_limit``, beside what the writer takes), and
            completes other files. With both, batches are fitted by name: columns that they lack are null,
            narrower types are cast. A column of Arrow's null type, or one of rows that is null so far, waits
            for its first type: rows that are held take it, and files that are begun before leave it out.
            A column that has no values in the end is text where it came as rows.

    Raises:
        OptionError: A value is not accepted; the message lists what is.

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
        columns = (self.partition_by,) if isinstance(self.partition_by, str) else tuple(self.partition_by)
        object.__setattr__(self, "partition_by", columns)
        _native.check_dataset_options(self)


@dataclass(frozen=True)
class DatasetFile:
    """One file of a finished dataset.

    Args:
        path: Its absolute path, as a ``pathlib.Path``; in an object store its URL, as a string in which ``%``
            and other characters that are special in a URL are escaped.
        partition: The partition columns and their values as text, not escaped; ``None`` is null.
        result: The result of its writer.
    """

    path: Path | Any
    partition: Mapping[str, str | None]
    result: WriteResult


@dataclass(frozen=True, repr=False)
class DatasetResult:
    """A finished dataset. In a notebook it is a table of its files.

    Args:
        files: The files. Those of the partition that was met first come first, and of one partition those of
            earlier rows.
    """

    files: tuple[DatasetFile, ...]

    def __repr__(self) -> str:
        files = counted(len(self.files), "file")
        return f"DatasetResult(rows={self.rows}, bytes={self.bytes}, files=<{files}>)"

    def _repr_html_(self) -> str:
        return dataset_html(self)

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.result.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.result.bytes for file in self.files)


@shows_options(DatasetOptions, WriterOptions)
class DatasetWriter(WithBlock):
    """Writes record batches to a folder of Parquet files: rolled by size, partitioned by columns.

    Used as a context manager, all files appear when the block ends well, and none when it raises: until then
    they are in a hidden folder inside `directory`, from where they are renamed. A failure while they are
    renamed is undone. A process that is *killed* during these renames leaves some files published and the
    others in the hidden folder: a folder has no one name to switch, which is what table formats are for.

    In an object store each file is a multipart upload, and `close` completes all of them. A failure aborts
    the uploads, and removes the files whose completion was carried out before it. A process that is killed
    leaves uploads that no reader sees, for the store's own rule to remove; killed during the completions, it
    leaves some files published. Names are unique to their writer: writers never replace each other's files.
    With ``mode="error"`` the prefix is listed when the writer is opened and when it is closed; of two
    writers that are closed at the same moment both may succeed. The parts of all files take up to 24 MiB of
    memory beside `memory_limit`; what does not fit waits in temporary files.

    Files and rows follow from the rows alone, not from how they were cut into batches, as long as no more
    than `max_open_files` partitions are met. Threads may share a writer, as they may a `ParquetWriter`.

    Args:
        directory: The folder of the dataset, as a path or a ``file://`` URL, which is made where only it is
            missing; or a prefix of an object store, as a URL (``s3://``, ``gs://``, ``az://``, ``abfss://``).
            Other file systems take single files, by `ParquetWriter`.
        schema: The schema of the rows, partition columns included, from any object with
            ``__arrow_c_schema__``. Without it the first batch gives it.
        storage_options: Settings and credentials of the object store, as those of `ParquetWriter`.
        **options: The fields of `DatasetOptions`, and those of `WriterOptions` for each file.

    Raises:
        OptionError: An option has a value that is not accepted, names a column that cannot partition, or
            `directory` is a Delta table.
        SchemaError: The schema has a type that Parquet cannot hold.
        NotArrowError: ``schema`` is not an Arrow schema.
        FileExistsError: There is something in `directory`, and ``mode="error"``.
        OSError: The directory cannot be written, or the object store refuses or does not answer.

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
        place, settings = _place(directory, storage_options)
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
        """True if the writer takes no more batches."""
        return self._writer.closed

    @property
    def bytes_written(self) -> int:
        """Bytes of all files so far; pages of open row groups are not among them."""
        return self._writer.bytes_written

    @property
    def left_behind(self) -> tuple[str, ...]:
        """The URLs of files that are in the object store, or may be, although `close` failed.

        There are some only where the store did not let them be removed again: delete them before the rows are
        written again. They are percent-escaped, as URLs are: the key of ``a%20b`` is ``a b``.
        """
        return tuple(self._writer.left)

    @property
    def result(self) -> DatasetResult:
        """The files of the dataset, once the writer is closed.

        Raises:
            ClosedError: The writer was aborted, so there are no files.
            ValueError: The writer is still open.
        """
        if self._result is None:
            self._result = _result(self._writer)
        return self._result

    def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write a table, a data frame, a record batch or a stream of them.

        A batch fits as it fits a `ParquetWriter`, or by `on_schema_change`. One that does not is refused as a
        whole, and the writer can go on. Rows out of the order of `sorting_columns` and values that
        `memory_limit` has no room for are found in their file alone: they fail the dataset.

        Args:
            data: Anything with ``__arrow_c_stream__`` (preferred) or ``__arrow_c_array__``.

        Raises:
            SchemaError: A batch does not fit, has a null in a field that is not nullable, or a time that
                cannot name a folder.
            NotArrowError: ``data`` has no Arrow interface.
            ClosedError: The writer is closed, was aborted or failed before.
            OSError: The file system refused; every file is discarded.
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

        A row has the partition columns, too; without them it goes where null goes. With `on_schema_change`,
        a key that the schema lacks becomes a column, and a value that does not fit widens its column where a
        type holds both; a field that is null waits for its first value.

        Args:
            rows: A list, or any iterable, of dicts.
            on_error: ``"raise"`` raises for the first bad row. Of a list or a tuple no row is kept then, so
                they are held, as Arrow columns, until the last is good; other iterables are written as they
                come, and the rows before the bad one are kept. ``"skip"`` leaves bad rows out and keeps the
                good ones; a callable does the same and is called with a `RowError` for each bad row.
            extra: ``"ignore"`` passes over keys that the schema does not have; ``"error"`` makes the row bad.

        Returns:
            The number of rows written.

        Raises:
            RowError: A row is bad and ``on_error`` is ``"raise"``.
            SchemaError: No schema holds the first rows, or Parquet cannot hold it; or there is a time that
                cannot name a folder, for which ``on_error`` does as for one that `timestamp_loss` refuses.
            OptionError: ``on_error`` or ``extra`` is not accepted; or, where the first rows give the schema,
                it lacks a column that an option names.
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
            on_error: As in `write_rows`: bytes as a list, of which no row is kept, a file as other iterables.
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

        Without rows there is one empty file, or none when there are partition columns.

        Raises:
            RowError: The last line of NDJSON had no end and is bad, where its call was to raise; it is
                dropped, the writer stays open.
            SchemaError: There was neither a schema nor a batch.
            ClosedError: The writer was aborted or failed before.
            FileExistsError: Another writer was quicker, and ``mode="error"``.
            OSError: As `write`. Files of `left_behind` may be in the object store all the same. Where there
                is a `result`, all files have appeared, and old ones that ``mode="overwrite"`` was to
                remove from an object store are still there, too.
        """
        self._writer.close()

    def abort(self) -> None:
        """Give every file up: the directory is as it was before. A closed writer stays closed."""
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
        data: Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, rows as dicts, and all else that
            `write_parquet` takes.
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


def _place(directory: object, storage_options: Mapping[str, str] | None) -> tuple[str, dict[str, str] | None]:
    """Resolve a dataset's location: a path, or the URL of an object store with its options."""
    if not isinstance(directory, (str, os.PathLike)):
        message = f"directory must be a path or a URL, not {type(directory).__name__}"
        raise TypeError(message)
    path = os.fsdecode(os.fspath(directory))
    # A path object has lost the second slash of a URL.
    scheme, separator, rest = path.partition("://")
    if separator and scheme.lower() in OBJECT_STORES:
        return path, dict(storage_options or {})
    if separator and scheme.lower() == "file":
        path = local_path(rest)
    elif separator:
        message = (
            f"directory begins with {scheme}://, which is not accepted: choose s3://, gs://, az://, "
            "abfss://, file:// or a path"
        )
        raise OptionError(message, "directory")
    if storage_options is not None:
        message = "storage_options only apply to object store URLs, and directory is a path: remove them"
        raise OptionError(message, "storage_options")
    return path, None


def _result(writer: _native.DatasetWriter) -> DatasetResult:
    found = writer.result
    if found is None:
        if writer.closed:
            raise ClosedError("the writer was aborted or failed, so there is no result")
        raise ValueError("the writer is still open: its result is there after close()")
    return DatasetResult(tuple(_file(entry) for entry in found))


def _file(entry: _native.DatasetFileDict) -> DatasetFile:
    path = os.fsdecode(entry["path"])
    return DatasetFile(
        path=Path(path) if path.startswith("/") else path,
        partition=entry["partition"],
        result=_write_result(entry["file"], path),
    )
