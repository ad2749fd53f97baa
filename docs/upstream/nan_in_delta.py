"""Has delta-rs write a table with NaN, and engines look for it by the statistics in the table's log."""

import importlib.metadata
import json
import math
import tempfile
from pathlib import Path

import deltalake
import pyarrow as pa

ROWS, NAN = 6_000, 3_007
cells = [2.0 if number % 2 else 1.0 for number in range(ROWS)]
cells[NAN] = math.nan
with tempfile.TemporaryDirectory() as folder:
    deltalake.write_deltalake(folder, pa.table({"id": range(ROWS), "x": cells}))
    lines = Path(folder, "_delta_log", f"{0:020}.json").read_text().splitlines()
    (stats,) = [action["add"]["stats"] for action in map(json.loads, lines) if "add" in action]
    print("deltalake", importlib.metadata.version("deltalake"), "wrote", stats)
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder))
    for where in ("x > 5", "isnan(x)", "x <> 1 AND x <> 2"):
        found = pa.table(query.execute(f"SELECT id FROM t WHERE {where}")).num_rows
        print(f"{where}: {found} rows, 1 expected")
