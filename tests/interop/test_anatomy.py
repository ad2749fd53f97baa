"""Rules that the bytes of every file keep, whatever the rows and options."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from . import strategies
from .anatomy import (
    ASCENDING,
    DATA_PAGE,
    DESCENDING,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    UNCOMPRESSED,
    UNORDERED,
    Anatomy,
)
from .bounds import MOST_BOUND, check_bounds
from .fill import Look
from .writing import write

if TYPE_CHECKING:
    from .strategies import Recipe

CODECS = {"uncompressed": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
# Rows of everything but nested columns, whose bounds are computed anew.
FLAT = strategies.recipes(types=strategies.leaf_types(), max_columns=4)


def written(recipe: Recipe, options: dict[str, Any], folder: str) -> tuple[Path, Anatomy]:
    path = Path(folder) / "file.parquet"
    write(recipe.table(), path, **options)
    return path, Anatomy(path)


@given(st.data())
def test_every_file_keeps_the_rules_of_the_format(data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes())
    options = data.draw(strategies.options(recipe.schema))
    with TemporaryDirectory() as folder:
        _, anatomy = written(recipe, options, folder)
    anatomy.check()
    assert sum(group.rows for group in anatomy.row_groups) == recipe.rows


@given(st.data())
def test_bounds_and_null_counts_are_those_of_the_values(data: st.DataObject) -> None:
    recipe = data.draw(FLAT)
    options = data.draw(strategies.options(recipe.schema))
    with TemporaryDirectory() as folder:
        path, anatomy = written(recipe, options, folder)
        check_bounds(anatomy, pq.ParquetFile(path).read())


def long_texts() -> st.SearchStrategy[str]:
    """Texts around the length at which bounds are cut, with characters of several bytes there."""
    stem = st.integers(58, 66).map(lambda count: "p" * count)
    return st.builds("".join, st.tuples(stem, st.text("apü\U0010ffff", max_size=8)))


@given(st.lists(long_texts(), min_size=2, max_size=12), st.sampled_from((pa.string(), pa.binary())))
@example(["p" * 64 + "a", "p" * 63 + "üa"], pa.string())
@example(["p" * 64 + "\U0010ffff", "p" * 63 + "\U0010ffff"], pa.string())
def test_the_order_of_an_index_is_that_of_the_bounds_in_it(texts: list[str], data_type: pa.DataType) -> None:
    """Text is cut between characters, so that a greater one may keep fewer of the same."""
    rising = sorted(texts, key=str.encode)
    for cells in (rising, rising[::-1], texts):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "file.parquet"
            write(pa.table({"c": pa.array(cells).cast(data_type)}), path, page_bytes=1)
            index = Anatomy(path).chunks[0].column_index
        assert index is not None
        bounds = [index[2], index[3]]
        if all(side == sorted(side) for side in bounds):
            assert index[4] == ASCENDING
        elif all(side == sorted(side, reverse=True) for side in bounds):
            assert index[4] == DESCENDING
        else:
            assert index[4] == UNORDERED


LAST = {pa.binary(): b"\xff", pa.binary(72): b"\xff", pa.string(): "\U0010ffff".encode()}


def has_short_bound(value: bytes, last: bytes) -> bool:
    """Returns True if some value of at most 64 bytes is not less."""
    return len(value) <= MOST_BOUND or not value.startswith(last * (MOST_BOUND // len(last)))


@given(st.data(), st.sampled_from(list(LAST)))
def test_no_bound_is_long_and_a_max_that_cannot_be_short_is_left_out(
    data: st.DataObject, data_type: pa.DataType
) -> None:
    """A column index needs a max for each page with values."""
    last = LAST[data_type]
    ends = st.text("ap" if data_type == pa.string() else "ap\xff", max_size=8).map(
        lambda text: text.encode("utf-8" if data_type == pa.string() else "latin-1")
    )
    cell = st.builds(lambda count, end: last * count + end, st.integers(0, 72 // len(last)), ends)
    if data_type == pa.binary(72):
        cell = cell.map(lambda value: value[:72].ljust(72, b"\xff"))
    cells: list[bytes | None] = data.draw(st.lists(st.none() | cell, min_size=1, max_size=9))
    table = pa.table({"c": pa.array(cells, data_type if data_type != pa.string() else pa.binary())})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.parquet"
        write(table.cast(pa.schema([("c", data_type)])), path, page_bytes=1)
        anatomy = Anatomy(path)
        check_bounds(anatomy, pq.ParquetFile(path).read())
        chunk = anatomy.chunks[0]
        statistics, index = chunk.statistics, chunk.column_index
    values = [value for value in cells if value is not None]
    # Bounds of one size are never cut.
    is_whole = pa.types.is_fixed_size_binary(data_type)
    short = [is_whole or has_short_bound(value, last) for value in values]
    assert (6 in statistics) == bool(values)
    assert (5 in statistics) == (bool(values) and (is_whole or has_short_bound(max(values), last)))
    assert (index is not None) == all(short)
    bounds = [statistics.get(5, b""), statistics.get(6, b""), *(index[2] + index[3] if index else ())]
    assert max(map(len, bounds)) <= (data_type.byte_width if is_whole else MOST_BOUND)


@pytest.mark.parametrize("values", ["few", "unique", "sorted", "extreme", "constant"])
@pytest.mark.parametrize(
    "data_type",
    [pa.int32(), pa.uint64(), pa.float32(), pa.string(), pa.decimal128(20, 3), pa.date32()],
    ids=str,
)
def test_ordinary_columns_have_bounds_at_all(tmp_path: Path, data_type: pa.DataType, values: Any) -> None:
    recipe = strategies.Recipe(pa.schema([("c", data_type)]), (Look("few", values),), (200,), 1)
    path, anatomy = written(recipe, {"page_bytes": 64}, str(tmp_path))
    compared = check_bounds(anatomy, pq.ParquetFile(path).read())
    statistics = anatomy.chunks[0].statistics
    if statistics.get(9):
        assert (data_type, values) == (pa.float32(), "extreme"), "NaN is among extreme values alone"
        return
    assert compared >= 1
    assert {3, 6} <= set(statistics), "null_count and min_value"
    has_max = data_type != pa.string() or values != "extreme"
    assert (5 in statistics) == has_max, "max_value, where there is a short one"


@given(st.data())
def test_row_groups_have_exactly_the_rows_asked_for(data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes(max_columns=2))
    rows = data.draw(st.integers(1, 600))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.parquet"
        cuts = data.draw(strategies.cuts(recipe.rows))
        result = write(recipe.table(), path, cuts=cuts, row_group_rows=rows)
        sizes = [group.rows for group in Anatomy(path).row_groups]
    whole, rest = divmod(recipe.rows, rows)
    assert sizes == [rows] * whole + [rest] * bool(rest)
    assert (result.rows, result.row_groups) == (recipe.rows, len(sizes))


@pytest.mark.parametrize("limit", [1_000_000, 3_000_000])
def test_row_groups_end_near_their_bytes(tmp_path: Path, limit: int) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({f"c{index}": rng.integers(0, 2**62, 600_000) for index in range(2)})
    write(table, tmp_path / "file.parquet", row_group_bytes=limit)
    sizes = [
        sum(chunk.meta[7] for chunk in group.chunks)
        for group in Anatomy(tmp_path / "file.parquet").row_groups
    ]
    assert len(sizes) >= 3
    assert all(0.6 * limit <= size <= 1.25 * limit for size in sizes[:-1]), sizes


@given(st.data())
def test_version_1_files_have_version_1_pages_and_encodings(data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes(max_columns=3))
    options = data.draw(strategies.options(recipe.schema)) | {"compatibility": "v1"}
    options.pop("encoding", None)
    with TemporaryDirectory() as folder:
        _, anatomy = written(recipe, options, folder)
    for chunk in anatomy.chunks:
        assert {page.kind for page in chunk.data_pages} == {DATA_PAGE}, chunk.path
        assert {page.encoding for page in chunk.data_pages} <= {PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY}, (
            chunk.path
        )


@given(st.data())
def test_a_forbidden_dictionary_is_not_written(data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes(types=strategies.leaf_types(), max_columns=3))
    with TemporaryDirectory() as folder:
        _, anatomy = written(recipe, {"dictionary": False}, folder)
        assert not any(chunk.dictionary_pages for chunk in anatomy.chunks)
        forbidden = recipe.schema.names[0]
        _, anatomy = written(recipe, {"dictionary": {(forbidden,): False}}, folder)
        assert not any(chunk.dictionary_pages for chunk in anatomy.chunks if chunk.path == (forbidden,))


def test_a_dictionary_is_written_where_values_repeat(tmp_path: Path) -> None:
    table = pa.table(
        {"word": ["alpha", "beta", "gamma delta epsilon"] * 5000, "other": ["one", "two", "three"] * 5000}
    )
    write(table, tmp_path / "a.parquet", dictionary={"other": False})
    word, other = Anatomy(tmp_path / "a.parquet").chunks
    assert word.dictionary_pages
    assert not other.dictionary_pages


@pytest.mark.parametrize("codec", CODECS)
def test_the_codec_is_the_one_asked_for(tmp_path: Path, codec: str) -> None:
    table = pa.table(
        {"text": [f"some text that shrinks {row % 100}" for row in range(5000)], "n": range(5000)}
    )
    write(table, tmp_path / "a.parquet", compression=codec)
    chunks = Anatomy(tmp_path / "a.parquet").chunks
    assert {chunk.meta[4] for chunk in chunks} <= {CODECS[codec], UNCOMPRESSED}
    assert chunks[0].meta[4] == CODECS[codec]


# Values of at most an eighth of the page, so that the promise is exact.
@pytest.mark.parametrize("page_bytes", [256, 4096, 65_536, 256 << 10])
@pytest.mark.parametrize("compatibility", ["modern", "v1"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_are_cut_by_bytes(
    tmp_path: Path,
    page_bytes: int,
    compatibility: str,
    dictionary: bool,  # noqa: FBT001 - pytest gives it by name
) -> None:
    rng = np.random.default_rng(1)
    rows = min(200_000, max(5000, page_bytes // 2))
    columns = {
        "random": rng.integers(0, 2**62, rows),
        "few": rng.integers(0, 9, rows),
        "sorted": np.arange(rows),
        "real": rng.standard_normal(rows),
        "flag": rng.integers(0, 2, rows).astype(bool),
        "text": pa.array([f"message {number}" for number in rng.integers(0, 10**9, rows)]),
        "word": pa.array(rng.choice(["a", "bb", "ccc"], rows)),
        "maybe": pa.array(rng.integers(0, 2**40, rows), mask=rng.random(rows) < 0.5),
        "list": pa.ListArray.from_arrays(np.arange(0, rows + 1) // 2, pa.array(np.arange(rows // 2 + 1))),
    }
    options = {"page_bytes": page_bytes, "compatibility": compatibility, "dictionary": dictionary}
    write(pa.table(columns), tmp_path / "a.parquet", **options)
    anatomy = Anatomy(tmp_path / "a.parquet")
    anatomy.check()
    for chunk in anatomy.chunks:
        largest = max(page.uncompressed for page in chunk.data_pages)
        assert largest <= page_bytes, f"{chunk.path}: a page of {largest} bytes"
        total = sum(page.uncompressed for page in chunk.data_pages)
        # Writers also end a page after some ten thousand rows, for the page index.
        most = 4 + 8 * total // page_bytes + rows // 10_000
        assert len(chunk.data_pages) <= most, f"{chunk.path}: pages far smaller than asked for"


@pytest.mark.parametrize("sizes", [(100_000, 10), (10, 100_000), (1_000_000, 1_000_000)])
def test_large_values_make_pages_hardly_larger_than_themselves(
    tmp_path: Path, sizes: tuple[int, int]
) -> None:
    rng = np.random.default_rng(2)
    cells = [rng.bytes(size) for size in sizes * 40]
    write(pa.table({"blob": cells}), tmp_path / "a.parquet", page_bytes=64 << 10)
    pages = Anatomy(tmp_path / "a.parquet").chunks[0].data_pages
    assert max(page.uncompressed for page in pages) <= (64 << 10) + max(sizes) + 100


def test_the_result_says_what_is_in_the_file(tmp_path: Path) -> None:
    table = pa.table({"n": [1, None, 3], "nested": [[{"a": "x"}], [], None]})
    result = write(table, tmp_path / "a.parquet")
    anatomy = Anatomy(tmp_path / "a.parquet")
    assert result.bytes == anatomy.size == (tmp_path / "a.parquet").stat().st_size
    assert [column.path for column in result.columns] == [".".join(chunk.path) for chunk in anatomy.chunks]
    assert [column.compressed_bytes for column in result.columns] == [
        chunk.meta[7] for chunk in anatomy.chunks
    ]
    assert [column.uncompressed_bytes for column in result.columns] == [
        chunk.meta[6] for chunk in anatomy.chunks
    ]
    assert [column.values for column in result.columns] == [chunk.meta[5] for chunk in anatomy.chunks]
    assert result.columns[0].nulls == 1


def test_footers_tell_sizes_and_encodings(tmp_path: Path) -> None:
    count = range(6_000)
    table = pa.table(
        {
            "id": list(count),
            "word": [None if i % 5 == 0 else f"word-{i % 97}" for i in count],
            "note": [f"row {i} says {i * 7919 % 10007}" for i in count],
            "tags": pa.array([None if i % 7 == 0 else [f"t{i % 3}", None][: i % 3] for i in count]),
        }
    )
    write(table, tmp_path / "a.parquet", row_group_rows=2_500)
    for number, group in enumerate(Anatomy(tmp_path / "a.parquet").row_groups):
        rows = table.slice(number * 2_500, 2_500)
        for chunk in group.chunks:
            assert sum(entry[3] for entry in chunk.meta[13]) == len(chunk.pages)
            sizes, name = chunk.meta[16], chunk.path[0]
            if name in {"word", "note"}:
                assert sizes[1] == sum(len(value) for value in rows[name].to_pylist() if value is not None)
            if name in {"word", "id"}:
                nulls = rows[name].null_count
                assert sizes[3] == [nulls, rows.num_rows - nulls]
            if name == "tags":
                elements = [value or [None] for value in rows[name].to_pylist()]
                assert sizes[2] == [rows.num_rows, sum(len(value) - 1 for value in elements)]
