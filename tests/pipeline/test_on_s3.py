"""A pipeline into a store, audited by Spark's own way to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..counts import SOAK

# A session with the jars of S3A: a download where they are not there yet. In CI, tests/spark/test_copies.py
# lets Spark read the same objects as local files.
__test__ = SOAK

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("table", ["parquet", "delta"])
def test_a_pipeline_on_s3_is_audited_by_s3a_and_published_once(table: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.on_s3", table],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said.pop("read", [72, 72]) == [72, 72]
    assert said == {
        "written": [36, 0, 36],
        "quarantined": [4, 0, 4],
        "repeated": [False, True, False],
        "audited": [36, 0, 36],
        "refused": {"unique(id, in_table=True)": 9},
        "left": [],
    }
