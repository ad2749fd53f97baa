"""Reports on Parquet files, and comparisons: row groups, chunks, encodings, sizes, statistics, indexes.

Only the footer and the page indexes are read, so a report is quick even for a large file; on request, the
header of each page is read as well. Sizes are in bytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spillway import _native

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

__all__ = [
    "ColumnChunkReport",
    "ColumnComparison",
    "ColumnTotals",
    "FileComparison",
    "FileReport",
    "PageEncoding",
    "PageReport",
    "RowGroupReport",
    "SortingColumn",
    "compare_reports",
    "inspect_file",
]


_Difference: TypeAlias = Literal["schema", "encodings", "sizes"]
"""The kinds of differences between a column in two files."""


@dataclass(frozen=True)
class PageEncoding:
    """The number of pages of one type with one encoding.

    Attributes:
        page_type: Type of the pages, as the Parquet format names it: ``DATA_PAGE``, ``DICTIONARY_PAGE`` …
        encoding: Encoding of their values: ``PLAIN``, ``RLE_DICTIONARY`` …
        pages: The number of such pages.
    """

    page_type: str
    encoding: str
    pages: int


@dataclass(frozen=True)
class PageReport:
    """One page.

    Attributes:
        page_type: Its type, as the Parquet format names it: ``DATA_PAGE``, ``DICTIONARY_PAGE`` …
        encoding: Encoding of its values; None for a page without values.
        offset: Position of its header in the file.
        compressed_bytes: Stored size of the page and its header.
        uncompressed_bytes: Size of the page and its header before compression.
        checksum: True if the header contains a checksum of the page.
        values: Number of values, including nulls; for a nested column, the number of entries of its levels.
        first_row: The first row that begins in it, counted from the start of the row group; None for a
            dictionary page, and if neither the offset index nor the headers record it.
        rows: Rows that begin in it; None as for ``first_row``.
        nulls: Number of nulls; None if neither the column index nor the header records it.
        min: Smallest value or a lower bound, as text, truncated if long; None if the column index has none.
        max: Largest value or an upper bound, as text, truncated if long; None if the column index has none.
    """

    page_type: str
    encoding: str | None
    offset: int
    compressed_bytes: int
    uncompressed_bytes: int
    checksum: bool
    values: int
    first_row: int | None
    rows: int | None
    nulls: int | None
    min: str | None
    max: str | None


@dataclass(frozen=True)
class SortingColumn:
    """A column by which the rows of a row group are declared to be sorted.

    Attributes:
        path: Dotted path of the column.
        descending: True if the largest value comes first.
        nulls_first: True if nulls come before all values.
    """

    path: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class ColumnChunkReport:
    """One column of one row group.

    Attributes:
        path: Dotted path of the column.
        field_id: Field id of its node in the schema; None without one.
        max_definition_level: Number of optional and repeated nodes on its path: 0 for a flat required column.
        max_repetition_level: Number of repeated nodes on its path: 0 outside of lists and maps.
        physical_type: Type of the stored values: ``INT64``, ``BYTE_ARRAY`` …
        logical_type: The meaning of the values: ``string``, ``timestamp(us, utc)`` …; None if the schema adds
            nothing.
        codec: Compression codec, as the format names it: ``ZSTD``, ``SNAPPY``, ``UNCOMPRESSED`` …
        encodings: All encodings in the chunk, including those of levels.
        encoding_stats: Number of pages by type and encoding; None if the writer did not record it.
        values: Values, nulls included; for a nested column, one for each entry of its levels.
        nulls: Number of nulls; None if the statistics do not record it.
        distinct: Number of distinct values; None if the statistics do not record it, as with most writers.
        min: Smallest value as text, truncated if long; None without a bound.
        max: Largest value as text, truncated if long; None without a bound.
        min_exact: True if `min` occurs in the chunk, rather than being a lower bound.
        max_exact: True if `max` occurs in the chunk, rather than being an upper bound.
        compressed_bytes: Stored size of the pages and their headers.
        uncompressed_bytes: Size of the pages and their headers before compression.
        dictionary_page: True if there is a dictionary page.
        data_pages: Number of data pages; None if neither the offset index nor the encoding statistics record
            it.
        column_index: True if there is a column index.
        offset_index: True if there is an offset index.
        bloom_filter: True if there is a bloom filter.
        bloom_filter_bytes: Size of the bloom filter; None without one, or if the writer did not record the
            size.
        pages: Its pages, including the dictionary page; None if they were not requested, or are encrypted.
    """

    path: str
    field_id: int | None
    max_definition_level: int
    max_repetition_level: int
    physical_type: str
    logical_type: str | None
    codec: str
    encodings: tuple[str, ...]
    encoding_stats: tuple[PageEncoding, ...] | None
    values: int
    nulls: int | None
    distinct: int | None
    min: str | None
    max: str | None
    min_exact: bool
    max_exact: bool
    compressed_bytes: int
    uncompressed_bytes: int
    dictionary_page: bool
    data_pages: int | None
    column_index: bool
    offset_index: bool
    bloom_filter: bool
    bloom_filter_bytes: int | None
    pages: tuple[PageReport, ...] | None = None


@dataclass(frozen=True)
class RowGroupReport:
    """A row group.

    Attributes:
        rows: Number of rows.
        compressed_bytes: Stored size of its pages.
        uncompressed_bytes: Size of its pages before compression.
        sorting_columns: The columns by which its rows are declared to be sorted, the leading column first.
        columns: Its column chunks, in the schema's order.
    """

    rows: int
    compressed_bytes: int
    uncompressed_bytes: int
    sorting_columns: tuple[SortingColumn, ...]
    columns: tuple[ColumnChunkReport, ...]


@dataclass(frozen=True)
class FileReport:
    """A Parquet file.

    Attributes:
        path: The file's path.
        bytes: Size of the whole file.
        footer_bytes: Size of the footer, including its length field and the closing magic number.
        created_by: The name of the writer as stored in the footer; None if it stored none.
        version: Version of the format that the footer states.
        rows: Rows in all row groups.
        schema: The schema in the notation of the Parquet specification.
        metadata_keys: Keys of the key-value metadata, in the footer's order.
        row_groups: The row groups, in the file's order.
    """

    path: Path
    bytes: int
    footer_bytes: int
    created_by: str | None
    version: int
    rows: int
    schema: str
    metadata_keys: tuple[str, ...]
    row_groups: tuple[RowGroupReport, ...]

    def column_totals(self) -> tuple[ColumnTotals, ...]:
        """Each column over all row groups, in the schema's order."""
        return tuple(_totals(path, chunks) for path, chunks in _chunks(self).items())


@dataclass(frozen=True)
class ColumnTotals:
    """One column, summed over all row groups.

    Attributes:
        path: Dotted path of the column.
        field_id: Field id of its node in the schema; None without one.
        max_definition_level: As in `ColumnChunkReport`.
        max_repetition_level: As in `ColumnChunkReport`.
        type: Its logical type, or its physical type if there is no other.
        physical_type: Type of the stored values.
        codecs: Its compression codecs, each once.
        encodings: Its encodings with the number of their data pages, the most frequent first; if the writer
            did not record the number, it is None, and the list includes the encodings of levels.
        dictionary_chunks: Number of chunks with a dictionary page.
        chunks: Number of chunks.
        compressed_bytes: Size as stored.
        uncompressed_bytes: Size before compression.
        values: Values, nulls included.
        nulls: Number of nulls; None if a chunk does not record it.
        data_pages: Number of data pages; None if a chunk does not record it.
        column_indexes: Chunks with a column index.
        offset_indexes: Chunks with an offset index.
        bloom_filters: Chunks with a bloom filter.
    """

    path: str
    field_id: int | None
    max_definition_level: int
    max_repetition_level: int
    type: str
    physical_type: str
    codecs: tuple[str, ...]
    encodings: tuple[tuple[str, int | None], ...]
    dictionary_chunks: int
    chunks: int
    compressed_bytes: int
    uncompressed_bytes: int
    values: int
    nulls: int | None
    data_pages: int | None
    column_indexes: int
    offset_indexes: int
    bloom_filters: int


#: The fields of a column that are compared, by the kind of difference.
_COMPARED: dict[_Difference, tuple[str, ...]] = {
    "schema": ("field_id", "max_definition_level", "max_repetition_level", "type", "physical_type"),
    "encodings": (
        "codecs",
        "encodings",
        "dictionary_chunks",
        "column_indexes",
        "offset_indexes",
        "bloom_filters",
    ),
    "sizes": ("chunks", "compressed_bytes", "uncompressed_bytes", "values", "nulls", "data_pages"),
}


@dataclass(frozen=True)
class ColumnComparison:
    """The comparison of a column between two files.

    Attributes:
        path: Dotted path of the column.
        differences: What differs: ``"schema"`` (type, levels, field id, or one file lacks the column),
            ``"encodings"`` (codecs, encodings of data pages, chunks with dictionaries, indexes and bloom
            filters), ``"sizes"`` (bytes, values, nulls, pages, chunks). Empty if they do not differ.
        left: The column in the first file; None if the file lacks it.
        right: The column in the second file; None if the file lacks it.
    """

    path: str
    differences: tuple[_Difference, ...]
    left: ColumnTotals | None
    right: ColumnTotals | None


@dataclass(frozen=True)
class FileComparison:
    """The comparison of two files. Values and bounds are not compared.

    Attributes:
        differences: What differs between the files as a whole: ``"schema"`` (its text without the root's
            name), ``"rows"``, ``"row_groups"`` (the rows of each, in order), ``"bytes"``, ``"footer_bytes"``,
            ``"created_by"``, ``"version"``, ``"metadata_keys"``, ``"sorting_columns"``.
        columns: The columns of both files. Columns that differ come first, grouped by the kind of difference:
            schema, encodings, sizes. Each group is in the first file's order, followed by columns that only
            the second file has.
    """

    differences: tuple[str, ...]
    columns: tuple[ColumnComparison, ...]

    @property
    def is_equal(self) -> bool:
        """True if there is no difference."""
        return not self.differences and not any(column.differences for column in self.columns)


def compare_reports(left: FileReport, right: FileReport) -> FileComparison:
    """Compare two files: schema, encodings and sizes, by column.

    Args:
        left: The report on the first file.
        right: The report on the second file.

    Example:
        >>> import pyarrow as pa, spillway
        >>> table = pa.table({"id": [1, 2], "word": ["a", "b"]})
        >>> for codec in ("zstd", "snappy"):
        ...     _ = spillway.write_parquet(table, f"{codec}.parquet", compression={"word": codec})
        >>> found = spillway.compare_reports(*map(spillway.inspect_file, ("zstd.parquet", "snappy.parquet")))
        >>> [(column.path, column.differences) for column in found.columns]
        [('word', ('encodings', 'sizes')), ('id', ())]
    """
    ours, theirs = _chunks(left), _chunks(right)
    columns = [_compared(path, ours.get(path, []), theirs.get(path, [])) for path in {**ours, **theirs}]
    facts, others = _facts(left), _facts(right)
    return FileComparison(
        differences=tuple(name for name in facts if facts[name] != others[name]),
        columns=tuple(sorted(columns, key=_rank)),
    )


def _rank(column: ColumnComparison) -> int:
    return min((list(_COMPARED).index(kind) for kind in column.differences), default=len(_COMPARED))


def _chunks(report: FileReport) -> dict[str, list[ColumnChunkReport]]:
    """The chunks of each column, in the schema's order."""
    chunks: dict[str, list[ColumnChunkReport]] = {}
    for group in report.row_groups:
        for column in group.columns:
            chunks.setdefault(column.path, []).append(column)
    return chunks


def _compared(path: str, ours: list[ColumnChunkReport], theirs: list[ColumnChunkReport]) -> ColumnComparison:
    left, right = (_totals(path, chunks) if chunks else None for chunks in (ours, theirs))
    if left is None or right is None:
        return ColumnComparison(path, ("schema",), left, right)
    sides = left, right
    if _are_counted(ours) != _are_counted(theirs):
        # Only one writer recorded the pages of each encoding: compare what both recorded.
        is_known = None not in (left.data_pages, right.data_pages)
        sides = (
            replace(left, encodings=_named(ours), data_pages=left.data_pages if is_known else None),
            replace(right, encodings=_named(theirs), data_pages=right.data_pages if is_known else None),
        )
    differences = tuple(kind for kind in _COMPARED if _of(sides[0], kind) != _of(sides[1], kind))
    return ColumnComparison(path, differences, left, right)


def _of(column: ColumnTotals, kind: _Difference) -> list[object]:
    """What is compared of a column. The numbers of pages by encoding are sizes."""
    found: list[object] = [getattr(column, name) for name in _COMPARED[kind] if name != "encodings"]
    if kind == "encodings":
        found.append({name for name, _ in column.encodings})
    if kind == "sizes":
        found.append(dict(column.encodings))
    return found


def _facts(report: FileReport) -> dict[str, object]:
    """What is compared of a file as a whole."""
    return {
        "schema": report.schema.splitlines()[1:],  # after the root, whose name is free
        "rows": report.rows,
        "row_groups": [group.rows for group in report.row_groups],
        "bytes": report.bytes,
        "footer_bytes": report.footer_bytes,
        "created_by": report.created_by,
        "version": report.version,
        "metadata_keys": report.metadata_keys,
        # Not one by one: row groups are counted above. A file without any declares no order.
        "sorting_columns": {group.sorting_columns for group in report.row_groups} or {()},
    }


def inspect_file(path: str | os.PathLike[str], *, pages: bool = False) -> FileReport:
    """Report what a Parquet file holds, whoever wrote it.

    Args:
        path: The file.
        pages: Report each page, too. Their headers are read from all over the file then.

    Raises:
        CorruptFileError: The file is not Parquet, or it is empty, truncated, damaged or encrypted; or the
            header of a page is damaged.
        OptionError: ``pages=True``, and the file has more than 1,048,576 pages.
        OSError: The file cannot be read: `FileNotFoundError`, `IsADirectoryError`, `PermissionError`.

    Example:
        >>> import spillway
        >>> report = spillway.inspect_file("logs.parquet")  # doctest: +SKIP
        >>> [column.encodings for column in report.row_groups[0].columns]  # doctest: +SKIP
    """
    found = _native.inspect(path, pages)
    groups = tuple(_row_group(group) for group in found["row_groups"])
    keys = tuple(found["metadata_keys"])
    return FileReport(**{**found, "path": Path(path), "metadata_keys": keys, "row_groups": groups})


def _totals(path: str, chunks: list[ColumnChunkReport]) -> ColumnTotals:
    return ColumnTotals(
        path=path,
        field_id=chunks[0].field_id,
        max_definition_level=chunks[0].max_definition_level,
        max_repetition_level=chunks[0].max_repetition_level,
        type=chunks[0].logical_type or chunks[0].physical_type,
        physical_type=chunks[0].physical_type,
        codecs=tuple(dict.fromkeys(chunk.codec for chunk in chunks)),
        encodings=_encodings(chunks),
        dictionary_chunks=sum(chunk.dictionary_page for chunk in chunks),
        chunks=len(chunks),
        compressed_bytes=sum(chunk.compressed_bytes for chunk in chunks),
        uncompressed_bytes=sum(chunk.uncompressed_bytes for chunk in chunks),
        values=sum(chunk.values for chunk in chunks),
        nulls=_sum_if_all_known(chunk.nulls for chunk in chunks),
        data_pages=_sum_if_all_known(chunk.data_pages for chunk in chunks),
        column_indexes=sum(chunk.column_index for chunk in chunks),
        offset_indexes=sum(chunk.offset_index for chunk in chunks),
        bloom_filters=sum(chunk.bloom_filter for chunk in chunks),
    )


def _encodings(chunks: list[ColumnChunkReport]) -> tuple[tuple[str, int | None], ...]:
    if not _are_counted(chunks):
        return _named(chunks)
    pages: Counter[str] = Counter()
    for chunk in chunks:
        for entry in chunk.encoding_stats or ():
            if entry.page_type.startswith("DATA_PAGE"):
                pages[entry.encoding] += entry.pages
    return tuple(pages.most_common())


def _are_counted(chunks: list[ColumnChunkReport]) -> bool:
    """Return true if the writer recorded the number of pages of each encoding."""
    return all(chunk.encoding_stats is not None for chunk in chunks)


def _named(chunks: list[ColumnChunkReport]) -> tuple[tuple[str, None], ...]:
    """All encodings, those of levels among them, without numbers of pages."""
    return tuple((encoding, None) for encoding in sorted({each for one in chunks for each in one.encodings}))


def _sum_if_all_known(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _row_group(found: dict[str, Any]) -> RowGroupReport:
    sorting = tuple(SortingColumn(*column) for column in found["sorting_columns"])
    columns = tuple(_column_chunk(column) for column in found["columns"])
    return RowGroupReport(**{**found, "sorting_columns": sorting, "columns": columns})


def _column_chunk(found: dict[str, Any]) -> ColumnChunkReport:
    stats, pages = found["encoding_stats"], found["pages"]
    changed = {
        "encodings": tuple(found["encodings"]),
        "encoding_stats": None if stats is None else tuple(PageEncoding(*entry) for entry in stats),
        "pages": None if pages is None else tuple(PageReport(**page) for page in pages),
    }
    return ColumnChunkReport(**{**found, **changed})
