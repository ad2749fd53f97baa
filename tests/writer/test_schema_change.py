"""Schemas that change midway: what each value of `on_schema_change` does."""

from __future__ import annotations

import io
import json
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

NARROW = pa.table({"id": pa.array([1, 2], pa.int32())})
WIDE = pa.table({"id": pa.array([3], pa.int64()), "name": ["c"]})
ROWS = [{"id": 1, "name": None}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
BOTH = ("widen", "rotate")


def written(folder: Path, tables: Iterable[pa.Table], **options: Any) -> list[Path]:
    """Write tables one after the other, and return the files in their order."""
    with spillway.DatasetWriter(folder, **options) as writer:
        for table in tables:
            writer.write(table)
    return [file.path for file in writer.result.files]


def unified(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The rows of files of different schemas, by pyarrow."""
    tables = [pq.read_table(path, partitioning=None) for path in files]
    return pa.concat_tables(tables, promote_options="permissive").to_pylist()


def types(path: Path) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in pq.read_schema(path)}


def test_raise_refuses_a_new_column_and_a_wider_type(tmp_path: Path) -> None:
    with spillway.DatasetWriter(tmp_path / "f") as writer:
        writer.write(NARROW)
        for table in (WIDE, WIDE.select(["id"])):
            with pytest.raises(spillway.SchemaError):
                writer.write(table)
        writer.write(NARROW)
    assert unified([file.path for file in writer.result.files]) == 2 * NARROW.to_pylist()


def test_rotate_goes_on_in_a_new_file(tmp_path: Path) -> None:
    first, second = written(tmp_path / "f", [NARROW, WIDE], on_schema_change="rotate")
    assert types(first) == {"id": pa.int32()}
    assert types(second) == {"id": pa.int64(), "name": pa.string()}
    assert unified([first, second]) == ROWS


def test_widen_converts_rows_whose_row_group_is_not_begun(tmp_path: Path) -> None:
    (only,) = written(tmp_path / "f", [NARROW, WIDE], on_schema_change="widen")
    assert types(only) == {"id": pa.int64(), "name": pa.string()}
    assert pq.read_table(only).to_pylist() == ROWS


def test_widen_goes_on_in_a_new_file_after_the_first_row_group(tmp_path: Path) -> None:
    files = written(tmp_path / "f", [NARROW, WIDE], on_schema_change="widen", row_group_rows=2)
    assert [types(path) for path in files] == [{"id": pa.int32()}, {"id": pa.int64(), "name": pa.string()}]
    assert unified(files) == ROWS


@pytest.mark.parametrize("mode", BOTH)
def test_a_narrower_type_and_a_missing_column_fit_the_file(tmp_path: Path, mode: str) -> None:
    (only,) = written(tmp_path / "f", [WIDE, NARROW, WIDE.select(["name"])], on_schema_change=mode)
    assert types(only) == {"id": pa.int64(), "name": pa.string()}
    assert pq.read_table(only).to_pylist() == [ROWS[2], *ROWS[:2], {"id": None, "name": "c"}]


@pytest.mark.parametrize("mode", BOTH)
def test_columns_are_found_by_name_in_any_order(tmp_path: Path, mode: str) -> None:
    (only,) = written(tmp_path / "f", [WIDE, WIDE.select(["name", "id"])], on_schema_change=mode)
    assert pq.read_table(only).to_pylist() == 2 * WIDE.to_pylist()


@pytest.mark.parametrize("mode", BOTH)
def test_fields_of_structs_and_elements_of_lists_widen(tmp_path: Path, mode: str) -> None:
    before = pa.table({"s": [{"x": 1}], "l": pa.array([[1, None]], pa.list_(pa.int16()))})
    after = pa.table({"s": [{"y": "b", "x": None}], "l": pa.array([[2]], pa.list_(pa.int64()))})
    files = written(tmp_path / "f", [before, after], on_schema_change=mode)
    assert unified(files) == [
        {"s": {"x": 1, "y": None}, "l": [1, None]},
        {"s": {"x": None, "y": "b"}, "l": [2]},
    ]
    assert types(files[-1])["l"].value_type == pa.int64()


@pytest.mark.parametrize(
    ("known", "given", "wider"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.int16(), pa.float32(), pa.float32()),
        (pa.decimal128(5, 2), pa.decimal128(9, 4), pa.decimal128(9, 4)),
        (pa.int32(), pa.decimal128(4, 2), pa.decimal128(12, 2)),
        (pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.string()),
    ],
    ids=str,
)
def test_a_column_takes_the_type_that_holds_both(
    tmp_path: Path, known: pa.DataType, given: pa.DataType, wider: pa.DataType
) -> None:
    tables = [pa.table({"x": pa.array(["1"]).cast(kind)}) for kind in (known, given)]
    (only,) = written(tmp_path / "f", tables, on_schema_change="widen")
    assert types(only) == {"x": wider}
    assert pq.read_table(only)["x"].to_pylist() == 2 * pa.array(["1"]).cast(wider).to_pylist()


@pytest.mark.parametrize("mode", ["raise", *BOTH])
@pytest.mark.parametrize(
    "other",
    [
        pa.array(["x"]),
        pa.array([1.5]),
        pa.array([2**63], pa.uint64()),
        pa.array([0], pa.timestamp("us")),
        pa.array([[1]]),
    ],
    ids=lambda array: str(array.type),
)
def test_a_type_that_fits_nowhere_is_refused_and_the_writer_goes_on(
    tmp_path: Path, mode: str, other: pa.Array
) -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int64())})
    bad = pa.table({"id": other, "new": ["x"]})
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        writer.write(table)
        with pytest.raises(spillway.SchemaError, match=r"int64|Int64") as refused:
            writer.write(bad)
        assert refused.value.column == "id"
        writer.write(table)
    (file,) = writer.result.files
    assert pq.read_table(file.path).to_pylist() == 2 * table.to_pylist()


BOOLS = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8()))


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("within", [None, "list", "struct"])
def test_an_extension_type_ends_with_its_storage_type_and_comes_with_it(
    tmp_path: Path, mode: str, within: str | None
) -> None:
    def table(values: pa.Array) -> pa.Table:
        match within:
            case "list":
                values = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)
            case "struct":
                values = pa.StructArray.from_arrays([values], ["x"])
        return pa.table({"a": values})

    ends = written(tmp_path / "ends", [table(BOOLS), table(pa.array([5000]))], on_schema_change=mode)
    uuids = pa.array([b"a" * 16], pa.uuid())
    comes = written(tmp_path / "comes", [table(pa.nulls(1)), table(uuids)], on_schema_change=mode)
    for files, last in ((ends, pa.int64()), (comes, pa.uuid())):
        tables = [pq.read_table(path) for path in files]
        assert sum(found.num_rows for found in tables) == (3 if files is ends else 2)
        kind = tables[-1].schema.field("a").type
        assert last == (kind if within is None else kind.field(0).type)


@pytest.mark.parametrize("mode", BOTH)
def test_dates_become_no_timestamps(tmp_path: Path, mode: str) -> None:
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        writer.write(pa.table({"day": pa.array([0], pa.date32())}))
        with pytest.raises(spillway.SchemaError, match="day"):
            writer.write(pa.table({"day": pa.array([0], pa.timestamp("us"))}))


@pytest.mark.parametrize("mode", BOTH)
def test_a_column_without_nulls_cannot_go_missing(tmp_path: Path, mode: str) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string())])
    with spillway.DatasetWriter(tmp_path / "f", schema, on_schema_change=mode) as writer:
        with pytest.raises(spillway.SchemaError) as refused:
            writer.write(pa.table({"name": ["a"]}))
        assert refused.value.column == "id"


@pytest.mark.parametrize("mode", BOTH)
def test_a_partition_column_keeps_its_type(tmp_path: Path, mode: str) -> None:
    options: dict[str, Any] = {"partition_by": "id", "on_schema_change": mode}
    with spillway.DatasetWriter(tmp_path / "f", **options) as writer:
        writer.write(NARROW.append_column("x", pa.array([1, 2])))
        with pytest.raises(spillway.SchemaError) as refused:
            writer.write(WIDE)
        assert refused.value.column == "id"
        writer.write(pa.table({"id": pa.array([1], pa.int8()), "y": ["b"]}))
    files = [file.path for file in writer.result.files if file.partition == {"id": "1"}]
    assert unified(files) == [{"x": 1, "y": None}, {"x": None, "y": "b"}]


@pytest.mark.parametrize("mode", BOTH)
def test_a_column_of_the_null_type_waits_for_its_first_type(tmp_path: Path, mode: str) -> None:
    nulls = pa.table({"id": [1, 2], "name": pa.nulls(2)})
    (only,) = written(tmp_path / "f", [nulls, WIDE], on_schema_change=mode)
    assert types(only) == {"id": pa.int64(), "name": pa.string()}
    assert pq.read_table(only).to_pylist() == ROWS


@pytest.mark.parametrize("mode", BOTH)
def test_a_file_begun_before_the_first_type_leaves_the_column_out(tmp_path: Path, mode: str) -> None:
    nulls = pa.table({"id": [1, 2], "name": pa.nulls(2)})
    files = written(tmp_path / "f", [nulls, WIDE], on_schema_change=mode, row_group_rows=2)
    assert [list(types(path)) for path in files] == [["id"], ["id", "name"]]
    assert unified(files) == ROWS


@pytest.mark.parametrize("mode", BOTH)
def test_a_column_without_values_keeps_the_null_type_in_the_end(tmp_path: Path, mode: str) -> None:
    nulls = pa.table({"id": [1, 2], "name": pa.nulls(2), "s": pa.array([{"x": None}] * 2)})
    (only,) = written(tmp_path / "f", [nulls], on_schema_change=mode)
    assert pq.read_table(only).equals(nulls)


@pytest.mark.parametrize("mode", BOTH)
def test_an_option_may_name_a_column_that_waits(tmp_path: Path, mode: str) -> None:
    nulls = pa.table({"id": [1, 2], "name": pa.nulls(2)})
    options: dict[str, Any] = {"sorting_columns": ["name"], "on_schema_change": mode}
    files = written(tmp_path / "f", [nulls, WIDE], row_group_rows=2, **options)
    assert unified(files) == ROWS


def as_dicts(writer: spillway.DatasetWriter, rows: list[dict[str, Any]], **options: Any) -> int:
    return writer.write_rows(rows, **options)


def as_ndjson(writer: spillway.DatasetWriter, rows: list[dict[str, Any]], **options: Any) -> int:
    return writer.write_ndjson("".join(json.dumps(row) + "\n" for row in rows).encode(), **options)


def as_file(writer: spillway.DatasetWriter, rows: list[dict[str, Any]], **options: Any) -> int:
    return writer.write_ndjson(
        io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode()), **options
    )


WAYS = (as_dicts, as_ndjson, as_file)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("way", WAYS)
def test_a_field_that_is_null_in_the_first_rows_takes_its_first_type(
    tmp_path: Path, mode: str, way: Any
) -> None:
    rows: list[dict[str, Any]] = [
        *({"id": number, "s": {"x": 1, "y": None}, "n": None} for number in range(1500)),
        {"id": 1500, "s": {"x": 2, "y": [0.5]}, "n": 7},
    ]
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        assert way(writer, rows) == 1501
    (file,) = writer.result.files
    assert types(file.path)["n"] == pa.int64()
    assert pq.read_table(file.path).to_pylist() == rows


@pytest.mark.parametrize("mode", BOTH)
def test_a_field_without_values_is_text_in_the_end(tmp_path: Path, mode: str) -> None:
    row = {"id": 1, "n": None, "s": {"x": None}, "l": []}
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        writer.write_rows([row])
    (file,) = writer.result.files
    spillway.write_parquet([row], tmp_path / "today.parquet")
    assert types(file.path) == types(tmp_path / "today.parquet")
    assert pq.read_table(file.path).to_pylist() == [row]


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("way", WAYS)
def test_a_new_key_becomes_a_column(tmp_path: Path, mode: str, way: Any) -> None:
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        way(writer, [{"id": 1, "s": {"x": 1}}])
        way(writer, [{"id": 2}, {"id": 3, "s": {"x": 2, "y": True}, "a": "b"}, {"id": 4, "a": None}])
    files = [file.path for file in writer.result.files]
    assert len(files) == (1 if mode == "widen" else 2)
    assert unified(files) == [
        {"id": 1, "s": {"x": 1, "y": None}, "a": None},
        {"id": 2, "s": None, "a": None},
        {"id": 3, "s": {"x": 2, "y": True}, "a": "b"},
        {"id": 4, "s": None, "a": None},
    ]


@pytest.mark.parametrize("mode", BOTH)
def test_decimals_of_rows_grow(tmp_path: Path, mode: str) -> None:
    rows = [{"x": Decimal("1.5")}, {"x": Decimal("1234567.25")}, {"x": 2}]
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        for row in rows:
            writer.write_rows([row])
    assert unified([file.path for file in writer.result.files]) == rows


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("way", WAYS)
def test_a_row_that_fits_no_type_is_bad_and_changes_nothing(tmp_path: Path, mode: str, way: Any) -> None:
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        way(writer, [{"id": 1}])
        with pytest.raises(spillway.RowError) as bad:
            way(writer, [{"new": 1, "id": "text"}])
        assert bad.value.field == "id"
        assert way(writer, [{"id": 2}, {"id": "text", "new": 1}, {"id": 3}], on_error="skip") == 2
    (file,) = writer.result.files
    assert pq.read_table(file.path).to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]


@pytest.mark.parametrize("mode", BOTH)
def test_a_list_with_a_bad_row_writes_none_and_keeps_the_schema(tmp_path: Path, mode: str) -> None:
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        writer.write_rows([{"id": 1}])
        with pytest.raises(spillway.RowError):
            writer.write_rows([{"id": 2, "new": 1}, {"id": "text"}])
        writer.write_rows([{"id": 3}])
    (file,) = writer.result.files
    assert pq.read_table(file.path).to_pylist() == [{"id": 1}, {"id": 3}]


@pytest.mark.parametrize("mode", BOTH)
def test_an_iterator_that_fails_after_a_change_leaves_the_rows_before_once(tmp_path: Path, mode: str) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"id": 1}, {"id": 2, "new": "x"})
        raise ValueError("no more")

    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        writer.write_rows([{"id": 0}])
        with pytest.raises(ValueError, match="no more"):
            writer.write_rows(rows())
        writer.write_rows([{"id": 3}])
    found = unified([file.path for file in writer.result.files])
    assert [row["id"] for row in found] == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", BOTH)
def test_a_file_that_cannot_be_begun_fails_the_dataset(tmp_path: Path, mode: str) -> None:
    writer = spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode, row_group_rows=2)
    writer.write(NARROW)
    for hidden in (tmp_path / "f").iterdir():
        shutil.rmtree(hidden)
    with pytest.raises(OSError, match="f"):
        writer.write(pa.concat_tables([WIDE, WIDE]))
    with pytest.raises(spillway.ClosedError):
        writer.write(NARROW)
    assert list((tmp_path / "f").rglob("*.parquet")) == []


@pytest.mark.parametrize("mode", BOTH)
def test_ignored_keys_change_nothing(tmp_path: Path, mode: str) -> None:
    with spillway.DatasetWriter(tmp_path / "f", on_schema_change=mode) as writer:
        writer.write_rows([{"id": 1}])
        writer.write_rows([{"id": 2, "new": 1}], extra="ignore")
    (file,) = writer.result.files
    assert types(file.path) == {"id": pa.int64()}


@pytest.mark.parametrize("mode", BOTH)
def test_a_partition_column_of_rows_does_not_wait(tmp_path: Path, mode: str) -> None:
    with spillway.DatasetWriter(tmp_path / "f", partition_by="day", on_schema_change=mode) as writer:
        writer.write_rows([{"day": None, "id": 1}])
        writer.write_rows([{"day": "mon", "id": 2}])
    assert [file.partition["day"] for file in writer.result.files] == [None, "mon"]


def test_widen_holds_a_share_of_the_memory_limit(tmp_path: Path) -> None:
    ids = pa.table({"id": pa.array(range(40_000), pa.int32())})
    for rows, files in ((20_000, 1), (40_000, 2)):
        options: dict[str, Any] = {"on_schema_change": "widen", "memory_limit": "8MB"}
        found = written(tmp_path / str(rows), [ids.slice(0, rows), WIDE], **options)
        assert len(found) == files


def test_the_file_of_metadata_has_one_schema(tmp_path: Path) -> None:
    for mode in BOTH:
        with pytest.raises(spillway.OptionError, match="metadata_file"):
            spillway.DatasetWriter(tmp_path / "f", metadata_file=True, on_schema_change=mode)


def test_what_is_written_does_not_depend_on_batches(tmp_path: Path) -> None:
    before = pa.table({"id": pa.array(range(100), pa.int32()), "text": [str(n) * 50 for n in range(100)]})
    after = pa.table({"id": pa.array(range(100, 200)), "new": [n % 3 for n in range(100)]})
    for mode in BOTH:
        contents = []
        for rows in (1, 7, 100):
            tables = [table.slice(at, rows) for table in (before, after) for at in range(0, 100, rows)]
            options: dict[str, Any] = {"max_file_rows": 30, "row_group_rows": 20, "on_schema_change": mode}
            files = written(tmp_path / f"{mode}-{rows}", tables, **options)
            contents.append([path.read_bytes() for path in files])
        assert contents[0] == contents[1] == contents[2]
