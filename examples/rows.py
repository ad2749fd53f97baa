"""Write dicts and NDJSON, and keep the rows that do not fit."""

from __future__ import annotations

import io

import pyarrow as pa

import spillway

SCHEMA = pa.schema({"id": pa.int64(), "time": pa.timestamp("us", tz="UTC"), "tags": pa.list_(pa.string())})
LINES = b"""{"id": 3, "time": "2026-11-22T08:30:00Z", "tags": []}
{"id": "four"}
{"id": 5}
"""


def main() -> None:
    bad: list[spillway.RowError] = []
    with spillway.ParquetWriter("rows.parquet", SCHEMA) as writer:
        written = writer.write_rows([{"id": 1, "tags": ["new"]}, {"id": 2}], on_error=bad.append)
        written += writer.write_ndjson(io.BytesIO(LINES), on_error=bad.append)
    print(f"{written} rows written, {len(bad)} kept apart")
    for error in bad:
        print(f"  line {error.line}, {error.field}: {error.message}")


if __name__ == "__main__":
    main()
