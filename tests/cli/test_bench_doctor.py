"""`spillway doctor` proves what it says."""

from __future__ import annotations

import re

import typer
from typer.testing import CliRunner

from spillway.cli.doctor import doctor

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
        r"memory limit by rlimit-data: a canary under 256 MiB was refused at (0\.9\d|1\.0\d)", text
    )
    for backend in ("native", "polars", "duckdb", "arro3"):
        assert f"backend {backend}" in text
    assert not out.exists()


def test_doctor_says_that_memory_is_no_place_for_output():
    result = CliRunner().invoke(app, ["--out", "/dev/shm/spillway-doctor"])  # noqa: S108
    assert "choose a folder on a disk" in " ".join(result.output.split())
