"""Imports point one way, and the measured process has few of them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spillway

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(spillway.__file__).parent
MEASURED = """
import json, sys
from spillway.backends import load
from spillway.bench.worker import inputs, main
from spillway.harness.probes import interpreter, process
load("pyarrow-streaming")
print(json.dumps([name for name in sys.modules if name.startswith("spillway.")]))
"""


def imported(folder: Path) -> Iterator[tuple[str, str]]:
    """Each module below a folder with each that it imports, for the type checker alone too."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                yield from ((path.name, f"{node.module}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((path.name, alias.name) for alias in node.names)


@pytest.mark.parametrize(
    ("layer", "above"),
    [
        ("harness", ("bench", "race", "cli")),
        ("bench", ("race", "cli")),
        ("race", ("bench", "cli")),
        ("backends", ("harness", "bench", "race", "cli", "validation")),
        ("validation", ("harness", "bench", "race", "cli")),
    ],
)
def test_a_layer_imports_none_above_it(layer: str, above: tuple[str, ...]) -> None:
    wrong = tuple(f"spillway.{name}." for name in above)
    assert not [each for each in imported(PACKAGE / layer) if f"{each[1]}.".startswith(wrong)]


def test_the_measured_process_imports_of_the_bench_its_worker_and_probes_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True, timeout=60
    )
    modules = {name for name in json.loads(done.stdout) if name.split(".")[1] in {"bench", "harness", "race"}}
    probes = ("interpreter", "process")
    worker = ("inputs", "main")
    assert modules == {
        "spillway.bench",
        "spillway.bench.worker",
        *(f"spillway.bench.worker.{name}" for name in worker),
        "spillway.harness",
        "spillway.harness.probes",
        *(f"spillway.harness.probes.{name}" for name in probes),
    }
