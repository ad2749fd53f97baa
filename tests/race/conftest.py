"""A folder on a disk for tables, and a finished run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from spillway.cli.race import race
from spillway.harness import records
from spillway.race import committers
from spillway.race.record import RACES

from ..counts import SOAK

if TYPE_CHECKING:
    from click.testing import Result

# A race takes seconds of processor time for its processes. Each committer has one on a disk or on S3; in a
# soak, on both.
ON_DISK = committers.APPENDS if SOAK else ("spillway", "spillway-coalesce", "delta-rs")
ON_S3 = committers.APPENDS if SOAK else ("spillway", "put-if-absent", "delta-rs-retry")

app = typer.Typer()
app.command()(race)


@pytest.fixture
def out(disk: Path) -> Path:
    """A fresh folder for runs."""
    return Path(tempfile.mkdtemp(dir=disk))


@pytest.fixture(scope="session")
def finished(disk: Path) -> Path:
    """The folder of a small run, at two numbers of writers."""
    raced = ("--committers", ",".join(ON_DISK), "--writers", "1,4", "--rows", "3")
    result = invoke(disk / "finished", *raced)
    assert result.exit_code == 0, result.output
    (folder,) = (disk / "finished").iterdir()
    return folder


def invoke(out: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--out", str(out), *arguments])


def start(out: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    # A shell that starts the tests in the background has them ignore the signal.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = f"{heed}; import typer; from spillway.cli.race import race; typer.run(race)"
    return subprocess.Popen(
        [sys.executable, "-c", command, "--out", str(out), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def races_in(out: Path) -> list[dict[str, Any]]:
    """All races below a folder of runs, whose tables may be removed meanwhile."""
    found = sorted(Path(folder, RACES) for folder, _, names in os.walk(out) if RACES in names)
    return [record for path in found for record in records.read_lines(path)]
