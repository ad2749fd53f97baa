"""`spillway doctor` proves what it says."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

import spillway
from spillway import backends
from spillway.bench.doctor import Finding, verdict
from spillway.cli.bench import doctor

app = typer.Typer()
app.command()(doctor)


def test_doctor_proves_memory_and_limits(request):
    out = request.config.rootpath / ".build" / "doctor-runs"
    result = CliRunner().invoke(app, ["--out", str(out)])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    planted = re.search(r"200 MiB allocated and freed were seen as (\d+\.\d) MiB", text)
    assert planted
    assert abs(float(planted[1]) - 200) < 2
    assert re.search(
        r"memory limit by rlimit-data: a test process under 256 MiB was refused at (0\.9\d|1\.0\d)", text
    )
    for backend in ("spillway", "polars", "duckdb", "arro3"):
        assert f"backend {backend}" in text
    assert re.search(
        r"not here memory limit by (systemd-scope|cgroup-v2): this machine does not offer it", text
    )
    assert "missing" not in text
    assert re.search(r"Spark, to read back: PySpark 4\.\S+ with Java \d+ \(", text)
    assert re.search(
        r"^ready: spillway bench with limits by (cgroup|systemd)\S+$", result.output.strip(), re.MULTILINE
    )
    for setting in ("frequency governor", "turbo", "SMT", "ASLR", "clock source", "free memory"):
        assert f"{setting}: " in text
    assert not out.exists()


def test_without_java_doctor_says_what_to_call(tmp_path, request, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    out = request.config.rootpath / ".build" / "doctor" / "runs"
    result = CliRunner().invoke(app, ["--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "not here Spark, to read back: JAVA_HOME is" in result.output
    assert result.output.splitlines()[-1].startswith(
        "ready: spillway bench --validate pyarrow with limits by "
    )
    assert not out.parent.exists()


def test_a_library_that_does_not_load_is_a_finding(request, monkeypatch):
    load = backends.load

    def broken(name):
        if name == "duckdb":
            raise OSError("GLIBCXX_3.4.32 not found")
        return load(name)

    monkeypatch.setattr(backends, "load", broken)
    result = CliRunner().invoke(app, ["--out", str(request.config.rootpath / ".build" / "doctor-runs")])
    assert "not here backend duckdb: it does not load: OSError: GLIBCXX_3.4.32 not found" in " ".join(
        result.output.split()
    )
    assert result.output.splitlines()[-1].startswith("ready: spillway bench ")


def test_a_build_that_the_bench_refuses_is_missing(request, monkeypatch):
    monkeypatch.delenv("SPILLWAY_ALLOW_CHECKED_BUILD")
    result = CliRunner().invoke(app, ["--out", str(request.config.rootpath / ".build" / "doctor-runs")])
    if spillway.build_info()["debug_assertions"]:
        assert result.exit_code == 1
        assert "missing  spillway._native: built for tests, with debug assertions" in result.output
        assert result.output.splitlines()[-1].startswith("not ready: spillway._native: built for tests")
    else:
        assert result.exit_code == 0, result.output


LIMITS = [
    Finding("memory limit by cgroup-v2", "not here", ""),
    Finding("memory limit by cgroup-v1", "ok", ""),
]


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        (LIMITS, (True, "ready: spillway bench with limits by cgroup-v1")),
        (
            [Finding("memory limits", "warning", "", "--memory none")],
            (True, "ready: spillway bench --memory none"),
        ),
        (
            [
                *LIMITS,
                Finding("Spark", "not here", "", "--validate pyarrow"),
                Finding("noise", "warning", ""),
            ],
            (True, "ready: spillway bench --validate pyarrow with limits by cgroup-v1"),
        ),
        (
            [*LIMITS, Finding("page cache", "missing", "mincore does not answer")],
            (False, "not ready: page cache: mincore does not answer"),
        ),
    ],
)
def test_the_verdict_follows_from_what_was_found(findings, said):
    assert verdict(findings) == said


def test_doctor_says_that_memory_is_no_place_for_output():
    result = CliRunner().invoke(app, ["--out", "/dev/shm/spillway-doctor"])  # noqa: S108
    assert result.exit_code == 1
    assert "missing  output folder" in result.output
    assert "choose a folder on a disk" in result.output.splitlines()[-1]
