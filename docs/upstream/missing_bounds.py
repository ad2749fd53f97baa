"""Look for rows by a boolean in a Delta table whose log has no bounds for it, as Spark writes it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import deltalake
import pyarrow as pa

print("deltalake", deltalake.__version__)
with tempfile.TemporaryDirectory() as folder:
    deltalake.write_deltalake(folder, pa.table({"id": [1, 2, 3], "ok": [True, False, None]}))
    (log,) = Path(folder, "_delta_log").glob("*.json")
    for has_bounds in (True, False):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for add in (action["add"] for action in actions if "add" in action):
            stats = json.loads(add["stats"])
            if not has_bounds:
                del stats["minValues"]["ok"], stats["maxValues"]["ok"]
            add["stats"] = json.dumps(stats)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        rows = deltalake.DeltaTable(folder).to_pyarrow_table(filters=[("ok", "=", True)])
        print("bounds" if has_bounds else "no bounds", f"of ok: {rows.num_rows} rows, 1 expected")
