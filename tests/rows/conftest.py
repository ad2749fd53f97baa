"""Writing rows and reading them back."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import spillway


def write_rows(rows: Any, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema) as writer:
        written = writer.write_rows(rows, **options)
    table = pq.read_table(file)
    assert table.num_rows == written
    return table


def write_ndjson(source: Any, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema) as writer:
        writer.write_ndjson(source, **options)
    return pq.read_table(file)
