"""A Parquet file taken apart without any Parquet library, and what must hold in each.

Field numbers are those of the format's `parquet.thrift`.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .thrift import Cursor

if TYPE_CHECKING:
    from pathlib import Path

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
UNCOMPRESSED = 0
UNORDERED, ASCENDING, DESCENDING = 0, 1, 2


@dataclass(frozen=True)
class Page:
    """One page: its header, where it lies, and the bytes after the header."""

    header: dict[int, Any]
    offset: int
    header_bytes: int
    body: bytes

    @property
    def kind(self) -> int:
        return int(self.header[1])

    @property
    def detail(self) -> dict[int, Any]:
        return dict(self.header[{DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}[self.kind]])

    @property
    def values(self) -> int:
        return int(self.detail[1])

    @property
    def encoding(self) -> int:
        return int(self.detail[4 if self.kind == DATA_PAGE_V2 else 2])

    @property
    def uncompressed(self) -> int:
        return int(self.header[2])

    @property
    def bytes(self) -> int:
        return self.header_bytes + int(self.header[3])


@dataclass(frozen=True)
class Chunk:
    """One column chunk: its metadata, its pages and its indexes."""

    data: bytes
    entry: dict[int, Any]

    @property
    def meta(self) -> dict[int, Any]:
        return dict(self.entry[3])

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(part.decode() for part in self.meta[3])

    @property
    def statistics(self) -> dict[int, Any]:
        return dict(self.meta.get(12, {}))

    @cached_property
    def pages(self) -> list[Page]:
        at = self.start
        pages = []
        while at < self.start + self.meta[7]:
            cursor = Cursor(self.data, at)
            header = cursor.struct()
            pages.append(Page(header, at, cursor.at - at, self.data[cursor.at : cursor.at + header[3]]))
            at = cursor.at + header[3]
        return pages

    @property
    def start(self) -> int:
        return int(self.meta.get(11) or self.meta[9])

    @property
    def data_pages(self) -> list[Page]:
        return [page for page in self.pages if page.kind != DICTIONARY_PAGE]

    @property
    def dictionary_pages(self) -> list[Page]:
        return [page for page in self.pages if page.kind == DICTIONARY_PAGE]

    @cached_property
    def locations(self) -> list[dict[int, Any]] | None:
        """The offset index: of each data page 1 the offset, 2 the size with its header, 3 the first row."""
        return list(Cursor(self.data, self.entry[4]).struct()[1]) if 4 in self.entry else None

    @cached_property
    def column_index(self) -> dict[int, Any] | None:
        """1 null pages, 2 minima, 3 maxima, 4 boundary order, 5 null counts."""
        return Cursor(self.data, self.entry[6]).struct() if 6 in self.entry else None


@dataclass(frozen=True)
class RowGroup:
    entry: dict[int, Any]
    chunks: list[Chunk]

    @property
    def rows(self) -> int:
        return int(self.entry[3])


class Anatomy:
    """A whole file."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        assert data[:4] == data[-4:] == b"PAR1"
        (size,) = struct.unpack("<I", data[-8:-4])
        cursor = Cursor(data, len(data) - 8 - size)
        self.footer = cursor.struct()
        assert cursor.at == len(data) - 8, "the footer has a tail that is no footer"
        self.schema: list[dict[int, Any]] = self.footer[2]
        self.row_groups = [
            RowGroup(group, [Chunk(data, entry) for entry in group[1]]) for group in self.footer.get(4, [])
        ]
        self.size = len(data)

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for group in self.row_groups for chunk in group.chunks]

    @property
    def leaves(self) -> list[dict[int, Any]]:
        return [element for element in self.schema[1:] if 5 not in element]

    def check(self) -> None:
        """Checks the rules of the format that hold for every file.

        Raises:
            AssertionError: The file breaks a rule that some strict reader relies on.
        """
        groups = self.row_groups
        assert self.footer[3] == sum(group.rows for group in groups), "num_rows is not the row groups' sum"
        assert len(self.footer.get(7, [])) == len(self.leaves), "column_orders leaves a leaf out"
        for ordinal, group in enumerate(groups):
            assert 7 not in group.entry or group.entry[7] == ordinal < 2**15, "a row group's ordinal"
            assert group.rows > 0, "an empty row group"
            assert group.entry[2] == sum(chunk.meta[6] for chunk in group.chunks)
            assert group.entry[6] == sum(chunk.meta[7] for chunk in group.chunks)
            assert group.entry[5] == group.chunks[0].start, "file_offset is not the first page's"
            assert len(group.chunks) == len(self.leaves)
            for chunk in group.chunks:
                self._check_chunk(chunk, group.rows)
        self._check_places()

    def _check_places(self) -> None:
        """Chunks follow one another from byte 4 on, and bloom filters on those of their row group, without
        gaps or overlaps.
        """
        at = 4
        for group in self.row_groups:
            for chunk in group.chunks:
                assert chunk.start == at, (
                    f"{chunk.path}: chunk starts at {chunk.start}, the one before ends at {at}"
                )
                at += chunk.meta[7]
            for chunk in group.chunks:
                if 14 in chunk.meta:
                    assert chunk.meta[14] == at, f"{chunk.path}: bloom_filter_offset"
                    header = Cursor(chunk.data, at)
                    assert header.struct()[1] + header.at - at == chunk.meta[15], "bloom_filter_length"
                    at += chunk.meta[15]

    def _check_chunk(self, chunk: Chunk, rows: int) -> None:
        meta, pages, path = chunk.meta, chunk.pages, chunk.path
        assert sum(page.bytes for page in pages) == meta[7], (
            f"{path}: total_compressed_size counts page headers"
        )
        assert sum(page.header_bytes + page.uncompressed for page in pages) == meta[6], path
        assert sum(page.values for page in chunk.data_pages) == meta[5], path
        assert [page.kind for page in pages].count(DICTIONARY_PAGE) <= 1, path
        assert bool(meta.get(11)) == bool(chunk.dictionary_pages), f"{path}: dictionary_page_offset"
        assert meta[9] == chunk.data_pages[0].offset, f"{path}: data_page_offset is not the first data page's"
        self._check_encodings(chunk)
        for page in pages:
            self._check_page(chunk, page)
        if chunk.locations is not None:
            self._check_locations(chunk, rows)

    def _check_encodings(self, chunk: Chunk) -> None:
        meta, path = chunk.meta, chunk.path
        assert {page.encoding for page in chunk.pages} <= set(meta[2]), f"{path}: encodings leave one out"
        if 13 in meta:
            counted = {(entry[1], entry[2]): entry[3] for entry in meta[13]}
            actual: dict[tuple[int, int], int] = {}
            for page in chunk.pages:
                key = (page.kind, page.encoding)
                actual[key] = actual.get(key, 0) + 1
            assert counted == actual, f"{path}: encoding_stats"
        for page in chunk.dictionary_pages:
            assert page is chunk.pages[0], f"{path}: the dictionary page comes first"
            assert page.encoding in (PLAIN, PLAIN_DICTIONARY), path

    def _check_page(self, chunk: Chunk, page: Page) -> None:
        path = chunk.path
        if 4 in page.header:
            assert page.header[4] & 0xFFFFFFFF == zlib.crc32(page.body), f"{path}: a page's checksum"
        compressed = chunk.meta[4] != UNCOMPRESSED and (page.kind != DATA_PAGE_V2 or page.detail.get(7, True))
        if not compressed:
            assert len(page.body) == page.uncompressed, f"{path}: an uncompressed page's two sizes differ"
        if page.kind == DATA_PAGE_V2:
            detail = page.detail
            assert 0 <= detail[2] <= detail[1], path
            assert detail[5] + detail[6] <= len(page.body), f"{path}: levels are longer than their page"
            assert detail[3] <= detail[1], path

    def _check_locations(self, chunk: Chunk, rows: int) -> None:
        locations, pages, path = chunk.locations or [], chunk.data_pages, chunk.path
        assert [(place[1], place[2]) for place in locations] == [
            (page.offset, page.bytes) for page in pages
        ], path
        firsts = [place[3] for place in locations]
        assert firsts[0] == 0, path
        ends = [*firsts[1:], rows]
        assert all(start < end for start, end in zip(firsts, ends, strict=True)), (
            f"{path}: first_row_index {firsts}"
        )
        for page, start, end in zip(pages, firsts, ends, strict=True):
            if page.kind == DATA_PAGE_V2:
                assert page.detail[3] == end - start, f"{path}: num_rows differs from the offset index"


def page_rows(chunk: Chunk, rows: int) -> list[tuple[int, int]]:
    """The rows of each data page as [start, end) within the row group, from the offset index or the V2
    headers.
    """
    if chunk.locations is not None:
        firsts = [int(place[3]) for place in chunk.locations]
        return list(zip(firsts, [*firsts[1:], rows], strict=True))
    ranges, start = [], 0
    for page in chunk.data_pages:
        count = page.detail[3] if page.kind == DATA_PAGE_V2 else page.values
        ranges.append((start, start + count))
        start += count
    return ranges
