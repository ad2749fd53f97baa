"""Appends to a table on S3 that overtake one of Spark: its own writer replaces them, this one does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..counts import SOAK

# Two sessions with the jars of S3A: half a minute, and a download where they are not there yet.
__test__ = SOAK

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("form", "status", "lost"), [("spillway", 0, 0), ("delta", 1, 1)])
def test_the_append_that_overtook_spark_is_lost_if_spark_itself_commits(
    form: str, status: int, lost: int
) -> None:
    options = ["--runs", "1", "--spark", "1", "--overtake", "--format", form]
    command = [sys.executable, "-m", "tests.spark.beside_others", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (status, "")
    assert "acknowledged 1 by spark, 1 by spillway, 0 by delta-rs" in done.stdout
    assert f"lost {{'spark': 0, 'spillway': {lost}, 'delta-rs': 0}}" in done.stdout
