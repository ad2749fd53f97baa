"""Lance and pyiceberg append to tables of their own, and their readers find what is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from spillway.race.check import Verdict, check
from spillway.race.location import Location
from spillway.race.model import Cell, OwnTable, rows
from spillway.race.record import SCHEMA

from .conftest import invoke, races_in

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
CELL = Cell(committer="lance", workload="append-only", writers=2, rows=5)
APPENDS = [(0, 0), (1, 0)]
PROCESSES, NUMBER = 3, 10
# Another program holds SQLite's lock for longer than the 5 s that a commit waits: from its update on, or only
# until it ends.
LOCKS = {"update": ["begin immediate"], "end": ["begin", "select * from iceberg_tables"]}
LOCKED = """
import sqlite3, sys, threading, time
from spillway.race.committers.iceberg import PyIceberg
from spillway.race.location import Location
from spillway.race.model import Cell
from spillway.race.model import rows

folder, *lock = sys.argv[1:]
cell, location, committer = Cell(committer="pyiceberg", writers=1), Location(folder), PyIceberg()
committer.create(location, cell)
writer = committer.writer(location, cell)
other = sqlite3.connect(f"{folder}/catalog.db", isolation_level=None, check_same_thread=False)
for statement in lock:
    other.execute(statement).fetchone()
timer = threading.Timer(6.0, other.rollback)
timer.start()
receipt = writer.append(rows(cell, 0, 0))
timer.join()
found = committer.found(location)
print(receipt.attempts > 1, found.versions, found.rows.num_rows)
"""


class Table:
    """A committer that has found a table."""

    def __init__(self, appends: Sequence[tuple[int, int]]) -> None:
        self._rows = [rows(CELL, *each) for each in appends]

    def found(self, location: Location) -> OwnTable:
        if not self._rows:
            raise OSError(f"{location.uri}: no table")
        return OwnTable("lance", len(self._rows), pa.concat_tables(self._rows))


def verdict_on(appends: Sequence[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> Verdict:
    monkeypatch.setattr("spillway.race.check.load_own", lambda _: Table(appends))
    return check(Location("/nowhere"), CELL, APPENDS)


def test_a_table_is_judged_by_its_own_reader_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict_on(APPENDS, monkeypatch) == Verdict(versions=2, present=2, rows={"lance": 10})


def test_what_is_lost_or_doubled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = verdict_on(APPENDS[:1], monkeypatch)
    assert (lost.lost, lost.problems) == (1, ["acknowledged, and not in the table: writer 1, append 0"])
    doubled = verdict_on([*APPENDS, APPENDS[1]], monkeypatch)
    assert (doubled.doubled, doubled.problems) == (1, ["in the table more than once: writer 1, append 0"])


def test_a_table_that_cannot_be_read_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = verdict_on([], monkeypatch).problems
    assert problems == [
        "lance cannot read the table: OSError: /nowhere: no table",
        "no reader has looked at the rows",
    ]


def test_they_race_on_a_local_disk_alone(out: Path) -> None:
    result = invoke(out, "--committers", "spillway,pyiceberg,lance", "--store", "s3://bucket/tables")
    assert result.exit_code == 2
    assert "lance, pyiceberg: on a local disk only" in " ".join(result.output.split())
    assert list(out.iterdir()) == []


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both libraries, and what they need in the versions of the lock."""
    folder = tmp_path_factory.mktemp("libraries")
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(folder)]
    lock = ["--constraint", str(ROOT / "requirements" / "dev.txt")]
    subprocess.run([*command, *lock, "pylance", "pyiceberg[sql-sqlite]"], check=True)
    return folder


def run(libraries: Path, program: str, *arguments: str) -> str:
    path = os.pathsep.join([str(libraries), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


# A soak downloads the libraries, 90 MB. In continuous integration a table stands for theirs, above.
@pytest.mark.soak
def test_processes_append_and_nothing_is_lost_or_doubled(libraries: Path, out: Path) -> None:
    raced = f"--committers lance,pyiceberg --writers {PROCESSES} --appends {NUMBER} --spread processes"
    program = "import typer; from spillway.cli.race import race; typer.run(race)"
    run(libraries, program, "--out", str(out), *raced.split())
    found = {each["cell"]["committer"]: each for each in races_in(out)}
    assert found.keys() == {"lance", "pyiceberg"}
    for name, each in found.items():
        SCHEMA.check(each)
        assert each["outcome"] == "ok", json.dumps(each)
        appends = PROCESSES * NUMBER
        verdict = Verdict(versions=appends, present=appends, rows={name: appends * 10})
        assert each["table"] == asdict(verdict)
    assert found["lance"]["attempts"] is None
    assert found["pyiceberg"]["attempts"] >= PROCESSES * NUMBER


@pytest.mark.soak
@pytest.mark.parametrize("until", LOCKS)
def test_a_locked_catalogue_has_changed_nothing(libraries: Path, tmp_path: Path, until: str) -> None:
    assert run(libraries, LOCKED, str(tmp_path / "table"), *LOCKS[until]).split() == ["True", "1", "10"]
