"""One write by a piece of code, in its own process. Run by path.

The code runs once on a few rows, which imports its libraries, and then on all of them. Time, peak memory and
bytes of the second go to the parent.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
from pathlib import Path

from spillway._parent import die_with_parent

_WARM_UP_ROWS = 100


def main() -> int:
    """Measure the code on standard input, and send one line about it."""
    descriptor = int(sys.argv[1])
    request = json.load(sys.stdin)
    die_with_parent(request["parent"])
    os.sched_setaffinity(0, request["cores"])
    os.chdir(request["folder"])
    message = json.dumps({"result": _measure(request)}) + "\n"
    os.write(descriptor, message.encode())
    return 0


def _measure(request: dict[str, object]) -> dict[str, object]:
    import pyarrow as pa  # noqa: PLC0415 - after the process has its core

    from spillway.bench.worker.inputs import MappedInput  # noqa: PLC0415
    from spillway.harness.probes import process  # noqa: PLC0415

    source = MappedInput(str(request["input"]), int(str(request["rows"])))
    code = compile(str(request["code"]), "<tuned>", "exec")
    path = Path(str(request["folder"])) / "tuned.parquet"
    _run(code, pa.Table.from_batches([source.head(_WARM_UP_ROWS)]), path, str(request["library"]))
    table = source.table()
    gc.collect()
    process.release_memory()
    process.reset_high_water()
    before = process.read_baseline()
    begin = process.read_usage()
    _run(code, table, path, str(request["library"]))
    used = process.usage_between(begin, process.read_usage())
    peak = process.read_memory().high_water - before.rss
    data = path.read_bytes()
    return {
        "cpu_seconds": used["user_seconds"] + used["system_seconds"],
        "wall_seconds": used["wall_seconds"],
        "peak_bytes": peak,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _run(code: object, table: object, path: Path, library: str) -> None:
    from spillway.harness.probes import process  # noqa: PLC0415

    process.set_threads(1)
    if library == "duckdb":
        import duckdb  # noqa: PLC0415

        duckdb.execute("SET threads = 1")  # it looks at no affinity
    exec(code, {"table": table, "path": str(path)})  # type: ignore[arg-type]  # noqa: S102 - as a user would paste it


if __name__ == "__main__":
    sys.exit(main())
