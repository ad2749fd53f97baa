"""The notebooks run from top to bottom on a real run."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
import typer
from nbclient import NotebookClient
from typer.testing import CliRunner

from spillway.cli.bench import bench

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def results(request):
    """The reference run if there is one, else a tiny run of one's own."""
    reference = request.config.rootpath / "results"
    if list(reference.glob("*/samples.jsonl")):
        yield reference
        return
    base = request.config.rootpath / ".build"
    base.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base, prefix="notebook-"))
    app = typer.Typer()
    app.command()(bench)
    tiny = ["--rows", "1000,2000", "--samples", "2", "--backend", "native,arro3", "--memory", "none"]
    result = CliRunner().invoke(app, [*tiny, "--validate", "none", "--no-trace", "--out", str(folder)])
    assert result.exit_code == 0, result.output
    yield folder
    shutil.rmtree(folder)


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


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, results, monkeypatch):
    monkeypatch.setenv("SPILLWAY_RESULTS", str(results))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}}).execute()
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_its_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
