"""Charts are those of the samples, name every writer, and can be read at both widths."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest

from spillway.backends import library
from spillway.bench.figures import charts_across, charts_of, draw_figures
from spillway.bench.record import ALLOCATIONS
from spillway.bench.summary import read_run
from spillway.bench.tables import file_megabytes, megabytes
from spillway.harness import records
from spillway.harness.plots import Axis, Chart, Line, drawn, embedded, lines, save, styles_of
from spillway.harness.report import REPORT

from .made_runs import Writes, make_run

RESULTS = Path(__file__).parents[2] / "results"
REFERENCE = max((RESULTS / "reference").iterdir())
CURVE = {"seconds": [0.0, 0.1, 0.2], "rss_bytes": [300_000_000, 310_000_000, 305_000_000]}


@pytest.fixture(scope="module")
def reference():
    return read_run(REFERENCE)


@pytest.fixture(scope="module")
def charts(reference):
    """The charts of the reference run's first setting, by kind."""
    return {each.name.split("-batches")[0]: each for each in charts_of(reference, reference.settings[0])}


def charts_by_kind(run, mode="-table"):
    return {each.name.split(mode)[0]: each for each in charts_of(run, run.settings[0])}


def axes_of(chart, *, is_narrow=False):
    (axes,) = drawn(chart, is_narrow=is_narrow).axes
    return axes


def texts_of(plot):
    """The texts of a plot that are seen, with the boxes that they take, in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - it takes long to load
    from matplotlib.text import Text  # noqa: PLC0415

    canvas = FigureCanvasAgg(plot)
    canvas.draw()
    found = [each for each in plot.findobj(Text) if each.get_visible() and each.get_text().strip()]
    # An axis keeps the labels of ticks that lie outside its ends, and draws none of them.
    ticks = {
        id(label) for axes in plot.axes for axis in (axes.xaxis, axes.yaxis) for label in labels_of(axis)
    }
    shown = {
        id(label)
        for axes in plot.axes
        for axis in (axes.xaxis, axes.yaxis)
        for label in drawn_labels_of(axis)
    }
    return [
        (each.get_text(), Text.get_window_extent(each, canvas.get_renderer()))
        for each in found
        if id(each) not in ticks or id(each) in shown
    ]


def labels_of(axis):
    return [label for tick in (*axis.majorTicks, *axis.minorTicks) for label in (tick.label1, tick.label2)]


def drawn_labels_of(axis):
    return [label for tick in axis._update_ticks() for label in (tick.label1, tick.label2)]


def names_in(plot):
    return {text for text, _ in texts_of(plot)}


def assert_texts_can_be_read(plot):
    texts = texts_of(plot)
    width, height = plot.get_size_inches() * plot.dpi
    for text, box in texts:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for (one, box), (other, beside) in itertools.combinations(texts, 2):
        assert not box.shrunk(0.98, 0.8).overlaps(beside.shrunk(0.98, 0.8)), (one, other)


def test_the_figures_of_the_reference_run_are_those_that_are_drawn(reference):
    charts = [each for setting in reference.settings for each in charts_of(reference, setting)]
    kept = {path.name for path in (REFERENCE / "figures").iterdir()}
    assert {f"{chart.name}.svg" for chart in charts} == kept
    report = (REFERENCE / REPORT).read_text()
    assert all(f"![{chart.title}](figures/{chart.name}.svg)" in report for chart in charts)


def test_a_chart_is_drawn_the_same_each_time_and_its_text_stays_text(tmp_path, charts):
    chart = charts["speed"]
    first, again = ((tmp_path / str(place) / save(tmp_path / str(place), chart).path) for place in range(2))
    text = first.read_text()
    assert text == again.read_text()
    shown = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", text))
    assert "pyarrow-streaming-tuned" in shown
    assert chart.title[:60] in shown
    assert re.search(r"font-family: 'DejaVu Sans', .*sans-serif", text)


def test_a_dark_page_replaces_all_colours_but_those_of_libraries(tmp_path, charts):
    of_libraries = {style.colour.lower() for style in styles_of("abcdefgh", str, "a").values()} - {"#000000"}
    for chart in charts.values():
        style, drawing = (tmp_path / save(tmp_path, chart).path).read_text().split("</style>")
        replaced = set(re.findall(r'\*="(?:fill|stroke): (#\w+)"', style))
        assert set(re.findall(r"(?:fill|stroke): (#\w+)", drawing)) - of_libraries <= replaced, chart.name
        assert "prefers-color-scheme: dark" in style


@pytest.mark.parametrize("is_narrow", [False, True], ids=["wide", "narrow"])
def test_no_text_covers_another_or_leaves_its_chart(charts, is_narrow):
    assert len(charts) >= 6
    for chart in charts.values():
        assert_texts_can_be_read(drawn(chart, is_narrow=is_narrow))


@pytest.mark.parametrize("is_narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("places", [(10.0, 64.0), (60.0, 64.0, 66.0, 10_000.0), (1.0, 1.5)])
def test_ticks_that_lie_close_leave_each_other_room(is_narrow, places):
    style = styles_of(["spillway"], library, "spillway")["spillway"]
    axis = Axis("writers", lambda value: f"{value:,.0f}", "log", places)
    line = Line("spillway", style, [(place, 60 + place / 100) for place in places])
    draw = lines([line], axis, Axis("a second", lambda value: f"{value:g}", "log"))
    assert_texts_can_be_read(drawn(Chart("name", "title", "", draw), is_narrow=is_narrow))


def test_the_first_chart_has_every_writer_over_the_fastest_other_library(reference):
    first, second, *_ = charts_of(reference, reference.settings[0])
    assert first.name.startswith("speed-batches")
    assert second.name.startswith("memory-batches")
    writers = {each.cell.backend for each in reference.of(reference.settings[0])}
    for chart in (first, second):
        for is_narrow in (False, True):
            assert writers <= names_in(drawn(chart, is_narrow=is_narrow))
    assert re.match(r"At 400,000 rows spillway(-16mb)? wins: \d\.\d\d times", first.title)
    assert axes_of(first).get_xlabel() == "speed, times that of arro3-tuned"
    cells = [each for each in reference.of(reference.settings[0]) if each.cell.rows == 400_000]
    peaks = {each.cell.backend: f"{megabytes(each.growth.median)} MB" for each in cells}
    assert set(peaks.values()) <= names_in(drawn(second, is_narrow=False))
    assert second.title.endswith(f"duckdb the most, {peaks['duckdb']}")


def test_programs_that_begin_with_rows_of_their_own_are_named(charts):
    for kind in ("speed", "speed-by-rows"):
        assert re.search(r"go-row.* begin with rows of their own, not with Arrow\.", charts[kind].below)


def test_where_a_peer_leads_all_are_compared_with_it(tmp_path):
    speeds = {"spillway": 2e6, "polars": 3e6, "arro3": 1e6}
    run = make_run(tmp_path / "run", {name: Writes([speed] * 6) for name, speed in speeds.items()})
    chart = charts_by_kind(run)["speed"]
    assert chart.title.startswith("At 400,000 rows polars wins")
    assert axes_of(chart).get_xlabel() == "speed, times that of polars"


def test_no_title_and_no_axis_has_words_of_the_house(reference):
    charts = [each for setting in reference.settings for each in charts_of(reference, setting)]
    for chart in charts:
        axes = axes_of(chart)
        shown = " ".join([chart.title, chart.below, axes.get_xlabel(), *names_in(axes.figure)])
        assert not re.search(r"\b(powers?|charged?|arms?|batches-retained)\b", shown)
        assert re.search(r"12 samples a cell", chart.below)


def test_settings_of_a_library_share_a_colour_that_no_other_library_has(reference):
    names = reference.environment["options"]["backends"]
    styles = styles_of(names, library, "spillway")
    for one, other in itertools.combinations(names, 2):
        is_alike = library(one) == library(other)
        assert (styles[one].colour == styles[other].colour) == is_alike
        assert (styles[one].marker == styles[other].marker) == is_alike
        assert not is_alike or styles[one].dash != styles[other].dash


def test_every_line_has_points_and_who_has_none_is_named_below(tmp_path):
    run = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([1e6] * 2, curve=CURVE),
            "arro3": Writes([1e6] * 2, curve=CURVE),
            "go-row": Writes([1e6] * 2),
        },
    )
    chart = charts_by_kind(run)["rss-over-time"]
    axes = axes_of(chart)
    handles, names = axes.get_legend_handles_labels()
    assert sorted(names) == ["arro3", "spillway"]
    assert all(len(handle.get_xdata()) > 1 for handle in handles)
    assert "No curve of go-row." in chart.below


def test_allocations_are_over_seconds_and_small_ones_are_where_they_are(tmp_path):
    make_run(tmp_path / "run", {"spillway": Writes([1e6] * 2), "polars": Writes([1e6] * 2)})
    shared = {"mode": "table", "rows": 400_000, "dataset": "logs", "codec": "zstd"}
    curve = {"seconds": [0.0, 1.5, 3.0], "allocated_bytes": [0, 200_000, 2_000_000], "allocations": 3}
    for each in (
        {"backend": "spillway", "reason": None, "curve": curve},
        {"backend": "polars", "reason": "its allocator cannot be seen", "curve": None},
    ):
        records.append(tmp_path / "run" / ALLOCATIONS, {**shared, **each})
    chart = charts_by_kind(read_run(tmp_path / "run"))["allocations"]
    (line,) = axes_of(chart).get_lines()
    assert list(line.get_xdata()) == [0, 1.5, 3]
    assert list(line.get_ydata()) == [0, 0.2, 2]
    assert "No curve of polars." in chart.below
    assert chart.title == "spillway allocates least at once: 2.00 MB at 400,000 rows"


def test_a_traced_write_is_drawn_with_the_setting_that_it_is_of(tmp_path):
    cells = [
        {"dataset": dataset, "codec": codec} for dataset in ("logs", "wide:10") for codec in ("zstd", "lz4")
    ]
    make_run(tmp_path / "run", {"spillway": [Writes([1e6], cell={**cell, "level": None}) for cell in cells]})
    curve = {"seconds": [0.0, 1.0], "allocated_bytes": [0, 2_000_000]}
    record = {"backend": "spillway", "mode": "table", "rows": 400_000, "reason": None, "curve": curve}
    records.append(tmp_path / "run" / ALLOCATIONS, {**record, "dataset": "wide:10", "codec": "lz4"})
    run = read_run(tmp_path / "run")
    found = [
        (setting.dataset, setting.codec)
        for setting in run.settings
        for chart in charts_of(run, setting)
        if chart.name.startswith("allocations")
    ]
    assert found == [("wide:10", "lz4")]


def test_a_search_for_the_least_memory_is_drawn_at_both_widths():
    run = read_run(max((RESULTS / "limits").iterdir()))
    chart = charts_by_kind(run, "-" + run.settings[0].mode)["least-memory"]
    assert re.match(r"[\w-]+ survives in [\d.]+ MB, [\w-]+, the next, in [\d.]+ MB", chart.title)
    for is_narrow in (False, True):
        assert_texts_can_be_read(drawn(chart, is_narrow=is_narrow))


@pytest.mark.parametrize("is_narrow", [False, True], ids=["wide", "narrow"])
def test_names_of_any_length_leave_room_and_are_no_formulas(tmp_path, is_narrow):
    names = [
        "function:/srv/projects/writers/of/ours/a_very_long_name_of_a_writer.py:write_it_all",
        "a $x_1$ b",
    ]
    cells = {
        name: [Writes([1e5 * n] * 6, cell={"rows": n}, curve=CURVE) for n in (100, 200)] for name in names
    }
    found = charts_by_kind(make_run(tmp_path / "run", cells))
    assert found.keys() >= {"speed", "memory", "speed-by-rows", "rss-over-time"}
    for chart in found.values():
        plot = drawn(chart, is_narrow=is_narrow)
        assert_texts_can_be_read(plot)
        assert "a $x_1$ b" in embedded(chart)


def test_sizes_begin_at_zero_and_are_named(charts, reference):
    axes = axes_of(charts["file-size"])
    assert axes.get_xlim()[0] == 0
    cells = [each for each in reference.of(reference.settings[0]) if each.cell.rows == 400_000]
    assert {f"{file_megabytes(each.exact('bytes')[0])} MB" for each in cells} <= names_in(axes.figure)


def test_two_points_are_not_joined(tmp_path):
    cells = {
        name: [Writes([1e5] * 2, cell={"rows": rows}) for rows in (1000, 2000)]
        for name in ("arro3", "polars")
    }
    chart = charts_by_kind(make_run(tmp_path / "run", cells))["speed-by-rows"]
    assert {line.get_linestyle() for line in axes_of(chart).get_lines()} == {"None"}


@pytest.mark.parametrize("samples", [1, 2])
def test_an_interval_is_spoken_of_where_there_is_one(tmp_path, samples):
    cells = {
        name: [Writes([1e5] * samples, cell={"rows": rows}) for rows in (1000, 2000)]
        for name in ("arro3", "polars")
    }
    found = charts_by_kind(make_run(tmp_path / "run", cells))
    for kind in ("speed", "speed-by-rows", "memory-by-rows"):
        assert ("interval" in found[kind].below) == (samples > 1)


def test_a_writer_that_failed_is_named_as_left_out(tmp_path):
    run = make_run(
        tmp_path / "run",
        {"spillway": Writes([2e6] * 2), "arro3": Writes([1e6] * 2), "polars": Writes([None] * 2)},
    )
    assert charts_by_kind(run)["speed"].below.endswith("Left out: polars (library error).")


def test_memory_over_time_is_drawn_where_somebody_looked(tmp_path):
    settings = list(itertools.product(("wide:10", "wide:20"), ("zstd", "snappy"), (1, 2)))
    writes = [
        Writes(
            [1e6],
            cell={"dataset": dataset, "codec": codec, "level": None, "threads": threads},
            curve=CURVE if (dataset, threads) == ("wide:20", 1) else None,
        )
        for dataset, codec, threads in settings
    ]
    run = make_run(tmp_path / "run", {"spillway": writes})
    names = {chart.name for setting in run.settings for chart in charts_of(run, setting)}
    assert {name for name in names if "rss-over-time" in name} == {
        "rss-over-time-table-wide20-zstd-1core-2276MB",
        "rss-over-time-table-wide20-snappy-1core-2276MB",
    }


def test_what_only_columns_change_is_a_chart_of_all_settings(tmp_path):
    cells = [Writes([1e6] * 2, cell={"dataset": f"wide:{columns}"}) for columns in (10, 20, 50)]
    made = make_run(tmp_path / "run", {"spillway": cells})
    inputs = [{**made.environment["inputs"][0], "dataset": f"wide:{n}", "columns": n} for n in (10, 20, 50)]
    records.write_json(made.folder / records.ENVIRONMENT, {**made.environment, "inputs": inputs})
    (chart,) = charts_across(read_run(made.folder))
    assert chart.title == "Time per row by the number of columns, at 400,000 rows"
    (line,) = axes_of(chart).get_lines()
    assert list(line.get_xdata()) == [10, 20, 50]


def test_ids_of_charts_on_one_page_are_their_own(charts):
    page = "".join(embedded(chart) for chart in (charts["speed"], charts["memory"]))
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(set(ids)) == len(ids)
    used = set(re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', page))
    assert {one or other for one, other in used} <= set(ids)


def test_files_of_a_run_are_drawn_anew(tmp_path):
    copy = tmp_path / "run"
    make_run(copy, {"spillway": Writes([2e6] * 2), "arro3": Writes([1e6] * 2)})
    found = draw_figures(read_run(copy))
    shutil.rmtree(copy / "figures")
    assert draw_figures(read_run(copy)) == found
    assert {each.path for each in found} == {f"figures/{path.name}" for path in (copy / "figures").iterdir()}
