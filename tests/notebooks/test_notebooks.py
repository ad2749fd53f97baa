"""The notebooks run from top to bottom on a real run."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
import typer
from nbclient import NotebookClient
from typer.testing import CliRunner

from spillway.cli.bench import bench

from ..bench.made_runs import Writes, make_run

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
THROUGHPUT = next(path for path in NOTEBOOKS if path.stem == "throughput")


@pytest.fixture(scope="module")
def results(request, disk):
    """The reference run if there is one, else a tiny run of one's own."""
    reference = request.config.rootpath / "results" / "reference"
    if list(reference.glob("*/samples.jsonl")):
        return reference
    folder = Path(tempfile.mkdtemp(dir=disk))
    app = typer.Typer()
    app.command()(bench)
    tiny = ["--rows", "1000,2000", "--samples", "2", "--backend", "spillway,arro3", "--memory", "none"]
    result = CliRunner().invoke(app, [*tiny, "--validate", "none", "--no-trace", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def _kernel(tmp_path, monkeypatch):
    """A kernel of this interpreter, whatever kernels the user has installed, on loopback alone."""
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    (spec / "kernel.json").write_text(f'{{"argv": {argv}, "display_name": "Python 3", "language": "python"}}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


def run_all(path):
    """Run a notebook from Jupyter's folder; what all of it put out."""
    notebook = nbformat.read(path, as_version=4)
    # A kernel that waits for a processor neither loses its outputs nor splits them.
    waits = {"timeout": 120, "startup_timeout": 120, "iopub_timeout": 120, "raise_on_iopub_timeout": True}
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, coalesce_streams=True, resources=where, **waits).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def program(path, *more, results):
    """A notebook as a program in Jupyter's folder, with more code at its end: it has ended."""
    cells = nbformat.read(path, as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    return subprocess.run(
        [sys.executable, "-c", "\n".join([*code, *more])],
        cwd=path.parent,
        env={**os.environ, "SPILLWAY_RESULTS": str(results), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, results, monkeypatch):
    monkeypatch.setenv("SPILLWAY_RESULTS", str(results))
    outputs = run_all(path)
    assert len([output for output in outputs if "image/png" in output.get("data", {})]) >= 2


@pytest.fixture
def several(request, disk):
    """A folder of runs below the checkout, whose one run has two datasets, two codecs and two limits."""
    folder = Path(tempfile.mkdtemp(dir=disk))
    speeds = {}
    backends = {"spillway": [], "arro3": []}
    for dataset, codec, memory in itertools.product(("logs", "wide:10"), ("snappy", "lz4"), (None, 10**9)):
        fields = {"dataset": dataset, "codec": codec, "level": None, "memory_bytes": memory}
        for backend, writes in backends.items():
            speed = 1e6 * (len(speeds) + 1)
            speeds[dataset, codec, memory, backend] = speed
            writes.append(Writes([speed] * 3, cell=fields))
    make_run(folder / "20260101T000000Z-0000", backends)
    return folder.relative_to(request.config.rootpath), speeds


def test_settings_are_not_pooled_and_a_relative_folder_is_found_from_jupyters(several):
    folder, speeds = several
    done = program(THROUGHPUT, "import json; print(json.dumps(table.to_dicts()))", results=folder)
    assert done.returncode == 0, done.stderr
    *verdict, last = done.stdout.splitlines()
    assert {
        (line["dataset"], line["codec"], line["memory_bytes"], line["backend"]): line["rows_per_second"]
        for line in json.loads(last)
    } == speeds
    assert "\n".join(verdict).count("wins each of 3 blocks") == 8


def test_where_a_notebook_found_no_run_is_said(tmp_path):
    done = program(THROUGHPUT, results=tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path}: no run, and no folder of runs" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
