"""Dictionaries keep their order and unused values; where they cannot, they are not called ordered."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WORDS = ("c", "b", "d", "z", "", "ż", "a word that is longer than sixteen bytes", "b" * 70)
ORDERED = pa.schema([("a", pa.dictionary(pa.int8(), pa.string(), ordered=True))])
FRAME = pd.DataFrame(
    {"a": pd.Categorical(["d", "b", "c", "b"], categories=["c", "b", "d", "z"], ordered=True)}
)


def categories(words: Sequence[str | None], keys: Sequence[int | None], *, ordered: bool = True) -> pa.Table:
    """One batch of a dictionary column."""
    array = pa.DictionaryArray.from_arrays(
        pa.array(keys, pa.int8()), pa.array(words, pa.string()), ordered=ordered
    )
    return pa.table({"a": array})


def written(*batches: pa.Table, schema: pa.Schema | None = None, **options: Any) -> pq.ParquetFile:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema or batches[0].schema, **options) as writer:
        for batch in batches:
            writer.write(batch)
    return pq.ParquetFile(file)


def is_ordered(file: pq.ParquetFile) -> bool:
    return bool(file.schema_arrow.field("a").type.ordered)


def dictionary_of(file: pq.ParquetFile, row_group: int = 0) -> list[str]:
    """The dictionary that readers make categories of."""
    column: Any = file.read_row_group(row_group).column("a").combine_chunks()
    words: list[str] = column.dictionary.to_pylist()
    return words


def test_an_ordered_categorical_means_the_same_after_it_was_read() -> None:
    file = io.BytesIO()
    spillway.write_parquet(FRAME, file)
    read = pd.read_parquet(file)
    pd.testing.assert_frame_equal(read, FRAME)
    assert list(read["a"].cat.categories) == ["c", "b", "d", "z"]
    assert (read["a"].min(), read["a"].max()) == ("c", "d")


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threads": 3},
        {"memory_limit": "2MB"},
        {"page_bytes": 1},
        {"compatibility": "v1"},
        {"encoding": "dictionary"},
        {"row_group_bytes": 1000},
        {"sorting_columns": ["n"], "sorting": "sort"},
    ],
    ids=str,
)
def test_categories_survive_row_groups_and_options(rows: int, options: dict[str, Any]) -> None:
    frame = pd.concat([FRAME] * 700, ignore_index=True)
    frame["n"] = range(len(frame))
    file = io.BytesIO()
    spillway.write_parquet(frame, file, row_group_rows=rows, **options)
    pd.testing.assert_frame_equal(pd.read_parquet(file), frame)


def frames() -> st.SearchStrategy[pd.DataFrame]:
    def frame(categories: list[str], codes: list[int], ordered: bool) -> pd.DataFrame:  # noqa: FBT001
        known = [code % (len(categories) + 1) - 1 for code in codes]
        column = pd.Categorical.from_codes(
            known, categories=pd.Index(categories, dtype="str"), ordered=ordered
        )
        return pd.DataFrame({"a": column, "n": range(len(column))})

    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    names = st.lists(texts, unique=True, max_size=30)
    return st.builds(frame, names, st.lists(st.integers(0, 30), min_size=1, max_size=60), st.booleans())


@given(frames(), st.integers(1, 70), st.booleans())
def test_a_frame_comes_back_as_from_pandas_own_file(frame: pd.DataFrame, rows: int, index: bool) -> None:  # noqa: FBT001
    if index:
        frame = frame.set_index("a")
    ours, theirs = io.BytesIO(), io.BytesIO()
    spillway.write_parquet(frame, ours, row_group_rows=rows)
    frame.to_parquet(theirs, engine="pyarrow")
    pd.testing.assert_frame_equal(pd.read_parquet(ours), pd.read_parquet(theirs))


Words = list[str | None]


@st.composite
def feeds(draw: st.DrawFn) -> list[tuple[Words, list[int | None]]]:
    """Batches whose dictionaries are often the same, go on from each other, or differ; in some of them values
    repeat or are null.
    """
    known = draw(st.lists(st.sampled_from(WORDS), unique=True, min_size=1))
    part = st.integers(0, len(known)).map(lambda end: known[:end])
    others = st.lists(st.one_of(st.none(), st.sampled_from(WORDS)), max_size=5)
    feed: list[tuple[Words, list[int | None]]] = []
    for _ in range(draw(st.integers(1, 6))):
        words: Words = list(draw(st.one_of(st.just(known), st.just(known), part, others)))
        keys = st.one_of(st.none(), st.integers(0, len(words) - 1)) if words else st.none()
        feed.append((words, draw(st.lists(keys, max_size=12))))
    return feed


def joined(dictionaries: list[Words]) -> tuple[list[str], bool]:
    """The values of all dictionaries in the order in which they came, and whether each keeps its own."""
    values: list[str] = []
    in_order = True
    for words in dictionaries:
        places = []
        for word in words:
            if word is None:
                continue
            if word not in values:
                values.append(word)
            places.append(values.index(word))
        in_order = in_order and all(one < other for one, other in pairwise(places))
    return values, in_order


@given(
    feeds(),
    st.booleans(),
    st.integers(1, 20),
    st.sampled_from([{}, {"threads": 2}, {"page_bytes": 1}, {"memory_limit": "1MB"}]),
)
def test_what_a_file_says_of_the_order_of_a_dictionary_is_so(
    feed: list[tuple[Words, list[int | None]]],
    ordered: bool,  # noqa: FBT001
    rows: int,
    options: dict[str, Any],
) -> None:
    batches = [categories(words, keys, ordered=ordered) for words, keys in feed]
    schema = batches[0].schema
    file = written(*batches, schema=schema, row_group_rows=rows, **options)
    cells = [cell for batch in batches for cell in batch["a"].to_pylist()]
    table = file.read()
    assert table["a"].to_pylist() == cells
    if not cells:
        return
    of_rows = [words for words, keys in feed for _ in keys]
    _, in_order = joined(of_rows)
    assert is_ordered(file) == (ordered and in_order)
    for group in range(file.num_row_groups):
        # An ordered dictionary goes on from row group to row group.
        start = 0 if is_ordered(file) else group * rows
        expected, _ = joined(of_rows[start : (group + 1) * rows])
        if not ordered or is_ordered(file):
            assert dictionary_of(file, group) == expected


@given(feeds(), st.booleans(), st.lists(st.integers(0, 80), max_size=6).map(sorted), st.integers(1, 50))
def test_cuts_change_no_byte_of_dictionaries(
    feed: list[tuple[Words, list[int | None]]],
    ordered: bool,  # noqa: FBT001
    cuts: list[int],
    rows: int,
) -> None:
    table = pa.concat_tables([categories(words, keys, ordered=ordered) for words, keys in feed])
    ends = [min(cut, len(table)) for cut in [0, *cuts, len(table)]]
    choices: tuple[dict[str, Any], ...] = (
        {"row_group_rows": rows},
        {"page_bytes": 30},
        {"row_group_bytes": 100},
    )
    for options in choices:
        files = [io.BytesIO(), io.BytesIO()]
        for file, edges in zip(files, (ends, [0, len(table)]), strict=True):
            with spillway.ParquetWriter(file, table.schema, **options) as writer:
                for start, end in pairwise(edges):
                    writer.write(table.slice(start, end - start))
        assert files[0].getvalue() == files[1].getvalue()


@pytest.mark.parametrize(
    "options", [{"dictionary": False}, {"dictionary": {"a": False}}, {"encoding": "plain"}]
)
def test_without_a_dictionary_there_is_no_order(options: dict[str, Any]) -> None:
    file = written(pa.Table.from_pandas(FRAME), **options)
    assert not is_ordered(file)
    assert file.read()["a"].to_pylist() == list(FRAME["a"])


def test_rows_that_come_as_text_keep_the_order_as_long_as_it_has_them() -> None:
    first = categories(["c", "b", "d"], [2, 0])
    for word, ordered in (("b", True), ("new", False)):
        for rows in (1, 2, 1000):
            file = written(first, pa.table({"a": [word, "c"]}), first, row_group_rows=rows)
            assert is_ordered(file) == ordered
            assert file.read()["a"].to_pylist() == ["d", "c", word, "c", "d", "c"]
    assert not is_ordered(written(pa.table({"a": ["x"]}), schema=ORDERED))


def test_a_dictionary_that_takes_too_much_of_a_row_group_loses_its_order() -> None:
    words = [f"word {number:020}" for number in range(100, 0, -1)]
    batch = categories(words, list(range(100)))
    small, large = (written(batch, row_group_bytes=4 * size) for size in (100 * 29 - 1, 100 * 29))
    assert (is_ordered(small), is_ordered(large)) == (False, True)
    assert dictionary_of(large) == words
    assert small.read()["a"].to_pylist() == large.read()["a"].to_pylist() == words


def test_a_dictionary_that_grows_too_large_loses_its_order() -> None:
    """In the middle of a row group as at the start of another."""
    many = [[f"{part} {number}" for number in range(100)] for part in range(40)]
    batches = [categories(words, list(range(100))) for words in many]
    for rows in (100, 1000, 10_000):
        file = written(*batches, row_group_bytes=8000, row_group_rows=rows)
        assert not is_ordered(file)
        assert file.read()["a"].to_pylist() == [word for words in many for word in words]


def test_large_dictionaries_are_kept_as_pyarrow_keeps_them() -> None:
    words = pa.array(["x" * 1000 + f"_{number}" for number in range(4000)])
    keys = [pa.array([(row * 7919 + part) % 4000 for row in range(100)], pa.int32()) for part in range(10)]
    table = pa.table({"a": pa.chunked_array([pa.DictionaryArray.from_arrays(part, words) for part in keys])})
    assert written(table).read().equals(table)


def bloom_filter(file: io.BytesIO) -> bytes:
    chunk: Any = pq.read_metadata(file).row_group(0).column(0)
    start = chunk.bloom_filter_offset
    return file.getvalue()[start : start + chunk.bloom_filter_length]


def test_statistics_and_bloom_filters_are_of_the_values_that_rows_have() -> None:
    file, without = io.BytesIO(), io.BytesIO()
    spillway.write_parquet(categories(["z", "b", "a", "c"], [1, 3, 1, None]), file, bloom_filter=True)
    statistics: Any = pq.read_metadata(file).row_group(0).column(0).statistics
    assert (statistics.min, statistics.max, statistics.null_count) == ("b", "c", 1)
    spillway.write_parquet(categories(["b", "c"], [0, 1, 0, None]), without, bloom_filter=True)
    assert bloom_filter(file) == bloom_filter(without)


@pytest.mark.parametrize("layout", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_every_layout_of_values_is_kept(layout: pa.DataType) -> None:
    words: Any = pa.array(["d", "a", None, "z"]).cast(layout)
    array: Any = pa.DictionaryArray.from_arrays(pa.array([3, 0, 2, None, 3]), words, ordered=True)
    file = written(pa.table({"a": array.slice(1)}))
    assert is_ordered(file)
    assert dictionary_of(file) == [word for word in words.to_pylist() if word is not None]
    assert file.read()["a"].to_pylist() == array.slice(1).to_pylist()


def test_nested_dictionaries_are_kept() -> None:
    words = pa.DictionaryArray.from_arrays(
        pa.array([2, 0, None, 0, 1], pa.int8()), pa.array(["d", "a", "c", "z"]), ordered=True
    )
    lists = pa.ListArray.from_arrays([0, 2, 2, 5], words)
    structs = pa.StructArray.from_arrays([words, pa.array(range(5))], ["w", "n"])
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", "x"]), ordered=True)
    table = pa.table({"l": lists, "s": structs.slice(0, 3), "bad": bad.take(pa.array([0, 1, 0]))})
    read: Any = written(table).read()
    assert read["l"].chunk(0).values.dictionary.to_pylist() == ["d", "a", "c", "z"]
    assert read["s"].chunk(0).field("w").dictionary.to_pylist() == ["d", "a", "c", "z"]
    assert read["l"].type.value_type.ordered
    assert read["s"].type.field("w").type.ordered
    assert not read["bad"].type.ordered
    assert read.to_pylist() == table.to_pylist()


def test_an_empty_row_group_of_nulls_has_the_dictionary() -> None:
    file = written(categories(["b", "a"], [None] * 5), row_group_rows=2)
    assert is_ordered(file)
    assert [dictionary_of(file, group) for group in range(3)] == [["b", "a"]] * 3


def test_a_polars_enum_is_one_for_pyarrow_too(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": pl.Series(["d", "b", None, "b"], dtype=pl.Enum(["c", "b", "d", "z"]))})
    spillway.write_parquet(frame, tmp_path / "a.parquet")
    file = pq.ParquetFile(tmp_path / "a.parquet")
    assert is_ordered(file)
    assert dictionary_of(file) == ["c", "b", "d", "z"]
    assert pl.read_parquet(tmp_path / "a.parquet").equals(frame)
    assert list(pd.read_parquet(tmp_path / "a.parquet")["a"].cat.categories) == ["c", "b", "d", "z"]


def test_datasets_keep_dictionaries_in_every_file(tmp_path: Path) -> None:
    frame = pd.concat([FRAME] * 50, ignore_index=True)
    frame["part"] = [row % 3 for row in range(len(frame))]
    spillway.write_dataset(frame, tmp_path / "d", partition_by=["part"], max_file_rows=40)
    files = sorted((tmp_path / "d").rglob("*.parquet"))
    assert len(files) == 6
    for file in files:
        assert dictionary_of(pq.ParquetFile(file)) == ["c", "b", "d", "z"]
        assert is_ordered(pq.ParquetFile(file))
    read = ds.dataset(tmp_path / "d", partitioning="hive").to_table().to_pandas()
    assert read["a"].max() == "d"


def test_small_files_are_not_filled_by_unused_values(tmp_path: Path) -> None:
    """Dictionaries get no more than their share of what a file may have."""
    words = [f"word {number:020}" for number in range(5000)]
    table = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array([7] * 4000, pa.int16()), pa.array(words))})
    spillway.write_dataset(table, tmp_path / "d", max_file_bytes=20_000)
    assert len(list((tmp_path / "d").rglob("*.parquet"))) == 1


def test_an_order_that_is_lost_is_lost_for_the_whole_file() -> None:
    one, other = categories(["a", "b"], [0, 1, 0]), categories(["b", "a"], [0, 1, 0])
    file = written(one, other, one, row_group_rows=3)
    assert not is_ordered(file)
    assert pc.unique(file.read()["a"].cast(pa.string())).to_pylist() == ["a", "b"]


def test_a_file_without_rows_keeps_its_type() -> None:
    assert written(schema=ORDERED).schema_arrow.equals(ORDERED)
    assert written(categories(["a"], [])).schema_arrow.equals(ORDERED)


@pytest.mark.parametrize("options", [{"dictionary": False}, {"encoding": {"c": "plain"}}, {}])
def test_keys_count_the_values_that_readers_gather(tmp_path: Path, options: dict[str, Any]) -> None:
    """Readers make one dictionary of all batches, also of pages that have none."""
    path = tmp_path / "f.parquet"
    keys = pa.array(range(100), pa.int8())
    with spillway.ParquetWriter(
        path, pa.schema({"c": pa.dictionary(pa.int8(), pa.string())}), **options
    ) as writer:
        for first in range(0, 500, 100):
            names = pa.array([f"v{number}" for number in range(first, first + 100)])
            writer.write(pa.table({"c": pa.DictionaryArray.from_arrays(keys, names)}))
    expected = [f"v{number}" for number in range(500)]
    assert pq.read_table(path)["c"].to_pylist() == expected
    assert pl.read_parquet(path)["c"].to_list() == expected
    assert pq.read_schema(path).field("c").type.index_type == pa.int16()


def test_keys_count_the_unused_values_of_a_dictionary_page_and_plain_ones(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    kind = pa.dictionary(pa.int8(), pa.string())
    with spillway.ParquetWriter(path, pa.schema({"c": kind}), dictionary_page_bytes=6000) as writer:
        for batch in range(2):
            names = pa.array([f"v{batch}-{number}" for number in range(100)])
            values = pa.DictionaryArray.from_arrays(pa.array([99], pa.int8()), names)
            writer.write(pa.table({"c": values}))
        plain = [f"{'y' * 200}{number}" for number in range(60)]
        writer.write(pa.table({"c": plain}))
    assert writer.result.columns[0].encodings == ("PLAIN", "RLE_DICTIONARY")
    assert pq.read_table(path)["c"].to_pylist() == ["v0-99", "v1-99", *plain]
