"""Pictures are those of the samples, and say of what."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from spillway.bench import figures
from spillway.bench.figures import draw_figures
from spillway.bench.record import ALLOCATIONS, SAMPLES
from spillway.bench.summary import read_run
from spillway.harness import records
from spillway.harness.report.markdown import REPORT
from spillway.harness.report.plots import own_style, peer_style, save_figure

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


def test_memory_over_time_is_drawn_where_somebody_looked(tmp_path):
    curve = {"seconds": [0.0, 0.1], "rss_bytes": [300_000_000, 310_000_000]}
    settings = list(itertools.product(("wide:10", "wide:20"), ("zstd", "snappy"), (1, 2)))
    writes = [
        Writes(
            [1e6],
            cell={"dataset": dataset, "codec": codec, "level": None, "threads": threads},
            curve=curve if (dataset, threads) == ("wide:20", 1) else None,
        )
        for dataset, codec, threads in settings
    ]
    paths = {figure.path for figure in draw_figures(make_run(tmp_path / "run", {"spillway": writes}))}
    assert {Path(path).stem for path in paths if "rss-over-time" in path} == {
        "rss-over-time-table-wide20-zstd-1core-2276MB",
        "rss-over-time-table-wide20-snappy-1core-2276MB",
    }


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
    points = [(style["marker"], style["linewidth"], style.get("markerfacecolor")) for style in styles]
    assert len(set(points)) == len(points)


def drawn_lines(monkeypatch, run):
    """The labels of the lines of each figure, by its path, with the line below it."""
    found = {}

    def seen(*given):
        _, _, axes, name, title, below = given
        found[name] = (set(axes.get_legend_handles_labels()[1]), title, below)
        return save_figure(*given)

    monkeypatch.setattr(figures, "save_figure", seen)
    draw_figures(run)
    return found


def test_more_lines_than_can_be_followed_are_those_of_the_best_of_each_library(tmp_path, monkeypatch):
    """Of eleven backends only the one goes that is never the best of its library."""
    speeds = {f"program-{place}": (1e5, 1e5 + place) for place in range(6)}
    speeds |= {"arro3": (3e5, 4e5), "arro3-tuned": (9e5, 3e5)}
    speeds |= {"pyarrow-streaming": (1e5, 2e5), "pyarrow-streaming-tuned": (1.2e5, 1.8e5)}
    run = make_run(
        tmp_path / "run",
        {
            name: [
                Writes([speed] * 6, growth=1e13 / speed, cell={"rows": rows})
                for rows, speed in zip((1000, 2000), of, strict=True)
            ]
            for name, of in (speeds | {"pyarrow-buffered": (0.9e5, 1.5e5)}).items()
        },
    )
    drawn = drawn_lines(monkeypatch, run)
    names, title, below = drawn["throughput-table-2276MB"]
    assert names == speeds.keys()
    assert title.startswith("arro3 and arro3-tuned lead, by number of rows")
    assert below.endswith("Of each library the fastest writer at any size, and what the title names.")
    names, _, below = drawn["peak-rss-table-2276MB"]
    assert names - {"limit, imports included"} == speeds.keys()
    assert "the leanest writer" in below


def test_as_many_lines_as_can_be_followed_are_all_drawn(tmp_path, monkeypatch):
    names = ("arro3", "arro3-tuned", "pyarrow-buffered", "pyarrow-streaming", "polars", "duckdb")
    cells = {name: [Writes([1e5] * 2, cell={"rows": rows}) for rows in (1000, 2000)] for name in names}
    drawn = drawn_lines(monkeypatch, make_run(tmp_path / "run", cells))
    assert drawn["throughput-table-2276MB"][0] == set(names)
    assert "Of each library" not in drawn["throughput-table-2276MB"][2]


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
