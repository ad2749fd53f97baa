"""The example of a pipeline runs, and leaves the rows that it says."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import deltalake
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_example_quarantines_the_flight_that_fails_a_check(
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark.getActiveSession() is not None
    monkeypatch.chdir(tmp_path)
    example = request.config.rootpath / "examples" / "spark_pipeline.py"
    assert len(example.read_text().splitlines()) < 30
    runpy.run_path(str(example))
    assert "3 written, 1 quarantined" in capsys.readouterr().out
    flights = deltalake.DeltaTable(tmp_path / "flights").to_pyarrow_table().sort_by("flight")
    assert flights.select(["flight", "late"]).to_pylist() == [
        {"flight": "AA1141", "late": False},
        {"flight": "UA1545", "late": False},
        {"flight": "UA1714", "late": True},
    ]
    (bad,) = deltalake.DeltaTable(tmp_path / "flights__quarantine").to_pyarrow_table().to_pylist()
    assert (bad["flight"], bad["_failed_checks"]) == ("B6725", ["between(air_time, 0, 1200)"])
    assert bad["_run_id"] == "2013-01-01"
