"""The engines that read in this process, each with its own decoder, a batch at a time and in file order."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["Reader", "load_reader"]

_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Reader:
    """A way to read Parquet.

    Attributes:
        name: The engine's name.
        open: From a path to the schema as the engine sees it and its batches, in file order.
        errors: The exceptions that the engine raises on a file that it cannot read.
    """

    name: str
    open: Callable[[Path], AbstractContextManager[tuple[pa.Schema, Iterator[pa.RecordBatch]]]]
    errors: tuple[type[BaseException], ...]


def load_reader(name: str) -> Reader:
    """Load the in-process engine ``name``: pyarrow, polars or duckdb.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return {"pyarrow": _pyarrow, "polars": _polars, "duckdb": _duckdb}[name]()
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or name, "bench", f"validate with {name}") from error


def _pyarrow() -> Reader:
    @contextmanager
    def read(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file.schema_arrow, file.iter_batches(_BATCH_ROWS)

    return Reader("pyarrow", read, (pa.ArrowException, OSError, ValueError))


def _polars() -> Reader:
    import polars as pl

    newest = pl.CompatLevel.newest()

    @contextmanager
    def read(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False, include_file_paths=None)
        schema = pl.DataFrame(schema=frame.collect_schema()).to_arrow(compat_level=newest).schema
        chunks = frame.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True)
        yield (
            schema,
            (batch for chunk in chunks for batch in chunk.to_arrow(compat_level=newest).to_batches()),
        )

    # A panic in polars derives from BaseException.
    return Reader(
        "polars", read, (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, OSError)
    )


def _duckdb() -> Reader:
    import duckdb

    @contextmanager
    def read(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        with duckdb.connect(config={"preserve_insertion_order": True}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            query = "SELECT * FROM read_parquet($1, hive_partitioning = false)"
            reader = connection.sql(query, params=[str(path)]).to_arrow_reader(_BATCH_ROWS)
            yield reader.schema, iter(reader)

    return Reader("duckdb", read, (duckdb.Error, pa.ArrowException, OSError))
