"""Rows of Python and NDJSON into a file, beside pyarrow: rows to a table, and that written."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest

from spillway import backends, datasets
from spillway.backends.protocol import Settings
from spillway.bench.worker import inputs
from spillway.harness.environment import SampleWatch

if TYPE_CHECKING:
    from .side_by_side import SideBySide

CHECKED_ROWS = [1_000]
MEASURED_ROWS = [10_000, 100_000]
CHUNK_ROWS = 10_000
SETTINGS = Settings(row_group_rows=1_048_576, codec="zstd", level=1, threads=1)
FORMS = {"dicts": "rows", "dicts-from-json": "rows", "tuples": "rows", "ndjson": "ndjson"}
"""The form of the rows, and what backends that take it are called for."""


def chunks_of(form: str, batches: list[pa.RecordBatch]) -> list[Any]:
    """The rows of each batch in a form."""
    match form:
        case "tuples":
            return [[tuple(row.values()) for row in chunk] for chunk in inputs.dicts(batches)]
        case "ndjson":
            return inputs.ndjson(batches)
        case "dicts-from-json":
            return inputs.dicts_from_json(batches)
        case _:
            return inputs.dicts(batches)


def write(writer: str, path: Path, schema: pa.Schema, form: str, chunks: list[Any]) -> None:
    """Write all chunks by a backend. Tuples become dicts, which is part of the time."""
    sink = backends.load(writer).open(path, schema, SETTINGS)
    for chunk in chunks:
        if form == "tuples":
            sink.write([dict(zip(schema.names, row, strict=True)) for row in chunk])
        else:
            sink.write(chunk)
    sink.close()


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_out_as_they_went_in(side_by_side: SideBySide, rows: int, form: str) -> None:
    """Dicts share their keys or come fresh from JSON; tuples are as a database's cursor gives them."""
    batches = [
        batch
        for start in range(0, rows, CHUNK_ROWS)
        for batch in datasets.row_range("logs", 1, start, min(rows, start + CHUNK_ROWS))
    ]
    chunks, schema = chunks_of(form, batches), datasets.schema("logs")
    expected = pl.DataFrame(pa.Table.from_batches(batches))

    def taken(writer: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="spillway-rows-") as folder:
            path = Path(folder, "rows.parquet")
            watch = SampleWatch()
            began = time.perf_counter()
            write(writer, path, schema, form, chunks)
            seconds = time.perf_counter() - began
            host = watch.read()
            assert pl.read_parquet(path).equals(expected)
            return {"writer": writer, "seconds": seconds, "bytes": path.stat().st_size, "host": host}

    names = [f"{library}-{FORMS[form]}" for library in ("spillway", "pyarrow")]
    side_by_side(taken, names, against=names[-1], rows=rows)
