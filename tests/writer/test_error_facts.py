"""Errors say which column or option they are about, for programs that need not read messages."""

from __future__ import annotations

import copy
import io
import pickle
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("day", pa.string()), ("at", pa.timestamp("s"))]
)
FITS: dict[str, pa.Array] = {
    "id": pa.array([1]),
    "day": pa.array(["a"]),
    "at": pa.array([0], pa.timestamp("s")),
}


def misfit(**columns: pa.Array) -> pa.Table:
    return pa.table(FITS | columns)


@pytest.mark.parametrize(
    ("data", "column"),
    [
        (misfit(id=pa.array([None], pa.int64())), "id"),
        (misfit(day=pa.array([1.5])), "day"),
        (misfit(more=pa.array([1])), "more"),
        (misfit().drop_columns(["at"]), "at"),
        (misfit(at=pa.array([2**62], pa.timestamp("s"))), "at"),
        (misfit().select(["day", "id", "at"]), "day"),
    ],
    ids=["null", "type", "one more", "one less", "value", "order"],
)
def test_a_batch_that_does_not_fit_says_which_column(data: pa.Table, column: str) -> None:
    with (
        spillway.ParquetWriter(io.BytesIO(), FILE) as writer,
        pytest.raises(spillway.SchemaError) as caught,
    ):
        writer.write(data)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (pa.schema([("ok", pa.int8()), ("either", pa.dense_union([pa.field("a", pa.int8())]))]), "either"),
        (pa.schema([("outer", pa.struct([("inner", pa.month_day_nano_interval())]))]), "outer.inner"),
        (pa.schema([]), None),
    ],
    ids=["union", "nested", "no columns"],
)
def test_a_schema_that_cannot_be_written_says_which_column(schema: pa.Schema, column: str | None) -> None:
    with pytest.raises(spillway.SchemaError) as caught:
        spillway.ParquetWriter(io.BytesIO(), schema)
    assert caught.value.column == column


def test_rows_of_which_no_type_can_be_inferred_say_which_field() -> None:
    with (
        pytest.raises(spillway.SchemaError) as caught,
        spillway.ParquetWriter(io.BytesIO()) as writer,
    ):
        writer.write_rows([{"a": {"b": 1}}, {"a": {"b": "x"}}])
    assert caught.value.column == "a.b"


def delta_table(tmp_path: Path) -> spillway.delta.Table:
    return spillway.delta.create(tmp_path / "t", FILE.remove(2), partition_by="day")


@pytest.mark.parametrize(
    ("data", "column"),
    [
        (pa.table({"id": [1], "day": [1.5]}), "day"),
        (pa.table({"id": [1], "day": ["a"], "more": [1]}), "more"),
        (pa.table({"id": [1]}), "day"),
        (pa.table({"day": ["a"]}), "id"),
        (pa.table({"id": [Decimal("0.5")], "day": ["a"]}), "id"),
    ],
    ids=["type", "one more", "no partition", "one less", "kind"],
)
def test_rows_that_do_not_fit_a_table_say_which_column(tmp_path: Path, data: pa.Table, column: str) -> None:
    with delta_table(tmp_path).append() as append, pytest.raises(spillway.SchemaError) as caught:
        append.write(data)
    assert caught.value.column == column


def test_a_table_that_cannot_be_made_says_which_column(tmp_path: Path) -> None:
    for schema, column in (
        (pa.schema([("a;b", pa.int8())]), "a;b"),
        (pa.schema([("l", pa.duration("s"))]), "l"),
    ):
        with pytest.raises(spillway.SchemaError) as caught:
            spillway.delta.create(tmp_path / "new", schema)
        assert caught.value.column == column


TABLE = pa.table(FITS)


@pytest.mark.parametrize(
    ("call", "option", "accepted"),
    [
        (lambda _: spillway.WriterOptions(compression_level=99), "compression_level", ("1 to 22",)),
        (lambda _: spillway.WriterOptions(memory_limit="much"), "memory_limit", ()),
        (lambda _: spillway.WriterOptions(bloom_filter={"id": 2.0}), "bloom_filter", ()),
        (lambda _: spillway.WriterOptions(sorting="sort"), "sorting", ()),
        (lambda _: spillway.WriterOptions(metadata={"ARROW:schema": ""}), "metadata", ()),
        (lambda _: spillway.WriterOptions(dictionary={(): True}), "dictionary", ()),
        (
            lambda _: spillway.WriterOptions(sorting_columns=[("id", "down")]),  # type: ignore[list-item]
            "sorting_columns",
            ("ascending", "descending"),
        ),
        (lambda path: spillway.write_parquet(TABLE, path / "f", encoding={"x": "plain"}), "encoding", ()),
        (lambda path: spillway.write_parquet(TABLE, path / "f", encoding="rle"), "encoding", ()),
        (lambda path: spillway.write_parquet(TABLE, path / "f", memory_limit=1), "memory_limit", ()),
        (
            lambda path: spillway.write_parquet(TABLE, path / "f", sorting_columns=["x"]),
            "sorting_columns",
            (),
        ),
        (
            lambda path: spillway.write_dataset(TABLE, path / "d", mode="ignore"),  # type: ignore[arg-type]
            "mode",
            ("error", "append", "overwrite"),
        ),
        (lambda path: spillway.write_dataset(TABLE, path / "d", partition_by="x"), "partition_by", ()),
        (lambda path: spillway.write_dataset(TABLE, path / "d", max_file_rows=0), "max_file_rows", ()),
        (
            lambda path: spillway.write_dataset(TABLE, path / "d", basename_template="x"),
            "basename_template",
            (),
        ),
        (lambda _: spillway.write_dataset(TABLE, "ftp://host/d"), "directory", ()),
        (
            lambda _: spillway.write_parquet(TABLE, "s3://bucket/f", storage_options={"no_such": "1"}),
            "storage_options",
            (),
        ),
        (lambda _: spillway.write_parquet(TABLE, "s3://bucket/"), "destination", ()),
        (lambda _: spillway.delta.open("ftp://host/t"), "uri", ()),
        (lambda _: spillway.delta.open("s3://bucket/t?x=1"), "uri", ()),
        (lambda path: delta_table(path).append(coalesce=True, app_id="a", app_version=1), "coalesce", ()),
        (lambda path: delta_table(path).truncate(timeout=-1), "timeout", ()),
        (
            lambda path: delta_table(path).append(schema_mode="x"),  # type: ignore[arg-type]
            "schema_mode",
            ("merge",),
        ),
        (
            lambda path: spillway.delta.write(path / "t", TABLE, mode="x"),  # type: ignore[arg-type]
            "mode",
            ("append", "overwrite", "error", "ignore"),
        ),
        (
            lambda path: spillway.delta.create(path / "t", FILE, mode="x"),  # type: ignore[arg-type]
            "mode",
            ("error", "ignore", "overwrite"),
        ),
        (
            lambda path: delta_table(path).commit(
                read=spillway.delta.ReadSet(where=[("id", "~", 1)])  # type: ignore[list-item]
            ),
            None,
            ("=", "!=", "<", "<=", ">", ">=", "in"),
        ),
    ],
)
def test_an_option_that_is_refused_is_named(
    tmp_path: Path, call: Callable[[Path], Any], option: str | None, accepted: tuple[str, ...]
) -> None:
    with pytest.raises(spillway.OptionError) as caught:
        call(tmp_path)
    assert (caught.value.option, caught.value.accepted) == (option, accepted)


def test_rows_name_their_options_too() -> None:
    with spillway.ParquetWriter(io.BytesIO(), FILE) as writer:
        with pytest.raises(spillway.OptionError) as caught:
            writer.write_rows([], on_error="stop")  # type: ignore[arg-type]
        assert (caught.value.option, caught.value.accepted) == ("on_error", ("raise", "skip", "a callable"))
        with pytest.raises(spillway.OptionError) as caught:
            writer.write_ndjson(b"", extra="keep")  # type: ignore[arg-type]
        assert (caught.value.option, caught.value.accepted) == ("extra", ("error", "ignore"))


@pytest.mark.parametrize(
    "error",
    [
        spillway.SchemaError("it does not fit", "a.b"),
        spillway.OptionError("x=1 is not accepted", "x", ["y"]),
        spillway.UnknownOptionError("there is no x", "x", ["y"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_facts_survive_a_copy_and_another_process(error: spillway.SpillwayError) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - pickled above
        assert (str(again), vars(again)) == (str(error), vars(error))
