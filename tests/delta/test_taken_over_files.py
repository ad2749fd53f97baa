"""Files that a table took over as they were: their names and values are found as Spark finds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta
from spillway.delta import AddFile
from spillway.errors import DeltaError

if TYPE_CHECKING:
    from spillway.delta import Table

INNER = pa.struct({"Depth": pa.int64()})
SCHEMA = pa.schema({"userId": pa.int64(), "v": pa.string(), "of": INNER})


def take_over(table: Table, name: str, rows: pa.Table) -> None:
    """Add a file to a table whatever its columns are called."""
    path = Path(table.path) / name
    pq.write_table(rows, path, row_group_size=1)
    table.commit(adds=[AddFile(name, path.stat().st_size)])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = spillway.delta.create(tmp_path / "t", SCHEMA)
    exact = pa.table({"userId": [1, 2], "v": ["a", "b"], "of": [{"Depth": 1}, {"Depth": 2}]}, schema=SCHEMA)
    take_over(made, "exact.parquet", exact)
    lower = [("userid", pa.int64()), ("V", pa.string()), ("OF", pa.struct({"depth": pa.int64()}))]
    other = pa.table([[7, 8], ["c", "d"], [{"depth": 7}, {"depth": 8}]], schema=pa.schema(lower))
    take_over(made, "other.parquet", other)
    return made


def found(table: Table, where: str | None = None) -> list[tuple[int, str, int]]:
    rows = pa.table(table.scan(where=where) if where else table.scan()).to_pylist()
    return sorted((row["userId"], row["v"], row["of"]["Depth"]) for row in rows)


ALL = [(1, "a", 1), (2, "b", 2), (7, "c", 7), (8, "d", 8)]


def test_columns_are_found_whatever_their_case(table: Table) -> None:
    assert found(table) == ALL
    assert found(table, "userId = 7") == [(7, "c", 7)]
    assert found(table, "of.Depth > 1 AND v <> 'c'") == [(2, "b", 2), (8, "d", 8)]
    assert found(table, "userId IS NULL OR v IS NULL") == []


def test_rewrites_keep_the_values_of_columns_in_another_case(table: Table) -> None:
    version = table.version
    table.delete("userId IS NULL")
    assert table.version == version
    table.update("userId = 8", {"v": "changed"})
    merged = pa.table(
        {"userId": [7, 9], "v": ["merged", "new"], "of": [{"Depth": 70}, {"Depth": 9}]}, schema=SCHEMA
    )
    table.merge(
        merged, "userId", spillway.delta.when_matched_update(), spillway.delta.when_not_matched_insert()
    )
    table.optimize()
    assert found(table) == [(1, "a", 1), (2, "b", 2), (7, "merged", 70), (8, "changed", 8), (9, "new", 9)]


def test_two_columns_that_differ_in_case_alone_are_no_guess(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"userId": pa.int64()}))
    take_over(table, "both.parquet", pa.table({"userid": [1], "USERID": [2]}))
    with pytest.raises(pa.ArrowInvalid, match=r"both\.parquet: .*differ from .*userId.* in case alone"):
        pa.table(table.scan())
    exact = spillway.delta.create(tmp_path / "u", pa.schema({"a": pa.int64()}))
    take_over(exact, "x.parquet", pa.table({"A": [1], "a": [2]}))
    assert pa.table(exact.scan())["a"].to_pylist() == [2]


def test_neither_are_columns_of_conditions_and_fields_of_structs(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    of = {"of": [{"depth": 1, "DEPTH": 2}]}
    take_over(table, "fields.parquet", pa.table({"USERID": [1], "userid": [2], "v": ["a"]} | of))
    for read in (
        lambda: pa.table(table.scan(["v"], where="userId IS NULL")),
        lambda: pa.table(table.scan(["of"])),
        lambda: table.delete("of.Depth IS NULL"),
    ):
        with pytest.raises((pa.ArrowInvalid, DeltaError), match="in case alone"):
            read()
    assert pa.table(table.scan(["v"])).to_pylist() == [{"v": "a"}]


@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("micros", [253402300800000000, -62198755200000000, 8_000_000_000_000_000_000])
def test_partitions_of_years_without_four_digits_are_read_back(
    tmp_path: Path, zone: str | None, micros: int
) -> None:
    kind = pa.timestamp("us", zone)
    rows = pa.table({"t": pa.array([micros, 0], pa.int64()).cast(kind), "n": [1, 2]})
    spillway.delta.write(tmp_path / "t", rows, partition_by="t")
    scanned = pa.table(spillway.delta.open(tmp_path / "t").scan()).sort_by("n")
    assert scanned["t"].cast(pa.int64()).to_pylist() == [micros, 0]
