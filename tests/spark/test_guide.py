"""The guide's code for Spark runs as it stands there, on a cluster whose executors have the archive alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import spillway

from ..docs.pages import ROOT, blocks_of
from .cluster import finished

if TYPE_CHECKING:
    from pathlib import Path

    from .cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
ROWS = 10_000
FRAME = f"""
df = spark.range(0, {ROWS}, 1, 2).selectExpr("id", "concat('service-', id % 7) AS service")
"""


def test_the_code_of_the_guide_runs_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    blocks = blocks_of(ROOT / "docs" / "guide" / "spark.md")
    ours = [block.text for block in blocks if "tests/spark/test_guide.py" in (block.reason or "")]
    (session,) = [text for text in ours if "spark://host:7077" in text]
    jobs = [text for text in ours if text != session]
    assert len(jobs) == 4
    program = "\n".join([session.replace("spark://host:7077", cluster.master), FRAME, *jobs])
    with cluster.bare_driver(tmp_path, program) as driver:
        finished(driver)

    ids = set(range(ROWS))
    assert set(pq.read_table(tmp_path / "logs")["id"].to_pylist()) == ids
    assert set(pq.read_table(tmp_path / "sink")["id"].to_pylist()) == ids
    table = spillway.delta.open(tmp_path / "events")
    assert (table.version, table.partition_columns) == (0, ["service"])
    squares = pq.read_table(tmp_path / "squares").sort_by("id")
    assert squares["square"].to_pylist() == [number**2 for number in range(400_000)]
