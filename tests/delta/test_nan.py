"""NaN is found in tables whose writers leave it out of their bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta
from spillway.errors import ConcurrentAppend

from .logs import add_of, make_log, metadata_of, needs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 6_000
NAN = ROWS // 2 + 7


def rows() -> pa.Table:
    """Rows of which one in the middle has NaN; all others are 1 or 2."""
    cells = [2.0 if n % 2 else 1.0 for n in range(ROWS)]
    cells[NAN] = math.nan
    return pa.table({"id": range(ROWS), "x": cells})


def of_a_file(folder: Path, **options: Any) -> None:
    """A file of pyarrow, whose bounds leave NaN out, in its footer and its pages as well as in the log."""
    path = folder / "part.parquet"
    folder.mkdir()
    pq.write_table(
        rows(), path, row_group_size=ROWS // 2, data_page_size=4_096, write_page_index=True, **options
    )
    stats = {
        "numRecords": ROWS,
        "minValues": {"id": 0, "x": 1.0},
        "maxValues": {"id": ROWS - 1, "x": 2.0},
        "nullCount": {"id": 0, "x": 0},
    }
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("x", "double"))
    ]
    make_log(folder, [needs(), metadata_of(fields), add_of(path, stats)])


WRITERS: dict[str, Callable[[Path], object]] = {
    "delta-rs": lambda folder: deltalake.write_deltalake(folder, rows()),
    "polars": lambda folder: pl.DataFrame(rows()).write_delta(str(folder)),
    "pyarrow": of_a_file,
    "pyarrow, plain": lambda folder: of_a_file(folder, use_dictionary=False),
    "spillway": lambda folder: spillway.delta.write(folder, rows(), page_rows=500, row_group_rows=ROWS // 2),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_row_with_nan_is_above_all_bounds(tmp_path: Path, writer: str) -> None:
    WRITERS[writer](tmp_path / "t")
    table = spillway.delta.open(tmp_path / "t")
    for where in ("x > 5", "x > 2", "x >= 1e300", "x <> 1 AND x <> 2", "NOT x <= 2", [("x", "=", math.nan)],
                  [("x", ">", math.inf)], [("x", "in", [7.0, math.nan])]):  # fmt: skip
        assert pa.table(table.scan(["id"], where=where))["id"].to_pylist() == [NAN], where
    assert pa.table(table.scan(where="x < 1")).num_rows == 0
    assert pa.table(table.scan(where="x <= 2")).num_rows == ROWS - 1


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("change", ["delete", "update", "merge"])
def test_changes_reach_a_row_with_nan(tmp_path: Path, writer: str, change: str) -> None:
    WRITERS[writer](tmp_path / "t")
    table = spillway.delta.open(tmp_path / "t")
    if change == "delete":
        assert table.delete("x > 5").rows == 1
    elif change == "update":
        assert table.update("x > 5", {"x": 0.5}).rows == 1
    else:
        source = pa.table({"id": [-1], "x": [math.nan]})
        assert table.merge(source, "x").updated == 1
    found = pa.table(table.scan(["id", "x"])).to_pylist()
    left = [row["id"] for row in found if math.isnan(row["x"])]
    assert left == ([-1] if change == "merge" else [])
    assert len(found) == ROWS - (change == "delete")


@pytest.mark.parametrize("writer", ["delta-rs", "polars", "spillway"])
def test_rows_with_nan_conflict_with_who_looked_for_great_ones(tmp_path: Path, writer: str) -> None:
    spillway.delta.write(tmp_path / "t", pa.table({"id": [-1], "x": [1.0]}))
    table = spillway.delta.open(tmp_path / "t")
    (old,) = table.files()
    read = spillway.delta.ReadSet(version=table.version, where="x > 5")
    if writer == "delta-rs":
        deltalake.write_deltalake(tmp_path / "t", rows(), mode="append")
    elif writer == "polars":
        pl.DataFrame(rows()).write_delta(str(tmp_path / "t"), mode="append")
    else:
        spillway.delta.write(tmp_path / "t", rows(), mode="append")
    with pytest.raises(ConcurrentAppend):
        table.commit(removes=[old.path], read=read)


@pytest.mark.parametrize("struct", ["true", "false"])
def test_checkpoints_have_no_bounds_of_a_column_with_nan(tmp_path: Path, struct: str) -> None:
    properties = {
        "delta.checkpoint.writeStatsAsStruct": struct,
        "delta.checkpoint.writeStatsAsJson": "false" if struct == "true" else "true",
    }
    spillway.delta.write(tmp_path / "t", rows(), properties=properties)
    table = spillway.delta.open(tmp_path / "t")
    table.checkpoint()
    for version in (tmp_path / "t" / "_delta_log").glob("*.json"):
        if version.stem.isdigit() and int(version.stem) < table.version:
            version.unlink()
    (file,) = spillway.delta.open(tmp_path / "t").files()
    assert file.stats is not None
    assert (file.stats["minValues"], file.stats["maxValues"]) == ({"id": 0}, {"id": ROWS - 1})
    assert file.stats["nullCount"] == {"id": 0, "x": 0}
