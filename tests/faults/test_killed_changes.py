"""Processes that are killed while they change, compact or clean a table lose no row and double none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..counts import count

KILLS = count(quick=1, ci=2, soak=100)
# The end of a program that hangs. Each kill begins a process, which may share its core.
SECONDS = 60 + 10 * KILLS
PROGRAM = Path(__file__).with_name("killed_changes.py")


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("kind", ["delete", "update", "merge", "optimize", "purge", "vacuum"])
def test_a_killed_operation_is_done_whole_or_not_at_all(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "table", kind, str(KILLS)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout)
    assert counts["killed"] == KILLS, "hardly an operation was killed in the middle"
    print(f"{kind}: {counts}")  # noqa: T201 - a soak's report
