"""Write Parquet files: `ParquetWriter`, `write_parquet`, their options and their results."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._context import WithBlock
from spillway._destination import resolve
from spillway._inputs import write_all
from spillway._options import METHODS, checks_names, shows_options
from spillway._results import file_metadata, result_html
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
        Verify,
        WriterKeywords,
    )

__all__ = ["ColumnResult", "ParquetWriter", "StageSeconds", "WriteResult", "WriterOptions", "write_parquet"]


@checks_names
@dataclass(frozen=True)
class WriterOptions:
    """Options of a Parquet file. Every field is a keyword argument of `ParquetWriter`.

    Args:
        compression: The codec of the pages, by Parquet's own name in lower case. ``"lz4"`` is ``LZ4_RAW``. A
            mapping sets the codec of each column, optionally with a level (``{"a.b": "snappy", "c":
            "zstd(3)"}``); keys are as in ``dictionary``, and other columns get ``"zstd"``.
        compression_level: ``zstd`` takes 1 to 22 (by default 1), ``gzip`` 0 to 9 (6), ``brotli`` 0 to 11 (1);
            other codecs have no levels. At ``zstd`` 1, the search for repeats is tuned to each column; higher
            levels use zstd's own settings.
        row_group_rows: Rows of a row group, exactly, unless ``row_group_bytes`` ends it first.
        row_group_bytes: Target size of a row group, encoded and compressed, which ends it early. It is
            checked at intervals, so a group may exceed it about threefold, plus a few thousand rows or one
            value, if later rows are much larger than earlier ones.
        page_bytes: Bytes of a data page before compression. A page is larger only when one value is larger
            than an eighth of it.
        page_rows: Maximum rows of a data page; with ``memory_limit``, pages may have fewer. Above 32,768,
            ``page_bytes`` also limits levels and indices, which take space even if values take none.
        dictionary_page_bytes: Size of the dictionary page, before compression, at which a column chunk stops
            using its dictionary; with ``memory_limit``, at most 2 MiB and the column's share. A column that
            arrives as an Arrow dictionary keeps a larger one.
        content_defined_chunking: (Preview.) End pages where their content says so, so that files with equal
            rows have equal pages, for storage that deduplicates: ``True``, or the minimum and maximum bytes
            of values between two such boundaries (262,144 and 1,048,576), before encoding. Pages also end at
            ``page_bytes`` and ``page_rows``. At ``zstd`` 1, the search for repeats is not tuned to the
            column. Cannot be combined with ``encryption``.
        memory_limit: Bound on what the writer holds in memory: waiting rows, dictionaries, pages, their
            metadata, compressors. A number of bytes, a string such as ``"16MB"`` (10^6) or ``"16MiB"``
            (2^20), or a `MemoryBudget`, which gives each open file a share as its limit. A limit makes pages
            smaller (a fourth of a column's share, but at least 4 KiB), and dictionaries as well. Finished
            pages that do not fit wait in an unnamed temporary file: in ``TMPDIR`` if that is set, else beside
            the file, else in the system's temporary folder. The bytes written depend on the limit, but not on
            which pages spill. A value larger than an eighth of the limit is refused. The limit does not cover
            the caller's batches (unless they are held), bloom filters of an encrypted file, and metadata of
            column chunks, about 1.4 KiB each, beyond an eighth of the limit.
        threads: Number of threads that encode columns, including the caller's. ``None`` allows as many as the
            process's affinity and control groups permit, and uses one more for each 8 MB of values that a
            call has to encode; the writers of a process share them. A number is used as given. The file is
            the same, bit for bit, with any number. Fewer threads work if their compressors do not fit in
            ``memory_limit``.
        hold_batches: (Preview.) ``True`` keeps references to the batches of `write` until they make a round
            of 100,000 rows or 64 MiB, which is then encoded column by column. This writes small batches
            faster, and the file has the same bytes. The buffers must not change until `flush` or `close`
            returns, and a later call may be the one that reports invalid UTF-8. Held batches count towards
            ``memory_limit``, in the share for finished pages; with a limit, the files of a dataset hold no
            batches.
        dictionary: ``False`` forbids dictionaries; a mapping forbids them for single columns. A key is a
            column's dotted path in Parquet (``"tags.list.element"``), or a tuple of its parts if names
            contain dots. Other columns get a dictionary if it pays off on their first page.
        encoding: ``"auto"`` chooses the encoding that costs least on the first page of each column. A name
            (Parquet's own, in lower case) sets the encoding of all columns; a mapping sets it by column. The
            encoding must suit the column's type; dictionary columns of text accept only ``"plain"`` and
            ``"dictionary"``, because pyarrow cannot read the others back as dictionaries. Not every reader
            supports every encoding: Spark's vectorized reader refuses ``"byte_stream_split"``.
        bloom_filter: ``True`` writes bloom filters for all columns except booleans, a list of paths for these
            columns; a mapping sets the false positive rate of each (default 0.01). Readers that search for
            one value use them to skip row groups. The size of a filter depends on the number of distinct
            values; with ``memory_limit``, a filter that would exceed its false positive rate is left out.
        page_checksums: Store the CRC-32 of each page in its header, for readers that verify it.
        statistics: Minimum, maximum and null count of column chunks and pages, and for floats the NaN count;
            a chunk with NaN has no minimum and maximum, because readers would miss the NaN. ``False`` leaves
            statistics out, and a mapping does so for single columns; keys are as in ``dictionary``. Without
            statistics on a column, readers cannot use it to skip data. Size statistics, which count nulls and
            bytes, are always written.
        store_schema: Store the Arrow schema, from which Arrow readers restore types that Parquet lacks:
            dictionaries, large strings, durations, named time zones. Only this schema holds field metadata
            other than field ids, and schema metadata that is not UTF-8.
        compatibility: ``"modern"`` uses encodings that Spark, pyarrow, polars, DuckDB and arrow-rs read;
            ``"v1"`` uses only PLAIN and dictionaries, and no logical types of geometries and variants.
        timestamps: ``"us"`` stores every timestamp in microseconds, rounded down, as Spark and Delta require;
            ``"ms"`` stores milliseconds, which Delta tables refuse. ``"keep"`` keeps the unit, except that
            seconds, which Parquet lacks, become milliseconds. ``"int96"`` stores flat columns in the
            deprecated format for old versions of Hive, Impala and Spark, without minimum and maximum;
            timestamps inside lists, maps and structs stay unchanged.
        timestamp_loss: ``"refuse"`` raises `SchemaError` for a batch with a time that ``timestamps`` would
            round, whatever ``on_error`` is.
        sorting_columns: Flat columns by which rows are sorted, declared in every row group. Each is a name,
            or ``(name, "descending", "nulls_first")``; the default is ascending with nulls last. NaN sorts
            after all other floats. Timestamps that are followed by other keys are compared in the stored
            unit.
        sorting: ``"verify"`` refuses a batch with a row out of order, from one `flush` to the next.
            ``"sort"`` sorts the rows of each row group stably; it keeps an uncompressed copy of a whole row
            group in memory, and cannot be combined with ``memory_limit``.
        durable: Sync the file before it appears, and its directory afterwards. A file that replaces another
            one is always synced first. A file object is its owner's to sync; objects of stores are durable.
        verify: (Preview.) Read the file back before it appears, and compare it with what was written:
            ``"footer"`` the footer, the page indexes and the places of bloom filters; ``"pages"`` also each
            page with its checksum, compressed and decompressed, and all other bytes; ``"values"`` also each
            value, as another reader decodes it. A difference raises `CorruptFileError` with the column and
            the row group, and nothing appears. It implies ``page_checksums``. Uploads, file objects, pipes
            and encrypted files cannot be read back; files of a Delta table can, at a URL too. It detects
            what is lost on the way to the operating system, but not what a disk loses later: most bytes are
            read from the system's cache.
        metadata: Key-value metadata of the file; it overrides that of the schema.
        field_ids: (Preview.) Parquet field ids by column, by which Iceberg finds columns; they override
            ``PARQUET:field_id`` in the schema. Keys are as in ``dictionary``, and may also name structs,
            lists and maps: ``{"a": 1, "a.b": 7}``. A list's elements are ``"a.list.element"``, a map's keys
            and values ``"a.key_value.key"`` and ``"a.key_value.value"``. Ids are at least 0 and unique. Delta
            tables refuse this option, because they number their columns themselves.
        encryption: (Preview.) An `Encryption` with the keys to encrypt the file. Delta tables refuse it,
            because their log contains unencrypted statistics.

    Raises:
        OptionError: A value is not accepted; the message lists the accepted ones.
        UnknownOptionError: There is no such option; the message suggests the right name.

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
    verify: Verify | None = None
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
        encodings: The encodings of its data pages, the most frequent first.
        reason: Why it has these encodings, for the last row group with a reason: ``"lightest"`` if they were
            the cheapest for its first page, ``"repeats"`` if values repeat so often that a dictionary was
            chosen without a comparison, ``"outweighed"`` if the dictionary cost more than it saved and was
            dropped, ``"full"`` if the dictionary reached its maximum size, ``"given"`` if rows arrived with a
            dictionary, ``"named"`` if the option ``encoding`` set the encoding, ``"only"`` if no other was
            allowed or there was no value to try, ``"copied"`` if `rewrite` copied the pages from another
            file.
        compression: The codec of its pages.
        values: Number of values, including nulls.
        nulls: Number of nulls.
        compressed_bytes: Bytes in the file, including page headers.
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
    """The seconds spent on a file in each stage, summed over threads.

    Args:
        encode: Encoding values.
        compress: Compressing pages, including trial compression.
        write: Writing to the destination, including uploads, and to the temporary file of spilled pages; and
            reading the file back for ``verify``.
        wait: Time between calls since the file was opened: rows had not arrived yet, or went to other files
            of a dataset.
    """

    encode: float
    compress: float
    write: float
    wait: float


#: Columns that the text of a result names.
_NAMED_COLUMNS = 5


@dataclass(frozen=True, repr=False)
class WriteResult:
    """The result of a finished file. A notebook shows it as a table of columns, the largest first.

    Args:
        rows: Rows in the file.
        bytes: Bytes of the file.
        row_groups: Row groups in the file.
        columns: One entry for each leaf column, in file order.
        peak_tracked_bytes: Peak of the memory that the writer held by its own count: encoders, compressors,
            finished pages, metadata, and rows that wait for a full unit. It does not include the caller's
            batches. Without `memory_limit`, a compressor's count includes buffers that it kept from larger
            pages of an earlier writer.
        spilled_bytes: Bytes of finished pages that waited in a temporary file for the end of their row group.
        seconds: The time spent in each stage. Equality ignores it.
        path: The path or URL of the file, as it was passed; None for a file object. Equality ignores it, so
            results of equal files are equal.
        footer: The footer's bytes in the file: ``FileMetaData`` in Thrift, its length and the magic number.
            Empty for an encrypted file.
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
        """The footer as a pyarrow object, which `pyarrow.parquet.write_metadata` can collect.

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

    As a context manager, it makes the file appear when the block ends without an exception. If the block
    raises, an old file at the path stays. A regular file is written to a hidden sibling (whose name does not
    end in ``.parquet``) and renamed; symbolic links are followed. An object in S3, Google Cloud Storage or
    Azure is uploaded in parts while it is written, with at most three parts in memory (8 MiB each; larger
    only for files above 39 GiB), and appears when the upload is completed; a failure aborts the upload. On a
    `filesystem` of pyarrow or fsspec, a hidden sibling is moved into place, or the file system defers the
    file until a commit if it supports that. Pipes, devices and file objects receive bytes as they are
    written: these stay written after a failure, and a file object is not closed.

    The same rows, schema and options give the same bytes, however the rows are divided into batches. Threads
    can share a writer: it writes each batch as a whole, in order of arrival.

    Args:
        destination: A path, a URL (``s3://``, ``gs://``, ``az://``, ``abfss://``, ``file://``), or an object
            with ``write(bytes)``.
        schema: The schema of the file, from any object with ``__arrow_c_schema__``; by default, that of the
            first batch.
        filesystem: A ``pyarrow.fs.FileSystem`` or an ``fsspec.AbstractFileSystem``; `destination` is then a
            path on it.
        storage_options: Settings of an object store for a URL, with the names that delta-rs and object_store
            use, in upper or lower case: ``AWS_REGION``, ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``,
            ``timeout`` (of a request, 70 seconds), ``max_retries`` (5), ``retry_timeout`` (180 seconds) and
            so on. Other settings come from the environment.
        **options: The fields of `WriterOptions`.

    Raises:
        OptionError: An option has a value that is not accepted, or does not apply to the destination; or all
            shares of a `MemoryBudget` are in use.
        SchemaError: The schema has a type that Parquet cannot hold.
        NotArrowError: ``schema`` is not an Arrow schema.
        OSError: The destination cannot be written. The first request goes to an object store when a part is
            full or the file is complete: a missing bucket then raises `FileNotFoundError`, and refused
            credentials raise `PermissionError`.

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

    if not TYPE_CHECKING:  # else every name would pass for an attribute

        def __getattr__(self, name: str) -> None:
            """Python asks for names that are not there: those of pyarrow's methods have others here."""
            here = METHODS.get(name)
            instead = f": call {here}, which does the same" if here else ""
            raise AttributeError(f"ParquetWriter has no {name!r}{instead}", name=name, obj=self)

    @property
    def options(self) -> WriterOptions:
        """The options in force."""
        return self._options

    @property
    def closed(self) -> bool:
        """True if the writer accepts no more batches."""
        return self._writer.closed

    @property
    def bytes_written(self) -> int:
        """Bytes handed to the destination so far, not counting pages of the open row group."""
        return self._writer.bytes_written

    @property
    def result(self) -> WriteResult:
        """The size and row groups of the file, available once the writer is closed.

        Raises:
            ClosedError: The writer was aborted, so there is no file.
            ValueError: The writer is still open.
        """
        if self._result is None:
            self._result = _result(self._writer, self._path)
        return self._result

    def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write a table, a data frame, a record batch or a stream of them.

        A batch fits if its names, their order and its logical types match the writer's schema: string, large
        string, string view and dictionary forms of one type are equal, and metadata is ignored. A batch that
        does not fit is refused, and the writer can continue; earlier batches of the same stream are written.
        After the call returns, the writer holds no reference to the data, unless ``hold_batches`` is set.

        Args:
            data: Anything with ``__arrow_c_stream__`` (preferred) or ``__arrow_c_array__``.

        Raises:
            SchemaError: A batch does not fit, or has a null in a field that is not nullable.
            SpillwayError: The producer failed, or a batch violates the Arrow format. If this is found in text
                some of whose rows were already taken, the file is discarded.
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

        A missing key is null. Integers, floats, decimals and text must fit the column without loss: float
        columns accept integers that they represent exactly, and other numbers as the nearest float. Maps have
        no duplicate keys. Timestamps are datetimes (with ``tzinfo`` if and only if the column has a zone),
        RFC 3339 text or integers in the column's unit; finer fractions are rounded down. Structs are dicts,
        maps are dicts or pairs, lists are lists, tuples or arrays. pandas' ``NaT`` and ``NA`` are null.

        Without a schema, one is inferred from up to 1,000 rows of the first call: integers and floats
        together become ``float64``, other types must agree, and a field that is always null becomes text. A
        schema with duplicate names accepts no rows, because rows give values by name.

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
            SchemaError: No schema fits the first rows, or Parquet cannot hold it.
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

        A chunk may end inside a line: the next chunk continues the line, or `close` ends it and handles a bad
        line according to `on_error` of its call. A file object is read to its end, which also ends its last
        line. JSON is parsed strictly: no NaN, no comments, no duplicate keys of the schema. Values convert as
        in `write_rows`; without a schema, text stays text even if it looks like a date.

        Args:
            source: UTF-8 bytes, or a file object opened for reading bytes.
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
            metadata: Keys and values; they override those of the option ``metadata`` and of earlier calls.

        Raises:
            OptionError: The writer sets one of the keys itself.
            ClosedError: As `write`.

        Example:
            >>> import pyarrow as pa, spillway
            >>> with spillway.ParquetWriter("counted.parquet", pa.schema({"id": pa.int64()})) as writer:
            ...     writer.write(pa.table({"id": [1, 2]}))
            ...     writer.add_metadata({"source.rows": "2"})
        """
        self._writer.add_metadata(metadata)

    def flush(self) -> None:
        """End the row group, however few rows it has.

        Raises:
            ClosedError: As `write`.
            OSError: As `write`.
        """
        self._writer.flush()

    def close(self) -> None:
        """Write the remaining rows and the footer, and make the file appear. Closing again does nothing.

        Raises:
            RowError: The last line of NDJSON had no line break and is bad, and its call had
                ``on_error="raise"``. The line is dropped, and the writer stays open.
            SchemaError: There was neither a schema nor a batch.
            ClosedError: The writer was aborted or failed before.
            OSError: As `write`.
        """
        self._writer.close()

    def abort(self) -> None:
        """Discard the file: an old file at the path stays. A closed writer stays closed."""
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
        data: Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``. Or a polars LazyFrame, a pyarrow
            dataset or scanner, or an iterable of batches; batches are written as they arrive. Or an iterable
            of dicts, one for each row, as in `ParquetWriter.write_rows`. Or a dict of columns, each an Arrow
            array or a sequence of values, which pyarrow converts to arrays.
        destination: A path, a URL, or an object with ``write(bytes)``.
        schema: The schema of the file; without it, that of `data`.
        filesystem: As `ParquetWriter`.
        storage_options: As `ParquetWriter`.
        **options: The fields of `WriterOptions`.

    Returns:
        The result, with the size and columns of the file.

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
        raise ValueError("the writer is still open: its result is available after close()")
    return _write_result(found, path)


def _write_result(found: dict[str, Any], path: str | None) -> WriteResult:
    """Give the native module's account of a file its types."""
    columns = tuple(
        ColumnResult(**{**column, "encodings": tuple(column["encodings"])}) for column in found["columns"]
    )
    seconds = StageSeconds(**found["seconds"])
    return WriteResult(**{**found, "columns": columns, "seconds": seconds, "path": path})
