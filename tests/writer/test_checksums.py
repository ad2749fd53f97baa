"""The CRC-32 of pages, as pyarrow verifies it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples

if TYPE_CHECKING:
    from collections.abc import Callable


def written(table: pa.Table, **options: object) -> bytes:
    file = io.BytesIO()
    spillway.write_parquet(table, file, page_checksums=True, **options)  # type: ignore[arg-type]
    return file.getvalue()


def read(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data), page_checksum_verification=True)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "uncompressed"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_reader_that_verifies_them_reads_the_file(table: pa.Table, codec: str, dictionary: bool) -> None:  # noqa: FBT001
    data = written(table, compression=codec, dictionary=dictionary, page_bytes=8 << 10)
    assert read(data).equals(table)


@pytest.fixture(scope="module")
def pages() -> tuple[pa.Table, bytes, list[range]]:
    """A table, an uncompressed file of it and the bytes of its pages, flat and nested ones."""
    rows = range(3_000)
    table = pa.table({"n": [i * 7919 for i in rows], "l": [[f"{i}", "x"] for i in rows]})
    data = written(table, compression="uncompressed", dictionary=False, page_bytes=4 << 10)
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    chunks = [metadata.column(index) for index in range(2)]
    return (
        table,
        data,
        [
            range(chunk.data_page_offset + 64, chunk.data_page_offset + chunk.total_compressed_size)
            for chunk in chunks
        ],
    )


@settings(max_examples=examples(0.4), deadline=None)
@given(st.data())
def test_a_flipped_bit_gives_no_other_rows(
    pages: tuple[pa.Table, bytes, list[range]], data: st.DataObject
) -> None:
    table, good, chunks = pages
    draw: Callable[..., int] = data.draw
    place = draw(st.sampled_from(draw(st.sampled_from(chunks))))
    bad = bytearray(good)
    bad[place] ^= 1 << draw(st.integers(0, 7))
    try:
        found = read(bytes(bad))
    except OSError:
        return
    assert found.equals(table), "only a bit of a header that no reader needs may go unnoticed"


def test_pages_have_none_unless_asked(table: pa.Table) -> None:
    file = io.BytesIO()
    spillway.write_parquet(table, file)
    assert len(written(table)) > len(file.getvalue())
