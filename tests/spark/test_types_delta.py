"""Every type of Spark that Arrow carries, at any depth, read back equal by Delta."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given, settings

from ..counts import examples
from .drawn_types import ZONES, ends_of_types, rows_of, tables

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from .process import Worker

FOLDERS = itertools.count()


def check_table(worker: Worker, path: Path, table: pa.Table, zone: str = "UTC") -> None:
    """Types and values are equal where Delta's own reader reads them."""
    path.mkdir(parents=True)
    rows, back = path / "rows.arrow", path / "back.arrow"
    with pa.ipc.new_file(rows, table.schema) as file:
        file.write(table)
    written, read = worker.ask("round_trip", rows=str(rows), to=str(path / "to"), back=str(back), zone=zone)
    assert read == written
    with pa.ipc.open_file(back) as file:
        found = file.read_all()
    assert found.schema.types == [in_utc(kind) for kind in table.schema.types]
    assert rows_of(found.cast(table.schema)) == rows_of(table)


def in_utc(kind: pa.DataType) -> pa.DataType:
    """A type as Spark hands it over: moments are in UTC, whatever the zone of the session."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", "UTC")
    if pa.types.is_map(kind):
        return pa.map_(in_utc(kind.key_type), in_utc(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(in_utc(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_utc(field.type)) for field in kind])
    return kind


@settings(max_examples=examples(0.04))
@given(table=tables())
def test_drawn_types_and_rows_are_read_back_equal(
    worker: Worker, tmp_path_factory: pytest.TempPathFactory, table: pa.Table
) -> None:
    check_table(worker, tmp_path_factory.mktemp(f"table-{next(FOLDERS)}") / "one", table)


def test_ends_of_every_type_are_read_back_equal(worker: Worker, tmp_path: Path) -> None:
    table = ends_of_types()
    # Names with parentheses are not for Delta.
    named = table.rename_columns([f"c{n}" if n else "i" for n in range(table.num_columns)])
    for zone in ZONES:
        check_table(worker, tmp_path / zone, named, zone)
