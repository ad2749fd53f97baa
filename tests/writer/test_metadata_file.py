"""The file `_metadata` of a dataset, and the footer of a file, are what pyarrow makes of the same files."""

from __future__ import annotations

import base64
import functools
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

TABLE = pa.table({"k": ["a", "b", "a", None], "n": [1, 2, 3, 4]})
LISTED: dict[str, Any] = {"partition_by": "k", "metadata_file": True}


def by_pyarrow(files: list[Path], folder: Path) -> dict[str, Any]:
    """The metadata that pyarrow merges of files, each with its path from the folder."""
    merged: pq.FileMetaData | None = None
    for path in files:
        found = pq.read_metadata(path)
        found.set_file_path(str(path.relative_to(folder)))
        if merged is None:
            merged = found
        else:
            merged.append_row_groups(found)
    assert merged is not None
    return {name: value for name, value in merged.to_dict().items() if name != "serialized_size"}


def stored(path: Path) -> pa.Schema:
    """The Arrow schema that a file stores."""
    encoded = pq.read_metadata(path).metadata[b"ARROW:schema"]
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))


def values_of(path: Path, name: str) -> list[str]:
    """The values of a dictionary column of a file, in the order of its pages."""
    return pq.read_table(path)[name].chunks[-1].dictionary.to_pylist()


def so_of_both(one: pa.DictionaryType, other: pa.DictionaryType, *, same_values: bool) -> pa.DictionaryType:
    """The type of a dictionary column of two files: its keys count the values of both."""
    keys = max(one.index_type, other.index_type, key=lambda keys: keys.bit_width)
    return pa.dictionary(keys, one.value_type, ordered=one.ordered and other.ordered and same_values)


def listed(folder: Path) -> set[str]:
    """The files that `_metadata` lists."""
    found = pq.read_metadata(folder / "_metadata")
    return {found.row_group(group).column(0).file_path for group in range(found.num_row_groups)}


@given(
    keys=st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=20),
    rows=st.integers(1, 4),
    groups=st.integers(1, 3),
)
def test_it_is_what_pyarrow_makes_of_the_files(keys: list[str | None], rows: int, groups: int) -> None:
    values = [float(number) for number in range(len(keys))]
    table = pa.table({"k": pa.array(keys, pa.string()), "n": range(len(keys)), "x": values})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "d"
        result = spillway.write_dataset(table, folder, max_file_rows=rows, row_group_rows=groups, **LISTED)
        files = [file.path for file in result.files]
        found = pq.read_metadata(folder / "_metadata").to_dict()
        assert found.pop("serialized_size") > 0
        assert found == by_pyarrow(files, folder)
        rows_of_all = ds.parquet_dataset(
            folder / "_metadata", partitioning=ds.partitioning(pa.schema({"k": pa.string()}), flavor="hive")
        )
        assert len(rows_of_all.files) == len(files)
        assert sorted(rows_of_all.to_table()["n"].to_pylist()) == table["n"].to_pylist()


WORDS = [f"word {number}" for number in range(200)]
PLAIN_ROWS = pa.schema({"c": pa.string(), "n": pa.int64()})


@st.composite
def batches_with_dictionaries(draw: st.DrawFn) -> list[pa.RecordBatch]:
    """Batches of a column with an ordered dictionary, which often is the one of the batch before."""
    known = st.sampled_from([WORDS[:2], WORDS[:3], WORDS[1::-1], WORDS[:120], WORDS[100:]])
    values = draw(known)
    batches = []
    for _ in range(draw(st.integers(1, 8))):
        values = draw(st.one_of(st.just(values), st.just(values), known))
        keys = draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=4))
        column = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), values, ordered=True)
        batches.append(pa.record_batch({"c": column, "n": range(len(keys))}))
    return batches


@given(batches=batches_with_dictionaries(), rows=st.integers(1, 12), groups=st.integers(1, 12))
def test_its_arrow_schema_says_what_all_files_say(
    batches: list[pa.RecordBatch], rows: int, groups: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "d"
        with spillway.DatasetWriter(
            folder, max_file_rows=rows, row_group_rows=groups, metadata_file=True
        ) as writer:
            for batch in batches:
                writer.write(batch)
        files = [file.path for file in writer.result.files]
        same_values = all(values_of(path, "c") == values_of(files[0], "c") for path in files)
        both = functools.partial(so_of_both, same_values=same_values)
        of_all = functools.reduce(both, [stored(path).field("c").type for path in files])
        assert stored(folder / "_metadata").field("c").type == of_all
        found = ds.parquet_dataset(folder / "_metadata")
        assert found.schema.field("c").type.ordered == of_all.ordered
        written = pa.Table.from_batches([batch.cast(PLAIN_ROWS) for batch in batches])
        assert found.to_table().cast(PLAIN_ROWS).equals(written)


def test_an_order_that_all_files_have_is_kept(tmp_path: Path) -> None:
    keys = pa.array([0, 1, 2] * 10, pa.int8())
    column = pa.DictionaryArray.from_arrays(keys, ["low", "middle", "high"], ordered=True)
    table = pa.table({"c": column, "k": [row % 4 for row in range(30)]})
    result = spillway.write_dataset(table, tmp_path / "d", max_file_rows=3, **LISTED)
    assert len(result.files) > 4
    found = ds.parquet_dataset(tmp_path / "d" / "_metadata", partitioning="hive").to_table()
    assert found.schema.field("c").type == pa.dictionary(pa.int8(), pa.string(), ordered=True)
    assert found["c"].to_pandas().max() == "high"


def test_files_that_store_no_arrow_schema_have_none_in_it(tmp_path: Path) -> None:
    spillway.write_dataset(TABLE, tmp_path / "d", store_schema=False, metadata={"kept": "yes"}, **LISTED)
    assert pq.read_metadata(tmp_path / "d" / "_metadata").metadata == {b"kept": b"yes"}


def test_readers_of_the_folder_take_it_for_no_data(tmp_path: Path) -> None:
    spillway.write_dataset(TABLE, tmp_path / "d", **LISTED)
    assert (tmp_path / "d" / "_metadata").read_bytes()[:4] == b"PAR1"
    assert ds.dataset(tmp_path / "d").to_table().num_rows == 4
    assert len(duckdb.read_parquet(f"{tmp_path}/d/**/*.parquet")) == 4
    assert pl.read_parquet(tmp_path / "d" / "**" / "*.parquet").height == 4


def test_a_durable_dataset_has_it_and_one_without_files_has_none(tmp_path: Path) -> None:
    spillway.write_dataset(TABLE, tmp_path / "d", durable=True, **LISTED)
    assert len(listed(tmp_path / "d")) == 3
    spillway.write_dataset(TABLE.slice(0, 0), tmp_path / "e", **LISTED)
    assert list((tmp_path / "e").iterdir()) == []
    spillway.write_dataset(TABLE.slice(0, 0), tmp_path / "f", metadata_file=True)
    assert pq.read_metadata(tmp_path / "f" / "_metadata").num_columns == 2


def test_overwriting_replaces_it_and_removes_what_other_tools_left(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    spillway.write_dataset(TABLE, folder, **LISTED)
    pq.write_metadata(TABLE.schema, folder / "_common_metadata")
    result = spillway.write_dataset(TABLE.slice(1), folder, mode="overwrite", **LISTED)
    assert listed(folder) == {str(file.path.relative_to(folder)) for file in result.files}
    assert not (folder / "_common_metadata").exists()
    spillway.write_dataset(TABLE, folder, mode="overwrite", partition_by="k")
    assert not (folder / "_metadata").exists()
    assert ds.dataset(folder).to_table().num_rows == 4


def test_a_name_that_is_taken_leaves_the_old_files_and_none_of_the_new_ones(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    spillway.write_dataset(TABLE, folder, partition_by="k")
    (folder / "_metadata").mkdir()
    before = sorted(folder.rglob("*"))
    with pytest.raises(OSError, match="_metadata"):
        spillway.write_dataset(TABLE, folder, mode="overwrite", **LISTED)
    assert sorted(folder.rglob("*")) == before


def test_files_that_it_would_not_list_are_refused(tmp_path: Path) -> None:
    spillway.write_dataset(TABLE, tmp_path / "d", **LISTED)
    with pytest.raises(spillway.OptionError, match=r"_metadata lists the files") as caught:
        spillway.write_dataset(TABLE, tmp_path / "d", mode="append", partition_by="k")
    assert caught.value.option == "mode"
    with pytest.raises(spillway.OptionError, match=r"mode=.append. is not accepted"):
        spillway.DatasetOptions(metadata_file=True, mode="append")


def test_a_list_that_appears_during_an_append_is_seen_before_its_files_do(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    writer = spillway.DatasetWriter(folder, TABLE.schema, mode="append", partition_by="k")
    writer.write(TABLE)
    spillway.write_dataset(TABLE, folder, mode="overwrite", **LISTED)
    with pytest.raises(spillway.OptionError, match=r"_metadata lists the files"):
        writer.close()
    assert ds.dataset(folder).to_table().num_rows == 4


def test_statistics_of_encrypted_files_are_not_shown(tmp_path: Path) -> None:
    encryption = spillway.Encryption(footer_key=b"0123456789abcdef")
    with pytest.raises(spillway.OptionError, match="metadata_file=True with encryption"):
        spillway.write_dataset(TABLE, tmp_path / "d", encryption=encryption, **LISTED)
    result = spillway.write_parquet(TABLE, tmp_path / "one.parquet", encryption=encryption)
    assert result.footer == b""
    with pytest.raises(ValueError, match="encrypted"):
        _ = result.metadata


def test_the_metadata_of_a_result_is_that_of_its_file(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    result = spillway.write_parquet(table, path, row_group_rows=4_000, bloom_filter=True)
    assert result.metadata == pq.read_metadata(path)
    assert path.read_bytes().endswith(result.footer)
    result.metadata.set_file_path("rows.parquet")
    pq.write_metadata(table.schema, tmp_path / "_metadata", metadata_collector=[result.metadata])
    assert ds.parquet_dataset(tmp_path / "_metadata").to_table().equals(table)


def test_metadata_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    result = spillway.write_parquet(TABLE, io.BytesIO())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(spillway.MissingExtraError, match="pyarrow"):
        _ = result.metadata
