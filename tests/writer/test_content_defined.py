"""Pages that end by their content: the option, and what other engines read."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

if TYPE_CHECKING:
    from pathlib import Path


def pages(path: Path) -> int:
    """Data pages of all column chunks."""
    chunks = [chunk for group in spillway.inspect_file(path).row_groups for chunk in group.columns]
    return sum(chunk.data_pages or 0 for chunk in chunks)


@pytest.mark.parametrize("chunks", [True, (100, 1_000), [5_000, 20_000]])
def test_engines_read_every_row(table: pa.Table, tmp_path: Path, chunks: Any) -> None:
    usual, path = tmp_path / "usual.parquet", tmp_path / "rows.parquet"
    spillway.write_parquet(table, usual)
    spillway.write_parquet(table, path, content_defined_chunking=chunks)
    assert pq.read_table(path).equals(table)
    assert pl.read_parquet(path).equals(pl.read_parquet(usual))
    assert duckdb.read_parquet(str(path)).fetchall() == duckdb.read_parquet(str(usual)).fetchall()
    assert (pages(path) > pages(usual)) == (chunks is not True)


def test_pages_of_a_handful_of_values_decide_together(tmp_path: Path) -> None:
    words = pa.table({"word": [f"the word {row % 300}" for row in range(20_000)]})
    path = tmp_path / "rows.parquet"
    result = spillway.write_parquet(words, path, content_defined_chunking=(64, 128))
    assert result.columns[0].reason == "repeats"
    assert pq.read_table(path).equals(words)


def test_documents_that_fill_their_dictionary_in_pages_of_a_few_are_read_back(tmp_path: Path) -> None:
    """The page with the 1,024th value had the layout of one encoding and the name of another."""
    documents = pa.table({"text": [f"{row:>6}" * 100 for row in range(1_500)]})
    path = tmp_path / "rows.parquet"
    result = spillway.write_parquet(
        documents, path, content_defined_chunking=(2_000, 8_000), dictionary_page_bytes=20_000
    )
    assert pq.read_table(path).equals(documents)
    assert set(result.columns[0].encodings) > {"RLE_DICTIONARY"}


@given(
    values=st.integers(1_000, 1_300),
    distinct=st.integers(1, 1_300),
    length=st.integers(0, 60),
    options=st.tuples(
        st.integers(1, 3_000).map(lambda most: {"dictionary_page_bytes": most}),
        st.one_of(
            st.integers(1, 30).map(lambda rows: {"page_rows": rows}),
            st.integers(1, 200).map(lambda least: {"content_defined_chunking": (least, least + 50)}),
        ),
    ),
    kind=st.sampled_from(["text", "ordered", "numbers", "fixed"]),
)
def test_short_pages_are_read_back_wherever_their_dictionary_ends(
    values: int, distinct: int, length: int, options: tuple[dict[str, Any], ...], kind: str
) -> None:
    numbers = [row * 7_919 % distinct for row in range(values)]
    column: Any = {
        "text": lambda: pa.array([f"{number:0{length}}" for number in numbers]),
        "ordered": lambda: pa.array([f"{number:0{length}}" for number in numbers]).dictionary_encode(),
        "numbers": lambda: pa.array([number << (length % 50) for number in numbers], pa.int64()),
        "fixed": lambda: pa.array([number.to_bytes(4) for number in numbers], pa.binary(4)),
    }[kind]()
    file, table = io.BytesIO(), pa.table({"a": column})
    spillway.write_parquet(table, file, row_group_bytes=1_000_000, **options[0], **options[1])
    file.seek(0)
    assert pq.read_table(file)["a"].to_pylist() == column.to_pylist()


@pytest.mark.parametrize("chunks", [(0, 10), (10, 10), (65_536, 32_768), (-1, 5), (1, 1 << 40)])
def test_sizes_that_are_not_accepted_are_named(chunks: tuple[int, int]) -> None:
    with pytest.raises(spillway.OptionError, match="the second greater than the first") as caught:
        spillway.WriterOptions(content_defined_chunking=chunks)
    assert caught.value.option == "content_defined_chunking"


@pytest.mark.parametrize("chunks", [(1,), "big", 4_096, (1, 2, 3)])
def test_what_is_no_pair_of_sizes_is_a_type_error(chunks: Any) -> None:
    with pytest.raises(TypeError, match="the least and the most bytes of a chunk"):
        spillway.WriterOptions(content_defined_chunking=chunks)


def test_encrypted_pages_are_not_for_sharing() -> None:
    encryption = spillway.Encryption(footer_key=b"0123456789abcdef")
    with pytest.raises(spillway.OptionError, match="encrypted pages of equal rows differ"):
        spillway.WriterOptions(content_defined_chunking=True, encryption=encryption)
