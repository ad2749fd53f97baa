"""A folder of files: how rows are spread over it, when the files appear, and what their options mean."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway
import spillway.delta
from spillway.types import DatasetKeywords, WriterKeywords


def names(folder: Path) -> list[str]:
    """Every entry below `folder`, hidden ones too."""
    return sorted(str(entry.relative_to(folder)) for entry in folder.rglob("*"))


def rows_of(folder: Path, schema: pa.Schema | None = None) -> pa.Table:
    partitioning = ds.partitioning(schema, flavor="hive") if schema is not None else None
    found = ds.dataset(folder, format="parquet", partitioning=partitioning, exclude_invalid_files=True)
    return found.to_table()


def open_files(folder: Path) -> int:
    """Descriptors of this process that lead below `folder`."""
    count = 0
    for entry in os.scandir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            # The listing's own descriptor may be gone.
            count += str(Path(entry.path).readlink()).startswith(f"{folder}/")
    return count


def read_in_order(result: spillway.DatasetResult) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(file.path).read() for file in result.files])


def noisy(rows: int, columns: int = 4) -> pa.Table:
    """Values that no encoding makes much smaller, and the row's number."""
    rng = np.random.default_rng(7)
    return pa.table(
        {"row": np.arange(rows)} | {f"c{index}": rng.integers(0, 2**60, rows) for index in range(columns)}
    )


def test_without_limits_there_is_one_file(tmp_path: Path, table: pa.Table) -> None:
    result = spillway.write_dataset(table, tmp_path / "d")
    assert [file.path for file in result.files] == [tmp_path / "d" / "part-00000.parquet"]
    assert result.files[0].partition == {}
    assert result.rows == table.num_rows
    assert result.bytes == result.files[0].path.stat().st_size
    assert read_in_order(result).equals(table)


def test_one_file_of_a_dataset_is_the_file_of_a_writer(tmp_path: Path, table: pa.Table) -> None:
    (file,) = spillway.write_dataset(table, tmp_path / "d", compression="snappy").files
    written = spillway.write_parquet(table, tmp_path / "alone.parquet", compression="snappy")
    assert file.path.read_bytes() == (tmp_path / "alone.parquet").read_bytes()
    at_once = dataclasses.replace(written, peak_tracked_bytes=file.result.peak_tracked_bytes)
    assert file.result == at_once
    assert written.peak_tracked_bytes <= file.result.peak_tracked_bytes


def test_files_have_the_rows_that_were_asked_for(tmp_path: Path) -> None:
    table = noisy(10_000)
    result = spillway.write_dataset(table, tmp_path / "d", max_file_rows=3_000)
    assert [file.result.rows for file in result.files] == [3_000, 3_000, 3_000, 1_000]
    assert [file.path.name for file in result.files] == [f"part-0000{index}.parquet" for index in range(4)]
    assert read_in_order(result).equals(table)


def test_a_last_file_is_not_begun_for_no_rows(tmp_path: Path) -> None:
    result = spillway.write_dataset(noisy(6_000), tmp_path / "d", max_file_rows=3_000)
    assert [file.result.rows for file in result.files] == [3_000, 3_000]


@pytest.mark.parametrize("limit", [200_000, 1_000_000, 5_000_000])
@pytest.mark.parametrize(
    "options", [{}, {"row_group_rows": 5_000}, {"compression": "uncompressed"}, {"bloom_filter": True}]
)
def test_files_stay_below_their_bytes_and_use_most_of_them(
    tmp_path: Path, limit: int, options: dict[str, Any]
) -> None:
    table = noisy(400_000)
    result = spillway.write_dataset(table, tmp_path / "d", max_file_bytes=limit, **options)
    sizes = [file.path.stat().st_size for file in result.files]
    assert max(sizes) <= limit
    assert min(sizes[:-1]) > limit * 0.7, sizes
    assert read_in_order(result).equals(table)


def test_files_that_compress_well_stay_below_their_bytes_too(tmp_path: Path) -> None:
    """Unfinished pages count before compression, and small pages have large indexes: files may end early."""
    rows, page = 900_000, 20_000
    table = pa.table({"row": range(rows), "text": pa.array([f"{i % 7_919} says hello" for i in range(rows)])})
    limit = 300_000
    result = spillway.write_dataset(table, tmp_path / "d", max_file_bytes=limit, page_bytes=page)
    sizes = [file.result.bytes for file in result.files]
    assert max(sizes) <= limit
    assert len(sizes) > 2
    assert min(sizes[:-1]) > limit / 3, sizes
    assert read_in_order(result).equals(table)


@pytest.mark.parametrize("chunks", [(1, 2), (8, 16), (8, 200)])
def test_files_whose_pages_have_a_few_bytes_use_more_than_half_of_theirs(
    tmp_path: Path, chunks: tuple[int, int]
) -> None:
    table = pa.table({"n": np.random.default_rng(9).integers(0, 1 << 60, 60_000)})
    limit = 500_000
    result = spillway.write_dataset(
        table, tmp_path / "d", max_file_bytes=limit, content_defined_chunking=chunks
    )
    sizes = [file.result.bytes for file in result.files]
    assert max(sizes) <= limit
    assert min(sizes[:-1]) > limit / 2, sizes
    assert read_in_order(result).equals(table)


@pytest.mark.parametrize(("order", "excess"), [("growing", 0.02), ("shrinking", 0)])
def test_rows_that_change_their_weight_hardly_overrun_a_file(
    tmp_path: Path, order: str, excess: float
) -> None:
    rng = np.random.default_rng(5)
    blobs = [rng.bytes(1 + index // 20) for index in range(60_000)]
    table = pa.table({"blob": blobs if order == "growing" else blobs[::-1]})
    limit = 16 << 20
    result = spillway.write_dataset(table, tmp_path / "d", max_file_bytes=limit)
    assert max(file.result.bytes for file in result.files) <= limit * (1 + excess)
    assert read_in_order(result).equals(table)


def test_heavy_rows_end_a_file_in_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pa.table({"blob": [rng.bytes(1 << 20) for _ in range(40)]})
    result = spillway.write_dataset(table, tmp_path / "d", max_file_bytes=16 << 20)
    assert max(file.result.bytes for file in result.files) <= 16 << 20
    assert read_in_order(result).equals(table)


def test_a_limit_below_the_first_unit_gives_files_of_one_unit(tmp_path: Path) -> None:
    result = spillway.write_dataset(noisy(5_000), tmp_path / "d", max_file_bytes=1)
    assert [file.result.rows for file in result.files] == [2_048, 2_048, 904]


@given(data=st.data())
def test_how_rows_are_cut_changes_no_file(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    rows = data.draw(st.integers(1, 30_000))
    options: dict[str, Any] = {
        "max_file_rows": data.draw(st.none() | st.integers(500, 20_000)),
        "max_file_bytes": data.draw(st.none() | st.integers(1_000, 400_000)),
        "row_group_rows": data.draw(st.integers(700, 40_000)),
        "partition_by": data.draw(st.sampled_from(["", "kind"])) or (),
    }
    kinds = pa.array([("x", "y", None)[i * i % 5 % 3] for i in range(rows)])
    table = noisy(rows, 2).append_column("kind", kinds)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=6)))
    parts = [table.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, rows], strict=True)]
    whole = spillway.write_dataset(table, folder / "whole", **options)
    together = spillway.write_dataset(pa.concat_tables(parts), folder / "together", **options)
    with spillway.DatasetWriter(folder / "cut", table.schema, **options) as writer:
        for part in parts:
            writer.write(part)
    for name, result in (("together", together), ("cut", writer.result)):
        for ours, theirs in zip(result.files, whole.files, strict=True):
            assert ours.path.relative_to(folder / name) == theirs.path.relative_to(folder / "whole")
            assert ours.path.read_bytes() == theirs.path.read_bytes()


def test_partitions_become_folders_and_leave_the_files(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 1, None], "n": [10, 20, 30, 40], "b": ["x", "y", "y", "x"]})
    result = spillway.write_dataset(table, tmp_path / "d", partition_by=["b", "a"])
    assert [str(file.path.parent.relative_to(tmp_path / "d")) for file in result.files] == [
        "b=x/a=1",
        "b=y/a=2",
        "b=y/a=1",
        "b=x/a=__HIVE_DEFAULT_PARTITION__",
    ]
    assert [file.partition for file in result.files] == [
        {"b": "x", "a": "1"},
        {"b": "y", "a": "2"},
        {"b": "y", "a": "1"},
        {"b": "x", "a": None},
    ]
    for file in result.files:
        assert pq.ParquetFile(file.path).schema_arrow.names == ["n"]
    read = rows_of(tmp_path / "d", pa.schema([("b", pa.string()), ("a", pa.int64())]))
    assert read.select(["a", "n", "b"]).sort_by("n").equals(table)


def test_null_and_the_empty_string_share_a_folder_and_its_numbers(tmp_path: Path) -> None:
    table = pa.table({"k": ["", None, "", None], "n": [1, 2, 3, 4]})
    (file,) = spillway.write_dataset(table, tmp_path / "d", partition_by="k").files
    assert file.partition == {"k": None}
    assert pq.ParquetFile(file.path).read().column("n").to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["b", "a", None, "b", "", "a"]),
        pa.array(["b", "a", None, "b", "", "a"], pa.large_string()),
        pa.array(["b", "a", None, "b", "", "a"], pa.string_view()),
        pa.array(["b", "a", None, "b", "", "a"]).dictionary_encode(),
        pa.array([2, 1, None, 2, 3, 1], pa.int8()),
        pa.array([2, 1, None, 2, 3, 1], pa.uint64()),
        pa.array([True, False, None, True, True, False]),
        pa.array([2, 1, None, 2, 3, 1], pa.date32()),
        pa.array([2, 1, None, 2, 3, 1], pa.timestamp("us")),
        pa.array([2, 1, None, 2, 3, 1], pa.timestamp("ns", "Europe/Warsaw")),
        pa.array([2, 1, None, 2, 3, 1], pa.decimal128(5, 2)),
        pa.RunEndEncodedArray.from_arrays([2, 4, 6], ["b", None, "a"]),
    ],
    ids=lambda keys: str(keys.type),
)
def test_every_layout_of_a_key_is_grouped(tmp_path: Path, keys: pa.Array) -> None:
    table = pa.table({"k": keys, "n": range(6)})
    result = spillway.write_dataset(table, tmp_path / "d", partition_by="k")
    values = [None if value == "" else value for value in keys.to_pylist()]
    expected = [
        [row for row, value in enumerate(values) if value == group] for group in dict.fromkeys(values)
    ]
    found = [pq.ParquetFile(file.path).read().column("n").to_pylist() for file in result.files]
    assert found == expected


def test_batches_may_bring_a_key_in_another_layout(tmp_path: Path) -> None:
    keys = pa.array(["a", "b", "a"])
    with spillway.DatasetWriter(
        tmp_path / "d", pa.schema([("k", pa.string()), ("n", pa.int64())]), partition_by="k"
    ) as writer:
        for layout in (keys, keys.cast(pa.large_string()), keys.dictionary_encode()):
            writer.write(pa.table({"k": layout, "n": [1, 2, 3]}))
    assert [file.result.rows for file in writer.result.files] == [6, 3]


def test_keys_that_cannot_name_a_folder_are_refused_before_any_file(tmp_path: Path) -> None:
    for column in (
        pa.array([b"x"]),
        pa.array([[1]]),
        pa.array([1], pa.time64("us")),
        pa.array([None], pa.null()),
    ):
        with pytest.raises(spillway.OptionError, match="integers, floats, booleans, strings, dates"):
            spillway.write_dataset(pa.table({"k": column, "n": [1]}), tmp_path / "d", partition_by="k")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition_by": "missing"}, 'does not have: its columns are "k", "n"'),
        ({"partition_by": ["k", "k"]}, "twice"),
        ({"partition_by": ["k", "n"]}, "none is left"),
        ({"max_file_bytes": 0}, "from 1 up"),
        ({"max_file_rows": -5}, "from 1 up"),
        ({"max_open_files": 0}, "from 1 up"),
        ({"basename_template": "part.parquet"}, "the place of the file's number"),
        ({"basename_template": "{i}.pq"}, 'end in ".parquet"'),
        ({"basename_template": "_{i}.parquet"}, "readers pass over"),
        ({"mode": "ignore"}, '"error", "append", "overwrite"'),
        ({"compression": "lzo"}, "choose one of"),
    ],
)
def test_what_is_accepted_is_in_the_message(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(spillway.OptionError, match=says):
        spillway.write_dataset(pa.table({"k": [1], "n": [1]}), tmp_path / "d", **options)
    assert names(tmp_path) == []


def test_the_keyword_arguments_are_the_fields_of_both_options() -> None:
    fields = {field.name for field in dataclasses.fields(spillway.DatasetOptions)}
    assert fields | set(WriterKeywords.__annotations__) == set(DatasetKeywords.__annotations__)


def test_a_url_with_a_secret_is_refused_without_it() -> None:
    with pytest.raises(spillway.OptionError, match="storage_options") as caught:
        spillway.DatasetWriter("s3://bucket/d?X-Amz-Signature=secret")
    assert caught.value.option == "directory"
    assert "secret" not in str(caught.value)


def test_rows_out_of_order_end_the_dataset_and_the_message_says_so(tmp_path: Path) -> None:
    good = pa.table({"k": ["a", "b"], "n": [1, 2]})
    with spillway.DatasetWriter(
        tmp_path / "d", good.schema, partition_by="k", sorting_columns=["n"]
    ) as writer:
        writer.write(good)
        with pytest.raises(spillway.SchemaError, match="every file of the dataset is discarded") as caught:
            writer.write(pa.table({"k": ["a", "b"], "n": [5, 1]}))
        assert "can go on" not in str(caught.value)
        with pytest.raises(spillway.ClosedError, match="were discarded"):
            writer.write(good)
        writer.abort()
    assert names(tmp_path) == []


def test_files_appear_together_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    with spillway.DatasetWriter(folder, max_file_rows=100) as writer:
        writer.write(noisy(1_000))
        visible = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
        assert visible == []
        assert not any(name.endswith(".parquet") for name in names(folder))
        assert writer.bytes_written > 0
    assert names(folder) == [f"part-0000{index}.parquet" for index in range(10)]
    assert writer.closed
    assert writer.bytes_written == writer.result.bytes


def test_an_exception_in_the_block_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        with spillway.DatasetWriter(folder, partition_by="row", mode="append") as writer:
            writer.write(noisy(100))
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fail(tmp_path / "new")
    assert names(tmp_path) == []
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "part-00000.parquet").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="enough"):
        fail(tmp_path / "old")
    assert names(tmp_path / "old") == ["part-00000.parquet"]


def test_an_aborted_writer_has_no_result(tmp_path: Path) -> None:
    with spillway.DatasetWriter(tmp_path / "d") as writer:
        writer.write(noisy(10))
        with pytest.raises(ValueError, match="still open"):
            _ = writer.result
        writer.abort()
    with pytest.raises(spillway.ClosedError, match="aborted"):
        _ = writer.result
    with pytest.raises(spillway.ClosedError, match="aborted"):
        writer.write(noisy(10))
    assert names(tmp_path) == []


def test_a_writer_that_is_forgotten_leaves_nothing(tmp_path: Path) -> None:
    writer = spillway.DatasetWriter(tmp_path / "d", partition_by="row")
    writer.write(noisy(50))
    del writer
    assert names(tmp_path) == []


def test_a_folder_with_something_in_it_is_refused_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=tmp_path.name) as caught:
        spillway.DatasetWriter(tmp_path)
    assert names(tmp_path) == ["note.txt"]
    assert 'mode="append"' in caught.value.__notes__[0]


def test_appending_counts_on_from_what_is_there(tmp_path: Path) -> None:
    table = noisy(250)
    for _ in range(2):
        spillway.write_dataset(table, tmp_path / "d", max_file_rows=100, mode="append")
    (tmp_path / "d" / "part-00001.parquet").unlink()
    result = spillway.write_dataset(table, tmp_path / "d", mode="append")
    assert [file.path.name for file in result.files] == ["part-00006.parquet"]
    assert rows_of(tmp_path / "d").num_rows == 650


@pytest.mark.timeout(60)  # a number that does not grow was tried for ever
def test_an_append_behind_the_last_number_is_an_error_and_leaves_what_was_there(tmp_path: Path) -> None:
    spillway.write_dataset(pa.table({"a": [1]}), tmp_path / "d")
    last = tmp_path / "d" / f"part-{2**64 - 1}.parquet"
    (tmp_path / "d" / "part-00000.parquet").rename(last)
    with pytest.raises(FileExistsError, match=last.name):
        spillway.write_dataset(pa.table({"a": [2]}), tmp_path / "d", mode="append")
    assert list((tmp_path / "d").iterdir()) == [last]
    assert pq.read_table(last)["a"].to_pylist() == [1]


def test_two_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    first = spillway.DatasetWriter(tmp_path / "d", mode="append", max_file_rows=10)
    second = spillway.DatasetWriter(tmp_path / "d", mode="append", max_file_rows=10)
    for writer in (first, second):
        writer.write(noisy(25))
    second.close()
    first.close()
    assert rows_of(tmp_path / "d").num_rows == 50
    assert names(tmp_path / "d") == [f"part-0000{index}.parquet" for index in range(6)]


def test_of_two_that_want_the_folder_alone_the_second_fails_whole(tmp_path: Path) -> None:
    first = spillway.DatasetWriter(tmp_path / "d", max_file_rows=10)
    second = spillway.DatasetWriter(tmp_path / "d", max_file_rows=7)
    for writer in (first, second):
        writer.write(noisy(25))
    first.close()
    before = {name: (tmp_path / "d" / name).read_bytes() for name in names(tmp_path / "d") if name[0] != "."}
    with pytest.raises(FileExistsError, match="/d'"):
        second.close()
    assert {name: (tmp_path / "d" / name).read_bytes() for name in names(tmp_path / "d")} == before


def test_overwriting_replaces_data_files_only(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    old = pa.table({"k": [1, 2], "n": [1, 2]})
    spillway.write_dataset(old, folder, partition_by="k")
    (folder / "k=2" / "note.txt").write_text("mine")
    (folder / "_keep.parquet").write_bytes(b"hidden from readers")
    new = pa.table({"k": [3], "n": [3]})
    with spillway.DatasetWriter(folder, partition_by="k", mode="overwrite") as writer:
        writer.write(new)
        assert rows_of(folder).num_rows == 2
    assert names(folder) == [
        "_keep.parquet",
        "k=2",
        "k=2/note.txt",
        "k=3",
        "k=3/part-00000.parquet",
    ]


def test_overwriting_takes_free_names_and_the_same_call_again_puts_it_right(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    spillway.write_dataset(noisy(25), folder, max_file_rows=10)
    for first in (3, 6):
        spillway.write_dataset(noisy(25), folder, max_file_rows=10, mode="overwrite")
        assert names(folder) == [f"part-{first + number:05d}.parquet" for number in range(3)]
    # As a process leaves it that was killed between the new files and the old ones.
    spillway.write_dataset(noisy(25), folder, max_file_rows=10, mode="append")
    assert rows_of(folder).num_rows == 50
    spillway.write_dataset(noisy(5), folder, mode="overwrite")
    assert rows_of(folder).num_rows == 5


def test_a_delta_table_is_no_place_for_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    for mode in ("error", "append", "overwrite"):
        with pytest.raises(spillway.OptionError, match="Delta table"):
            spillway.DatasetWriter(tmp_path, mode=mode)
    assert names(tmp_path) == ["_delta_log"]


TABLES = {
    "_delta_log/00000000000000000000.json": "a Delta table",
    "_spark_metadata/0": "the output of a stream of Spark's own file sink",
    ".hoodie/hoodie.properties": "a Hudi table",
    "metadata/00000-a.metadata.json": "an Iceberg table",
}


@pytest.mark.parametrize("log", TABLES)
@pytest.mark.parametrize("below", ["", "day=1", "day=1/hour=2"])
def test_files_that_a_log_lists_are_neither_removed_nor_joined(tmp_path: Path, log: str, below: str) -> None:
    table = tmp_path / "table"
    (table / log).parent.mkdir(parents=True)
    (table / log).touch()
    (table / below).mkdir(parents=True, exist_ok=True)
    old = table / below / "old.parquet"
    old.touch()
    for mode in ("error", "append", "overwrite"):
        with pytest.raises(spillway.OptionError, match=f"table is {TABLES[log]}: files beside its log"):
            spillway.DatasetWriter(table / below, mode=mode)
    with pytest.raises(spillway.OptionError, match=f"table is {TABLES[log]}, and an overwrite of"):
        spillway.DatasetWriter(tmp_path, mode="overwrite")
    assert old.exists()


def test_a_folder_of_metadata_of_ones_own_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "columns.json").touch()
    spillway.write_dataset(noisy(5), tmp_path, mode="overwrite")
    spillway.write_dataset(noisy(5), tmp_path / "day=1", mode="append")
    assert rows_of(tmp_path / "day=1").num_rows == 5


def test_an_overwrite_takes_no_file_of_a_delta_table_below(tmp_path: Path) -> None:
    spillway.delta.write(tmp_path / "d" / "table", noisy(5))
    for path in (tmp_path / "d", tmp_path):
        with pytest.raises(spillway.OptionError, match=r"table is a Delta table, and an overwrite of"):
            spillway.DatasetWriter(path, mode="overwrite")
    with spillway.DatasetWriter(tmp_path, mode="append") as writer:
        writer.write(noisy(5))
    assert pa.table(spillway.delta.open(tmp_path / "d" / "table").scan()).num_rows == 5


def test_an_overwrite_replaces_partitions_of_a_column_that_begins_with_an_underscore(tmp_path: Path) -> None:
    for day in (1, 2):
        rows = pa.table({"_day": [day], "id": [day]})
        spillway.write_dataset(rows, tmp_path, partition_by="_day", mode="overwrite")
    assert [folder.name for folder in tmp_path.iterdir()] == ["_day=2"]


def test_no_more_files_are_open_than_allowed(tmp_path: Path) -> None:
    staged = tmp_path / "d"
    rows = 400
    table = pa.table({"k": [i % 20 for i in range(rows)], "n": range(rows)})
    most = 0
    with spillway.DatasetWriter(staged, table.schema, partition_by="k", max_open_files=5) as writer:
        for batch in table.to_batches(max_chunksize=20):
            writer.write(batch)
            most = max(most, open_files(staged))
    assert most == 5
    # Twenty partitions in turn: each batch closes what the last one opened.
    assert len(writer.result.files) == 20 * 20
    read = rows_of(staged, pa.schema([("k", pa.int64())]))
    assert read.select(["k", "n"]).sort_by("n").equals(table)


def test_unfinished_pages_of_open_files_are_not_encoded_after_every_call(tmp_path: Path) -> None:
    """With delta encodings a call took ten times as long as with plain ones, all of it thrown away."""
    rng = np.random.default_rng(0)
    columns = {f"n{number}": rng.integers(0, 10**6, 256_000) for number in range(4)}
    rows = pa.table({"k": np.arange(256_000) % 64, **columns})

    def seconds(encoding: str) -> float:
        folder = tmp_path / f"{encoding}-{len(list(tmp_path.iterdir()))}"
        writer = spillway.DatasetWriter(
            folder, rows.schema, partition_by="k", max_open_files=64, encoding=encoding, threads=1
        )
        writer.write(rows)
        start = time.process_time()
        for call in range(20):
            writer.write(rows.slice(call * 128, 128))
        passed = time.process_time() - start
        writer.abort()
        return passed

    # A busy machine can only make a reading worse.
    assert any(seconds("delta_binary_packed") < 3 * seconds("plain") for _ in range(3))


def test_the_file_that_rested_longest_is_closed_first(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    with spillway.DatasetWriter(tmp_path / "d", schema, partition_by="k", max_open_files=2) as writer:
        for index, key in enumerate(["a", "b", "a", "c", "a", "b"]):
            writer.write(pa.table({"k": [key], "n": [index]}))
    found = [
        (file.partition["k"], pq.ParquetFile(file.path).read().column("n").to_pylist())
        for file in writer.result.files
    ]
    # "c" closed "b", not "a", and "b" closed "c" when it came back.
    assert found == [("a", [0, 2, 4]), ("b", [1]), ("b", [5]), ("c", [3])]


def test_sorted_rows_need_one_open_file(tmp_path: Path) -> None:
    table = pa.table({"k": [i // 100 for i in range(1_000)], "n": range(1_000)})
    result = spillway.write_dataset(table, tmp_path / "d", partition_by="k", max_open_files=1)
    assert [file.result.rows for file in result.files] == [100] * 10


def test_a_batch_that_does_not_fit_is_refused_whole(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), pa.field("n", pa.int64(), nullable=False)])
    good = pa.table({"k": ["a", "b"], "n": [1, 2]})
    bad = pa.table({"k": ["a", "b"], "n": [3, None]})
    with spillway.DatasetWriter(tmp_path / "d", schema, partition_by="k") as writer:
        with pytest.raises(spillway.SchemaError, match="not nullable"):
            writer.write(bad)
        with pytest.raises(spillway.SchemaError, match="does not fit"):
            writer.write(good.rename_columns(["k", "m"]))
        writer.write(good)
    assert rows_of(tmp_path / "d").column("n").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "beyond"),
    [
        (pa.date32(), [10**8, -(10**8), 2**31 - 1, -(2**31)]),
        (pa.date64(), [10**8 * 86_400_000, -(10**8) * 86_400_000]),
        (pa.timestamp("s"), [2**50, 2**62, -(2**62)]),
        (pa.timestamp("ms", "UTC"), [2**60, -(2**60)]),
        (pa.timestamp("us"), [2**63 - 1, -(2**63)]),
    ],
    ids=str,
)
def test_a_day_outside_the_calendar_refuses_its_batch_whole_and_names_the_column(
    tmp_path: Path, kind: pa.DataType, beyond: list[int]
) -> None:
    days = pa.table({"day key": pa.array([0, *beyond], pa.int64()).cast(_as_stored(kind)).view(kind)})
    days = days.append_column("n", pa.array(range(len(days))))
    with spillway.DatasetWriter(tmp_path / "d", days.schema, partition_by="day key") as writer:
        for row in range(1, len(days)):
            with pytest.raises(spillway.SchemaError, match="day key") as caught:
                writer.write(days.slice(row - 1, 2) if row == 1 else days.slice(row, 1))
            assert caught.value.column == "day key"
        writer.write(days.slice(0, 1))
    assert writer.result.rows == 1


def _as_stored(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()


def test_a_dataset_of_no_rows_has_its_schema(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    result = spillway.write_dataset(schema.empty_table(), tmp_path / "plain")
    assert [pq.ParquetFile(file.path).schema_arrow for file in result.files] == [schema]
    assert spillway.write_dataset(schema.empty_table(), tmp_path / "parts", partition_by="k").files == ()


def test_nothing_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(spillway.SchemaError, match="pass schema="):
        spillway.DatasetWriter(tmp_path / "d").close()
    assert names(tmp_path) == []


def test_a_durable_dataset_is_the_same_dataset(tmp_path: Path) -> None:
    table = pa.table({"k": [1, 2, 1], "n": [1, 2, 3]})
    for durable in (True, False):
        spillway.write_dataset(table, tmp_path / str(durable), partition_by="k", durable=durable)
    assert names(tmp_path / "True") == names(tmp_path / "False")


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    table = noisy(2_000)
    batches = table.append_column("k", pc.bit_wise_and(table.column("row"), 3)).to_batches(max_chunksize=100)

    def work(number: int) -> None:
        for batch in batches[number::4]:
            writer.write(batch)

    with spillway.DatasetWriter(
        tmp_path / "d", batches[0].schema, partition_by="k", max_file_rows=77
    ) as writer:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert sorted(rows_of(tmp_path / "d").column("row").to_pylist()) == list(range(2_000))


def test_a_partition_column_that_hides_its_folders_is_refused(tmp_path: Path) -> None:
    rows = pa.table({".day": ["a"], "n": [1]})
    with pytest.raises(spillway.OptionError, match="names begin with a dot"):
        spillway.write_dataset(rows, tmp_path / "to", partition_by=".day")


def test_a_value_too_long_for_the_name_of_a_folder_is_refused_before_other_rows_are_lost(
    tmp_path: Path,
) -> None:
    with spillway.DatasetWriter(tmp_path / "to", partition_by="day") as writer:
        writer.write(pa.table({"day": ["a" * 251], "n": [1]}))
        for too_long in ("b" * 252, "/" * 84):
            with pytest.raises(spillway.SchemaError, match="the file system takes 255") as refused:
                writer.write(pa.table({"day": [too_long], "n": [2]}))
            assert refused.value.column == "day"
    assert ds.dataset(tmp_path / "to", partitioning="hive").to_table()["n"].to_pylist() == [1]


def test_rows_of_a_frame_that_are_partitioned_get_the_labels_of_no_others(tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": [1, 2, 1], "a": [1, 2, 3]}, index=pd.RangeIndex(10, 13))
    spillway.write_dataset(frame, tmp_path / "d", partition_by="k")
    read = ds.dataset(tmp_path / "d", partitioning="hive").to_table().to_pandas()
    assert read["a"].to_list() == [1, 3, 2]
    assert read.index.equals(pd.RangeIndex(3))
