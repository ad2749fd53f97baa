"""The example of Spark runs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_example_runs(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    done = subprocess.run(
        [sys.executable, request.config.rootpath / "examples" / "spark_reads.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "{'api': 2, 'web': 1}"
