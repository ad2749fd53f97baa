"""Temporary files of tasks: they lie in Spark's local directories."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["choose_scratch"]


def choose_scratch() -> None:
    """Let temporary files of this process lie in Spark's local directories, unless ``TMPDIR`` is set.

    The native module looks at ``TMPDIR``, too. Spark passes its local directories to each Python worker; the
    root disks of executors are often small.
    """
    local = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if local and Path(local).is_dir():
        os.environ.setdefault("TMPDIR", local)
