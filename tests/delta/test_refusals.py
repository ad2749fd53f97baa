"""Batches that are refused once rows of others were written: nothing of an earlier call goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway
from spillway.errors import ClosedError, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema({"part": pa.int64(), "id": pa.int64()})


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"part": part, "id": number} for part, number in pairs], SCHEMA)


def held(table: spillway.delta.Table) -> list[tuple[int, int]]:
    found = pa.table(table.scan()).to_pylist()
    return sorted((row["part"], row["id"]) for row in found)


def test_rows_out_of_order_are_refused_alone(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", SCHEMA)
    with table.append(sorting_columns=["id"]) as append:
        append.write(rows((0, 1), (0, 2)))
        with pytest.raises(SchemaError, match="sorting_columns"):
            append.write(rows((0, 5), (0, 4)))
        append.write(rows((0, 6)))
    assert held(table) == [(0, 1), (0, 2), (0, 6)]


def test_a_refused_batch_takes_no_file_with_it_that_makes_way_for_another(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="part")
    with table.append(sorting_columns=["id"]) as append:
        append.write(rows((0, 10)))
        with pytest.raises(SchemaError):
            append.write(rows((0, 3), *((part, 1) for part in range(1, 80))))
    assert held(table) == [(0, 10)]


def test_a_batch_of_which_rows_were_taken_before_it_was_refused_ends_its_append(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="part")
    append = table.append(sorting_columns=["id"])
    append.write(rows((0, 10)))
    with pytest.raises(SchemaError):
        append.write(rows((1, 1), (0, 3)))
    with pytest.raises(ClosedError):
        append.commit()
    assert held(table) == []


def test_rows_that_the_memory_has_no_room_for_are_refused_alone(tmp_path: Path) -> None:
    schema = pa.schema({"text": pa.string()})
    table = spillway.delta.create(tmp_path / "table", schema)
    with table.append(memory_limit="1MB") as append:
        append.write(pa.table({"text": ["a"]}))
        with pytest.raises(SchemaError):
            append.write(pa.table({"text": ["b" * 2_000_000]}))
        append.write(pa.table({"text": ["c"]}))
    assert sorted(pa.table(table.scan())["text"].to_pylist()) == ["a", "c"]


def test_a_schema_that_nests_too_deeply_is_refused_at_once(tmp_path: Path) -> None:
    """Each takes three levels of the log's JSON, of which 127 are read."""
    for depth, accepted in ((41, True), (42, False)):
        nested: pa.DataType = pa.int64()
        for _ in range(depth):
            nested = pa.struct({"s": nested})
        folder, schema = tmp_path / str(depth), pa.schema({"c": nested})
        if accepted:
            spillway.delta.create(folder, schema)
            assert pa.schema(spillway.delta.open(folder).schema) == schema
        else:
            with pytest.raises(SchemaError, match="nests too deeply: its JSON has more than 127 levels"):
                spillway.delta.create(folder, schema)
            assert not folder.exists() or not list(folder.rglob("*.json"))
