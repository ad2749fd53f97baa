"""Processes of an earlier version of Spillway and of this one write one table: all rows are there, once.

``SPILLWAY_EARLIER_WHEEL`` is the path of a wheel of an earlier commit; ``make soak`` builds one. Without it,
this version stands for the earlier one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import spillway.delta

from ..counts import count
from .conftest import READERS
from .logs import read_version

WHEEL = os.environ.get("SPILLWAY_EARLIER_WHEEL")
HERE = str(Path(spillway.delta.__file__).parents[2])
SCHEMA = pa.schema({"writer": pa.string(), "number": pa.int64()})
PROCESSES, THREADS, APPENDS = 2, 4, count(quick=5, ci=5, soak=100)

SHARED = """
import base64, json, sys, threading
import pyarrow as pa
import spillway.delta
from spillway.errors import SpillwayError

folder, name, *rest = sys.argv[1:]
table = spillway.delta.open(folder)

def rows(writer, number):
    schema = pa.schema({"writer": pa.string(), "number": pa.int64()})
    return pa.table({"writer": [writer], "number": [number]}, schema)
"""
APPENDING = """
threads, appends = map(int, rest)
said = []

def some(writer):
    for number in range(appends):
        with table.append(coalesce=number % 2 == 0) as append:
            append.write(rows(writer, number))
        said.append((writer, number))

print("ready", flush=True)
sys.stdin.readline()
workers = [threading.Thread(target=some, args=(f"{name}-{n}",)) for n in range(threads)]
[worker.start() for worker in workers]
[worker.join() for worker in workers]
print(json.dumps(said))
"""
DETACHING = """
append = table.append()
append.write(rows(name, 0))
print(json.dumps(base64.b64encode(append.detach()).decode()))
"""
ATTACHING = """
try:
    with table.append() as append:
        append.attach(base64.b64decode(rest[0]))
    print(json.dumps("attached"))
except SpillwayError as error:
    print(json.dumps(type(error).__name__))
"""
READING = """
found = pa.table(table.scan())
print(json.dumps(sorted(zip(*(found[column].to_pylist() for column in ("writer", "number"))))))
"""


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where each version's package is."""
    if WHEEL is None:
        return {"earlier": HERE, "today": HERE}
    earlier = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(earlier)
    return {"earlier": str(earlier), "today": HERE}


def begun(place: str, program: str, *arguments: object) -> subprocess.Popen[str]:
    # Put the version's package first on the path.
    where = f"import sys; sys.path.insert(0, {place!r})\nimport spillway\n"
    where += f"assert spillway.__file__.startswith({place!r}), spillway.__file__\n"
    command = [sys.executable, "-c", where + SHARED + program, *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def told(process: subprocess.Popen[str]) -> Any:
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    return json.loads(out.splitlines()[-1])


@pytest.mark.soak
def test_appends_of_both_are_all_there_once(tmp_path: Path, places: dict[str, str]) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    names = {f"{version}{number}": version for version in places for number in range(PROCESSES)}
    processes = [
        begun(places[version], APPENDING, table.path, name, THREADS, APPENDS)
        for name, version in names.items()
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
    said: list[tuple[str, int]] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        said += [(writer, number) for writer, number in told(process)]
    assert len(said) == len(names) * THREADS * APPENDS
    for read in READERS.values():
        found = read(tmp_path / "t")
        rows = zip(found["writer"].to_pylist(), found["number"].to_pylist(), strict=True)
        assert sorted(rows) == sorted(said)
    for place in places.values():
        rows = told(begun(place, READING, table.path, "reader"))
        assert rows == [list(row) for row in sorted(said)]
    ids = [
        member
        for version in range(1, table.refresh() + 1)
        for line in read_version(table, version)
        for member in line.get("commitInfo", {}).get("tags", {}).get("spillway.members", "").split(",")
        if member
    ]
    assert len(ids) == len(set(ids))


@pytest.mark.soak
@pytest.mark.parametrize("writes", ["earlier", "today"])
def test_files_that_one_hands_over_the_other_commits_or_refuses(
    tmp_path: Path, places: dict[str, str], writes: str
) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    part = told(begun(places[writes], DETACHING, table.path, writes))
    other = "today" if writes == "earlier" else "earlier"
    outcome = told(begun(places[other], ATTACHING, table.path, other, part))
    # A version refuses what it does not know; it knows its own.
    assert outcome in ({"attached"} if WHEEL is None else {"attached", "OptionError"})
    rows = told(begun(places[writes], READING, table.path, "reader"))
    assert rows == ([[writes, 0]] if outcome == "attached" else [])
