"""The guide's table of what readers make of the types is what the engines do."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import spillway

from .normal import Unlike
from .readers import Checker, Refused, Truth

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "writing.md"
ENGINES = {"pyarrow": "pyarrow 26, arro3 0.9", "arro3": "pyarrow 26, arro3 0.9"} | {
    "polars": "polars 2.1",
    "duckdb": "DuckDB 2.0",
}
DAY = datetime(2026, 11, 29, 10, 30, tzinfo=UTC)
COLUMNS = {
    "floats with NaN and nulls": pa.array([1.5, float("nan"), None, -0.0]),
    "`float16`": pa.array([1.5, None], pa.float16()),
    "`uint64`": pa.array([2**64 - 1, None], pa.uint64()),
    "timestamps in nanoseconds": pa.array([1_795_336_200_123_456_789, None], pa.timestamp("ns")),
    "timestamps in seconds": pa.array([1_795_336_200, None], pa.timestamp("s")),
    "timestamps with a zone": pa.array([DAY, None], pa.timestamp("us", "Europe/Berlin")),
    "dates before 1678": pa.array([date(1, 1, 1), None]),
    "times of day": pa.array([DAY.time(), None], pa.time64("us")),
    "durations": pa.array([timedelta(days=333, seconds=5), None], pa.duration("us")),
    "decimals of 38 digits": pa.array([Decimal("1" * 34), None], pa.decimal128(38, 4)),
    "decimals of more digits": pa.array([Decimal("1" * 60), None], pa.decimal256(76, 4)),
    "categoricals and enums": pa.array(["a", None, "b"]).dictionary_encode(),
    "fixed-size lists": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
    "structs": pa.array([{"a": 1}, None, {"a": None}], pa.struct({"a": pa.int64()})),
    "lists of lists, or of structs": pa.array([[[{"a": 1}]], None, [], [None]]),
    "maps in which a key repeats": pa.array([[("a", 1), ("a", 2)], None], pa.map_(pa.string(), pa.int64())),
}


def rows() -> dict[str, dict[str, str]]:
    """The cells of the page's table by row and by reader."""
    section = PAGE.read_text().partition("## What readers make of the types")[2]
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *body = [re.split(r" *\| *", line.strip("| ")) for line in lines]
    return {row: dict(zip(head[1:], cells, strict=True)) for row, *cells in body}


def test_the_table_has_these_rows() -> None:
    assert list(rows()) == list(COLUMNS)


def read(checker: Checker, engine: str, path: Path) -> pa.Table | None:
    try:
        return checker.process.read(engine, path)
    except Refused:
        return None


def difference(written: pa.Table, found: pa.Table) -> str | None:
    try:
        return Truth.of(written).difference(found)
    except Unlike as error:
        return str(error)


@pytest.mark.parametrize("row", COLUMNS)
def test_a_reader_does_what_the_table_says(checker: Checker, tmp_path: Path, row: str) -> None:
    table = pa.table({"c": COLUMNS[row]})
    spillway.write_parquet(table, tmp_path / "a.parquet")
    for engine, reader in ENGINES.items():
        said, found = rows()[row][reader], read(checker, engine, tmp_path / "a.parquet")
        assert (found is None) == said.startswith("refused"), engine
        if found is not None:
            differs = difference(table, found)
            kept = differs is None and found.schema.types == table.schema.types
            assert differs is None if said.startswith("yes") else not kept, f"{engine}: {differs}"
