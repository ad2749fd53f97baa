"""A client of Spark Connect writes by tasks of the server, and commits by one of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import deltalake
import pyarrow.dataset as ds
import pytest

if TYPE_CHECKING:
    from pathlib import Path

# What PySpark's client needs over the environment of the tests, which a soak installs.
CLIENT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")

PROGRAM = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
import spillway.spark

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
df = spark.range(0, 1000, 1, 2).selectExpr("id", "concat('d', id % 3) day")

def told(**options):
    try:
        done = spillway.spark.write(df, **{"path": f"{folder}/plain", "partition_by": "day", **options})
    except Exception as error:
        return type(error).__name__
    return [done.rows, done.version]

delta = {"path": f"{folder}/delta", "table": "delta", "partition_by": (), "run_id": "run"}
answers = [told(), told(), told(mode="append"), told(mode="ignore"), told(path="relative")]
answers += [told(**delta), told(**delta, mode="append")]
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
df = df.where("day = 'd1'")
answers.append(told(mode="overwrite"))
df = df.selectExpr("IF(id > 500, raise_error('no'), id) id", "day")
answers.append(told(path=f"{folder}/failed"))
Path(folder, "answers.json").write_text(json.dumps(answers))
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.spark
def test_a_client_of_spark_connect_writes_in_all_modes(tmp_path: Path) -> None:
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", sys.executable, "--target"]
    subprocess.run([*install, tmp_path / "client", *CLIENT], check=True, timeout=120)
    added = {
        "PYTHONPATH": str(tmp_path / "client"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path / "scratch"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path],
        cwd=tmp_path,
        env=os.environ | added,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "answers.json").read_text()) == [
        [1000, None],
        "FileExistsError",
        [1000, None],
        [0, None],
        "OptionError",
        [1000, 0],
        [0, 0],
        [333, None],
        "SparkRuntimeException",
    ]
    assert sorted(file.name for file in tmp_path.iterdir() if "fail" in file.name) == []
    assert deltalake.DeltaTable(tmp_path / "delta").to_pyarrow_table().num_rows == 1000
    assert ds.dataset(tmp_path / "plain", partitioning="hive").count_rows() == 667 * 2 + 333
