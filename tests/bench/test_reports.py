"""Tables, figures and warnings, from samples on disk."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import typer
from typer.testing import CliRunner

from spillway.bench.figures import draw_figures
from spillway.bench.record import SAMPLES
from spillway.bench.report import run_tables, write_report
from spillway.bench.summary import read_run
from spillway.bench.tables import measures_table, three_digits
from spillway.cli.app import app as spillway
from spillway.cli.bench import bench
from spillway.errors import CorruptFileError
from spillway.harness import records
from spillway.harness.report import terminal_tables

from .made_runs import ROOT, Writes, make_run

app = typer.Typer()
app.command()(bench)


@pytest.fixture(scope="module")
def finished(module_disk_folder, misbehaving):  # noqa: ARG001 - its backends are measured
    """A run of a backend that ends well between two that fail."""
    out = module_disk_folder / "runs"
    backends = ["--backend", "aborts,well-behaved,raises-memory-error"]
    shared = [
        "--rows",
        "2000,10000",
        "--samples",
        "1",
        "--mode",
        "batches",
        "--no-trace",
        "--probes",
        "0",
        "--validate",
        "none",
    ]
    result = CliRunner().invoke(app, [*shared, *backends, "--memory", "none", "--out", str(out)])
    assert result.exit_code == 0, result.output
    (folder,) = out.iterdir()
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of that run, to be changed."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.000123456, "0.000123"),
        (0.0456, "0.0456"),
        (0.9996, "1.00"),
        (1.02, "1.02"),
        (99.5, "99.5"),
        (999.6, "1,000"),
        (12345, "12,300"),
        (-0.0456, "-0.0456"),
    ],
)
def test_a_figure_has_three_significant_digits_whatever_its_size(value, text):
    assert three_digits(value) == text


def test_seconds_of_a_short_write_are_not_rounded_away(tmp_path):
    run = make_run(tmp_path / "run", {"arro3": Writes([100_000_000.0], cell={"rows": 123_000})})
    table = measures_table(run, run.settings[0])
    (line,) = table.rows
    assert line[table.header.index("wall s")].text == "0.00123"


def test_a_failure_is_data_not_an_end(folder):
    run = read_run(folder)
    ranking, throughput, memory, measures = run_tables(run)
    by_backend = {row[0].text: [entry.text for entry in row[1:]] for row in throughput.rows}
    assert by_backend["aborts"] == ["aborted", "aborted"]
    assert by_backend["raises-memory-error"] == ["memory error", "memory error"]
    assert [(row[0].text, row[-1].text) for row in ranking.rows] == [
        ("well-behaved", "ok"),
        ("aborts", "aborted"),
        ("raises-memory-error", "memory error"),
    ]
    assert [row[0].text for row in memory.rows] == ["well-behaved"]
    assert [row[0].text for row in measures.rows] == ["well-behaved"]
    entries = [
        entry for table in (ranking, throughput, memory, measures) for row in table.rows for entry in row
    ]
    assert not any(entry.best for entry in entries)  # one sample does not say who is best
    figures = draw_figures(run)
    assert "aborted" in write_report(run, figures).read_text()


def test_why_a_writer_failed_stands_below_the_table(folder):
    ranking, *_ = run_tables(read_run(folder))
    contract, *failures = ranking.notes
    assert "is its producer's again" in contract
    aborted, refused = sorted(failures)
    assert aborted.startswith("aborts, 2,000 and 10,000 rows: aborted: died by SIGABRT in phase write: ")
    assert refused == (
        "raises-memory-error, 2,000 and 10,000 rows: memory error: MemoryError: no room for a page of 8 MiB"
    )


def test_a_backend_with_mixed_outcomes_shows_both(folder):
    lines = (folder / SAMPLES).read_text().splitlines()
    good = next(json.loads(line) for line in lines if json.loads(line)["outcome"] == "ok")
    bad = {**good, "outcome": "oom_killed"}
    records.append(folder / SAMPLES, bad)
    (cell,) = [each for each in read_run(folder).cells if len(each.samples) == 2]
    assert cell.outcome == "ok x1, oom_killed x1"
    assert cell.rows_per_second.n == 1


def test_a_varying_file_size_is_warned_of(folder):
    lines = (folder / SAMPLES).read_text().splitlines()
    good = next(json.loads(line) for line in lines if json.loads(line)["outcome"] == "ok")
    good["output"]["bytes"] += 1
    records.append(folder / SAMPLES, good)
    assert any("bytes of the file vary" in warning for warning in read_run(folder).warnings())


def test_a_table_wider_than_the_terminal_comes_in_parts_and_loses_nothing(folder):
    table = run_tables(read_run(folder))[-1]
    whole = terminal_tables(table, 1000)
    parts = terminal_tables(table, 60)
    assert len(whole) == 1
    assert len(parts) > 1
    headers = [column.header for part in parts for column in part.columns[1:]]
    assert headers == list(table.header[1:])


@pytest.mark.parametrize("is_last", [True, False])
def test_a_damaged_line_is_named(folder, is_last):
    lines = (folder / SAMPLES).read_text().splitlines(keepends=True)
    (folder / SAMPLES).write_text("".join([*lines, "{not json\n", *([] if is_last else lines[:1])]))
    with pytest.raises(CorruptFileError, match=r"samples.jsonl, line 7"):
        read_run(folder)


def test_a_folder_that_is_no_run_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path)


WORDS_OF_THE_HOUSE = re.compile(r"\b(charged?|arms?|powers|so many rows)\b")


def test_no_report_has_words_of_the_house():
    # scripts/render.py keeps those on record as the code would write them now.
    reports = sorted((ROOT / "results").rglob("report.md"))
    assert len(reports) > 20
    found = {path.parent.name: WORDS_OF_THE_HOUSE.findall(path.read_text()) for path in reports}
    assert not {name: words for name, words in found.items() if words}


@pytest.mark.parametrize("command", ["bench", "advise", "compare", "race"])
def test_no_help_has_words_of_the_house(command):
    assert not WORDS_OF_THE_HOUSE.search(CliRunner().invoke(spillway, [command, "--help"]).output)
