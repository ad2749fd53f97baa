"""The notebooks: their stored outputs are of the runs that they read, and one of them reads any run."""

from __future__ import annotations

import ast
import copy
import itertools
import re
import sys
from base64 import b64decode
from pathlib import Path

import nbformat
import pytest

import spillway
from spillway.errors import OptionError

from ..bench.made_runs import Writes, make_run

ROOT = Path(__file__).resolve().parents[2]
STORED = {
    path.stem: nbformat.read(path, as_version=4) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
}
MOST_BYTES = 300_000
each_notebook = pytest.mark.parametrize("name", STORED)


@pytest.fixture(scope="module")
def notebooks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import notebooks  # noqa: PLC0415 - of a folder of programs

        yield notebooks
        del sys.modules["notebooks"]


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def kinds_of(notebook):
    return [next(iter(output.data)) for output in outputs_of(notebook)]


def code_of(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")


@each_notebook
def test_stored_outputs_are_of_the_runs_that_a_notebook_reads(notebooks, name):
    # Whether they say what the cells say now, scripts/render.py --check tells.
    assert STORED[name].metadata["spillway_digest"] == notebooks.digest(STORED[name]), "run make readme"


def test_a_kernel_makes_the_stored_outputs(notebooks):
    stored = STORED["your-run"]
    executed = notebooks.execute(stored)
    assert kinds_of(executed) == kinds_of(stored)
    assert notebooks.stored_sentences(executed) == notebooks.stored_sentences(stored)
    assert executed.metadata == stored.metadata
    # All but the pictures, whose bytes depend on fonts, is the same text.
    for output in (*outputs_of(executed), *outputs_of(stored_copy := copy.deepcopy(stored))):
        output.data.pop("image/png", None)
    assert nbformat.writes(executed) == nbformat.writes(stored_copy)


@pytest.mark.parametrize("changed", ["a sentence", "a source", "a run"])
def test_outputs_of_something_else_are_out_of_step(notebooks, changed, monkeypatch, tmp_path):
    notebook = copy.deepcopy(STORED["your-run"])
    assert notebooks.in_step(notebook)
    if changed == "a sentence":
        said = next(output for output in outputs_of(notebook) if "text/markdown" in output.data)
        said.data["text/markdown"] += "!"
    elif changed == "a source":
        notebook.cells[0].source += "!"
    else:
        make_run(tmp_path / "run", {"arro3": Writes([1.0])})
        monkeypatch.setattr(notebooks, "find_run", lambda _: tmp_path / "run")
    assert not notebooks.in_step(notebook)


@each_notebook
def test_each_of_two_pictures_or_more_stands_below_a_sentence(name):
    kinds = kinds_of(STORED[name])
    assert kinds.count("image/png") >= 2
    assert all(below != "image/png" or above == "text/markdown" for above, below in itertools.pairwise(kinds))
    assert kinds[0] != "image/png"


@each_notebook
def test_no_figure_of_a_sentence_is_typed(notebooks, name):
    prose = [cell.source for cell in STORED[name].cells if cell.cell_type == "markdown"]
    nodes = ast.walk(ast.parse(code_of(STORED[name])))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    figure = re.compile(r"\b\d+\.\d+\b")
    assert not [text for text in (*prose, *texts) if figure.search(text)]
    assert len(set(figure.findall("\n".join(notebooks.stored_sentences(STORED[name]))))) > 5


@each_notebook
def test_a_stored_notebook_is_small_and_its_pictures_are_whole(name):
    assert (ROOT / "notebooks" / f"{name}.ipynb").stat().st_size < MOST_BYTES
    pictures = [output.data["image/png"] for output in outputs_of(STORED[name]) if "image/png" in output.data]
    assert all(b64decode(picture).startswith(b"\x89PNG") for picture in pictures)


@each_notebook
def test_a_notebook_uses_public_names_alone(name):
    public = {"spillway": spillway.__all__, "spillway.runs": spillway.runs.__all__}
    for node in ast.walk(ast.parse(code_of(STORED[name]))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            assert all(each.partition(".")[0] != "spillway" or each in public for each in names)
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "spillway":
            assert {alias.name for alias in node.names} <= set(public[str(node.module)])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = {"spillway": "spillway", "runs": "spillway.runs"}.get(node.value.id)
            assert module is None or node.attr in public[module]


def said_of(notebooks, folder):
    return "\n".join(notebooks.sentences(STORED["your-run"], SPILLWAY_RESULTS=str(folder)))


def test_settings_of_a_run_are_not_pooled(notebooks, tmp_path):
    backends = {"spillway": [], "arro3": []}
    for mode, codec, memory in itertools.product(("table", "batches"), ("snappy", "lz4"), (None, 10**9)):
        cell = {"mode": mode, "codec": codec, "level": None, "memory_bytes": memory}
        for place, writes in enumerate(backends.values()):
            writes.append(Writes([(2 - place) * 1e6] * 6, growth=(place + 1) * 1e6, cell=cell))
    make_run(tmp_path / "run", backends)
    said = said_of(notebooks, tmp_path)
    assert said.count("spillway is the fastest, 2.00 [2.00, 2.00] times as fast as arro3") == 8
    assert said.count("spillway grows by 1.0 MB, the least of 2; arro3 by 2.0 MB, the most") == 8
    assert len({line for line in said.splitlines() if "is the fastest" in line}) == 8


def test_environments_of_a_run_are_not_pooled(notebooks, tmp_path):
    backends = {
        name: [Writes([speed] * 6, growth=1e6, cell={"python": python}) for python, speed in given.items()]
        for name, given in {"spillway": {"old": 2e6, "new": 3e6}, "arro3": {"old": 1e6, "new": 1e6}}.items()
    }
    make_run(tmp_path / "run", backends)
    said = said_of(notebooks, tmp_path)
    for python, times in {"old": "2.00 [2.00, 2.00]", "new": "3.00 [3.00, 3.00]"}.items():
        assert re.search(
            rf"{python}.*spillway is the fastest, {re.escape(times)} times as fast as arro3", said
        )
    assert said.count("the least of 2") == 2


def test_a_peer_that_is_faster_is_named(notebooks, tmp_path):
    make_run(tmp_path / "run", {"spillway": Writes([1e6] * 6), "polars": Writes([2e6] * 6)})
    said = said_of(notebooks, tmp_path)
    assert "polars is the fastest, spillway is 0.50 [0.50, 0.50] times as fast" in said


def test_where_writers_change_places_is_said(notebooks, tmp_path):
    cells = [{"rows": 1000}, {"rows": 4000}]
    backends = {
        "spillway": [Writes([speed] * 6, cell=cell) for speed, cell in zip((1e6, 2e6), cells, strict=True)],
        "arro3": [Writes([speed] * 6, cell=cell) for speed, cell in zip((2e6, 1e6), cells, strict=True)],
    }
    make_run(tmp_path / "run", backends)
    assert "spillway is faster than arro3 from 2,000 [2,000, 2,000] rows on" in said_of(notebooks, tmp_path)


def test_a_writer_that_fails_is_counted_and_not_compared(notebooks, tmp_path):
    make_run(tmp_path / "run", {"spillway": Writes([1e6, 1e6]), "duckdb": Writes([9e6, None])})
    said = said_of(notebooks, tmp_path)
    assert "these did not end well: 1 of duckdb as library error" in said
    assert "spillway is the fastest, and no other library is compared" in said


@pytest.mark.parametrize("speeds", [[1e6], [None]], ids=["one sample", "none that ended well"])
def test_a_run_with_little_in_it_is_shown(notebooks, tmp_path, speeds):
    make_run(tmp_path / "run", {"arro3": Writes(speeds)})
    assert "Samples: 1. Writers: 1." in said_of(notebooks, tmp_path)


def test_where_there_is_no_run_the_folder_is_named(notebooks, tmp_path):
    with pytest.raises(OptionError, match=f"{tmp_path}: neither a run nor a folder of runs"):
        said_of(notebooks, tmp_path)


def test_a_run_of_another_command_is_refused(notebooks):
    with pytest.raises(OptionError, match="a run of spillway bench was expected"):
        said_of(notebooks, ROOT / "results" / "race")
