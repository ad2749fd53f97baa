"""One backend in two Python environments: whose library runs, what is on record, what is told of the two."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import sysconfig
import tempfile
import venv
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import spillway
from spillway.bench.compare import METRICS, compare_pythons, compare_runs
from spillway.bench.conclusion import build_tables, conclude
from spillway.bench.identity import measuring_files, of_same_code, parse_pythons, python_environments
from spillway.bench.plan import Options, plan_cells
from spillway.bench.record import SAMPLES, VALIDATION
from spillway.bench.summary import read_run
from spillway.cli.app import app
from spillway.cli.runs import _short_tables
from spillway.errors import OptionError
from spillway.harness import records
from spillway.harness.schedule import schedule

from .conftest import cell
from .made_runs import Writes, make_run, wrong

WRITER = """
import pyarrow.parquet as pq


class Flat:
    name = "flat"
    modes = frozenset({{"batches", "table"}})

    def version(self):
        return "{version}"

    def open(self, path, schema, settings):
        writer = pq.ParquetWriter(path, schema, compression="{codec}")
        writer.write = writer.write_batch
        return writer
"""


def install(folder: Path, version: str, codec: str) -> None:
    """Put a version of the library `flat`, with its backend, into a folder of modules."""
    (folder / "flat.py").write_text(WRITER.format(version=version, codec=codec))
    info = folder / f"flat-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: flat\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("[spillway.backends]\nflat = flat:Flat\n")


def environment(folder: Path, *lent: str | Path) -> Path:
    """Make a Python environment that finds the modules of other folders, too; where it has its own."""
    venv.EnvBuilder(symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text("".join(f"{each}\n" for each in lent))
    return site


@pytest.fixture(scope="module")
def pythons(tmp_path_factory):
    """Environments of two versions of a library, of none of it, of Spillway, of little and of nothing."""
    folder = tmp_path_factory.mktemp("pythons")
    lent = sysconfig.get_path("purelib")
    install(environment(folder / "old", lent), "1.0", "zstd")
    install(environment(folder / "new", lent), "2.0", "none")
    environment(folder / "without", lent)
    environment(folder / "own", lent, Path(spillway.__file__).parents[1])
    environment(folder / "bare")
    thin = environment(folder / "thin")
    for name in ("pyarrow", "numpy"):
        (thin / name).symlink_to(Path(lent) / name)
    (folder / "here").mkdir()
    install(folder / "here", "0.5", "snappy")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "here"))
        patch.setenv("PYTHONPATH", str(folder / "here"))
        yield folder
    sys.modules.pop("flat", None)


def bench(out, *arguments):
    small = ("--rows", "1000", "--mode", "batches", "--memory", "none", "--no-trace", "--probes", "0")
    return CliRunner().invoke(
        app, ["bench", *small, "--validate", "pyarrow", "--out", str(out), *map(str, arguments)]
    )


def named(folder, old="old", new="new"):
    return ("--python", f"old={folder / old}", "--python", f"new={folder / new}/bin/python")


def test_each_environment_is_measured_with_its_own_library(pythons, disk, tmp_path, monkeypatch):
    monkeypatch.setenv("SPILLWAY_CACHE", str(tmp_path))
    out = Path(tempfile.mkdtemp(dir=disk))
    done = bench(out, "--backend", "flat", "--samples", "2", *named(pythons))
    assert done.exit_code == 0, done.output
    (folder,) = out.iterdir()
    samples = records.read_lines(folder / SAMPLES)
    found = {(each["cell"]["python"], each["backend_version"]) for each in samples}
    assert found == {("old", "1.0"), ("new", "2.0")}
    assert [each["block"] for each in samples] == [0, 0, 1, 1]
    assert len({each["output"]["content_hash"] for each in samples}) == 2
    described = records.read_json(folder / records.ENVIRONMENT)
    assert [each["name"] for each in described["pythons"]] == ["old", "new"]
    assert described["pythons"][0]["python"]["version"] == sys.version.split()[0]
    assert {"name": "pyarrow", "version": pa.__version__} in described["pythons"][1]["libraries"]
    assert str(pythons) not in json.dumps(described) + (folder / SAMPLES).read_text()
    report = (folder / "report.md").read_text()
    assert "old is flat 1.0 on Python 3." in report
    assert "new is flat 2.0 on Python 3." in report
    assert "--python old=PATH --python new=PATH" in report
    refused = CliRunner().invoke(app, ["bench", "--resume", str(folder)])
    assert refused.exit_code == 2
    assert "--python old=PATH --python new=PATH" in " ".join(refused.output.split())
    resumed = CliRunner().invoke(app, ["bench", "--resume", str(folder), *named(pythons)])
    assert resumed.exit_code == 0, resumed.output
    assert len(records.read_lines(folder / SAMPLES)) == 4


def missing_in(folder, *backends):
    with python_environments({folder.name: folder / "bin" / "python"}, backends) as found:
        return found[folder.name].missing


def test_an_environment_without_pyarrow_is_refused_with_what_to_install(pythons):
    with pytest.raises(OptionError, match=r"pyarrow is not installed there.*pip install"):
        missing_in(pythons / "bare", "flat")


def test_a_writer_that_an_environment_lacks_is_absent_with_what_to_install(pythons):
    assert missing_in(pythons / "thin", "polars", "arro3", "pyarrow-streaming") == {
        "polars": "polars is not installed in the environment thin: pip install polars there",
        "arro3": "arro3-io is not installed in the environment thin: pip install arro3-io there",
    }
    missing = missing_in(pythons / "without", "arro3", "flat", "spillway")
    assert set(missing) == {"flat", "spillway"}
    assert "pip install" in missing["spillway"]


def test_spillway_itself_is_that_of_the_environment(pythons):
    with python_environments({"own": pythons / "own" / "bin" / "python"}, ["spillway", "arro3"]) as found:
        own = found["own"]
        assert own.missing == {}
        assert own.described["native_build"]["sha256"]
        assert "PYTHONPATH" not in own.variables(os.environ, "spillway")
        lent = Path(own.variables(os.environ, "arro3")["PYTHONPATH"])
        assert [each.name for each in lent.iterdir()] == ["spillway"]
    assert not lent.exists()


def test_spillway_with_other_code_that_measures_is_told(tmp_path):
    package = tmp_path / "spillway"
    shutil.copytree(
        Path(spillway.__file__).parent, package, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    files = measuring_files(["spillway"])
    assert of_same_code(files, package)
    worker = package / "bench" / "worker" / "main.py"
    worker.write_text(worker.read_text() + "\nFURTHER = 1\n")
    assert not of_same_code(files, package)
    worker.unlink()
    assert not of_same_code(files, package)


OLD = """
import runpy, sys
sys.version_info = (3, 9, 1)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"exec {sys.executable} -c '{OLD}' \"$@\"", "3.11 or later is needed"),
        ("echo no Python", "is not a working Python interpreter"),
    ],
)
def test_an_interpreter_that_cannot_measure_is_refused(tmp_path, script, words):
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\n{script}\n")
    interpreter.chmod(0o755)
    with pytest.raises(OptionError, match=words), python_environments({"old": interpreter}, ["arro3"]):
        pass


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["old"], "give NAME=PATH"),
        (["=python"], "give NAME=PATH"),
        (["a b=python"], "give NAME=PATH"),
        ([f"old={sys.executable}", f"old={sys.executable}"], "two environments have this name"),
        (["old=/nowhere"], "there is no interpreter"),
        (["old=/"], "there is no interpreter"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(given, words):
    with pytest.raises(OptionError, match=words):
        parse_pythons(given)


def test_it_takes_two_environments():
    with pytest.raises(OptionError, match="two environments"):
        Options(backends=("arro3",), rows=(1,), pythons=("old",))


def test_two_environments_of_a_cell_follow_each_other_in_either_order():
    options = Options(backends=("arro3", "duckdb"), rows=(1, 2), modes=("batches",), pythons=("old", "new"))
    cells = plan_cells(options)
    assert len(cells) == 8
    slots = list(schedule(cells, blocks=8, seed=1, together=lambda each: replace(each, python="")))
    assert [each.position for each in slots] == 8 * list(range(8))
    pairs = [(one.cell, two.cell) for one, two in zip(slots[::2], slots[1::2], strict=True)]
    assert all(replace(one, python=two.python) == two != one for one, two in pairs)
    assert {one.python for one, _ in pairs} == {"old", "new"}


def test_cells_without_environments_keep_the_order_of_before():
    cells = list(range(9))
    alone = [each.cell for each in schedule(cells, blocks=3, seed=5, together=lambda each: each)]
    order = random.Random(5)  # noqa: S311 - an order, not a secret
    assert alone == [each for _ in range(3) for each in order.sample(cells, 9)]
    assert alone == [each.cell for each in schedule(cells, blocks=3, seed=5)]


NOISE = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.0]
VERSIONS = [
    {"name": name, "python": {"version": version}, "libraries": [{"name": "numpy", "version": numpy}]}
    for name, version, numpy in (("old", "3.12.1", "2.2"), ("new", "3.13.2", "2.3"))
]


@pytest.fixture
def make(tmp_path):
    """Make a run of two environments, in which the new one is slower, leaner, and writes more."""

    def made(name="run", n=8, **new):
        writes = {
            "arro3": [
                Writes([1e5 * each for each in NOISE[:n]], cell={"python": "old"}),
                Writes(
                    **{
                        "speeds": [8e4 * each for each in (NOISE[1:] + NOISE[:1])[:n]],
                        "growth": 40e6,
                        "size": 1_100_000,
                        **new,
                    },
                    cell={"python": "new"},
                ),
            ]
        }
        run = make_run(tmp_path / name, writes)
        run.environment["options"]["pythons"] = ["old", "new"]
        more = {"pythons": VERSIONS, "run_id": name, "benchmark": {"worker": "w", "backends": CODE}}
        inputs = [{**each, "first_batch": "f"} for each in run.environment["inputs"]]
        records.write_json(run.folder / records.ENVIRONMENT, {**run.environment, **more, "inputs": inputs})
        return read_run(run.folder)

    return made


CODE = [{"backend": "arro3", "code": "c"}]


def test_the_report_has_the_ratio_of_time_memory_and_size_with_its_interval(make):
    (table,) = build_tables(make())
    assert table.title == "new beside old, by 8 pairs of each"
    assert list(table.header[1:5]) == ["seconds", "time x", "CPU s", "cpu x"]
    assert list(table.header[5:]) == ["peak MB", "memory x", "file MB", "size x"]
    ((_, _, time, _, cpu, _, memory, files, size),) = table.rows
    assert cpu.text.startswith("~1.000")
    assert time.text.startswith("1.24")
    assert "[1.2" in time.text
    assert (time.best, memory.best) == (False, True)
    assert memory.text.startswith("0.800")
    assert (files.text, size.text) == ("1.00 -> 1.10", "1.100")
    versions, others, sentence = table.notes
    assert "on Python 3.12.1, new is arro3-io" in versions
    assert "numpy (2.2 and 2.3)" in others
    assert "new takes 1.24" in sentence
    assert "new has 0.800 [0.800, 0.800] times the peak memory" in sentence
    assert "new writes a file 1.100 times as large" in sentence


def test_a_gate_is_exceeded_where_the_new_environment_lacks_a_writer(make):
    run = make()
    absent = [
        {"backend": name, "reason": f"no {name}", "missing_in": lacking}
        for name, lacking in (("polars", ["new"]), ("duckdb", ["old", "new"]), ("spillway", ["old"]))
    ]
    run.environment["absent_backends"] = absent
    found = compare_pythons(run, [METRICS["size"]])
    assert found.lost == ["polars: no polars"]
    assert compare_pythons(run, [METRICS["size"]], ["arro3"]).lost == []
    with pytest.raises(OptionError, match="polrs: run run does not have it: choose from arro3"):
        compare_pythons(run, [METRICS["size"]], ["arro3", "polrs"])


def test_the_verdict_says_what_the_table_says(make):
    run = make()
    (found,) = conclude(run)
    (table,) = build_tables(run)
    assert (found.title, found.lines) == (table.title, table.notes)


@pytest.mark.parametrize(
    ("new", "absent", "tables"), [({}, [], 1), ({}, ["polars"], 3), ({"speeds": [None] * 8}, [], 3)]
)
def test_the_terminal_shows_more_than_the_ratio_where_there_is_more(make, new, absent, tables):
    run = make(**new)
    lacking = [{"backend": name, "reason": "not there"} for name in absent]
    shown = _short_tables(replace(run, environment={**run.environment, "absent_backends": lacking}))
    assert len(shown) == tables


def test_equal_environments_are_not_told_apart(make):
    run = make(speeds=[1e5 * each for each in NOISE[1:] + NOISE[:1]], growth=50e6, size=1_000_000)
    ((_, _, time, _, _, _, memory, _, size),) = build_tables(run)[0].rows
    assert time.text.startswith("~")
    assert memory.text.startswith("~")
    assert size.text == "1"
    assert "cannot be told apart" in build_tables(run)[0].notes[-1]


def test_a_build_that_fails_is_said_and_is_beyond_any_gate(make):
    run = make(speeds=[None] * 8)
    assert "new fails, and old does not: library error" in build_tables(run)[0].notes[-1]
    assert compare_pythons(run, [METRICS["time"]]).beyond(0.99)


def test_a_build_with_wrong_output_has_no_figures(make):
    run = make(content="c" * 64)
    records.append(run.folder / VALIDATION, wrong("c" * 64, 1000))
    (line,) = build_tables(read_run(run.folder))[0].rows
    assert line[1].text.endswith("-> wrong output")
    assert [line[place].text for place in (2, 4, 6, 8)] == ["-"] * 4


def test_pairs_that_are_too_few_say_so(make):
    (table,) = build_tables(make(n=3))
    assert table.rows[0][2].text.startswith("~1.2")
    assert "take more --samples" in table.notes[-1]


@pytest.mark.parametrize(("gate", "status"), [("5%", 1), ("40%", 0)])
def test_compare_holds_two_environments_of_a_run_to_a_gate(make, gate, status):
    done = CliRunner().invoke(app, ["compare", str(make().folder), "--gate", gate])
    assert done.exit_code == status, done.output
    assert "new beside old" in done.output
    assert ("seconds worse by 2" in done.output) == bool(status)


@pytest.mark.parametrize(("n", "gate", "status"), [(8, "5%", 1), (8, "40%", 0), (3, "40%", 2)])
def test_a_comparison_is_written_as_markdown_whatever_becomes_of_the_gate(make, tmp_path, n, gate, status):
    run = make(n=n)
    out = tmp_path / "comment.md"
    done = CliRunner().invoke(app, ["compare", str(run.folder), "--gate", gate, "--markdown", str(out)])
    assert done.exit_code == status, done.output
    text = out.read_text()
    assert f"## new beside old, by {n} pairs of each" in text
    assert "| cell | seconds | time x | CPU s | cpu x | peak MB | memory x | file MB | size x |" in text
    assert build_tables(run)[0].notes[0] in text
    assert f"**gate of {float(gate[:-1]):.1f}%: " in text


def test_beside_another_run_the_new_environment_counts(make):
    one, two = make("one"), make("two", size=1_210_000)
    two.environment["pythons"][1]["libraries"] = [{"name": "numpy", "version": "2.4"}]
    found = compare_runs(one, two, [METRICS["size"]])
    assert [each.change.ratio for each in found.rows] == [pytest.approx(1.1)]
    assert "numpy: 2.3 and 2.4" in found.differences


def test_a_cell_of_an_environment_has_its_own_process(taker):
    assert cell("arro3").python == ""
    with pytest.raises(KeyError), taker.limiter.limit(0) as limit:
        taker.run_worker(cell("arro3", python="old"), limit)
