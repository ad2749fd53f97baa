"""The samples of a run are lines that Spark reads as they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spillway.bench.record import SAMPLES
from spillway.harness import records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULTS = Path(__file__).parents[2] / "results" / "reference"


@pytest.mark.spark
def test_the_samples_of_the_reference_run_are_read_in_one_line(spark: SparkSession) -> None:
    (path,) = RESULTS.glob(f"2*/{SAMPLES}.gz")
    good = [line for line in records.read_lines(path.with_suffix("")) if line["outcome"] == "ok"]
    at_most = max(line["cell"]["rows"] for line in good)
    expected = sum(line["cell"]["rows"] == at_most for line in good)
    assert expected
    assert spark.read.json(str(path)).where(f"outcome = 'ok' and cell.rows = {at_most}").count() == expected
