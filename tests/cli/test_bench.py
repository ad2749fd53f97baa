"""`spillway bench` from its command line to the files it leaves."""

from __future__ import annotations

import gzip
import io
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from spillway import datasets
from spillway._wording import parse_bytes
from spillway.backends import with_modes
from spillway.bench.figures import draw_figures
from spillway.bench.plan import plan_cells
from spillway.bench.record import (
    ALLOCATION_SCHEMA,
    ALLOCATIONS,
    PROBE_SCHEMA,
    PROBES,
    SAMPLES,
    SCHEMA,
)
from spillway.bench.report import write_report
from spillway.bench.summary import read_run
from spillway.bench.tables import megabytes
from spillway.cli.bench import bench
from spillway.harness import records

from ..counts import SOAK

app = typer.Typer()
app.command()(bench)

IN_MEMORY = "/dev/shm/spillway-runs"  # noqa: S108 - to be refused
QUICK = [
    *("--rows", "2000,10000", "--mode", "batches,table"),
    *("--backend", "pyarrow-streaming,arro3", "--validate", "none"),
]
# The smallest run there is: one cell of a writer that is soon loaded.
SMALL = ["--rows", "2000", "--mode", "batches", "--backend", "arro3", "--validate", "none"]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("SPILLWAY_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="module")
def runs(disk):
    """A folder for runs."""
    return Path(tempfile.mkdtemp(dir=disk))


@pytest.fixture(scope="module")
def run(runs):
    """One small run with both modes, a limit and two samples a cell; its folder and what was printed."""
    result = CliRunner().invoke(
        app, [*QUICK, "--samples", "2", "--memory", "512MB", "--out", str(runs / "whole")]
    )
    assert result.exit_code == 0, result.output
    (folder,) = (runs / "whole").iterdir()
    return folder, result.output


def test_a_run_leaves_its_files_and_no_output(run):
    folder, _ = run
    assert {path.name for path in folder.iterdir()} == {
        "samples.jsonl",
        "environment.json",
        "allocations.jsonl",
        "probes.jsonl",
        "report.md",
        "report.html",
        "figures",
    }
    # A busy machine may look at a write too late for its memory over time.
    over_time = {"rss-over-time-batches-512MB", "rss-over-time-table-512MB"}
    assert {path.stem for path in (folder / "figures").iterdir()} - over_time == {
        *(
            f"{kind}-{mode}-512MB"
            for kind in ("speed", "memory", "file-size")
            for mode in ("batches", "table")
        ),
        "speed-by-rows-batches-512MB",
        "memory-by-rows-batches-512MB",
        "allocations-batches-512MB",
        "allocations-table-512MB",
    }


def test_every_cell_has_its_samples_and_every_sample_fits_the_schema(run):
    taken = records.read_lines(run[0] / SAMPLES)
    for sample in taken:
        SCHEMA.check(sample)
        assert sample["outcome"] == "ok"
    cells = [(s["cell"]["backend"], s["cell"]["mode"], s["cell"]["rows"]) for s in taken]
    # Batches at both sizes and tables at the largest, for two backends, twice.
    assert len(cells) == 12
    assert {cells.count(cell) for cell in cells} == {2}


def test_a_sample_holds_every_measure(run):
    for sample in records.read_lines(run[0] / SAMPLES):
        assert sample["throughput"]["rows_per_second"] > 0
        assert sample["memory"]["growth_bytes"] > 0
        assert sample["use"]["minor_faults"] > 0
        assert sample["group"]["write_peak_bytes"] > 0
        assert not sample["shares_core"]
        assert sample["host"]["wall_seconds"] > 0
        assert sample["output"]["row_groups"] == 1
        assert len(sample["output"]["encodings"]) == 52
        assert sample["affinity_cores"] == 1
        assert sample["cell"]["limit_kind"] != "none"


def test_each_probe_has_writes_of_its_own(run):
    taken = records.read_lines(run[0] / PROBES)
    assert Counter(write["probe"] for write in taken) == dict.fromkeys(("none", "curve", "gil", "gc"), 4)
    for write in taken:
        PROBE_SCHEMA.check(write)
        assert (write["gil"] is not None) == (write["probe"] == "gil")
        assert (write["gc"] is not None) == (write["probe"] == "gc")
        assert write["wall_seconds"] > 0
    report = (run[0] / "report.md").read_text()
    for traced in records.read_lines(run[0] / ALLOCATIONS):
        ALLOCATION_SCHEMA.check(traced)
        assert megabytes(traced["curve"]["peak_bytes"]) in report


def test_the_limit_is_proved_and_the_proof_recorded(run):
    (proof,) = records.read_json(run[0] / records.ENVIRONMENT)["limit_proofs"]
    assert proof["holds"]
    assert 0.9 <= proof["died_at_bytes"] / 512e6 <= 1.1


def test_the_machine_is_named_by_its_processor_alone(run):
    texts = [path.read_text() for path in run[0].iterdir() if path.suffix in {".json", ".jsonl", ".md"}]
    host = re.compile(rf"\b{re.escape(platform.node())}\b")
    for text in texts:
        assert not host.search(text)
        assert str(Path.home()) not in text
        assert str(Path.cwd()) not in text
        assert not re.search(r'"/(?:home|root|tmp|work|usr|opt|var)/', text)


def test_the_samples_are_read_in_one_line(run):
    path = str(run[0] / SAMPLES)
    assert pl.read_ndjson(path).height == 12
    assert len(pd.read_json(path, lines=True)) == 12
    assert duckdb.read_json(path).filter("outcome = 'ok'").count("*").fetchall() == [(12,)]
    assert pl.read_ndjson(path)["cell"].struct.field("rows").to_list().count(10_000) == 8


def test_the_table_has_six_columns_within_80_and_is_sorted_by_speed(run):
    lines = run[1][: run[1].index("report:")].splitlines()
    assert max(map(len, lines)) <= 80
    headers = [at for at, line in enumerate(lines) if line.startswith("backend")]
    assert len(headers) == 2  # one for each mode
    for at in headers:
        assert re.split(r"\s{2,}|(?<=best) |(?<=MB) ", lines[at].strip()) == [
            "backend",
            "rows/s",
            "x best",
            "peak MB",
            "file MB",
            "outcome",
        ]
        rows = [line.split() for line in lines[at + 2 : at + 4]]
        assert {row[0] for row in rows} == {"pyarrow-streaming", "arro3"}
        assert {row[-1] for row in rows} == {"ok"}
        assert rows[0][-4] == "1"
        assert re.fullmatch(r"~|0\.\d\d", rows[1][-4])
        for row in rows:
            assert re.fullmatch(r"[\d.,]+[KM]? \[[\d.,]+[KM]?, [\d.,]+[KM]?\]\*?", " ".join(row[1:-4]))


def test_the_verdict_ends_the_output_with_code_that_runs(run):
    folder, output = run
    printed = output[output.index("report:") :]
    assert printed.count("Verdict: logs, ") == 2
    assert re.search(r"At 10,000 rows (arro3|pyarrow-streaming|nobody) wins", " ".join(printed.split()))
    assert "In brackets the whole range of 2 samples" in printed
    assert "The files were not read back" in printed
    code = [line for line in printed.splitlines() if line.startswith("    ")]
    compile("\n".join(line.removeprefix("    ") for line in code), "verdict", "exec")
    assert any("path" in line for line in code)
    report = (folder / "report.md").read_text()
    verdict = report[report.index("## Verdict") :]
    assert verdict.count("```python") == 2
    for line in code:
        assert line.strip() in verdict


def test_all_tables_are_printed_when_asked_for(run):
    from spillway.cli.runs import report_run  # noqa: PLC0415 - what is under test

    console = Console(width=80, record=True, file=io.StringIO())
    assert report_run(console, run[0], verbose=True) == 0
    printed = console.export_text()
    assert "More measures at 10,000 rows" in printed
    assert "GIL gap ms" in printed
    assert "Rows per second: logs" in printed
    for name in ("More measures", "GIL gap", "Rows per second"):
        assert name not in run[1]


def test_a_pipe_gets_a_line_for_each_stage_and_block(run):
    output = run[1]
    for line in (
        "preparing the input: 10,000 rows",
        "testing the limit of 512 MB",
        "taking 12 samples in 2 blocks",
        "probing GIL and garbage collector: 16 writes",
        "tracing allocations: 4 writes",
    ):
        assert line in output
    assert re.search(r"block 1 of 2 done: 6 of 12 samples, \d+:\d\d passed, about \d+:\d\d left", output)
    assert re.search(r"block 2 of 2 done: 12 of 12 samples, \d+:\d\d passed\n", output)


def test_the_report_shows_environment_caveats_and_figures(run):
    report = (run[0] / "report.md").read_text()
    for figure in (run[0] / "figures").iterdir():
        assert f"(figures/{figure.name})" in report
    assert "is proved" in report
    assert "2 samples a cell are too few" in report
    assert re.search(r"\*\*[\d.]+K", report)
    assert "Cost of the probes" in report
    assert re.search(r"the GIL's ticker: [\d.]+ \[[\d.]+, [\d.]+\] times the time, by 4 pairs", report)


def test_a_report_is_made_again_from_the_disk_alone(run):
    before = (run[0] / "report.md").read_text()
    summary = read_run(run[0])
    assert write_report(summary, draw_figures(summary)).read_text() == before


def test_a_users_own_file_is_measured(runs, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("id,name\n" + "".join(f"{n},name {n % 9}\n" for n in range(5000)))
    out = str(runs / "own")
    arguments = [
        "--input",
        str(path),
        "--rows",
        "5000",
        "--mode",
        "table",
        "--samples",
        "1",
        "--no-trace",
        "--probes",
        "0",
        "--memory",
        "none",
    ]
    result = CliRunner().invoke(app, [*arguments, "--backend", "duckdb", "--validate", "none", "--out", out])
    assert result.exit_code == 0, result.output
    assert "5,000 rows" in result.output
    assert "At 5,000 rows duckdb alone was measured" in result.output
    assert "To write like" not in result.output


def test_a_broken_peer_says_why_and_does_not_fail_the_run(runs, tmp_path):
    path = tmp_path / "doubled.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1, 4])] * 3, names=["a", "a", "b"]), path)
    out = str(runs / "doubled")
    arguments = [
        "--input",
        str(path),
        "--rows",
        "2",
        "--mode",
        "table",
        "--samples",
        "2",
        "--no-trace",
        "--probes",
        "0",
        "--memory",
        "none",
    ]
    result = CliRunner().invoke(
        app, [*arguments, "--backend", "spillway,polars", "--validate", "pyarrow,duckdb", "--out", out]
    )
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert "polars, 2 rows: library error: DuplicateError: column appears more than once" in output
    assert "- library error" in output
    # Once as it happens, once below the table: not once a sample.
    assert output.count("DuplicateError") == 2


def test_datasets_codecs_and_cores_are_cells_of_one_run(runs):
    rows = ["--rows", "2000"]
    arguments = ["--dataset", "wide:10,wide:20", "--codec", "zstd,snappy", "--cores", "1,2", *rows]
    quick = [
        "--backend",
        "spillway",
        "--mode",
        "batches",
        "--samples",
        "1",
        "--no-trace",
        "--probes",
        "0",
        "--validate",
        "pyarrow",
    ]
    out = runs / "dimensions"
    result = CliRunner().invoke(app, [*arguments, *quick, "--memory", "none", "--out", str(out)])
    assert result.exit_code == 0, result.output
    (folder,) = out.iterdir()
    taken = records.read_lines(folder / SAMPLES)
    assert len(taken) == 8
    for sample in taken:
        cell = sample["cell"]
        assert sample["affinity_cores"] == cell["threads"]
        assert len(sample["output"]["encodings"]) == {"wide:10": 10, "wide:20": 20}[cell["dataset"]]
    figures = {path.stem for path in (folder / "figures").iterdir()}
    assert {
        f"columns-batches-wide-{codec}-{cores}"
        for codec in ("zstd", "snappy")
        for cores in ("1core", "2cores")
    } <= figures
    # Who measures on all cores has none left to watch from.
    all_cores = len(os.sched_getaffinity(0)) == 2
    assert {each["shares_core"] for each in taken if each["cell"]["threads"] == 2} == {all_cores}
    watched = {sample["cell"]["threads"] for sample in taken if sample["curve"]["seconds"]}
    assert watched <= ({1} if all_cores else {1, 2})
    assert ("4 samples used all cores, so the bench" in " ".join(result.output.split())) == all_cores
    assert "wide:20, record batches one at a time, snappy, 2 cores" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backend", "parquet-cpp"], "choose from: spillway"),
        (["--backend", "pyarrow"], "did you mean pyarrow-buffered or pyarrow-streaming"),
        (["--rows", "many"], "give whole numbers"),
        (["--codec", "lzo"], "choose from: zstd"),
        (["--level", "99"], "zstd takes 1 to 22"),
        (["--memory", "plenty"], "512MiB"),
        (["--memory", "64MB", "--limit-kind", "ulimit"], "choose from: cgroup-v2"),
        (["--memory", "none", "--limit-kind", "rlimit-data"], "there is no limit: leave it out"),
        (["--cores", "4096"], "this process may use"),
        (["--validate", "excel"], "spark, pyarrow, polars, duckdb"),
        (["--out", IN_MEMORY], "choose a folder on a disk"),
        (["--out", "/proc/version/runs"], "choose a folder that can be written"),
        (["--input", "absent.parquet"], "absent.parquet: no such file"),
        (["--input", "s3://bucket/rows.parquet"], "s3://bucket/rows.parquet is a URL"),
        (["--delimiter", ";"], "which is missing"),
        (["--rows", "all"], "--rows all is for --input"),
        (
            ["--memory", "12"],
            "12 bytes is too little for a process to start in. The least that works here is",
        ),
        (["--dataset", "lgos"], "logs, logs-nested, lineitem, wide:N"),
        (["--dataset", "wide:0"], "1 to 10,000 columns"),
        (["--cores", "two"], "give whole numbers"),
        (["--samples", "some"], "give a whole number, or auto"),
        (["--samples", "auto", "--precision", "high"], "give a percentage from 0% to below 100%"),
        (["--mode", "stream"], "batches, batches-retained, table, rows, rows-json, ndjson"),
        (["--input", "a.csv", "--input", "b.csv"], "--input is given 2 times"),
        (["--dataset", "logs", "--input", "a.csv"], "--dataset and --input both name the rows"),
        (["--mode", "batches", "--table-rows", "2000"], "--table-rows is for mode table"),
        (["--quick", "--table-rows", "2000"], "--table-rows is for mode table"),
        (["--precision", "1%"], "are for --samples auto"),
        (["--samples", "3", "--budget", "5"], "are for --samples auto"),
    ],
)
def test_an_option_that_cannot_be_says_what_to_do_and_leaves_no_folder(runs, arguments, words):
    out = runs / "wrong" / "runs"
    defaults = ["--rows", "2000", "--validate", "none", "--out", str(out)]
    result = CliRunner().invoke(app, [*defaults, *arguments])
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
    assert "Errno" not in result.output
    assert not out.parent.exists()


def test_without_java_the_bench_offers_a_reader_that_needs_none(runs, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(runs))
    result = CliRunner().invoke(app, ["--rows", "2000", "--out", str(runs / "no-java")])
    assert result.exit_code == 2
    assert "holds no bin/java" in result.output
    assert result.output.strip().endswith("Or leave Spark out: --validate pyarrow")
    assert not (runs / "no-java").exists()


def own_rows(path, count):
    path.write_text("id,name\n" + "".join(f"{n},name {n % 9}\n" for n in range(count)))
    return str(path)


def counts_of(out):
    """Rows, mode and number of the samples of the cells of the one run in a folder."""
    (folder,) = out.iterdir()
    cells = Counter((each["cell"]["rows"], each["cell"]["mode"]) for each in _read(folder))
    return folder, dict(cells)


def _read(folder):
    return records.read_lines(folder / SAMPLES)


SHORT = [
    "--backend",
    "arro3",
    "--samples",
    "1",
    "--no-trace",
    "--probes",
    "0",
    "--validate",
    "none",
    "--memory",
    "none",
]


@pytest.mark.parametrize(
    ("rows", "counts"),
    [([], [3210]), (["--rows", "all"], [3210]), (["--rows", "100,3210"], [100, 3210])],
)
def test_all_rows_of_the_users_file_are_measured_unless_he_says_how_many(runs, tmp_path, rows, counts):
    out = runs / f"own-{len(rows)}-{len(counts)}"
    own = own_rows(tmp_path / "mine.csv", 3210)
    result = CliRunner().invoke(app, ["--input", own, *rows, *SHORT, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "mine.csv: 3,210 rows, 2 columns" in result.output
    folder, found = counts_of(out)
    beside = {(3210, mode): 1 for mode in ("batches-retained", "table")}
    assert found == {**{(count, "batches"): 1 for count in counts}, **beside}
    assert records.read_json(folder / records.ENVIRONMENT)["options"]["rows"] == counts


def test_a_folder_of_compressed_files_is_measured(runs, tmp_path):
    for part in range(3):
        (tmp_path / f"part-{part}.csv.gz").write_bytes(gzip.compress(b"id;name\n1;a\n2;b\n"))
    arguments = ["--input", str(tmp_path), "--delimiter", ";", "--mode", "batches", *SHORT]
    result = CliRunner().invoke(app, [*arguments, "--out", str(runs / "folder")])
    assert result.exit_code == 0, result.output
    assert counts_of(runs / "folder")[1] == {(6, "batches"): 1}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["--rows", "3"], "holds 2 rows, fewer than the 3 asked for"),
        (["--table-rows", "3"], "--table-rows 3: the input has 2"),
    ],
)
def test_more_rows_than_a_file_holds_is_an_error(runs, tmp_path, rows, words):
    own = own_rows(tmp_path / "mine.csv", 2)
    result = CliRunner().invoke(app, ["--input", own, *rows, *SHORT, "--out", str(runs / "too-many")])
    assert result.exit_code == 2
    assert words in result.output
    assert not (runs / "too-many").exists()


def test_a_quick_look_takes_few_rows_and_samples_and_says_that_it_is_none_to_decide_by(runs, tmp_path):
    own = own_rows(tmp_path / "mine.csv", 25_000)
    out = runs / "quick"
    arguments = ["--quick", "--input", own, "--backend", "arro3", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "--quick gives rough figures" in result.output
    assert "validated by pyarrow: 1 of 1" in result.output
    folder, found = counts_of(out)
    assert found == {(20_000, "batches"): 2}
    assert not (folder / ALLOCATIONS).exists()


def test_a_quick_look_is_two_processes_for_each_backend(monkeypatch):
    asked = []

    def note(options, **others):
        asked.append((options, others))
        raise KeyboardInterrupt

    monkeypatch.setattr("spillway.bench.run.measure", note)
    CliRunner().invoke(app, ["--quick"])
    ((options, others),) = asked
    cells = plan_cells(options)
    assert sorted(cell.backend for cell in cells) == sorted(with_modes(("batches",)))
    assert {(cell.rows, cell.mode) for cell in cells} == {(20_000, "batches")}
    assert options.samples == 2
    assert (others["trace"], list(others["engines"])) == (False, ["pyarrow"])


def test_what_is_asked_for_beside_a_quick_look_counts(runs, tmp_path):
    own = own_rows(tmp_path / "mine.csv", 25_000)
    out = runs / "quick-own"
    arguments = ["--quick", "--input", own, "--rows", "all", "--mode", "table", "--samples", "1"]
    few = ["--backend", "arro3", "--validate", "none", "--memory", "none", "--out", str(out)]
    result = CliRunner().invoke(app, [*arguments, *few])
    assert result.exit_code == 0, result.output
    assert "validated by" not in result.output
    assert counts_of(out)[1] == {(25_000, "table"): 1}


def test_an_absent_library_is_a_line_in_the_table(runs, monkeypatch):
    monkeypatch.setattr(
        "spillway.backends.importlib.util.find_spec",
        lambda name: None if name == "polars" else find_spec(name),
    )
    out = str(runs / "absent")
    quick = [
        "--rows",
        "2000",
        "--samples",
        "1",
        "--no-trace",
        "--probes",
        "0",
        "--validate",
        "none",
        "--mode",
        "batches",
        "--memory",
        "none",
    ]
    result = CliRunner().invoke(app, [*quick, "--backend", "polars,arro3", "--out", out])
    assert result.exit_code == 0, result.output
    assert "polars is not installed" in " ".join(result.output.split())


# A shell that starts the tests in the background has them ignore Ctrl-C.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
COMMAND = f"{HEED}; import typer; from spillway.cli.bench import bench; typer.run(bench)"


def interrupted(arguments, signals, *, when):
    """Sends `signals` to a bench as soon as `when` holds; returns its output and the ended process."""
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        while True:
            ended = process.poll()
            if when():
                break
            assert ended is None, "it ended too early"
            time.sleep(0.02)
        for each in signals:
            process.send_signal(each)
            time.sleep(0.5)  # or two become one before the first is heard, and the test sees less
        output, _ = process.communicate()
    return output, process


# `timeout` sends the signal to its child, and again to the group that the child is in. In a soak, one alone.
ENDS = {"ctrl-c": [signal.SIGINT], "timeout": [signal.SIGTERM] * 2}
if SOAK:
    ENDS["kill"] = [signal.SIGTERM]


@pytest.mark.parametrize("signals", ENDS.values(), ids=ENDS)
def test_an_end_in_the_middle_keeps_what_was_measured_and_leaves_nothing_running(runs, signals):
    out = Path(tempfile.mkdtemp(dir=runs))
    arguments = ["--samples", "500", "--memory", "512MB", "--out", str(out), *SMALL]
    output, process = interrupted(arguments, signals, when=lambda: len(_samples_in(out)) >= 2)
    assert process.returncode == 130
    (folder,) = out.iterdir()
    assert 2 <= len(_samples_in(out)) < 100
    assert "interrupted" in output
    assert (folder / "report.md").exists()
    assert not (folder / "outputs").exists()
    assert not _children_of(process.pid)
    assert not _groups_of(process.pid)


def test_a_report_that_is_being_made_is_ended(runs):
    out = Path(tempfile.mkdtemp(dir=runs))
    short = ["--samples", "1", "--memory", "none", "--no-trace", "--probes", "0"]
    arguments = [*short, "--out", str(out), *SMALL]
    # A run this small may have nothing to draw.
    made = ("*/figures", "*/report.md")
    output, process = interrupted(
        arguments, [signal.SIGTERM], when=lambda: any(list(out.glob(each)) for each in made)
    )
    # Where the signal comes after the last line, nobody is left to hear it.
    assert process.returncode in {0, -signal.SIGTERM}
    assert "report:" in output
    assert list(out.glob("*/report.md"))


def test_ctrl_c_before_the_first_sample_leaves_nothing_and_says_so(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("SPILLWAY_CACHE", str(tmp_path / "cache"))
    out = Path(tempfile.mkdtemp(dir=runs)) / "early" / "runs"
    arguments = ["--rows", "3000000", "--mode", "batches", "--validate", "none", "--memory", "none"]
    arguments += ["--out", str(out)]
    output, process = interrupted(
        arguments, [signal.SIGINT], when=lambda: list(tmp_path.glob("cache/.*.part"))
    )
    assert process.returncode == 130
    assert "interrupted before the first sample: nothing was measured" in output
    assert not out.parent.exists()
    assert not list(tmp_path.glob("cache/.*.part"))


def _samples_in(out):
    return [line for path in out.glob("*/samples.jsonl") for line in path.read_text().splitlines()]


def _children_of(pid):
    """Processes that call this one their parent."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"PPid:\t{pid}\n" in (entry / "status").read_text():
                    found.append(entry.name)
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def _groups_of(pid):
    return list(Path("/sys/fs/cgroup").rglob(f"spillway-{pid}-*"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2276MB", 2_276_000_000),
        ("512MiB", 512 << 20),
        ("1.5GB", 1_500_000_000),
        ("4096", 4096),
        ("10 kB", 10_000),
    ],
)
def test_amounts_of_memory(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "12 parsecs", "-1MB"])
def test_what_is_no_amount_of_memory(text):
    with pytest.raises(ValueError, match="512MB"):
        parse_bytes(text)


def test_the_datasets_are_those_of_the_command():
    assert datasets.names() == ("logs", "logs-nested")
