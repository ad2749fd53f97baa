"""A process that gets no more threads, or no more files, loses nothing and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from .test_many import appended, check_log

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(__file__).with_name("programs.py")
THREADS = 500
APPENDS = 2


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that others may write to, other than the one a test gets: root has no limit on its threads."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def left_behind(folder: Path) -> set[str]:
    """Data files that no version names."""
    named = set()
    for version in (folder / "_delta_log").glob("*.json"):
        actions = map(json.loads, version.read_text().splitlines())
        named |= {unquote(action["add"]["path"]) for action in actions if "add" in action}
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
    return {path for path in found if not path.startswith("_delta_log/")} - named


def alone(program: str, *arguments: str) -> str:
    """The output of a program that is allowed no thread but its first."""
    limit = """
import os, resource, sys
import pyarrow as pa
import spillway.delta
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
resource.setrlimit(resource.RLIMIT_NPROC, (1, most))
"""
    command = [sys.executable, "-c", limit + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "panic" not in done.stderr
    return done.stdout


def test_an_upload_without_threads_is_an_error() -> None:
    said = alone("""
options = {"access_key_id": "a", "secret_access_key": "b", "allow_http": "true"}
options["endpoint"] = "http://127.0.0.1:9"
try:
    spillway.ParquetWriter("s3://bucket/file.parquet", storage_options=options)
except BlockingIOError as error:
    print(error)
""")
    assert "Resource temporarily unavailable" in said


def test_a_file_is_written_by_the_threads_that_there_are(open_to_all: Path) -> None:
    alone(
        """
columns = {f"c{n}": range(1000) for n in range(8)}
spillway.write_parquet(pa.table(columns), sys.argv[1], threads=8)
""",
        str(open_to_all / "file.parquet"),
    )
    assert pq.read_table(open_to_all / "file.parquet").num_rows == 1000


@pytest.mark.parametrize("coalesce", [False, True], ids=["each its own file", "shared files"])
@pytest.mark.parametrize("limit", ["threads", "files"])
def test_what_is_scarce_fails_nobody_else(open_to_all: Path, limit: str, coalesce: bool) -> None:  # noqa: FBT001
    folder = open_to_all / "table"
    command = [sys.executable, str(PROGRAMS), "scarce", str(folder), limit, str(THREADS), str(APPENDS)]
    done = subprocess.run(
        [*command, "coalesce" if coalesce else ""], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert "panic" not in done.stderr
    said = [(name, number) for name, number in json.loads(done.stdout)["said"]]
    errors = json.loads(done.stdout)["errors"]
    check_log(folder)
    assert appended(folder) == sorted(said)
    assert not left_behind(folder)
    if limit == "threads":
        assert not errors
        assert len(said) == THREADS * APPENDS
    else:
        # An append that got no file for its rows says so; all that have theirs get through.
        assert set(errors) <= {"OSError: Too many open files"}
        assert said
