"""Writing Parquet files: `ParquetWriter`, `write_parquet`, their options and their results."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._context import WithBlock
from spillway._destination import resolve
from spillway._file_metadata import file_metadata
from spillway._inputs import write_all
from spillway._options import checks_names, shows_options
from spillway._result_html import result_html
from spillway.errors import ClosedError

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Unpack

    from pyarrow.parquet import FileMetaData

    from spillway.encryption import Encryption
    from spillway.memory import MemoryBudget
    from spillway.types import (
        ArrowArray,
        ArrowFileSystem,
        ArrowSchema,
        ArrowStream,
        BinaryFile,
        ColumnPath,
        Compatibility,
        Compression,
        Data,
        Encoding,
        EncodingReason,
        Extra,
        FsspecFileSystem,
        OnError,
        ReadableFile,
        Sorting,
        SortKey,
        TimestampLoss,
        Timestamps,
        WriterKeywords,
    )

__all__ = ["ColumnResult", "ParquetWriter", "StageSeconds", "WriteResult", "WriterOptions", "write_parquet"]


@checks_names
@dataclass(frozen=True)
class WriterOptions:
    """Options of a Parquet file. Every field is a keyword argument of `ParquetWriter`.

    Args:
        compression: The codec of the pages, by Parquet's own name in lower case. ``"lz4"`` is ``LZ4_RAW``. A
            mapping gives codecs by column, with their levels (``{"a.b": "snappy", "c": "zstd(3)"}``); a key
            is as in ``dictionary``, and columns that are not named get ``"zstd"``.
        compression_level: ``zstd`` takes 1 to 22 (by default 1), ``gzip`` 0 to 9 (6), ``brotli`` 0 to 11 (1);
            the others have no levels. At ``zstd`` 1 the search for repeats is fitted to each column, at
            higher levels it is that of the level.
        row_group_rows: Rows of a row group, exactly, unless ``row_group_bytes`` comes first.
        row_group_bytes: Target size of a row group, encoded and compressed, which ends it early. It is
            checked at intervals, so a group may exceed it about threefold, plus a few thousand rows or one
            value, if later rows are much larger than earlier ones.
        page_bytes: Bytes of a data page before compression. A page is larger only when one value is larger
            than an eighth of it.
        page_rows: Rows of a data page, at most; under ``memory_limit`` it may have fewer. Above 32,768 it is
            no more than ``page_bytes``, because levels and indices take space even where values take none.
        dictionary_page_bytes: Bytes of a dictionary page before compression, at which a column chunk goes on
            without its dictionary; under ``memory_limit`` at most 2 MiB and the column's share. A column that
            comes as a dictionary keeps a larger one.
        content_defined_chunking: End pages where their content says so, so that files with equal rows have
            equal pages, for storage that deduplicates: ``True``, or the least and the most bytes of values
            between two such boundaries (262,144 and 1,048,576), before encoding. Pages also end by
            ``page_bytes`` and ``page_rows``. At ``zstd`` 1 the search for repeats is not fitted to the
            column. Cannot be combined with ``encryption``.
        memory_limit: Bound on what the writer holds in memory: waiting rows, dictionaries, pages, their
            metadata, compressors. An integer of bytes, text such as ``"16MB"`` (10^6) and ``"16MiB"``
            (2^20), or a `MemoryBudget`, of which each open file has a share as its limit. Pages are smaller
            then (a fourth of a column's share, 4 KiB at least), and so are dictionaries. Finished pages that
            do not fit wait in an unnamed temporary file: in ``TMPDIR`` if that is set, else beside the file,
            else in the system's temporary folder. The bytes written depend on the limit, not on what was
            spilled. A value above an eighth of the limit is refused. Outside of the limit are the caller's
            batches, unless they are held, bloom filters of an encrypted file, and the metadata of column
            chunks, some 1.4 KiB each, where it exceeds an eighth of the limit.
        threads: Threads that encode columns, the caller's included. ``None`` is as many as the process may
            use by its affinity and its control groups, one more for each 8 MB of values that a call has to
            encode; the writers of a process share them. A number is used as it is. The file is the same, bit
            for bit, with any number. Fewer threads work if ``memory_limit`` has no room for their
            compressors.
        hold_batches: ``True`` keeps references to the batches of `write` until they make a round of 100,000
            rows or 64 MiB, which is then encoded column by column. Small batches are written faster, as the
            same bytes. Their buffers must not change until `flush` or `close` returns, and text in them that
            is not UTF-8 may be reported by a later call. Held batches count in ``memory_limit``, in the
            memory for finished pages; the files of a dataset hold none under a limit.
        dictionary: ``False`` forbids dictionaries, a mapping forbids them by column. A key is a column's
            dotted path in Parquet (``"tags.list.element"``), or a tuple of its parts where names have dots.
            Other columns get a dictionary if it pays on their first page.
        encoding: ``"auto"`` chooses the encoding that costs least on the first page of each column. A name
            (Parquet's own, in lower case) sets it, for all columns or by column. It must suit their types;
            for dictionaries of text only ``"plain"`` and ``"dictionary"``, which pyarrow can read. Not every
            reader supports every encoding: Spark's vectorized reader refuses ``"byte_stream_split"``.
        bloom_filter: A bloom filter for all columns but booleans (``True``), for those in a list of paths, or
            by a mapping from paths to the share of wrong answers (default 0.01). Readers that look for one
            value skip row groups with it. Its size depends on the number of distinct values; under
            ``memory_limit``, a filter that would be wrong more often is left out.
        page_checksums: Store the CRC-32 of each page in its header, for readers that verify it.
        statistics: Minimum, maximum and null count of column chunks and of pages, and of floats the count of
            NaN; a chunk with NaN has no minimum and maximum, because readers would miss the NaN. ``False``
            leaves them out, and a mapping does so by column; a key is as in ``dictionary``. Readers cannot
            skip anything by a column without them. Size statistics, which count nulls and bytes, are kept.
        store_schema: Store the Arrow schema, from which Arrow readers get types back that Parquet lacks:
            dictionaries, large text, durations, time zones by name. Metadata of fields, but for field ids,
            and metadata of the schema that is not UTF-8 are stored in it alone.
        compatibility: ``"modern"`` uses encodings that Spark, pyarrow, polars, DuckDB and arrow-rs read;
            ``"v1"`` only PLAIN and dictionaries, and no logical types of geometries and variants.
        timestamps: ``"us"`` stores every timestamp in microseconds, rounded down, as Spark and Delta want,
            ``"ms"`` in milliseconds, which a Delta table refuses. ``"keep"`` leaves the unit, except for
            seconds, which Parquet lacks and which become milliseconds.
            ``"int96"`` stores flat columns in the deprecated form that old Hive, Impala and Spark know,
            without minimum and maximum; times inside lists, maps and structs stay.
        timestamp_loss: ``"refuse"`` refuses a batch with a time that ``timestamps`` would round, as a
            `SchemaError` also where rows are written with ``on_error``.
        sorting_columns: Flat columns that rows are ordered by, declared in every row group. Each is a name,
            or ``(name, "descending", "nulls_first")``; ascending and nulls last by default. NaN is ordered
            after all other floats. Times before other keys are compared as they are stored.
        sorting: ``"verify"`` refuses a batch with a row out of order, from one `flush` to the next.
            ``"sort"`` sorts the rows of each row group stably; it keeps an uncompressed copy of a whole row
            group in memory, and cannot be combined with ``memory_limit``.
        durable: Sync the file before it appears, and its directory after. A file that replaces another one is
            synced before in any case.
        metadata: Key-value metadata of the file, over that of the schema.
        field_ids: Parquet field ids by column, over those that the schema has as ``PARQUET:field_id``, by
            which Iceberg finds columns. A key is as in ``dictionary``, and may be a struct, a list or a map,
            too: ``{"a": 1, "a.b": 7}``. A list's elements are ``"a.list.element"``, a map's keys and values
            ``"a.key_value.key"`` and ``"a.key_value.value"``. Ids are from 0 up, and no two columns have the
            same. A Delta table takes none: it numbers its columns itself.
        encryption: Keys to encrypt the file with, as an `Encryption`. A Delta table takes none: its log holds
            statistics as they are.

    Raises:
        OptionError: A value is not accepted; the message lists what is.
        UnknownOptionError: There is no such option; the message has the name of the one that is meant.

    Example:
        >>> import spillway
        >>> spillway.WriterOptions(compression="zstd", compression_level=3).row_group_rows
        1048576
        >>> spillway.WriterOptions(compression="lzo")
        Traceback (most recent call last):
        ...
        spillway.errors.OptionError: compression="lzo" is not accepted: choose one of "zstd", "snappy", ...
    """

    _: KW_ONLY
    compression: Compression | Mapping[ColumnPath, str] = "zstd"
    compression_level: int | None = None
    row_group_rows: int = 1_048_576
    row_group_bytes: int = 128 << 20
    page_bytes: int = 256 << 10
    page_rows: int = 32_768
    dictionary_page_bytes: int = 2 << 20
    content_defined_chunking: bool | Sequence[int] = False
    memory_limit: int | str | MemoryBudget | None = None
    threads: int | None = None
    hold_batches: bool = False
    dictionary: bool | Mapping[ColumnPath, bool] = True
    encoding: Encoding | Mapping[ColumnPath, Encoding] = "auto"
    bloom_filter: bool | Sequence[ColumnPath] | Mapping[ColumnPath, float] = False
    page_checksums: bool = False
    statistics: bool | Mapping[ColumnPath, bool] = True
    store_schema: bool = True
    compatibility: Compatibility = "modern"
    timestamps: Timestamps = "keep"
    timestamp_loss: TimestampLoss = "allow"
    sorting_columns: Sequence[SortKey] = ()
    sorting: Sorting = "verify"
    durable: bool = False
    metadata: Mapping[str, str] | None = None
    field_ids: Mapping[ColumnPath, int] | None = None
    encryption: Encryption | None = None

    def __post_init__(self) -> None:
        _native.check_options(self)


@dataclass(frozen=True)
class ColumnResult:
    """One leaf column of a finished file, over all its row groups.

    Args:
        path: Parquet's dotted path.
        physical_type: Parquet's physical type, such as ``"INT64"``.
        encodings: The encodings of its data pages, the most used first.
        reason: The reason for them, that of the last row group that had one: ``"lightest"`` if its first page
            cost least so, ``"repeats"`` if values repeat so much that a dictionary was not weighed,
            ``"outweighed"`` if the dictionary cost more than it saved and was given up, ``"full"`` if it had
            all the bytes that it may have, ``"given"`` if rows came with it, ``"named"`` if the option
            ``encoding`` says so, ``"only"`` if no other was allowed or there was no value to try,
            ``"copied"`` if `rewrite` copied the pages from another file.
        compression: The codec of its pages.
        values: Values, nulls included.
        nulls: Nulls.
        compressed_bytes: Bytes in the file, page headers included.
        uncompressed_bytes: The same before compression.
    """

    path: str
    physical_type: str
    encodings: tuple[str, ...]
    reason: EncodingReason
    compression: str
    values: int
    nulls: int
    compressed_bytes: int
    uncompressed_bytes: int


@dataclass(frozen=True)
class StageSeconds:
    """The seconds that a file took, by stage. Those of several threads are added up.

    Args:
        encode: Encoding values.
        compress: Compressing pages, also where that is only tried.
        write: Writing to the destination, uploads included, and to the temporary file of pages.
        wait: From the opening of the file on, the time between calls: rows were not there yet, or were those
            of other files of a dataset.
    """

    encode: float
    compress: float
    write: float
    wait: float


#: Columns that the text of a result names.
_NAMED_COLUMNS = 5


@dataclass(frozen=True, repr=False)
class WriteResult:
    """A finished file. In a notebook it is a table of its columns, the largest first.

    Args:
        rows: Rows in the file.
        bytes: Bytes of the file.
        row_groups: Row groups in the file.
        columns: One entry for each leaf column, in file order.
        peak_tracked_bytes: The most memory the writer held at once, by its own account: encoders,
            compressors, finished pages, metadata and rows that wait for a full unit. The caller's batches
            are not in it. Without `memory_limit`, a compressor counts with the buffers that it kept from
            larger pages of an earlier writer.
        spilled_bytes: Bytes of finished pages that waited in a temporary file for the end of their row group.
        seconds: The time that it took, by stage. It is not compared.
        path: The path or URL that the file was written to, as it was given; None for a file object. Results
            of equal files are equal wherever those are.
        footer: The footer as it is in the file: its ``FileMetaData`` in Thrift, the length of that and the
            magic. Empty for an encrypted file.
    """

    rows: int
    bytes: int
    row_groups: int
    columns: tuple[ColumnResult, ...]
    peak_tracked_bytes: int
    spilled_bytes: int
    seconds: StageSeconds = field(compare=False)
    path: str | None = field(default=None, compare=False)
    footer: builtins.bytes = b""

    @cached_property
    def metadata(self) -> FileMetaData:
        """The footer as pyarrow has it, which `pyarrow.parquet.write_metadata` collects.

        Raises:
            MissingExtraError: pyarrow is not installed.
            ValueError: The file is encrypted.
        """
        return file_metadata(self.footer)

    def __repr__(self) -> str:
        named = [column.path for column in self.columns[:_NAMED_COLUMNS]]
        more = len(self.columns) - len(named)
        columns = ", ".join(named) + (f" and {more:,} more" if more else "")
        path = "" if self.path is None else f", path={self.path!r}"
        counts = f"rows={self.rows}, bytes={self.bytes}, row_groups={self.row_groups}"
        return f"WriteResult({counts}, columns=<{columns}>{path})"

    def _repr_html_(self) -> str:
        return result_html(self)


@shows_options(WriterOptions)
class ParquetWriter(WithBlock):
    """Writes record batches to one Parquet file, in bounded memory.

    Used as a context manager, the file appears when the block ends well. When the block raises, what was at
    the path before is still there. A regular file is written to a hidden sibling (whose name does not end in
    ``.parquet``) and renamed; symbolic links are followed. An object of S3, Google Cloud Storage or Azure is
    uploaded in parts while it is written, at most three of them in memory (8 MiB each, and more only from
    39 GiB on), and appears when the upload is completed; a failure aborts the upload. On a `filesystem`
    of pyarrow or fsspec a hidden sibling is moved, or the file is held back where that can be done. Pipes,
    devices and file objects get bytes as they come: what was written stays written, and a file object is
    not closed.

    The same rows, schema and options give the same bytes, however the rows were cut into batches. Threads may
    share a writer: each batch is written as a whole, in the order in which they come.

    Args:
        destination: A path, a URL (``s3://``, ``gs://``, ``az://``, ``abfss://``, ``file://``), or an object
            with ``write(bytes)``.
        schema: The schema of the file, from any object with ``__arrow_c_schema__``. Without it the first
            batch gives it.
        filesystem: A ``pyarrow.fs.FileSystem`` or an ``fsspec.AbstractFileSystem``; `destination` is a path
            on it then.
        storage_options: Settings of an object store for a URL, by the names that delta-rs and object_store
            give them, in upper or lower case: ``AWS_REGION``, ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``,
            ``timeout`` (of a request, 70 seconds), ``max_retries`` (5), ``retry_timeout`` (60 seconds) and
            so on. What they leave out comes from the environment.
        **options: The fields of `WriterOptions`.

    Raises:
        OptionError: An option has a value that is not accepted, or contradicts the destination; or all files
            of a `MemoryBudget` are open.
        SchemaError: The schema has a type that Parquet cannot hold.
        NotArrowError: ``schema`` is not an Arrow schema.
        OSError: The destination cannot be written. An object store is first asked when a part is full or the
            file complete: a bucket that is missing is `FileNotFoundError` then, credentials that it does not
            accept `PermissionError`.

    Example:
        >>> import pyarrow as pa, spillway
        >>> batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]})]
        >>> with spillway.ParquetWriter("ids.parquet", batches[0].schema) as writer:
        ...     for batch in batches:
        ...         writer.write(batch)
        >>> writer.result.rows, writer.result.row_groups
        (3, 1)
    """

    def __init__(
        self,
        destination: str | os.PathLike[str] | BinaryFile,
        schema: ArrowSchema | None = None,
        *,
        filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
        storage_options: Mapping[str, str] | None = None,
        **options: Unpack[WriterKeywords],
    ) -> None:
        self._options = WriterOptions(**options)
        place, storage = resolve(destination, filesystem, storage_options)
        self._writer = _native.Writer(place, schema, self._options, storage)
        self._path = os.fspath(destination) if isinstance(destination, (str, os.PathLike)) else None
        self._result: WriteResult | None = None

    @property
    def options(self) -> WriterOptions:
        """The options in force."""
        return self._options

    @property
    def closed(self) -> bool:
        """True if the writer takes no more batches."""
        return self._writer.closed

    @property
    def bytes_written(self) -> int:
        """Bytes handed to the destination so far; pages of the open row group are not among them."""
        return self._writer.bytes_written

    @property
    def result(self) -> WriteResult:
        """The size and row groups of the file, once the writer is closed.

        Raises:
            ClosedError: The writer was aborted, so there is no file.
            ValueError: The writer is still open.
        """
        if self._result is None:
            self._result = _result(self._writer, self._path)
        return self._result

    def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write a table, a data frame, a record batch or a stream of them.

        A batch fits when names, order and logical types agree with the writer's schema: string, large string,
        string view and dictionary forms of one type are equal, and metadata is ignored. A batch that does not
        fit is refused and the writer can go on; batches of the same stream before it are written. When the
        call returns, no buffer of the data is referenced any more, unless ``hold_batches`` is set.

        Args:
            data: Anything with ``__arrow_c_stream__`` (preferred) or ``__arrow_c_array__``.

        Raises:
            SchemaError: A batch does not fit, or has a null in a field that is not nullable.
            SpillwayError: The producer failed, or a batch breaks the rules of the Arrow format. The file is
                discarded if that was found in text of which rows were already taken.
            NotArrowError: ``data`` has no Arrow interface.
            ClosedError: The writer is closed, was aborted or failed before.
            OSError: The destination refused; the file is discarded.
        """
        self._writer.write(data)

    def _write_last(self, data: ArrowStream | ArrowArray) -> None:
        """Write data and close: the columns of the last row group go into the file one by one."""
        self._writer.write(data, last=True)

    def write_rows(
        self,
        rows: Iterable[dict[str, Any]],
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
    ) -> int:
        """Write dicts, one for each row.

        A missing key is null. Integers, floats, decimals and text must fit the column without loss: floats
        take integers that are exact, and the nearest float of other numbers. No key of a map comes twice.
        Timestamps are datetimes (with ``tzinfo`` where the column has a zone, and only there), RFC 3339 text
        or integers in the column's unit; what is finer than the unit is rounded down. Structs are dicts, maps
        are dicts or pairs, lists are lists, tuples or arrays. pandas' ``NaT`` and ``NA`` are null.

        Without a schema, one is inferred from up to 1,000 rows of the first call: integers and floats become
        ``float64``, all else must agree, and a field that was always null becomes text. A schema with a name
        twice takes no rows, which give their values by name.

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
            SchemaError: No schema holds the first rows, or Parquet cannot hold it.
            OptionError: ``on_error`` or ``extra`` is not accepted.
            ClosedError: The writer is closed, was aborted or failed before.
            OSError: The destination refused; the file is discarded.

        Example:
            >>> import spillway
            >>> with spillway.ParquetWriter("events.parquet") as writer:
            ...     writer.write_rows([{"id": 1, "tags": ["new"]}, {"id": 2}])
            ...     writer.write_rows([{"id": 3}, {"id": "four"}], on_error="skip")
            2
            1
        """
        return self._writer.write_rows(rows, on_error, extra)

    def write_ndjson(
        self,
        source: bytes | bytearray | memoryview | ReadableFile,
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
    ) -> int:
        r"""Write JSON objects, one on each line, parsed without the GIL.

        A chunk may end inside a line: the rest comes with the next chunk, or `close` takes the line as it is,
        and does with a bad one what `on_error` of its call says. A file object is read to its end, which ends
        its last line. JSON is strict: no NaN, no comments, no key of the schema twice. Values convert as in
        `write_rows`; without a schema, text is text even where it looks like a date.

        Args:
            source: UTF-8 bytes, or a file object opened for reading bytes.
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
            >>> with spillway.ParquetWriter("lines.parquet") as writer:
            ...     written = writer.write_ndjson(b'{"id": 1}\n{"id":')
            ...     written += writer.write_ndjson(b' 2}\n')
            >>> written, writer.result.rows
            (2, 2)
        """
        return self._writer.write_ndjson(source, on_error, extra)

    def add_metadata(self, metadata: Mapping[str, str]) -> None:
        """Add key-value metadata to the file, at any time before it is closed.

        Args:
            metadata: Keys and values; they go over those of the option ``metadata`` and of earlier calls.

        Raises:
            OptionError: A key is one that the writer sets itself.
            ClosedError: As `write`.

        Example:
            >>> import pyarrow as pa, spillway
            >>> with spillway.ParquetWriter("counted.parquet", pa.schema({"id": pa.int64()})) as writer:
            ...     writer.write(pa.table({"id": [1, 2]}))
            ...     writer.add_metadata({"source.rows": "2"})
        """
        self._writer.add_metadata(metadata)

    def flush(self) -> None:
        """Close the row group, however few rows it has.

        Raises:
            ClosedError: As `write`.
            OSError: As `write`.
        """
        self._writer.flush()

    def close(self) -> None:
        """Write what is left and the footer, and make the file appear. Closing again does nothing.

        Raises:
            RowError: The last line of NDJSON had no end and is bad, where its call was to raise; it is
                dropped, the writer stays open.
            SchemaError: There was neither a schema nor a batch.
            ClosedError: The writer was aborted or failed before.
            OSError: As `write`.
        """
        self._writer.close()

    def abort(self) -> None:
        """Give the file up: what was at the path before stays. A closed writer stays closed."""
        self._aborted = True
        self._writer.abort()

    def _complete(self) -> None:
        self.close()


@shows_options(WriterOptions)
def write_parquet(
    data: Data,
    destination: str | os.PathLike[str] | BinaryFile,
    *,
    schema: ArrowSchema | None = None,
    filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[WriterKeywords],
) -> WriteResult:
    """Write all of `data` to one Parquet file; see `ParquetWriter`.

    Args:
        data: Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``. Or a lazy frame of polars, a
            dataset or scanner of pyarrow, or an iterable of batches, which are written as they come. Or an
            iterable of dicts, one for each row, as `ParquetWriter.write_rows` takes them. Or a dict of
            columns, each an Arrow array or a sequence of values, which pyarrow makes arrays of.
        destination: A path, a URL, or an object with ``write(bytes)``.
        schema: The schema of the file; without it, that of `data`.
        filesystem: As `ParquetWriter`.
        storage_options: As `ParquetWriter`.
        **options: The fields of `WriterOptions`.

    Returns:
        What was written.

    Raises:
        SpillwayError: As `ParquetWriter` and its methods.
        MissingExtraError: ``data`` is a dict of columns, and pyarrow is not installed.
        OSError: The destination cannot be written.

    Example:
        >>> import pyarrow as pa, spillway
        >>> result = spillway.write_parquet(pa.table({"word": ["a", "b", None]}), "words.parquet")
        >>> result.columns[0].path, result.columns[0].nulls
        ('word', 1)
        >>> spillway.write_parquet([{"word": "a"}, {"word": "b"}], "words.parquet").rows
        2
    """
    with ParquetWriter(
        destination, schema, filesystem=filesystem, storage_options=storage_options, **options
    ) as writer:
        write_all(data, writer, schema, writer._write_last)  # noqa: SLF001 - the same module
    return writer.result


def _result(writer: _native.Writer, path: str | None) -> WriteResult:
    found = writer.result
    if found is None:
        if writer.closed:
            raise ClosedError("the writer was aborted or failed, so there is no result")
        raise ValueError("the writer is still open: its result is there after close()")
    return _write_result(found, path)


def _write_result(found: dict[str, Any], path: str | None) -> WriteResult:
    """Give the native module's account of a file its types."""
    columns = tuple(
        ColumnResult(**{**column, "encodings": tuple(column["encodings"])}) for column in found["columns"]
    )
    seconds = StageSeconds(**found["seconds"])
    return WriteResult(**{**found, "columns": columns, "seconds": seconds, "path": path})
