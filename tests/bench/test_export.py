"""`spillway export`: a run in the forms of other tools, and no half of a file."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import spillway
from spillway.cli.app import app

from .made_runs import ROOT, Writes, make_run


@pytest.fixture
def folder(tmp_path):
    made = {"arro3": Writes([100.0, 101.0], growth=5e6, size=2_000_000), "polars": Writes([50.0, None])}
    return make_run(tmp_path / "run", made).folder


def export(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_benchmarks_have_the_fields_of_the_tool_and_smaller_is_better(folder):
    done = export(folder, "--to", "github-action-benchmark")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {frozenset(each) for each in found} == {frozenset({"name", "unit", "value", "range", "extra"})}
    values = {each["name"].rpartition(": ")[2]: (each["value"], each["unit"]) for each in found}
    rows = spillway.load_run(folder)["rows"][0].as_py()
    assert values["time"] == (pytest.approx(rows / 100.5, rel=1e-3), "s")
    assert values["peak memory"] == (5.0, "MB")
    assert values["file size"] == (2.0, "MB")
    assert values["allocated"][1] == "MB"
    assert all(isinstance(each["value"], float) for each in found)
    assert "left out: polars" in done.stderr
    assert not [each for each in found if each["name"].startswith("polars")]


def test_names_of_benchmarks_do_not_depend_on_what_else_was_measured(folder, tmp_path):
    alone = make_run(tmp_path / "alone", {"arro3": Writes([7.0])}).folder
    names = [
        [each["name"] for each in json.loads(export(one, "--to", "github-action-benchmark").stdout)]
        for one in (folder, alone)
    ]
    assert names[0] == names[1]
    assert len(set(names[0])) == 4


def test_csv_has_the_table_of_load_run(folder, tmp_path):
    out = tmp_path / "run.csv"
    assert export(folder, "--to", "csv", "--out", out).exit_code == 0
    table = spillway.load_run(folder)
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == table.column_names
    for row, wanted in zip(found, table.to_pylist(), strict=True):
        for name, value in wanted.items():
            is_text = value is None or isinstance(value, str)
            assert row[name] == (value or "") if is_text else json.loads(row[name]) == value


def test_parquet_is_written_by_spillway(folder, tmp_path):
    out = tmp_path / "run.parquet"
    assert export(folder, "--to", "parquet", "--out", out).exit_code == 0
    assert pq.read_table(out).equals(spillway.load_run(folder))
    assert pq.ParquetFile(out).metadata.created_by.startswith("spillway")


def test_parquet_goes_to_standard_output(folder, tmp_path):
    command = "from spillway.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "export", folder, "--to", "parquet"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    (tmp_path / "out.parquet").write_bytes(done.stdout)
    assert pq.read_table(tmp_path / "out.parquet").equals(spillway.load_run(folder))


def test_a_race_is_a_table_too_and_no_benchmark(tmp_path):
    out = tmp_path / "race.csv"
    assert export(ROOT / "results" / "race", "--to", "csv", "--out", out).exit_code == 0
    assert "committer" in out.read_text().splitlines()[0]
    assert export(ROOT / "results" / "race", "--to", "github-action-benchmark").exit_code == 2


@pytest.mark.parametrize("to", ["csv", "github-action-benchmark", "parquet"])
def test_a_file_that_cannot_be_made_whole_leaves_the_old_one(folder, tmp_path, to, monkeypatch):
    place = tmp_path / "out"
    place.mkdir()
    out = place / "run"
    out.write_text("old")

    def fail(*_):
        raise OSError("no space left")

    for name in ("pathlib.Path.replace", "spillway.writer.write_parquet"):
        monkeypatch.setattr(name, fail)
    assert export(folder, "--to", to, "--out", out).exit_code == 2
    assert out.read_text() == "old"
    assert list(place.iterdir()) == [out]


def test_a_link_stays_and_a_pipe_is_written_to(folder, tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.touch()
    link.symlink_to(real)
    assert export(folder, "--to", "csv", "--out", link).exit_code == 0
    assert link.is_symlink()
    assert real.read_text().startswith("backend,")
    assert export(folder, "--to", "csv", "--out", os.devnull).exit_code == 0
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("arguments", [("--to", "excel"), ("--to", "csv", "--out", "/nowhere/run.csv")])
def test_what_cannot_be_exported_is_refused(folder, arguments):
    assert export(folder, *arguments).exit_code == 2
