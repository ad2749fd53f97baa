"""The run that the README quotes was measured with a writer that costs and writes what today's does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway
from spillway import datasets
from spillway.bench.summary import read_run

from .conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

RESULTS = ROOT / "results"
MEASURE_AGAIN = "measure again: scripts/targets.py measure OUT front"


@pytest.fixture(scope="module")
def quoted() -> Path:
    return max((RESULTS / "targets" / "front").iterdir())


def test_a_row_takes_the_instructions_that_it_took_when_the_readme_was_measured(quoted: Path) -> None:
    then, now = (
        json.loads((folder / "instructions.json").read_text())["instructions_per_row"]
        for folder in (quoted, RESULTS)
    )
    for dataset, counts in now.items():
        assert counts["all"] == pytest.approx(then[dataset]["all"], rel=0.01), f"{dataset}: {MEASURE_AGAIN}"


def test_a_file_has_the_size_that_it_had_when_the_readme_was_measured(quoted: Path, tmp_path: Path) -> None:
    cells = [each for each in read_run(quoted).cells if each.cell.backend == "spillway"]
    smallest = min(cells, key=lambda each: each.cell.rows)
    prepared = datasets.prepare("logs", seed=1, rows=smallest.cell.rows)
    with pa.memory_map(str(prepared.path)) as mapped:
        spillway.write_parquet(pa.ipc.open_file(mapped).read_all(), tmp_path / "logs.parquet")
    then = smallest.samples[0]["output"]["bytes"]
    assert (tmp_path / "logs.parquet").stat().st_size == pytest.approx(then, rel=0.005), MEASURE_AGAIN
