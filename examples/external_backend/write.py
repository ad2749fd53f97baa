#!/usr/bin/env python3
"""A backend that is a program: the template to copy, in the language of your writer.

It reads an Arrow IPC stream, writes Parquet to a path, and prints a JSON line of what its write took.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    """Write what standard input holds."""
    table = pa.ipc.open_stream(sys.stdin.buffer).read_all()  # all of it, before the clock starts
    level = os.environ["SPILLWAY_LEVEL"]
    Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark back to what is resident
    baseline, before, begin = status("VmRSS"), resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()

    pq.write_table(
        table,
        os.environ["SPILLWAY_OUTPUT"],
        compression=os.environ["SPILLWAY_CODEC"].replace("uncompressed", "none"),
        compression_level=int(level) if level else None,
        row_group_size=int(os.environ["SPILLWAY_ROW_GROUP_ROWS"]),
    )

    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "rows": table.num_rows,
        "version": pa.__version__,
        "seconds": seconds,
        "user_seconds": after.ru_utime - before.ru_utime,
        "system_seconds": after.ru_stime - before.ru_stime,
        "baseline_bytes": baseline,
        "peak_bytes": status("VmHWM"),
        "pool_bytes": pa.total_allocated_bytes(),  # whatever else the program knows of itself
    }
    print(json.dumps(figures))


def status(field: str) -> int:
    """Bytes of a field of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
