"""One thread for every backend. Libraries size their pools once, on import, so this comes first."""

from __future__ import annotations

import os
import sys

from spillway.harness.probes.pools import thread_environment

THREADS = 1

if "polars" in sys.modules:
    raise RuntimeError("polars is imported, and its pool made: run `pytest bench` in a process of its own")
os.environ |= thread_environment(THREADS)
