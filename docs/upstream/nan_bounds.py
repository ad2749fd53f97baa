"""Writes 6,000 doubles of which one is NaN, and has an engine look for it in the file and beside the file.

python nan_bounds.py ENGINE
"""

import importlib.metadata
import math
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS, NAN = 6_000, 3_007
CONDITIONS = ("x > 5", "isnan(x)", "x <> 1 AND x <> 2")


def by_duckdb(rows: pa.Table, path: str, where: str) -> tuple[int, int]:
    import duckdb

    session = duckdb.connect().register("memory", rows)
    query = "SELECT count(*) FROM {} WHERE {}"
    found = [
        session.execute(query.format(source, where)).fetchall()[0][0] for source in (f"'{path}'", "memory")
    ]
    return found[0], found[1]


def by_datafusion(rows: pa.Table, path: str, where: str) -> tuple[int, int]:
    import datafusion

    session = datafusion.SessionContext()
    session.register_parquet("file", path)
    session.register_record_batches("rows", [rows.to_batches()])
    query = "SELECT count(*) AS n FROM {} WHERE {}"
    found = [session.sql(query.format(source, where)).to_pydict()["n"][0] for source in ("file", "rows")]
    return found[0], found[1]


def by_pyspark(rows: pa.Table, path: str, where: str) -> tuple[int, int]:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return (
        session.read.parquet(path).where(where).count(),
        session.createDataFrame(rows).where(where).count(),
    )


ENGINES = {"duckdb": by_duckdb, "datafusion": by_datafusion, "pyspark": by_pyspark}


def main(engine: str) -> None:
    cells = [2.0 if number % 2 else 1.0 for number in range(ROWS)]
    cells[NAN] = math.nan
    rows = pa.table({"id": range(ROWS), "x": cells})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "nan.parquet"))
        pq.write_table(rows, path, row_group_size=ROWS // 2)
        bounds = pq.read_metadata(path).row_group(1).column(1).statistics
        print(f"pyarrow {pa.__version__} wrote bounds {bounds.min} to {bounds.max} beside NaN")
        name = f"{engine} {importlib.metadata.version(engine)}"
        for where in CONDITIONS:
            of_file, in_memory = ENGINES[engine](rows, path, where)
            print(f"{name}, {where}: {of_file} rows of the file, {in_memory} of the same rows in memory")


main(sys.argv[1])
