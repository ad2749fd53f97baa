"""Rows are the same rows, and bad ones the same bad ones, in a file, in a dataset and in a table."""

from __future__ import annotations

import datetime as dt
import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway
import spillway.delta

from ..counts import examples
from .strategies import tables

if TYPE_CHECKING:
    from collections.abc import Callable

Report: TypeAlias = tuple[int, int | None, str, str, Any]


class Writer(Protocol):
    """A writer of rows, whichever."""

    def write_rows(self, rows: Any, *, on_error: Any = "raise", extra: Any = "error") -> int: ...
    def write_ndjson(self, source: Any, *, on_error: Any = "raise", extra: Any = "error") -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


@dataclass(frozen=True)
class Place:
    """One kind of writer, opened in a folder, and what its readers find there."""

    open: Callable[[Path, pa.Schema], Writer]
    read: Callable[[Path], pa.Table]


def read_dataset(folder: Path) -> pa.Table:
    files = sorted((folder / "dataset").rglob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])


PLACES = {
    "file": Place(
        lambda folder, schema: spillway.ParquetWriter(folder / "file.parquet", schema),
        lambda folder: pq.read_table(folder / "file.parquet"),
    ),
    "dataset": Place(
        lambda folder, schema: spillway.DatasetWriter(folder / "dataset", schema),
        read_dataset,
    ),
    "table": Place(
        lambda folder, schema: spillway.delta.create(folder / "table", schema).append(),
        lambda folder: pa.table(spillway.delta.open(folder / "table").scan()),
    ),
    "table, files shared": Place(
        lambda folder, schema: spillway.delta.create(folder / "table", schema).append(coalesce=True),
        lambda folder: pa.table(spillway.delta.open(folder / "table").scan()),
    ),
}


def written(schema: pa.Schema, write: Callable[[Writer], Any]) -> dict[str, tuple[Any, list[Any]]]:
    """The results of `write` by kind of writer, each with the rows that are there afterwards."""
    found = {}
    for name, place in PLACES.items():
        with tempfile.TemporaryDirectory() as folder:
            with place.open(Path(folder), schema) as writer:
                said = write(writer)
            found[name] = (said, place.read(Path(folder)).to_pylist())
    return found


def fits_a_table(kind: pa.DataType) -> bool:
    """Returns true if a Delta table can hold values of an Arrow type."""
    refused = pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_uint64(kind)
    return not (refused or pa.types.is_decimal256(kind)) and all(map(fits_a_table, inner(kind)))


def inner(kind: pa.DataType) -> list[pa.DataType]:
    """The types of the values inside a value."""
    if pa.types.is_struct(kind):
        return [field.type for field in kind]
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.value_type] if pa.types.is_list(kind) or pa.types.is_dictionary(kind) else []


def held_by_a_table(given_table: tuple[pa.Schema, list[dict[str, Any]]]) -> bool:
    return all(fits_a_table(field.type) for field in given_table[0])


@settings(max_examples=examples(0.3))
@given(tables().filter(held_by_a_table))
def test_rows_are_the_same_rows_wherever_they_are_written(
    given_table: tuple[pa.Schema, list[dict[str, Any]]],
) -> None:
    schema, rows = given_table
    found = written(schema, lambda writer: writer.write_rows(iter(rows)))
    assert found["file"][0] == len(rows)
    for name, said in found.items():
        assert said == found["file"], name


FIELDS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("n", pa.int16())])
GOOD = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1)},
    optional={"name": st.none() | st.text("abc"), "n": st.none() | st.integers(-(2**15), 2**15 - 1)},
)
BAD = st.sampled_from(
    [
        {"name": "no id"},
        {"id": None},
        {"id": "text"},
        {"id": 1, "n": 2**15},
        {"id": 1, "more": 2},
        {"id": 1, "name": 3},
        {"id": 1.5},
        7,
        None,
    ]
)


def report(error: spillway.RowError) -> Report:
    return error.row, error.line, error.field, error.message, error.raw


@settings(max_examples=examples(0.3))
@given(st.lists(GOOD | BAD, max_size=30))
def test_bad_rows_are_the_same_and_reported_alike_wherever_they_are_written(rows: list[Any]) -> None:
    def write(writer: Writer) -> list[Any]:
        told: list[Report] = []
        kept = writer.write_rows(rows, on_error=lambda error: told.append(report(error)))
        try:
            raised = writer.write_rows(rows)
        except spillway.RowError as error:
            # Nothing of the call is kept.
            raised = [report(error)]
        skipped = writer.write_rows(rows, on_error="skip", extra="ignore")
        return [kept, told, raised, skipped]

    found = written(FIELDS, write)
    for name, said in found.items():
        assert said == found["file"], name
    kept, told, raised, skipped = found["file"][0]
    assert kept == len(rows) - len(told)
    assert raised == (told[:1] if told else len(rows))
    assert len(found["file"][1]) == kept + skipped + (0 if told else len(rows))


@settings(max_examples=examples(0.3))
@given(st.lists(GOOD | BAD, max_size=20), st.integers(1, 60), st.booleans())
def test_lines_are_the_same_wherever_they_are_written(
    rows: list[Any],
    chunk: int,
    ended: bool,  # noqa: FBT001
) -> None:
    text = "\n".join(map(json.dumps, rows)).encode() + (b"\n" if ended else b"")
    chunks = [text[start : start + chunk] for start in range(0, len(text), chunk)]

    def write(writer: Writer) -> list[Any]:
        told: list[Report] = []
        counts = [writer.write_ndjson(each, on_error=lambda e: told.append(report(e))) for each in chunks]
        # The last line, where it has no end, comes when the writer is closed, and so does its report.
        return [counts, told]

    found = written(FIELDS, write)
    for name, said in found.items():
        assert said == found["file"], name
    told = found["file"][0][1]
    assert len(found["file"][1]) == len(rows) - len(told)


@pytest.mark.parametrize("name", PLACES)
def test_a_bad_last_line_is_told_at_the_end_and_dropped(name: str, tmp_path: Path) -> None:
    writer: Any = PLACES[name].open(tmp_path, FIELDS)
    assert writer.write_ndjson(b'{"id": 1}\n{"id":') == 1
    complete = writer.commit if isinstance(writer, spillway.delta.Append) else writer.close
    with pytest.raises(spillway.RowError, match="the end of the line"):
        complete()
    assert not writer.closed
    assert writer.write_ndjson(io.BytesIO(b'{"id": 2}')) == 1
    complete()
    assert PLACES[name].read(tmp_path)["id"].to_pylist() == [1, 2]
    with pytest.raises(spillway.ClosedError):
        writer.write_rows([{"id": 3}])


@pytest.mark.parametrize("name", PLACES)
def test_a_writer_is_not_given_rows_from_inside_its_own_call(name: str, tmp_path: Path) -> None:
    with PLACES[name].open(tmp_path, FIELDS) as writer:
        inner: list[str] = []

        def again(_: spillway.RowError) -> None:
            with pytest.raises(RuntimeError, match="from inside") as caught:
                writer.write_rows([{"id": 1}])
            inner.append(str(caught.value))

        assert writer.write_rows([{"id": "x"}, {"id": 2}], on_error=again) == 1
        assert len(inner) == 1


#: Several batches of rows, of which a late one does not fit.
MANY = 20_000
LATE = 15_000


@pytest.mark.parametrize("name", PLACES)
def test_a_late_bad_row_keeps_all_rows_of_its_call_out(name: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": number} for number in range(MANY)]
    rows[LATE]["n"] = "many"
    with PLACES[name].open(tmp_path, FIELDS) as writer:
        with pytest.raises(spillway.RowError, match=f"row {LATE}"):
            writer.write_rows(rows)
        assert writer.write_rows(rows, on_error="skip") == MANY - 1
    assert PLACES[name].read(tmp_path)["id"].to_pylist() == [n for n in range(MANY) if n != LATE]


def test_rows_go_to_their_partitions(tmp_path: Path) -> None:
    rows = [{"day": ["mon", "tue", None][number % 3], "id": number} for number in range(30)]
    with spillway.DatasetWriter(tmp_path / "days", partition_by="day") as writer:
        assert writer.write_rows(rows[:20]) == 20
        lines = "".join(json.dumps(row) + "\n" for row in rows[20:])
        assert writer.write_ndjson(lines.encode()) == 10
    found = pyarrow.dataset.dataset(tmp_path / "days", partitioning="hive").to_table()
    in_order = sorted(found.to_pylist(), key=lambda row: row["id"])
    assert [{"day": row["day"], "id": row["id"]} for row in in_order] == rows


def test_a_dataset_infers_the_schema_that_a_file_has(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": None, "c": [0.5]}, {"a": 2.5, "d": "x"}]
    file = io.BytesIO()
    with spillway.ParquetWriter(file) as writer:
        writer.write_rows(rows)
    with spillway.DatasetWriter(tmp_path / "d") as dataset:
        dataset.write_rows(rows)
    (path,) = (tmp_path / "d").glob("*.parquet")
    assert pq.read_table(path).equals(pq.read_table(file))


def test_a_late_time_that_can_name_no_folder_keeps_all_rows_of_its_call_out(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.timestamp("us")), ("id", pa.int64())])
    rows = [{"t": 2**63 - 1 if number == LATE else number % 3, "id": number} for number in range(MANY)]
    with spillway.DatasetWriter(tmp_path / "d", schema, partition_by="t") as writer:
        with pytest.raises(spillway.SchemaError, match=r"calendar|range|millisecond"):
            writer.write_rows(rows)
        assert writer.write_rows(rows[:LATE]) == LATE
    assert writer.result.rows == LATE


def test_rows_that_a_file_of_a_dataset_refuses_end_the_dataset(tmp_path: Path) -> None:
    rows = [{"id": -number} for number in range(10)]
    schema = pa.schema([("id", pa.int64())])
    writer = spillway.DatasetWriter(tmp_path / "d", schema, sorting_columns=["id"])
    with pytest.raises(spillway.SchemaError, match="every file of the dataset is discarded"):
        writer.write_rows(rows)
    with pytest.raises(spillway.ClosedError):
        writer.write_rows(rows)


@pytest.mark.parametrize("coalesce", [False, True])
def test_a_row_that_breaks_a_constraint_keeps_all_rows_of_its_call_out(
    tmp_path: Path,
    coalesce: bool,  # noqa: FBT001
) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.add_constraint("small", f"id <> {LATE}")
    rows = [{"id": number} for number in range(MANY)]
    with table.append(coalesce=coalesce) as append:
        with pytest.raises(spillway.errors.ConstraintError, match=f"row {LATE} has id = {LATE}"):
            append.write_rows(rows)
        assert append.write_rows(rows[:LATE]) == LATE
    assert pa.table(table.scan())["id"].to_pylist() == list(range(LATE))


def test_rows_come_in_the_columns_of_the_first_batch(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", FIELDS)
    with table.append() as append:
        append.write(pa.table({"id": [1], "n": [2]}, schema=FIELDS.remove(1)))
        assert append.write_rows([{"id": 3, "n": None}]) == 1
        with pytest.raises(spillway.RowError, match="name"):
            append.write_rows([{"id": 3, "name": "x"}])
    assert pa.table(table.scan(["id", "name", "n"])).to_pylist() == [
        {"id": 1, "name": None, "n": 2},
        {"id": 3, "name": None, "n": None},
    ]


def test_rows_of_a_repeated_append_are_not_written_again(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", FIELDS)
    versions = [table.append_rows([{"id": 1}], app_id="a", app_version=1) for _ in range(2)]
    assert versions == [1, 1]
    assert pa.table(table.scan()).num_rows == 1


def test_rows_are_appended_by_one_call_or_not_at_all(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", FIELDS)
    assert table.append_rows({"id": number} for number in range(3)) == 1
    with pytest.raises(spillway.RowError, match="row 1"):
        table.append_rows([{"id": 1}, {"id": "x"}])
    bad: list[spillway.RowError] = []
    assert table.append_rows([{"id": 7}, {"id": "x"}], on_error=bad.append) == 2
    assert table.append_rows([{"id": 8, "more": 1}], extra="ignore", coalesce=True) == 3
    assert [error.row for error in bad] == [1]
    with pytest.raises(spillway.UnknownOptionError):
        table.append_rows([{"id": 1}], compresion="zstd")  # type: ignore[call-arg]  # misspelt
    # Without rows there is no version.
    assert table.append_rows([]) == 3
    assert sorted(pa.table(table.scan())["id"].to_pylist()) == [0, 1, 2, 7, 8]
    # Nothing is left of the appends that raised.
    assert len(list(Path(table.path).glob("*.parquet"))) == len(table.files()) == 3


def test_rows_of_which_none_is_kept_fix_no_columns(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", FIELDS)
    table.add_constraint("small", "id < 5")
    with table.append() as append:
        with pytest.raises(spillway.errors.ConstraintError):
            append.write_rows([{"id": 9}])
        append.write(pa.table({"id": [1]}, schema=pa.schema([FIELDS.field("id")])))
    assert pa.table(table.scan(["id"]))["id"].to_pylist() == [1]
    fine = {"t": dt.datetime(2026, 11, 24, 1, 2, 3, 4, tzinfo=dt.UTC)}
    with spillway.DatasetWriter(tmp_path / "d", timestamps="ms", timestamp_loss="refuse") as writer:
        with pytest.raises(spillway.SchemaError, match="rounds"):
            writer.write_rows([fine])
        assert writer.write_rows([{"t": fine["t"].replace(microsecond=0), "x": 1}]) == 1
    assert writer.result.rows == 1


def test_a_last_line_that_breaks_a_constraint_is_dropped(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", FIELDS)
    table.add_constraint("small", "id < 5")
    append = table.append()
    append.write_ndjson(b'{"id": 1}\n{"id": 9}')
    with pytest.raises(spillway.errors.ConstraintError, match="row 0 has id = 9"):
        append.commit()
    assert append.commit() == 2
    assert pa.table(table.scan(["id"]))["id"].to_pylist() == [1]
