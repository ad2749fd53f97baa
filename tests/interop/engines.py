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


def _by_row_group(file: pq.ParquetFile, read: Callable[[list[int]], pa.Table]) -> pa.Table:
    """Reads all row groups at once, or one by one where they hold nested dictionaries that differ: pyarrow
    does not read its own files of those at once either.
    """
    row_groups = list(range(file.num_row_groups))
    try:
        return read(row_groups)
    except pa.ArrowNotImplementedError as error:
        if "chunked array outputs" not in str(error) or len(row_groups) < 2:
            raise
        return pa.concat_tables([read([row_group]) for row_group in row_groups])


def pyarrow_whole(path: Path) -> pa.Table:
    file = pq.ParquetFile(path)
    return _by_row_group(file, file.read_row_groups)


def pyarrow_pre_buffered(path: Path) -> pa.Table:
    file = pq.ParquetFile(path, pre_buffer=True, memory_map=True)
    return _by_row_group(file, lambda row_groups: file.read_row_groups(row_groups, use_threads=False))


def pyarrow_batches(path: Path) -> pa.Table:
    file = pq.ParquetFile(path, buffer_size=4096)

    def read(row_groups: list[int]) -> pa.Table:
        batches = file.iter_batches(batch_size=7, row_groups=row_groups)
        return pa.Table.from_batches(batches, file.schema_arrow)

    return _by_row_group(file, read)


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
