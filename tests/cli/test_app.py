"""The command as a whole: its version, its short options, and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spillway.cli.app import app

SPILLWAY = Path(sys.executable).with_name("spillway")
COMMANDS = [
    "advise",
    "bench",
    "compare",
    "doctor",
    "export",
    "inspect",
    "pipeline",
    "race",
    "report",
    "tune",
    "uploads",
    "validate",
    "write",
]


def run(*arguments, **environment):
    return subprocess.run(
        [SPILLWAY, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_version_is_that_of_the_package():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"spillway {metadata.version('spillway')}\n")


@pytest.mark.parametrize("command", [[], *([each] for each in COMMANDS)])
def test_the_short_option_helps_as_the_long_one(command):
    short, long = (CliRunner().invoke(app, [*command, option]) for option in ("-h", "--help"))
    assert short.exit_code == 0
    assert "Usage" in short.stdout
    assert short.stdout == long.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("bench --backend pol", {"polars", "polars-rows", "polars-ndjson"}),
        (
            "bench --backend spillway,pol",
            {"spillway,polars", "spillway,polars-rows", "spillway,polars-ndjson"},
        ),
        (
            "bench --codec zstd,",
            {f"zstd,{each}" for each in ("snappy", "lz4", "gzip", "brotli", "uncompressed")},
        ),
        ("bench --dataset l", {"logs", "logs-nested", "lineitem"}),
        ("bench --mode rows", {"rows", "rows-json"}),
        ("bench --mode nothing", set()),
    ],
)
def test_values_are_completed_part_by_part(words, completed):
    """As bash asks for it: the words typed so far, and which of them is being typed."""
    typed = f"spillway {words}"
    done = run(
        _SPILLWAY_COMPLETE="complete_bash",
        COMP_WORDS=typed,
        COMP_CWORD=str(len(typed.split()) - 1),
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == completed
