"""Stream batches into one file with a bound on memory, as a service does that never holds all of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

import spillway

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema({"id": pa.int64(), "service": pa.string(), "millis": pa.float64()})


def batches(count: int, rows: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        ids = range(number * rows, (number + 1) * rows)
        columns = [list(ids), [f"service-{i % 12}" for i in ids], [i % 997 / 10 for i in ids]]
        yield pa.record_batch(columns, schema=SCHEMA)


def main() -> None:
    with spillway.ParquetWriter("stream.parquet", SCHEMA, memory_limit="8MB") as writer:
        for batch in batches(count=50, rows=2_000):
            writer.write(batch)
    result = writer.result
    print(f"{result.rows:,} rows, {result.bytes:,} bytes, {result.peak_tracked_bytes:,} bytes of memory")
    for column in result.columns:
        print(f"  {column.path}: {', '.join(column.encodings)}")


if __name__ == "__main__":
    main()
