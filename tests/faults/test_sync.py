"""A file that has appeared and may not survive a power cut is not said to be discarded."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from . import programs
from .injection import environment, noted, rule

if TYPE_CHECKING:
    from pathlib import Path

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
    injection: Path, tmp_path: Path, *, fails: str, appears: bool
) -> None:
    log, folder = tmp_path / "calls", tmp_path / "there"
    folder.mkdir()
    path = folder / "a.parquet"
    path.write_bytes(b"old")
    rules = [rule("sync", str(folder) if fails == "folder" else f"{folder}/.*.tmp")]
    variables = environment(injection, rules, log, folder).items() - os.environ.items()
    first, *later = programs.run(PROGRAM, path, prefix=["env", *map("=".join, variables)])
    assert any(call.how == "before" for call in noted(log)), "nothing failed"
    assert first[:2] == ["OSError", errno.EIO]
    assert str(path) in first[2]
    assert ("complete at its path" in first[2]) == appears
    assert [kind for kind, _, _ in later] == ["ClosedError"] * 2
    assert ("file was discarded" in later[0][2]) != appears
    assert ("after its file had appeared at its path" in later[0][2]) == appears
    if appears:
        assert pq.read_table(path)["n"].to_pylist() == [1, 2]
    else:
        assert path.read_bytes() == b"old"
    assert list(folder.iterdir()) == [path]


DATASET = """
import json, sys
import pyarrow as pa
import spillway

try:
    spillway.write_dataset(pa.table({"n": [1, 2]}), sys.argv[1], durable=True)
except Exception as error:
    print(json.dumps([type(error).__name__, getattr(error, "errno", 0)]))
else:
    print(json.dumps([]))
"""


@pytest.mark.parametrize("is_new", [True, False])
def test_a_durable_dataset_syncs_the_folder_that_its_own_was_made_in(
    injection: Path, tmp_path: Path, *, is_new: bool
) -> None:
    log, folder = tmp_path / "calls", tmp_path / "there"
    folder.mkdir()
    if not is_new:
        (folder / "dataset").mkdir()
    variables = environment(injection, [rule("sync", str(folder))], log, folder).items() - os.environ.items()
    told = programs.run(DATASET, folder / "dataset", prefix=["env", *map("=".join, variables)])
    assert told == (["OSError", errno.EIO] if is_new else [])
    assert sorted(each.suffix for each in folder.rglob("*")) == ([] if is_new else ["", ".parquet"])
