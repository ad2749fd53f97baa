"""A file that has appeared and may not survive a power cut is not said to be discarded."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from . import programs

PROGRAM = """
import json, sys
import pyarrow as pa
import spillway

told = {}
writer = spillway.ParquetWriter(sys.argv[1], durable=True)
writer.write(pa.table({"n": [1, 2]}))
for call in (writer.close, writer.close, lambda: writer.result):
    try:
        call()
    except Exception as error:
        told.setdefault("errors", []).append([type(error).__name__, getattr(error, "errno", 0), str(error)])
print(json.dumps(told["errors"]))
"""


@pytest.mark.parametrize(("fails", "appears"), [("folder", True), ("file", False)])
def test_an_error_of_the_last_sync_says_whether_the_file_is_there(
    tmp_path: Path, *, fails: str, appears: bool
) -> None:
    library, order, folder = tmp_path / "fsync.so", tmp_path / "fails", tmp_path / "there"
    source = Path(__file__).parents[1] / "delta" / "fsync.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-o", library, source], check=True)
    folder.mkdir()
    path = folder / "a.parquet"
    path.write_bytes(b"old")
    order.write_text(str(folder) if fails == "folder" else f"{folder}/.*.tmp")
    prefix = ["env", f"LD_PRELOAD={library}", f"SYNC_FAILS={order}"]
    first, *later = programs.run(PROGRAM, path, prefix=prefix)
    assert not order.exists(), "nothing failed"
    assert first[:2] == ["OSError", errno.EIO]
    assert str(path) in first[2]
    assert ("complete at its path" in first[2]) == appears
    assert [kind for kind, _, _ in later] == ["ClosedError"] * 2
    assert ("file was discarded" in later[0][2]) != appears
    if appears:
        assert pq.read_table(path)["n"].to_pylist() == [1, 2]
    else:
        assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]
