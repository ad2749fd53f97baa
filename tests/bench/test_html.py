"""The HTML report: whole in one file, with the figures and tables of the run, told apart without colour."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from spillway.bench.command import command_of
from spillway.bench.figure_words import who_leads
from spillway.bench.html import html_report, write_html
from spillway.bench.html_figures import html_figures
from spillway.bench.ranking import rankings
from spillway.bench.report import run_tables
from spillway.bench.summary import read_run
from spillway.harness.report.svg import STYLES, Axis, Point, Series, chart_lines, chart_points, swatch

from .made_runs import ROOT, Writes, make_run

REFERENCE = max((ROOT / "results" / "reference").iterdir())
VOID = {"meta", "br", "path", "circle", "rect"}


class Page(HTMLParser):
    """The tags of a page, checked to nest, its links, and the texts of its cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.fetched, self.cells = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.fetched += [
            value for name, value in attrs if name in {"src", "href"} and not value.startswith("#")
        ]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["td"]:
            self.cells[-1] += data


@pytest.fixture(scope="module")
def reference():
    return read_run(REFERENCE)


def test_the_page_holds_all_that_it_shows_and_every_entry_of_the_tables(reference):
    text = html_report(reference)
    page = Page(text)
    assert not page.open
    assert not page.fetched
    assert not re.search(r"@import|url\(|https?://", text)
    assert page.cells == [
        entry.text for table in run_tables(reference) for row in table.rows for entry in row
    ]


def test_every_setting_has_its_figures_with_findings(reference):
    for setting in reference.settings:
        figures = html_figures(reference, setting)
        assert len(figures) >= 4
        assert all(re.search(r"\d|spillway", each.title) for each in figures)
        assert all(
            "12 samples a cell" in each.below and setting.dataset.title() in each.below for each in figures
        )


def test_a_name_is_text_whatever_is_in_it(tmp_path):
    run = make_run(tmp_path / "run", {"<script>x</script>": Writes([2.0, 2.1]), "arro3": Writes([1.0, 1.1])})
    text = write_html(run).read_text()
    assert "<script>x" not in text
    assert "&lt;script&gt;x" in text
    assert not Page(text).open


def test_a_run_of_failures_alone_has_a_page(tmp_path):
    run = make_run(tmp_path / "run", {"arro3": Writes([None, None])})
    assert "<h1>At 400,000 rows nobody wins: no writer ended well" in html_report(run)


def test_no_two_writers_differ_by_colour_alone():
    looks = [re.sub(r"\bs\d+( again)?\b", "", swatch(style)) for style in range(2 * STYLES)]
    assert len(set(looks)) == 2 * STYLES


def test_a_name_has_the_line_that_it_is_of_beside_it():
    series = [Series(f"writer {place}", place, [(1, 5.0), (2, 5.0)]) for place in range(2 * STYLES)]
    wide = chart_lines(series, Axis("x", str), Axis("y", str)).split('<div class="narrow">')[0]
    named = dict(re.findall(r'<g class="([^"]*)"><path class="line" d="M[^"]*h24".*?>(writer \d+)<', wide))
    assert {look: name for look, name in named.items() if look.endswith("again")} == {
        f"s{place} again": f"writer {place + STYLES}" for place in range(STYLES)
    }
    assert len(named) == 2 * STYLES


def test_labels_of_lines_and_points_do_not_cover_each_other():
    axis = Axis("value", str)
    series = [Series(f"writer {place}", place, [(1, 5.0), (2, 5.0 + place / 100)]) for place in range(9)]
    points = [Point(f"writer {place}", place, 5.0, 5.0 + place / 100) for place in range(5)]
    for drawn in (chart_lines(series, axis, axis), chart_points(points, axis, axis)):
        wide = drawn.split('<div class="narrow">')[0]
        heights = sorted(float(y) for y in re.findall(r'class="name" x="[^"]*" y="([^"]*)"', wide))
        assert len(heights) >= 5
        assert all(b - a >= 12 for a, b in pairwise(heights))


@pytest.mark.parametrize("count", [6, 7])
def test_more_points_than_a_narrow_chart_can_name_are_in_its_legend(tmp_path, count):
    names = [f"program-{place}" for place in range(count)]
    run = make_run(tmp_path / "run", {name: Writes([1e6, 1e6]) for name in names})
    figure = next(each for each in html_figures(run, run.settings[0]) if "smallest file" in each.title)
    wide, narrow = figure.drawing.split('<div class="narrow">')
    assert wide.count('class="name"') == count
    assert (narrow.count('class="name"'), len(figure.legend)) == ((count, 0) if count == 6 else (0, count))


def test_the_smallest_values_and_the_limit_are_inside_an_axis_of_powers():
    axis = Axis("MB", str, is_log=True)
    series = [Series("little", 0, [(10, 5.0), (100, 6.0)]), Series("much", 1, [(10, 50.0), (100, 900.0)])]
    drawn = chart_lines(series, Axis("rows", str, is_log=True), axis, limit=2276.0)
    limit = float(re.search(r'class="limit" d="M\d+ ([\d.]+)', drawn)[1])
    lowest = max(float(y) for y in re.findall(r'cy="([\d.]+)"', drawn))
    assert limit < lowest < 340 - 40


def test_the_command_measures_the_same(reference):
    command = command_of(reference.environment)
    assert command.startswith("spillway bench --backend spillway,")
    assert "--samples 12" in command
    assert "--rows 10000,25000,50000,100000,200000,400000" in command
    assert "--seed" not in command


def test_memory_over_time_leaves_out_jvms_and_writers_of_wrong_output(tmp_path):
    run = make_run(tmp_path / "run", {name: Writes([1e6] * 2) for name in ("spillway", "arro3", "polars")})
    for each in run.cells:
        for sample in each.samples:
            sample["curve"] = {"seconds": [0.1, 0.2], "rss_bytes": [300_000_000, 400_000_000]}
            if each.cell.backend == "arro3":
                sample["jvm"] = {"both_peak_bytes": 1}
    polars = next(each for each in run.cells if each.cell.backend == "polars")
    wrong = replace(polars, wrong=frozenset([polars.good[0]["output"]["content_hash"]]))
    run = replace(run, cells=[each if each is not polars else wrong for each in run.cells])
    (figure,) = [each for each in html_figures(run, run.settings[0]) if "Seen from outside" in each.below]
    assert [name for name, _ in figure.legend] == ["spillway"]


def test_figures_of_a_failed_writer_are_struck_out(tmp_path):
    make_run(tmp_path / "run", {"spillway": Writes([1e6] * 2), "polars": Writes([None] * 2)})
    failed = re.findall(r'<tr class="failed"><td[^>]*>([^<]*)', html_report(read_run(tmp_path / "run")))
    assert failed == ["polars"]


def test_the_title_is_of_the_first_setting_whatever_figures_it_has(tmp_path):
    failed, right = {"codec": "lz4", "level": None}, {"codec": "zstd", "level": 1}
    cells = [Writes([None] * 2, cell=failed), Writes([1e6] * 2, cell=right)]
    text = html_report(make_run(tmp_path / "run", {"spillway": cells}))
    assert "No sample was taken" not in text
    assert "<h1>At 400,000 rows nobody wins: no writer ended well" in text


@pytest.mark.parametrize(
    ("noisy", "words"),
    [
        (False, "spillway is fastest at every number of rows"),
        (True, "spillway has the highest median at every number of rows"),
    ],
)
def test_who_leads_is_fastest_only_if_samples_tell(tmp_path, noisy, words):
    own = [3e6, 1e6, 3e6] if noisy else [3e6] * 3
    run = make_run(
        tmp_path / "run",
        {
            name: [Writes(each, cell={"rows": rows}) for rows in (1000, 2000)]
            for name, each in (("spillway", own), ("arro3", [2e6] * 3))
        },
    )
    assert who_leads(rankings(run, run.settings[0])) == words
