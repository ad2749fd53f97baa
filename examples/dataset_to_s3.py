"""Write a partitioned dataset to S3, where all of its files appear together, and read it back.

The bucket is ``s3://bucket``; credentials come from the environment (``AWS_ACCESS_KEY_ID`` and so on).
"""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs

import spillway


def store() -> pyarrow.fs.FileSystem:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    return pyarrow.fs.S3FileSystem(
        region=os.environ.get("AWS_REGION"),
        endpoint_override=endpoint.rpartition("//")[2] or None,
        scheme="http" if endpoint.startswith("http://") else "https",
    )


def main() -> None:
    days = ["2026-11-21", "2026-11-22"]
    table = pa.table({"day": days * 5_000, "id": range(10_000)})
    result = spillway.write_dataset(table, "s3://bucket/visits-by-day", partition_by="day", mode="overwrite")
    found = pyarrow.dataset.dataset("bucket/visits-by-day", filesystem=store(), partitioning="hive")
    assert found.count_rows() == result.rows == len(table)
    print(f"{result.rows:,} rows in {len(result.files)} objects: {[file.path for file in result.files]}")


if __name__ == "__main__":
    main()
