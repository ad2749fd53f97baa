"""Write a partitioned dataset to a folder, and copy it to S3 when it is whole.

The bucket is ``s3://bucket``; credentials come from the environment (``AWS_ACCESS_KEY_ID`` and so on).
"""

from __future__ import annotations

import os
import tempfile

import pyarrow as pa
import pyarrow.fs

import spillway


def bucket() -> pyarrow.fs.FileSystem:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    store = pyarrow.fs.S3FileSystem(
        region=os.environ.get("AWS_REGION"),
        endpoint_override=endpoint.rpartition("//")[2] or None,
        scheme="http" if endpoint.startswith("http://") else "https",
    )
    return pyarrow.fs.SubTreeFileSystem("bucket", store)


def main() -> None:
    days = ["2026-11-21", "2026-11-22"]
    table = pa.table({"day": days * 5_000, "id": range(10_000)})
    with tempfile.TemporaryDirectory() as folder:
        result = spillway.write_dataset(table, folder, partition_by="day", existing="overwrite")
        pyarrow.fs.copy_files(folder, "visits", destination_filesystem=bucket())
    copied = bucket().get_file_info(pyarrow.fs.FileSelector("visits", recursive=True))
    files = [entry.path for entry in copied if entry.is_file]
    assert len(files) == len(result.files)
    print(f"{result.rows:,} rows in {len(files)} objects: {', '.join(sorted(files))}")


if __name__ == "__main__":
    main()
