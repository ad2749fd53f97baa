"""Outputs of samples are read back once all timing is over, and a wrong value fails the run."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from spillway.bench.passes import require_engines
from spillway.bench.record import VALIDATION
from spillway.cli.bench import bench
from spillway.errors import JavaError
from spillway.harness import records

app = typer.Typer()
app.command()(bench)


def run(disk_folder, *arguments):
    shared = [
        "--rows",
        "10000",
        "--samples",
        "2",
        "--no-trace",
        "--probes",
        "0",
        "--memory",
        "none",
        "--out",
        str(disk_folder),
    ]
    return CliRunner().invoke(app, [*shared, *arguments])


def test_each_distinct_content_is_validated_once(disk_folder):
    writers = ["--backend", "arro3,pyarrow-streaming", "--mode", "batches,table"]
    result = run(disk_folder, *writers, "--validate", "pyarrow,duckdb")
    assert result.exit_code == 0, result.output
    assert "validated by pyarrow: 2 of 2" in result.output
    assert "validated by duckdb: 2 of 2" in result.output
    (verdicts,) = [records.read_lines(path) for path in disk_folder.glob("*/validation.jsonl")]
    assert len(verdicts) == 4
    assert {verdict["outcome"] for verdict in verdicts} == {"ok"}
    # Each writer made the same file in both modes and both samples.
    assert {verdict["samples"] for verdict in verdicts} == {4}


@pytest.mark.usefixtures("misbehaving")
def test_two_swapped_values_fail_the_run_and_are_named(disk_folder):
    result = run(disk_folder, "--backend", "swaps-two-values", "--mode", "batches", "--validate", "pyarrow")
    assert result.exit_code == 1, result.output
    assert "validated by pyarrow: 0 of 1" in result.output
    (folder,) = disk_folder.iterdir()
    (verdict,) = records.read_lines(folder / VALIDATION)
    assert verdict["outcome"] == "wrong_output"
    assert verdict["mismatch"]["row"] == 0
    assert verdict["mismatch"]["column"] == "timestamp"
    assert verdict["mismatch"]["expected"] != verdict["mismatch"]["actual"]
    output = " ".join(result.output.split())
    assert "wrong output of swaps-two-values (batches, 10,000 rows), read by pyarrow:" in output
    for named in (verdict["file"], "timestamp", str(verdict["mismatch"]["expected"]), "--keep-output"):
        assert named in output
    assert str(verdict["mismatch"]["actual"]) in (folder / "report.md").read_text()


@pytest.mark.usefixtures("misbehaving")
def test_a_peers_wrong_output_is_its_own_row_and_no_failure_of_the_run(disk_folder):
    peers = "swaps-two-values,spillway"
    result = run(disk_folder, "--backend", peers, "--mode", "batches", "--validate", "pyarrow")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.output.splitlines() if line.startswith(("spillway ", "swaps-"))]
    assert [(row[0], " ".join(row[-2:])) for row in rows][1] == ("swaps-two-values", "wrong output")
    assert rows[0][0] == "spillway"
    assert rows[0][-1] == "ok"
    assert "[row None" not in result.output
    assert "Left out: swaps-two-values (wrong output)." in result.output
    assert "At 10,000 rows spillway alone ended well" in result.output


def test_missing_java_is_told_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="Java 17"):
        require_engines(("spark",))
