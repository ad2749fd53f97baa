"""`spillway.rewrite`: files joined and split by row group hold the same chunks and the same rows."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway
from spillway import _rewrite

from ..counts import examples
from ..interop import normal, strategies
from ..interop.thrift import Cursor
from ..interop.writing import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.inspection import ColumnChunkReport

FILE_PATH, FILE_OFFSET, META_DATA, OFFSET_INDEX, COLUMN_INDEX = 1, 2, 3, (4, 5), (6, 7)
DATA_PAGE, DICTIONARY_PAGE, FILTER = 9, 11, (14, 15)
GROUP_OFFSET, GROUP_ORDINAL = 5, 7


class Content:
    """What a file holds in each of its row groups, wherever that is in the file."""

    def __init__(self, path: Path | str) -> None:
        data = Path(path).read_bytes()
        length = int.from_bytes(data[-8:-4], "little")
        footer = Cursor(data[-8 - length : -8]).struct()
        self.pairs = {pair[1].decode(): pair[2] for pair in footer.get(5, [])}
        self.created_by = footer[6].decode()
        self.orders = footer.get(7)
        reports = spillway.inspect_file(path, pages=True).row_groups
        self.groups = [
            self._group(data, group, report.columns) for group, report in zip(footer[4], reports, strict=True)
        ]

    @staticmethod
    def _group(data: bytes, group: dict[int, Any], reports: tuple[ColumnChunkReport, ...]) -> Any:
        chunks = []
        for chunk, report in zip(group.pop(1), reports, strict=True):
            meta = chunk.pop(META_DATA)
            data_page, dictionary_page = meta.pop(DATA_PAGE), meta.pop(DICTIONARY_PAGE, 0)
            # Zero is no page.
            start = min(filter(None, (data_page, dictionary_page)), default=0)
            pages = data[start : start + meta[7]]
            parts = [
                data[place : place + length]
                for place, length in (
                    (chunk.pop(COLUMN_INDEX[0], 0), chunk.pop(COLUMN_INDEX[1], 0)),
                    (meta.pop(FILTER[0], 0), meta.pop(FILTER[1], 0)),
                )
            ]
            places, others = {}, {}
            if (index := chunk.pop(OFFSET_INDEX[0], None)) is not None:
                others = Cursor(data[index : index + chunk.pop(OFFSET_INDEX[1])]).struct()
                places = [[page[1] - start, page[2], page.get(3, 0)] for page in others.pop(1)]
            chunk.pop(FILE_OFFSET)
            listed = [replace(page, offset=page.offset - start) for page in report.pages or ()]
            first = data_page and data_page - start
            chunks.append((chunk, meta, first, pages, parts, places, others, listed))
        group.pop(GROUP_OFFSET, None)
        group.pop(GROUP_ORDINAL, None)
        return group, chunks


def rows_of(paths: list[Any]) -> list[list[Any]]:
    """The values of each column, as bits where they are floats."""
    tables = [pq.ParquetFile(path).read() for path in paths]
    columns = zip(*(table.columns for table in tables), strict=True)
    return [[value for part in column for value in normal.values(part)] for column in columns]


def check_copies(sources: list[Path], copies: list[Any]) -> None:
    before = [group for path in sources for group in Content(path).groups]
    assert [group for path in copies for group in Content(path).groups] == before


def by_spillway(draw: Any, folder: Path) -> list[Path]:
    """Files of one schema with different options and rows."""
    recipe = draw(strategies.recipes(max_columns=4, max_rows=150))
    paths = []
    for number in range(draw(st.integers(1, 3))):
        options = draw(strategies.options(recipe.schema))
        # Files are of one schema, and the stored form of a column depends on some; and it takes long to sync.
        left_out = {"timestamps", "compatibility", "field_ids", "durable"}
        options = {name: value for name, value in options.items() if name not in left_out}
        path = folder / f"{number}.parquet"
        write(replace(recipe, seed=recipe.seed + number).table(), path, **options)
        paths.append(path)
    return paths


TYPES = (
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
    pa.timestamp("us"),
    pa.list_(pa.int64()),
)


def by_others(draw: Any, folder: Path) -> list[Path]:
    """Files of pyarrow, polars or DuckDB."""
    recipe = draw(strategies.recipes(types=st.sampled_from(TYPES), max_columns=4, max_rows=150, names=()))
    library = draw(st.sampled_from(("pyarrow", "pyarrow", "polars", "duckdb")))
    paths = []
    for number in range(draw(st.integers(1, 3))):
        frame = replace(recipe, seed=recipe.seed + number).table()
        path = folder / f"{number}.parquet"
        rows = draw(st.integers(1, 100))
        if library == "pyarrow":
            pq.write_table(
                frame,
                path,
                row_group_size=rows,
                write_page_index=draw(st.booleans()),
                data_page_version=draw(st.sampled_from(("1.0", "2.0"))),
                use_dictionary=draw(st.booleans()),
                write_statistics=draw(st.booleans()),
                store_schema=draw(st.booleans()),
            )
        elif library == "polars":
            pl.DataFrame(frame).write_parquet(path, row_group_size=rows, statistics="full")
        else:
            duckdb.sql(f"copy (from frame) to '{path}' (format parquet, row_group_size {rows})")
        paths.append(path)
    return paths


@pytest.mark.parametrize("written", [by_spillway, by_others])
def test_chunks_and_all_that_footers_say_of_them_are_copied(written: Callable[..., list[Path]]) -> None:
    @settings(max_examples=examples(0.5))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            paths = written(data.draw, Path(folder))
            out = Path(folder) / "joined.parquet"
            result = spillway.rewrite(paths, out)
            check_copies(paths, [out])
            assert rows_of([out]) == rows_of(paths)
            footer = pq.read_metadata(out)
            assert (result.rows, result.row_groups) == (footer.num_rows, footer.num_row_groups)
            assert result.bytes == out.stat().st_size
            check_split(out, data.draw)

    check()


def check_split(path: Path, draw: Any) -> None:
    groups = pq.read_metadata(path).num_row_groups
    limits: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "max_file_row_groups": st.integers(1, groups + 1),
                "max_file_bytes": st.integers(1, path.stat().st_size + 100),
            },
        ).filter(bool)
    )
    parts = spillway.rewrite(path, path.with_name("parts"), **limits)
    files = [file.path for file in parts.files]
    assert [file.name for file in files] == [f"part-{number:05d}.parquet" for number in range(len(files))]
    check_copies([path], files)
    for file in parts.files:
        assert file.result.row_groups <= limits.get("max_file_row_groups", groups)
        assert file.result.row_groups <= 1 or file.path.stat().st_size <= limits.get("max_file_bytes", 2**60)
    assert parts.rows == pq.read_metadata(path).num_rows
    most = limits.get("max_file_row_groups")
    assert "max_file_bytes" in limits or len(files) == max(1, -(-groups // most))


def ids(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "id": numbers,
            "word": [f"word {number % 300}" for number in numbers],
            "noise": np.random.default_rng(start).random(len(numbers)),
        }
    )


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    """Two files with many pages, page indexes and Bloom filters."""
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for number, path in enumerate(paths):
        table = ids(number * 10_000, (number + 1) * 10_000)
        spillway.write_parquet(table, path, page_rows=500, row_group_rows=4_000, bloom_filter=["id"])
    return paths


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


def test_every_engine_reads_the_rows_in_order(pair: list[Path], tmp_path: Path) -> None:
    expected = pa.concat_tables([ids(0, 10_000), ids(10_000, 20_000)])
    out = tmp_path / "joined.parquet"
    spillway.rewrite(pair, out)
    assert pq.read_table(out).equals(expected)
    assert pl.read_parquet(out).equals(pl.DataFrame(expected))
    assert duckdb.read_parquet(str(out)).to_arrow_table().equals(expected)
    parts = spillway.rewrite(pair, tmp_path / "parts", max_file_row_groups=2)
    assert [file.result.row_groups for file in parts.files] == [2, 2, 2]
    assert ds.dataset(tmp_path / "parts").to_table().equals(expected)
    assert pl.read_parquet(tmp_path / "parts").equals(pl.DataFrame(expected))


def test_page_indexes_and_bloom_filters_skip_what_they_skipped(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "joined.parquet"
    spillway.rewrite(pair, out)
    context = datafusion.SessionContext(
        datafusion.SessionConfig().set("datafusion.execution.parquet.pushdown_filters", "true")
    )
    context.register_parquet("joined", str(out))
    for first in (0, 777, 9_990, 12_345, 19_999):
        span = f"id between {first} and {first + 20}"
        asked = f"select id, word, noise from joined where {span} order by id"  # noqa: S608 - two numbers
        found = pa.Table.from_batches(context.sql(asked).collect())
        expected = pq.read_table(out, filters=[("id", ">=", first), ("id", "<=", first + 20)])
        assert found.to_pylist() == expected.to_pylist() != []
        plan = pa.Table.from_batches(context.sql(f"explain analyze {asked}").collect())
        assert "page_index_rows_pruned" in str(plan.to_pydict())
    with duckdb.connect() as connection:
        excluded = connection.sql(f"from parquet_bloom_probe('{out}', 'id', 12345)").fetchall()
    assert [row[-1] for row in excluded] == [True, True, True, False, True, True]


def test_what_one_file_is_joined_to_is_that_file(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "copy.parquet"
    spillway.rewrite(pair[0], out)
    assert out.read_bytes() == pair[0].read_bytes()
    spillway.rewrite(pair, out)
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    spillway.rewrite([str(path) for path in pair], first)
    spillway.rewrite((path for path in pair), second)
    assert first.read_bytes() == second.read_bytes() == out.read_bytes()


def test_the_result_says_what_was_copied(pair: list[Path], tmp_path: Path) -> None:
    written = spillway.write_parquet(ids(0, 10_000), pair[0], row_group_rows=4_000)
    result = spillway.rewrite(pair[0], tmp_path / "out.parquet")
    assert [replace(column, reason="copied") for column in written.columns] == list(result.columns)
    assert (result.rows, result.row_groups, result.path) == (10_000, 3, str(tmp_path / "out.parquet"))
    assert result.metadata.num_rows == 10_000
    assert result.peak_tracked_bytes < 2 << 20


def test_files_without_rows_are_joined_and_split(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("none.parquet", "no groups.parquet", "some.parquet")]
    schema = pa.schema({"a": pa.int64()})
    pq.write_table(schema.empty_table(), paths[0])
    spillway.write_parquet(schema.empty_table(), paths[1])
    assert spillway.rewrite(paths[:2], tmp_path / "empty.parquet").rows == 0
    assert pq.read_table(tmp_path / "empty.parquet").schema == schema
    parts = spillway.rewrite(paths[1], tmp_path / "parts", max_file_bytes=1)
    assert [file.result.rows for file in parts.files] == [0]
    spillway.write_parquet(pa.table({"a": [1, 2]}), paths[2])
    assert spillway.rewrite(paths, tmp_path / "out.parquet").rows == 2
    assert rows_of([tmp_path / "out.parquet"]) == rows_of(paths)


DIFFERENT: dict[str, tuple[pa.Schema, str]] = {
    "name": (pa.schema([("a", pa.int64()), ("c", pa.string())]), "b"),
    "order": (pa.schema([("b", pa.string()), ("a", pa.int64())]), "a"),
    "one less": (pa.schema([("a", pa.int64())]), "b"),
    "one more": (pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int8())]), "c"),
    "physical type": (pa.schema([("a", pa.int32()), ("b", pa.string())]), "a"),
    "logical type": (pa.schema([("a", pa.int64()), ("b", pa.binary())]), "b"),
    "unit": (pa.schema([("a", pa.timestamp("us")), ("b", pa.string())]), "a"),
    "nullability": (pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())]), "a"),
    "field id": (
        pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"}), ("b", pa.string())]),
        "a",
    ),
}


@pytest.mark.parametrize("difference", DIFFERENT)
def test_files_of_other_schemas_are_refused_before_anything_is_written(
    tmp_path: Path, difference: str
) -> None:
    schema, column = DIFFERENT[difference]
    first, other = tmp_path / "first.parquet", tmp_path / "other.parquet"
    pq.write_table(pa.schema([("a", pa.int64()), ("b", pa.string())]).empty_table(), first)
    spillway.write_parquet(schema.empty_table(), other)
    with pytest.raises(spillway.SchemaError, match=r"other\.parquet: .* in .*first\.parquet") as refused:
        spillway.rewrite([first, other], tmp_path / "out.parquet")
    assert refused.value.column == column
    with pytest.raises(spillway.SchemaError):
        spillway.rewrite([first, other], tmp_path / "parts", max_file_bytes=1)
    assert names(tmp_path) == {"first.parquet", "other.parquet"}


@pytest.mark.parametrize("nested", [False, True])
def test_durations_of_other_units_are_refused_since_parquet_has_no_unit(
    tmp_path: Path, *, nested: bool
) -> None:
    files = []
    for unit in ("s", "ms"):
        files.append(tmp_path / f"{unit}.parquet")
        kind = pa.list_(pa.duration(unit)) if nested else pa.duration(unit)
        pq.write_table(pa.table({"d": pa.array([[1] if nested else 1], kind)}), files[-1])
    with pytest.raises(spillway.SchemaError, match=r"Duration\(ms\), and Duration\(s\) in .*s\.parquet"):
        spillway.rewrite(files, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    files.insert(0, tmp_path / "integers.parquet")
    bare = pa.list_(pa.int64()) if nested else pa.int64()
    pq.write_table(pa.table({"d": pa.array([[1] if nested else 1], bare)}), files[0])
    with pytest.raises(spillway.SchemaError, match=r"Duration\(s\), and Int64 in .*integers\.parquet"):
        spillway.rewrite(files, tmp_path / "out.parquet")
    # So does a file that stores no Arrow schema.
    pq.write_table(pq.read_table(files[1]), files[0], store_schema=False)
    for joined, words in (
        (files[:2], r"Duration\(s\), and Int64"),
        (files[1::-1], r"Int64, and Duration\(s\)"),
    ):
        with pytest.raises(spillway.SchemaError, match=words):
            spillway.rewrite(joined, tmp_path / "out.parquet")
    assert spillway.rewrite([files[0], files[0]], tmp_path / "out.parquet").rows == 2
    del files[0]
    assert spillway.rewrite([files[0], files[0]], tmp_path / "out.parquet").rows == 2
    assert pq.read_schema(tmp_path / "out.parquet") == pq.read_schema(files[0])


def test_files_of_two_writers_with_one_schema_are_joined(tmp_path: Path) -> None:
    table = ids(0, 100)
    by_pyarrow, by_us, out = (tmp_path / f"{name}.parquet" for name in ("pyarrow", "us", "out"))
    pq.write_table(table, by_pyarrow)
    spillway.write_parquet(table, by_us)
    spillway.rewrite([by_pyarrow, by_us], out)
    assert pq.read_table(out).equals(pa.concat_tables([table, table]))
    assert Content(out).created_by.startswith("spillway version")
    spillway.rewrite([by_pyarrow, by_pyarrow], out)
    assert Content(out).created_by == Content(by_pyarrow).created_by


def test_metadata_that_all_files_have_is_kept(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        metadata = {"app": "x", "day": str(number), **({"last": "yes"} if number == 2 else {})}
        spillway.write_parquet(ids(0, 10), path, metadata=metadata)
    spillway.rewrite(paths, tmp_path / "out.parquet")
    assert Content(tmp_path / "out.parquet").pairs.keys() == {"app", "ARROW:schema"}
    spillway.rewrite(paths[2], tmp_path / "out.parquet")
    assert Content(tmp_path / "out.parquet").pairs == Content(paths[2]).pairs


def test_arrow_types_that_all_files_have_are_kept(tmp_path: Path) -> None:
    def column(kind: pa.DataType) -> pa.Array:
        return pa.array(["a", "b"]).cast(kind) if pa.types.is_dictionary(kind) else pa.array(["a", "b"], kind)

    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for path, kind, days in zip(
        paths, (pa.dictionary(pa.int8(), pa.string()), pa.string()), "12", strict=True
    ):
        columns = {
            "large": pa.array(["x", None], pa.large_string()),
            "mixed": column(kind),
            "words": column(pa.dictionary(pa.int8(), pa.string(), ordered=True)),
            "wide": column(pa.dictionary(pa.int32(), pa.string(), ordered=True)),
            "at": pa.array([1, 2], pa.timestamp("us", "Europe/Warsaw")),
        }
        spillway.write_parquet(pa.table(columns, metadata={"app": "x", "days": days}), path)
    spillway.rewrite(paths, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.field("large").type == pa.large_string()
    assert found.schema.field("at").type == pa.timestamp("us", "Europe/Warsaw")
    assert found.schema.field("mixed").type == pa.string()
    # The dictionaries of two files may be in two orders, and have more values than 8 bits count.
    assert found.schema.field("words").type == pa.dictionary(pa.int32(), pa.string())
    assert found.schema.field("wide").type == pa.dictionary(pa.int32(), pa.string())
    assert found.schema.metadata == {b"app": b"x"}
    assert found["mixed"].to_pylist() == ["a", "b", "a", "b"]
    spillway.rewrite([paths[0], paths[0]], tmp_path / "out.parquet")
    twice, once = pq.read_schema(tmp_path / "out.parquet"), pq.read_schema(paths[0])
    assert twice.field("wide").type == pa.dictionary(pa.int32(), pa.string())
    assert twice.field("large") == once.field("large")
    assert twice.metadata == once.metadata


def test_files_of_pandas_keep_the_index_that_all_have(tmp_path: Path) -> None:
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    for path, rows in zip(paths, (3, 5), strict=True):
        pq.write_table(pa.Table.from_pandas(pa.table({"a": range(rows)}).to_pandas()), path)
    spillway.rewrite(paths, tmp_path / "out.parquet")
    frame = pq.read_table(tmp_path / "out.parquet").to_pandas()
    assert frame.index.tolist() == list(range(8))
    assert frame["a"].tolist() == [0, 1, 2, 0, 1, 2, 3, 4]


def test_rows_declared_in_order_are_declared_so_row_group_by_row_group(tmp_path: Path) -> None:
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    spillway.write_parquet(ids(0, 10), paths[0], sorting_columns=["id"])
    spillway.write_parquet(ids(0, 10), paths[1])
    spillway.rewrite(paths, tmp_path / "out.parquet")
    groups = spillway.inspect_file(tmp_path / "out.parquet").row_groups
    assert [len(group.sorting_columns) for group in groups] == [1, 0]


def test_out_may_be_one_of_the_files(pair: list[Path]) -> None:
    pair[1].chmod(0o640)
    expected = rows_of([*pair])
    assert spillway.rewrite(pair, pair[1]).rows == 20_000
    assert rows_of([pair[1]]) == expected
    assert stat.S_IMODE(pair[1].stat().st_mode) == 0o640
    assert names(pair[0].parent) == {"a.parquet", "b.parquet"}


def test_a_folder_is_appended_to_and_replaced(pair: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    spillway.rewrite(pair[0], folder, max_file_row_groups=2)
    with pytest.raises(FileExistsError) as caught:
        spillway.rewrite(pair[1], folder, max_file_row_groups=2)
    assert 'mode="append"' in caught.value.__notes__[0]
    spillway.rewrite(pair[1], folder, max_file_row_groups=2, mode="append")
    assert rows_of(sorted(folder.iterdir())) == rows_of(pair)
    compact = spillway.rewrite(
        sorted(folder.iterdir()),
        folder,
        max_file_bytes=1 << 30,
        mode="overwrite",
        basename_template="all-{i}.parquet",
    )
    assert names(folder) == {"all-0.parquet"}
    assert rows_of([compact.files[0].path]) == rows_of(pair)


def test_a_file_object_gets_the_bytes_of_the_file(pair: list[Path], tmp_path: Path) -> None:
    file = io.BytesIO()
    assert spillway.rewrite(pair, file).path is None
    spillway.rewrite(pair, tmp_path / "out.parquet")
    assert file.getvalue() == (tmp_path / "out.parquet").read_bytes()
    filesystem = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
    spillway.rewrite(pair, "other.parquet", filesystem=filesystem)
    assert file.getvalue() == (tmp_path / "other.parquet").read_bytes()


@pytest.mark.parametrize("plain_footer", [False, True])
def test_an_encrypted_file_is_refused(pair: list[Path], tmp_path: Path, *, plain_footer: bool) -> None:
    encryption = spillway.Encryption(footer_key=bytes(16), plaintext_footer=plain_footer)
    spillway.write_parquet(ids(0, 10), pair[1], encryption=encryption)
    with pytest.raises(spillway.OptionError, match=r"b\.parquet is encrypted") as refused:
        spillway.rewrite(pair, tmp_path / "out.parquet")
    assert refused.value.option == "files"
    assert names(tmp_path) == {"a.parquet", "b.parquet"}


def test_what_cannot_be_copied_is_refused_by_name(pair: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with pytest.raises(spillway.OptionError, match="files is empty"):
        spillway.rewrite([], out)
    pair[1].write_bytes(pair[1].read_bytes()[:-100])
    with pytest.raises(spillway.CorruptFileError, match=r"b\.parquet"):
        spillway.rewrite(pair, out)
    pair[1].write_text("no Parquet")
    with pytest.raises(spillway.CorruptFileError, match=r"b\.parquet"):
        spillway.rewrite(pair, out)
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet"):
        spillway.rewrite([pair[0], tmp_path / "gone.parquet"], out)
    with pytest.raises(IsADirectoryError):
        spillway.rewrite(tmp_path, out)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(spillway.OptionError, match="not a regular file"):
        spillway.rewrite(tmp_path / "pipe", out)
    with pytest.raises(spillway.OptionError, match="download"):
        spillway.rewrite("s3://bucket/a.parquet", out)
    with pytest.raises(TypeError, match="files must be"):
        spillway.rewrite([7], out)  # type: ignore[list-item]
    spillway.write_dataset(ids(0, 10), tmp_path / "set", metadata_file=True)
    with pytest.raises(spillway.OptionError, match="row groups of other files"):
        spillway.rewrite(tmp_path / "set" / "_metadata", out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"max_file_row_groups": 0}, "max_file_row_groups"),
        ({"max_file_bytes": 0}, "max_file_bytes"),
        ({"mode": "overwrite"}, "mode"),
        ({"basename_template": "a-{i}.parquet"}, "basename_template"),
        ({"max_file_bytes": 1, "filesystem": pa.fs.LocalFileSystem()}, "filesystem"),
        ({"row_group_size": 1}, "row_group_size"),
    ],
)
def test_options_that_are_not_accepted_are_named(
    pair: list[Path], tmp_path: Path, options: dict[str, Any], option: str
) -> None:
    with pytest.raises(spillway.OptionError) as refused:
        spillway.rewrite(pair, tmp_path / "out", **options)
    assert refused.value.option == option


@settings(max_examples=examples(1.0))
@given(st.data())
def test_a_damaged_footer_is_refused_or_copied_as_it_reads(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        good, bad, out = (Path(folder) / f"{name}.parquet" for name in ("good", "bad", "out"))
        spillway.write_parquet(ids(0, 200), good, row_group_rows=100, bloom_filter=True, page_rows=50)
        content = bytearray(good.read_bytes())
        end = len(content) - int.from_bytes(content[-8:-4], "little") - 2_000
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(end, len(content) - 1))] = data.draw(st.integers(0, 255))
        bad.write_bytes(content)
        try:
            spillway.rewrite([good, bad], out)
        except (spillway.SpillwayError, OSError):
            assert {path.name for path in Path(folder).iterdir()} == {"good.parquet", "bad.parquet"}
        else:
            counts = [[group.rows for group in readable(path)] for path in (good, bad, out)]
            assert counts[2] == counts[0] + counts[1]


def readable(path: Path) -> tuple[spillway.inspection.RowGroupReport, ...]:
    return spillway.inspect_file(path).row_groups


class Meddling(io.BytesIO):
    """A file object that changes another file once it has got some bytes."""

    def __init__(self, change: Callable[[], object]) -> None:
        super().__init__()
        self.change = change

    def write(self, data: Any, /) -> int:
        if self.tell() > 4:
            self.change()
        return super().write(data)


@pytest.mark.parametrize("way", ["longer", "shorter", "another"])
def test_a_file_that_changes_while_it_is_copied_is_an_error(
    pair: list[Path], tmp_path: Path, way: str
) -> None:
    def change() -> None:
        if way == "another":
            shutil.copy(pair[1], tmp_path / "new")
            (tmp_path / "new").replace(pair[1])
        else:
            os.truncate(pair[1], 300_000 if way == "longer" else 30)

    with pytest.raises(spillway.SpillwayError, match=r"b\.parquet"):
        spillway.rewrite(pair, Meddling(change))


def test_an_interrupt_leaves_what_was_there(pair: list[Path], tmp_path: Path) -> None:
    calls = []

    def interrupt(rows: int, copied: int) -> None:
        calls.append((rows, copied))
        if rows > 4_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _rewrite.join(list(map(str, pair)), tmp_path / "out.parquet", progress=interrupt)
    assert calls == sorted(calls)
    options = spillway.DatasetOptions(max_file_bytes=1)
    with pytest.raises(KeyboardInterrupt):
        _rewrite.split(list(map(str, pair)), tmp_path / "parts", options, progress=interrupt)
    assert names(tmp_path) == {"a.parquet", "b.parquet"}


PEAK = """
import sys, spillway

def peak():
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) << 10

before = peak()
spillway.rewrite(sys.argv[1:3], sys.argv[3])
spillway.rewrite(sys.argv[1], sys.argv[4], max_file_row_groups=1)
print(peak() - before)
"""


def test_a_large_chunk_is_copied_in_little_memory(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 2**63, 6_000_000)
    path = tmp_path / "large.parquet"
    options: dict[str, Any] = {"row_group_rows": 2**31 - 1, "row_group_bytes": 1 << 40}
    spillway.write_parquet(pa.table({"a": noise}), path, compression="uncompressed", **options)
    assert spillway.inspect_file(path).row_groups[0].compressed_bytes > 45 << 20
    command = [sys.executable, "-c", PEAK, path, path, tmp_path / "out.parquet", tmp_path / "parts"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 12 << 20
