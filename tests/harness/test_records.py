"""The files of a run stay readable, whatever a full disk, a kill or a power cut left of them."""

from __future__ import annotations

import errno
import gzip
import json
import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway.errors import CorruptFileError
from spillway.harness import records

from ..counts import examples

FIRST: dict[str, Any] = {"n": 1, "text": "é" * 100}
SECOND: dict[str, Any] = {"n": 2}


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_record_that_a_full_disk_cuts_short_is_taken_back(tmp_path: Path, room: int) -> None:
    path = tmp_path / "samples.jsonl"
    records.append(path, FIRST)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, hard))
    try:
        with pytest.raises(OSError, match="large") as caught:
            records.append(path, FIRST)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert caught.value.errno == errno.EFBIG
    records.append(path, SECOND)
    assert records.read_lines(path) == [FIRST, SECOND]


@settings(max_examples=examples(0.5))
@given(st.binary(max_size=12), st.booleans(), st.integers(0, 2))
def test_a_damaged_last_line_is_no_record(tail: bytes, ended: bool, before: int) -> None:  # noqa: FBT001
    tail = b"\0" + tail.replace(b"\n", b"") + b"\n" * ended
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.jsonl")
        path.write_bytes(b"".join([json.dumps(FIRST).encode() + b"\n"] * before) + tail)
        assert records.read_lines(path) == [FIRST] * before
        records.drop_torn_line(path)
        records.append(path, SECOND)
        assert records.read_lines(path) == [*[FIRST] * before, SECOND]


@pytest.mark.parametrize("what", ["one object", "lines"])
def test_what_is_replaced_is_on_the_disk_before_the_old_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = tmp_path / records.ENVIRONMENT

    def replace(record: dict[str, Any]) -> None:
        if what == "lines":
            records.replace_lines(path, [record])
        else:
            records.write_json(path, record)

    replace(FIRST)
    old = path.read_bytes()
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="injected"):
        replace(SECOND)
    assert path.read_bytes() == old


def failing(_descriptor: int) -> None:
    raise OSError(errno.EIO, "injected")


@pytest.mark.parametrize("content", [b"[]\n", b"3\n"])
def test_a_line_that_is_no_record_is_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lines.jsonl").write_bytes(content)
    with pytest.raises(CorruptFileError, match="line 1 is no record"):
        records.read_lines(tmp_path / "lines.jsonl")


def test_records_that_are_cut_off_are_damage(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 100)[:-5])
    with pytest.raises(CorruptFileError, match="cannot be decompressed"):
        records.read_lines(tmp_path / "lines.jsonl")
    (tmp_path / "environment.json").write_text('{"a": ')
    with pytest.raises(CorruptFileError, match="is not JSON"):
        records.read_json(tmp_path / "environment.json")
