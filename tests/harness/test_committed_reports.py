"""The pictures of the reference run are those that the code draws of its samples."""

from __future__ import annotations

import shutil
from pathlib import Path

from spillway.harness.document import REPORT
from spillway.harness.figures import draw_figures
from spillway.harness.samples import SAMPLES
from spillway.harness.summary import read_run

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent for path in RESULTS.rglob(SAMPLES))


def test_the_figures_of_the_reference_run_are_those_that_are_drawn(tmp_path):
    run = next(run for run in reversed(RUNS) if run.parent == RESULTS)
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    drawn = draw_figures(read_run(copy))
    assert {figure.path for figure in drawn} == {
        f"figures/{path.name}" for path in (run / "figures").iterdir()
    }
    assert all(f"![{figure.title}]({figure.path})" in (run / REPORT).read_text() for figure in drawn)
