"""The HTML report: whole in one file, with the figures and tables of the run, told apart without colour."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from spillway.bench.figures import charts_of, who_leads
from spillway.bench.report import html_report, run_tables, write_html
from spillway.bench.resume import command_of
from spillway.bench.summary import read_run
from spillway.bench.tables import rankings

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


@pytest.fixture(scope="module")
def page(reference):
    return html_report(reference)


def test_the_page_holds_all_that_it_shows_and_every_entry_of_the_tables(reference, page):
    text, page = page, Page(page)
    assert not page.open
    assert not page.fetched
    assert not re.search(r"@import|url\((?!#)|https?://", text)
    assert page.cells == [
        entry.text for table in run_tables(reference) for row in table.rows for entry in row
    ]


def test_every_setting_has_its_charts_with_findings_at_both_widths(reference, page):
    charts = [chart for setting in reference.settings for chart in charts_of(reference, setting)]
    assert page.count("<figure>") == len(charts) >= 4 * len(reference.settings)
    for width in ("wide", "narrow"):
        assert page.count(f'<div class="{width}"><svg role="img"') == len(charts)
    text = unescape(page)
    assert all(f"<h3>{chart.title}</h3>" in text for chart in charts)
    assert all(f"<figcaption>{chart.below}</figcaption>" in text for chart in charts)


def test_no_id_stands_twice_on_a_page(page):
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(set(ids)) == len(ids)


def test_a_name_is_text_whatever_is_in_it(tmp_path):
    run = make_run(tmp_path / "run", {"<script>x</script>": Writes([2.0, 2.1]), "arro3": Writes([1.0, 1.1])})
    text = write_html(run).read_text()
    assert "<script>x" not in text
    assert "&lt;script&gt;x" in text
    assert not Page(text).open


def test_a_run_of_failures_alone_has_a_page(tmp_path):
    run = make_run(tmp_path / "run", {"arro3": Writes([None, None])})
    assert "<h1>At 400,000 rows nobody wins: no writer ended well" in html_report(run)


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
    (chart,) = [each for each in charts_of(run, run.settings[0]) if each.name.startswith("rss-over-time")]
    assert re.fullmatch(r"spillway grows to [\d.]+ MB", chart.title)
    assert "No curve of arro3." in chart.below
    assert "Left out: polars (wrong output)." in chart.below


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


def test_a_library_leads_where_its_settings_take_turns(tmp_path):
    speeds = {"arro3": (1e6, 3e6), "arro3-tuned": (3e6, 2e6), "polars": (2e6, 1e6)}
    cells = {
        name: [Writes([each] * 6, cell={"rows": rows}) for rows, each in zip((1000, 2000), of, strict=True)]
        for name, of in speeds.items()
    }
    run = make_run(tmp_path / "run", cells)
    assert who_leads(rankings(run, run.settings[0])) == "arro3-io is fastest at every number of rows"
    turned = make_run(tmp_path / "turned", {name: cells[name] for name in ("arro3", "polars")})
    assert who_leads(rankings(turned, turned.settings[0])) == (
        "polars leads at 1,000 rows and arro3-io leads at 2,000 rows"
    )
