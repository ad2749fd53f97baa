"""Pictures are those of the samples, and say of what."""

from __future__ import annotations

import shutil
from pathlib import Path

from spillway.bench.figures import draw_figures
from spillway.bench.record import ALLOCATIONS, SAMPLES
from spillway.bench.summary import read_run
from spillway.harness import records
from spillway.harness.report.markdown import REPORT
from spillway.harness.report.plots import own_style, peer_style

from .made_runs import Writes, make_run

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent for path in RESULTS.rglob(SAMPLES))


def test_the_figures_of_the_reference_run_are_those_that_are_drawn(tmp_path):
    run = next(run for run in reversed(RUNS) if run.parent == RESULTS / "reference")
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    drawn = draw_figures(read_run(copy))
    assert {figure.path for figure in drawn} == {
        f"figures/{path.name}" for path in (run / "figures").iterdir()
    }
    assert all(f"![{figure.title}]({figure.path})" in (run / REPORT).read_text() for figure in drawn)


def test_an_allocation_curve_says_of_which_dataset_and_codec_it_is(tmp_path):
    cells = [
        {"dataset": dataset, "codec": codec} for dataset in ("logs", "wide:10") for codec in ("zstd", "lz4")
    ]
    make_run(tmp_path / "run", {"spillway": [Writes([1e6], cell={**cell, "level": None}) for cell in cells]})
    curve = {"seconds": [0.0, 1.0], "allocated_bytes": [0, 2_000_000]}
    record = {"backend": "spillway", "mode": "table", "rows": 400_000, "reason": None, "curve": curve}
    records.append(tmp_path / "run" / ALLOCATIONS, {**record, "dataset": "wide:10", "codec": "lz4"})
    titles = {figure.title for figure in draw_figures(read_run(tmp_path / "run"))}
    assert "spillway allocates least at once: 2.00 MB at 400,000 rows (table, wide:10, lz4)" in titles


def test_no_two_lines_differ_by_colour_alone():
    styles = [own_style(place) for place in range(3)] + [peer_style(place) for place in range(9)]
    lines = [(style["linestyle"], style["linewidth"]) for style in styles]
    assert len(set(lines)) == len(lines)
    points = [(style["marker"], style["linewidth"]) for style in styles[:10]]
    assert len(set(points)) == len(points)


def test_a_figure_has_the_finding_as_its_title(tmp_path):
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([2e6] * 6, growth=4e6, size=2_000_000),
            "arro3": Writes([1e6] * 6, growth=80e6, size=3_000_000),
        },
    )
    titles = {figure.path: figure.title for figure in draw_figures(run)}
    (title,) = [title for path, title in titles.items() if "size-and-speed" in path]
    assert title == "spillway writes the smallest file: 2.00 MB, and is the fastest (table, 2,276 MB)"
