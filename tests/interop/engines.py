"""The engines that read Parquet, each behind one function, in a process that may die.

Engines answer a malformed file with anything from an exception to an abort, and an abort must not take
the test run along. Run as a program, this file reads one JSON request a line (`{"engine": ..., "path":
..., "reply": ...}`), leaves what the engine returned at `reply` as an Arrow IPC stream, and answers one
JSON line with the error or null.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import arro3.io
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

Engine = Callable[[Path], pa.Table]


def pyarrow_whole(path: Path) -> pa.Table:
    return pq.ParquetFile(path).read()


def pyarrow_pre_buffered(path: Path) -> pa.Table:
    return pq.ParquetFile(path, pre_buffer=True, memory_map=True).read(use_threads=False)


def pyarrow_batches(path: Path) -> pa.Table:
    file = pq.ParquetFile(path, buffer_size=4096)
    return pa.Table.from_batches(file.iter_batches(batch_size=7), file.schema_arrow)


def pyarrow_dataset(path: Path) -> pa.Table:
    return ds.dataset(path, format="parquet").to_table()


def polars_eager(path: Path) -> pa.Table:
    return pl.read_parquet(path).to_arrow(compat_level=pl.CompatLevel.newest())


def polars_lazy(path: Path) -> pa.Table:
    return (
        pl.scan_parquet(path, parallel="row_groups").collect().to_arrow(compat_level=pl.CompatLevel.newest())
    )


def duckdb_sql(path: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        return connection.sql("select * from read_parquet(?)", params=[str(path)]).to_arrow_table()


def arro3_stream(path: Path) -> pa.Table:
    return pa.table(arro3.io.read_parquet(path))


ENGINES: dict[str, Engine] = {
    "pyarrow": pyarrow_whole,
    "pyarrow-pre-buffered": pyarrow_pre_buffered,
    "pyarrow-batches": pyarrow_batches,
    "pyarrow-dataset": pyarrow_dataset,
    "polars": polars_eager,
    "polars-lazy": polars_lazy,
    "duckdb": duckdb_sql,
    "arro3": arro3_stream,
}


WAYS = {
    "pyarrow": ("pyarrow", "pyarrow-pre-buffered", "pyarrow-batches", "pyarrow-dataset"),
    "polars": ("polars", "polars-lazy"),
    "duckdb": ("duckdb",),
    "arro3": ("arro3",),
}
"""The ways in which each library reads: one of each is enough for one of many tables."""


def answer(request: dict[str, str]) -> str | None:
    """Runs one request; returns what went wrong."""
    try:
        table = ENGINES[request["engine"]](Path(request["path"]))
        table.validate(full=True)
        with pa.ipc.new_stream(request["reply"], table.schema) as stream:
            stream.write_table(table)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a Rust panic derives from BaseException
        return f"{type(error).__name__}: {str(error)[:400]}"
    return None


def serve() -> None:
    # An engine must not be counted as failing because it warns.
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
