"""The notebooks run from top to bottom on a real run."""

from __future__ import annotations

import itertools
import json
import re
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
import typer
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
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


def run_all(path, *more):
    """Run a notebook from Jupyter's folder, with cells at its end; what all of it put out."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(code) for code in more]
    # A kernel that waits for a processor neither loses its outputs nor splits them.
    waits = {"timeout": 120, "startup_timeout": 120, "iopub_timeout": 120, "raise_on_iopub_timeout": True}
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, coalesce_streams=True, resources=where, **waits).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


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


@pytest.mark.usefixtures("_kernel")
def test_settings_are_not_pooled_and_a_relative_folder_is_found_from_jupyters(several, monkeypatch):
    folder, speeds = several
    monkeypatch.setenv("SPILLWAY_RESULTS", str(folder))
    outputs = run_all(THROUGHPUT, "import json; print(json.dumps(table.to_dicts()))")
    lines = json.loads(outputs[-1]["text"])
    assert {
        (line["dataset"], line["codec"], line["memory_bytes"], line["backend"]): line["rows_per_second"]
        for line in lines
    } == speeds
    verdict = outputs[-2]["text"]
    assert verdict.count("wins each of 3 blocks") == 8


@pytest.mark.usefixtures("_kernel")
def test_where_a_notebook_found_no_run_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("SPILLWAY_RESULTS", str(tmp_path))
    with pytest.raises(CellExecutionError, match=re.escape(f"{tmp_path}: no run, and no folder of runs")):
        run_all(THROUGHPUT)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
