"""The guide's code for Spark runs as it stands there, on a cluster whose executors have the archive alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

from ..counts import count
from ..docs.pages import ROOT, blocks_of
from .cluster import BASE_PYTHON, SPARK_HOME, finished

if TYPE_CHECKING:
    from .cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PAGES = ("guide/spark-cluster.md", "guide/spark.md", "migrate/spark.md")
ROWS = 10_000
MORE_ROWS = count(quick=10_000, ci=60_000, soak=10_000_000)
FRAME = f"""
df = spark.range(0, {ROWS}, 1, 2).selectExpr("id", "concat('service-', id % 7) AS service")
"""

WRITE_ON_EXECUTORS = f"""
import json

def write(batches):
    import os, sys
    import pyarrow as pa, spillway
    from pyspark import TaskContext
    number = TaskContext.get().partitionId()
    first = next(batches)
    with spillway.ParquetWriter(f"{{FOLDER}}/{{number}}.parquet", first.schema) as writer:
        writer.write(first)
        for batch in batches:
            writer.write(batch)
    files = {{getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}}
    told = {{"cwd": os.getcwd(), "python": sys.executable, "rows": writer.result.rows}}
    told |= {{"spillway": spillway.__file__, "pyarrow": pa.__file__, "files": sorted(files - {{""}})}}
    yield pa.RecordBatch.from_pydict({{"told": [json.dumps(told)]}})

numbers = spark.range(0, {MORE_ROWS}, 1, 4)
frame = numbers.selectExpr("id", "cast(id % 7 as string) as word", "id / 3 as ratio")
print(json.dumps([json.loads(row.told) for row in frame.mapInArrow(write, "told string").collect()]))
# Nothing is registered: Spark looks for the format in the packages of the driver's worker.
frame.write.format("spillway").mode("append").save(FOLDER + "-by-format")
"""


class Ran(NamedTuple):
    """The folder of a driver that ran the guide's code, and what tasks after that told of themselves."""

    folder: Path
    written: Path
    told: list[dict[str, Any]]


@pytest.fixture(scope="module")
def ran(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One driver for all that is asked of it: its executors take longer to come than to write."""
    blocks = [block for page in PAGES for block in blocks_of(ROOT / "docs" / page)]
    ours = [block.text for block in blocks if "tests/spark/test_guide.py" in (block.reason or "")]
    (session,) = [text for text in ours if "spark://host:7077" in text]
    jobs = [text for text in ours if text != session]
    assert len(jobs) == 7
    # A stray package or archive in the driver's folder would stand in for the packed one.
    driver_folder, written = tmp_path_factory.mktemp("driver"), tmp_path_factory.mktemp("written")
    session = session.replace("spark://host:7077", cluster.master)
    program = "\n".join([session, FRAME, *jobs, f"FOLDER = {str(written)!r}", WRITE_ON_EXECUTORS])
    with cluster.bare_driver(driver_folder, program) as driver:
        out = finished(driver)
    return Ran(driver_folder, written, json.loads(out.splitlines()[-1]))


def test_the_code_of_the_guide_runs_on_a_cluster(ran: Ran) -> None:
    ids = set(range(ROWS))
    for folder in ("logs", "sink", "before", "after"):
        assert set(pq.read_table(ran.folder / folder)["id"].to_pylist()) == ids
    table = spillway.delta.open(ran.folder / "events")
    assert (table.version, table.partition_columns) == (0, ["service"])
    squares = pq.read_table(ran.folder / "squares").sort_by("id")
    assert squares["square"].to_pylist() == [number**2 for number in range(400_000)]


def test_executors_write_with_the_archive_alone(ran: Ran, cluster: Cluster) -> None:
    assert sum(task["rows"] for task in ran.told) == MORE_ROWS
    assert {Path(task["cwd"]).parents[1].parent for task in ran.told} == {cluster.work}
    for task in ran.told:
        unpacked = Path(task["cwd"], "spillway-packed")
        assert task["python"] == str(BASE_PYTHON)
        assert task["spillway"] == str(unpacked / "spillway" / "__init__.py")
        assert task["pyarrow"] == str(unpacked / "pyarrow" / "__init__.py")
        # Of the driver's environment only Spark itself, which each worker has on its own.
        lent = [file for file in task["files"] if file.startswith(sys.prefix + os.sep)]
        assert all(Path(file).is_relative_to(SPARK_HOME) for file in lent)
    read = pq.read_table(ran.written).sort_by("id")
    ids = np.arange(MORE_ROWS)
    made = pa.table({"id": ids, "word": pa.array(ids % 7).cast(pa.string()), "ratio": ids / 3})
    assert read.equals(made.cast(read.schema))
    assert pq.read_table(f"{ran.written}-by-format").sort_by("id").equals(read)
    written = {"logs", "events", "squares", "sink", "checkpoint", "before", "after"}
    spark = {"scratch", "artifacts"}
    assert {each.name for each in ran.folder.iterdir()} - spark == written | {"spillway.tar.gz"}
