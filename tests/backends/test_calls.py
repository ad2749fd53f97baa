"""The code that a verdict hands to a user writes the file that was measured."""

from __future__ import annotations

import arro3.io
import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
from spillway import backends, datasets
from spillway.backends import Settings
from spillway.backends.calls import call_of
from spillway.bench.worker import inputs

ROWS = 12_000
FORMS = {"rows": inputs.dicts, "rows-json": inputs.dicts_from_json, "ndjson": inputs.ndjson}
NAMES = {
    "spillway": spillway,
    "pa": pa,
    "pq": pq,
    "pl": pl,
    "pd": pd,
    "duckdb": duckdb,
    "arro3": arro3,
    "datafusion": datafusion,
}
# Frames for rows, DuckDB's files in memory, the types of pandas for fastparquet and sessions of Spark
# take more than a user wants to read.
LONG = {
    *("polars-rows", "polars-ndjson", "pyarrow-ndjson", "duckdb-ndjson"),
    *("fastparquet", "spark-parquet", "spark-delta"),
}
CELLS = [(name, mode) for name in backends.names() for mode in sorted(backends.modes(name))]


@pytest.fixture(scope="module")
def batches():
    return list(datasets.batches("logs", 1, ROWS))


@pytest.mark.parametrize(
    "changes",
    [{}, {"codec": "lz4", "level": None, "row_group_rows": 10_000}, {"codec": "uncompressed", "level": None}],
    ids=["zstd", "lz4", "uncompressed"],
)
@pytest.mark.parametrize(("name", "mode"), [cell for cell in CELLS if cell[0] not in LONG])
def test_a_call_writes_the_bytes_that_its_backend_writes(tmp_path, batches, name, mode, changes):
    settings = Settings(**{"codec": "zstd", "level": 1, "row_group_rows": 1 << 20, "threads": 1, **changes})
    measured, called = tmp_path / "measured.parquet", tmp_path / "called.parquet"
    chunks = list(FORMS.get(mode, list)(batches))
    sink = backends.load(name).open(measured, batches[0].schema, settings)
    for data in [pa.Table.from_batches(batches)] if mode == "table" else chunks:
        sink.write(data)
    sink.close()
    call = call_of(name, mode, settings)
    given = {"schema": batches[0].schema, "table": pa.Table.from_batches(batches), "batches": batches}
    assert max(map(len, call.splitlines())) <= 80
    exec(call, {**NAMES, **given, "chunks": chunks, "path": called})  # noqa: S102 - as a user would paste it
    assert pq.read_metadata(called).num_row_groups == pq.read_metadata(measured).num_row_groups
    assert called.read_bytes() == measured.read_bytes()


@pytest.mark.parametrize(("codec", "level"), [("gzip", 6), ("gzip", 2), ("brotli", 1), ("zstd", 3)])
def test_a_level_that_is_not_said_is_the_writers_own(tmp_path, batches, codec, level):
    settings = Settings(codec=codec, level=level, row_group_rows=1 << 20, threads=1)
    call, table = call_of("spillway", "table", settings), pa.Table.from_batches(batches[:1])
    exec(call, {**NAMES, "table": table, "path": tmp_path / "called.parquet"})  # noqa: S102 - as pasted
    spillway.write_parquet(table, tmp_path / "said.parquet", compression=codec, compression_level=level)
    assert (tmp_path / "called.parquet").read_bytes() == (tmp_path / "said.parquet").read_bytes()
    assert ("level" in call) == ((codec, level) in {("gzip", 2), ("zstd", 3)})


def test_the_call_of_the_usual_settings_is_one_line():
    usual = Settings(codec="zstd", level=1, row_group_rows=1 << 20, threads=1)
    many = Settings(codec="zstd", level=1, row_group_rows=1 << 20, threads=4)
    for each in (usual, many):
        assert call_of("spillway", "table", each) == 'spillway.write_parquet(table, path, compression="zstd")'


@pytest.mark.parametrize("name", sorted(LONG | {"of-another-package"}))
def test_a_backend_of_many_lines_has_no_call(name):
    settings = Settings(codec="zstd", level=1, row_group_rows=1 << 20, threads=1)
    assert call_of(name, "ndjson", settings) is None
