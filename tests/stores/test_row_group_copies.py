"""Files joined and split into an object store."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

if TYPE_CHECKING:
    from pathlib import Path

    from .server import Bucket


def rows_of(bucket: Bucket, key: str) -> list[int]:
    return pq.ParquetFile(io.BytesIO(bucket.read(key))).read()["id"].to_pylist()


def test_files_are_joined_and_split_into_a_store(bucket: Bucket, tmp_path: Path) -> None:
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for number, path in enumerate(paths):
        table = pa.table({"id": range(number * 100, number * 100 + 100)})
        spillway.write_parquet(table, path, row_group_rows=50)
    options = bucket.options()
    url = bucket.url("all.parquet")
    joined = spillway.rewrite(paths, url, storage_options=options)
    assert (joined.rows, joined.path) == (200, url)
    assert rows_of(bucket, "all.parquet") == list(range(200))
    parts = spillway.rewrite(paths, bucket.url("parts"), max_file_row_groups=1, storage_options=options)
    assert [file.result.rows for file in parts.files] == [50] * 4
    keys = bucket.keys()
    keys = sorted(key for key in keys if key.startswith("parts/"))
    assert [number for key in keys for number in rows_of(bucket, key)] == list(range(200))
    # What is damaged is found before anything is uploaded, or nothing of it appears.
    paths[1].write_bytes(paths[1].read_bytes()[:-9])
    with pytest.raises(spillway.CorruptFileError):
        spillway.rewrite(paths, bucket.url("bad.parquet"), storage_options=options)
    assert not bucket.uploads()
    keys = bucket.keys()
    assert "bad.parquet" not in keys
