"""`--rewrite`: the same rows and types in another file, or the old file and the reason."""

from __future__ import annotations

import datetime as dt
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway
from spillway.shell import rewriting, sized

from ..counts import examples
from .conftest import TABLE, names, refused, run

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 5_000
PRICES = pa.table(
    {
        "id": pa.array(range(COUNT), pa.int64()),
        "name": [f"name {number % 40}" for number in range(COUNT)],
        "at": pa.array([dt.datetime(2026, 11, 22, tzinfo=dt.UTC)] * COUNT, pa.timestamp("us", tz="UTC")),
        "tags": [["a", "b"][: number % 3] for number in range(COUNT)],
        "http": [{"status": 200 + number % 3, "note": "x"} for number in range(COUNT)],
        "cost": pa.array([number % 9 for number in range(COUNT)], pa.decimal128(9, 2)),
    }
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "old.parquet"
    table = PRICES.replace_schema_metadata({"owner": "me"})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    return path


def test_a_file_is_written_anew_in_its_place(old: Path) -> None:
    before = old.stat().st_size
    result = run("--rewrite", old)
    assert result.exit_code == 0, result.output
    assert old.stat().st_size < before
    found = pq.ParquetFile(old)
    assert found.read().equals(PRICES)
    assert found.schema_arrow.metadata[b"owner"] == b"me"
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    assert names(old.parent) == {"old.parquet"}
    assert f"{old}: " in result.stderr
    assert "1 file rewritten" in result.stderr


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i8": (pa.int8(), st.integers(-128, 127)),
    "u32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f32": (pa.float32(), st.floats(width=32)),
    "f64": (pa.float64(), st.floats()),
    "text": (pa.string(), st.text(st.characters(codec="utf-8"), max_size=5)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "flag": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates()),
    "hour": (pa.time64("us"), st.times()),
    "at": (pa.timestamp("ns"), st.integers(-(2**62), 2**62)),
    "zoned": (pa.timestamp("ms", tz="Europe/Paris"), st.integers(-(2**40), 2**40)),
    "cost": (pa.decimal128(20, 3), st.decimals(-(10**9), 10**9, places=3)),
    "list": (pa.list_(pa.int16()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "struct": (pa.struct({"a": pa.int32()}), st.fixed_dictionaries({"a": st.none() | st.integers(0, 9)})),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.text(max_size=2), st.integers(0, 9)).map(lambda pairs: list(pairs.items())),
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    chosen = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=6, unique=True))
    rows = draw(st.integers(0, 30))
    fields, arrays = [], []
    for name in chosen:
        kind, values = COLUMNS[name]
        is_nullable = draw(st.booleans())
        cells = st.none() | values if is_nullable else values
        fields.append(pa.field(name, kind, is_nullable))
        arrays.append(pa.array(draw(st.lists(cells, min_size=rows, max_size=rows)), kind))
    return pa.table(arrays, pa.schema(fields))


@settings(max_examples=examples(0.5))
@given(
    table=tables(),
    options=st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["none", "snappy", "gzip", "zstd"]),
            "use_dictionary": st.booleans(),
            "row_group_size": st.integers(1, 40),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "store_schema": st.booleans(),
        }
    ),
)
def test_rows_and_types_of_any_file_stay(table: pa.Table, options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(table, path, **options)
        before = pq.ParquetFile(path)
        rows, schema = before.read(), before.schema_arrow
        result = run("--rewrite", path, "--codec", "gzip")
        assert result.exit_code == 0, result.output
        after = pq.ParquetFile(path)
        assert after.schema_arrow.equals(schema)
        # NaN equals nothing, and 0.0 equals -0.0: their texts tell.
        assert repr(after.read().to_pylist()) == repr(rows.to_pylist())
        assert names(Path(folder)) == {"rows.parquet"}


def planted(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
    """Have the writer write other rows than it is given."""

    class Spoiling(spillway.ParquetWriter):
        def write(self, data: Any) -> None:
            super().write(spoil(data))

    monkeypatch.setattr(rewriting, "ParquetWriter", Spoiling)


def changed(batch: pa.RecordBatch, column: str, row: int, value: Any) -> pa.RecordBatch:
    cells = batch.column(column).to_pylist()
    cells[row] = value
    place = batch.schema.get_field_index(column)
    return batch.set_column(
        place, batch.schema.field(column), pa.array(cells, batch.schema.field(column).type)
    )


FAULTS: dict[str, tuple[Callable[[pa.RecordBatch], pa.RecordBatch], str]] = {
    "value": (lambda batch: changed(batch, "id", 7, -1), "column id differs"),
    "text": (lambda batch: changed(batch, "name", 3, "name 3 "), "column name differs"),
    "null": (lambda batch: changed(batch, "cost", 3, None), "column cost differs"),
    "element": (lambda batch: changed(batch, "tags", 2, ["a", "c"]), "column tags differs"),
    "lost": (lambda batch: batch.slice(1), "5,000 rows would become 4,999"),
    "order": (
        lambda batch: batch.take(pa.array([1, 0, *range(2, batch.num_rows)])),
        "their order differs",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_would_not_hold_the_same_stays(
    old: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    content = old.read_bytes()
    spoil, reason = FAULTS[fault]
    spoilt: list[int] = []

    def once(batch: pa.RecordBatch) -> pa.RecordBatch:
        if spoilt or batch.num_rows < 8:
            return batch
        spoilt.append(batch.num_rows)
        return spoil(batch)

    planted(monkeypatch, once)
    result = run("--rewrite", old)
    assert result.exit_code == 1, result.output
    said = " ".join(result.stderr.split())
    assert f"{old} is unchanged: " in said
    assert reason in said
    assert "0 files rewritten" in said
    assert old.read_bytes() == content
    assert names(old.parent) == {"old.parquet"}


def test_a_file_that_changes_meanwhile_stays_as_it_is_now(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(batch: pa.RecordBatch) -> pa.RecordBatch:
        os.utime(old, ns=(1, 1))
        return batch

    planted(monkeypatch, touched)
    content = old.read_bytes()
    result = run("--rewrite", old)
    assert result.exit_code == 1
    assert "changed while it was being rewritten" in " ".join(result.stderr.split())
    assert old.read_bytes() == content
    assert names(old.parent) == {"old.parquet"}


def test_an_interrupt_leaves_the_file_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyboardInterrupt

    first = old.with_name("a.parquet")
    first.write_bytes(old.read_bytes())
    content = old.read_bytes()
    seen = []

    def second(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch if sum(each.num_rows for each in seen) <= COUNT else interrupted(batch)

    planted(monkeypatch, second)
    result = run("--rewrite", old.parent)
    assert result.exit_code == 130, result.output
    assert "1 of 2 files are rewritten, the others are unchanged" in " ".join(result.stderr.split())
    assert old.read_bytes() == content
    assert first.read_bytes() != content
    assert pq.ParquetFile(first).read().equals(PRICES)
    assert names(old.parent) == {"a.parquet", "old.parquet"}


def test_one_file_that_cannot_be_read_does_not_stop_the_others(old: Path) -> None:
    content = old.read_bytes()
    (old.parent / "a.parquet").write_bytes(content[:-1000])
    (old.parent / "z.parquet").write_bytes(content)
    result = run("--rewrite", old.parent)
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert f"{old.parent / 'a.parquet'} is unchanged" in said
    assert "2 files rewritten" in said
    assert "1 file left" in said
    assert (old.parent / "a.parquet").read_bytes() == content[:-1000]


def test_a_type_that_would_change_is_named(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([1, 2], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    content = (tmp_path / "old.parquet").read_bytes()
    result = run("--rewrite", tmp_path / "old.parquet")
    assert result.exit_code == 1
    assert "column at is INT96" in " ".join(result.stderr.split())
    assert (tmp_path / "old.parquet").read_bytes() == content


def test_order_filters_and_groups_of_sorted_rows_stay(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    order = [pq.SortingColumn(0, descending=True)]
    # In order within each row group, and not beyond.
    table = pa.table({"id": np.tile(np.arange(100)[::-1], 5), "name": ["x"] * 500})
    pq.write_table(table, path, row_group_size=100, sorting_columns=order)
    with_filter = tmp_path / "filtered.parquet"
    spillway.write_parquet(table, with_filter, bloom_filter=["name"])
    assert run("--rewrite", tmp_path).exit_code == 0
    footer = pq.read_metadata(path)
    assert footer.num_row_groups == 5
    assert footer.row_group(4).sorting_columns == tuple(order)
    assert pq.ParquetFile(path).read().equals(table)
    columns = spillway.inspect_file(with_filter).row_groups[0].columns
    assert [each.path for each in columns if each.bloom_filter] == ["name"]


def test_a_file_whose_order_would_go_stays(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    pq.write_table(pa.table({"a": [{"b": 1}]}), path, sorting_columns=[pq.SortingColumn(0)])
    content = path.read_bytes()
    result = run("--rewrite", path)
    assert result.exit_code == 1, result.output
    assert "it would not declare the order that it does" in " ".join(result.stderr.split())
    assert path.read_bytes() == content


def test_filters_that_are_asked_for_come_beside_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    spillway.write_parquet(TABLE, path, bloom_filter=["name"])
    assert run("--rewrite", path, "--bloom-filter", "id").exit_code == 0
    columns = spillway.inspect_file(path).row_groups[0].columns
    assert {each.path for each in columns if each.bloom_filter} == {"id", "name"}


def test_a_group_that_would_have_another_name_is_named(tmp_path: Path) -> None:
    table = pa.table({"tags": [["a"]]})
    pq.write_table(table, tmp_path / "old.parquet")
    pq.write_table(table, tmp_path / "new.parquet", use_compliant_nested_type=False)
    with pytest.raises(rewriting.RowsDifferError, match=r"its schema has .* element"):
        rewriting._check_nodes(tmp_path / "old.parquet", tmp_path / "new.parquet")
    rewriting._check_nodes(tmp_path / "old.parquet", tmp_path / "old.parquet")


def test_metadata_that_would_be_lost_is_named(tmp_path: Path) -> None:
    pq.write_table(TABLE.replace_schema_metadata({"owner": "me"}), tmp_path / "old.parquet")
    pq.write_table(TABLE, tmp_path / "new.parquet")
    with pytest.raises(rewriting.RowsDifferError, match="its metadata owner would be lost"):
        rewriting._check_metadata(tmp_path / "old.parquet", tmp_path / "new.parquet")


def test_a_folder_that_was_not_synced_does_not_deny_the_new_file(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "_sync", lambda _: "Input/output error")
    before = old.read_bytes()
    result = run("--rewrite", old)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert "is rewritten, but a crash of the machine may bring the old file back" in said
    assert "is unchanged" not in said
    assert old.read_bytes() != before


def test_a_link_stays_one_and_its_file_keeps_its_mode(old: Path, tmp_path: Path) -> None:
    old.chmod(0o640)
    link = tmp_path / "link.parquet"
    link.symlink_to(old)
    assert run("--rewrite", link).exit_code == 0
    assert link.is_symlink()
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert pq.read_metadata(old).row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("typed", ["folder", "file"])
def test_files_of_a_table_are_refused(tmp_path: Path, typed: str) -> None:
    spillway.delta.write(tmp_path / "table", TABLE)
    (file,) = (tmp_path / "table").glob("*.parquet")
    content = file.read_bytes()
    said = refused("--rewrite", tmp_path / "table" if typed == "folder" else file)
    assert "Delta table" in said or "_delta_log" in said
    assert file.read_bytes() == content


@pytest.mark.parametrize("mark", ["metadata/v1.metadata.json", ".hoodie/hoodie.properties", "_metadata"])
def test_files_of_tables_of_other_kinds_are_refused(old: Path, mark: str) -> None:
    (old.parent / mark).parent.mkdir(exist_ok=True)
    (old.parent / mark).write_bytes(b"")
    (old.parent / "data").mkdir()
    file = old.rename(old.parent / "data" / "old.parquet")
    content = file.read_bytes()
    assert "which records file sizes" in refused("--rewrite", file)
    assert file.read_bytes() == content


@pytest.mark.parametrize("links", [1, 2])
def test_links_of_a_table_to_a_file_elsewhere_are_refused(tmp_path: Path, old: Path, links: int) -> None:
    spillway.delta.write(tmp_path / "table", TABLE)
    (link,) = (tmp_path / "table").glob("*.parquet")
    link.unlink()
    link.symlink_to(old)
    if links == 2:
        (tmp_path / "link.parquet").symlink_to(link)
        link = tmp_path / "link.parquet"
    content = old.read_bytes()
    assert "_delta_log" in refused("--rewrite", link)
    assert old.read_bytes() == content


def test_other_formats_and_other_options_are_refused(tmp_path: Path, old: Path) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    assert "--rewrite is for Parquet files" in refused("--rewrite", tmp_path / "rows.csv")
    assert "--mode cannot be combined with --rewrite" in refused("--rewrite", old, "--mode", "overwrite")


def test_what_is_left_of_a_file_is_said_in_bytes(old: Path) -> None:
    before = old.stat().st_size
    result = run("--rewrite", old, "--codec", "uncompressed")
    after = old.stat().st_size
    assert f"{sized(before)} -> {sized(after)}" in result.stderr
