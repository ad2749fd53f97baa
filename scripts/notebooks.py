"""The notebooks with their outputs: executed on the runs in ``results/`` that they read.

A stored notebook stays as it is while its sources, its runs and its sentences are the same: the bytes of a
picture depend on the fonts of the machine. Its cells are run for their sentences in this process, which takes
a second or two; a kernel executes them where something has changed.
"""

from __future__ import annotations

import copy
import io
import json
import os
import re
import sys
from base64 import b64decode, b64encode
from contextlib import chdir
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient
from PIL import Image

from spillway.runs import find_run

if TYPE_CHECKING:
    from nbformat import NotebookNode

_FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
_RUN = re.compile(r'"(\.\./results/[\w./-]+)"')
_PICTURE = "image/png"
_SENTENCE = "text/markdown"
_KEY = "spillway_digest"
_OF_THE_USER = ("MPLBACKEND", "MATPLOTLIBRC", "SPILLWAY_RESULTS")


def paths() -> list[Path]:
    """All notebooks."""
    return sorted(_FOLDER.glob("*.ipynb"))


def rendered(path: Path) -> str:
    """The text of a notebook with outputs of now: the stored text where its outputs are in step."""
    stored = nbformat.read(path, as_version=4)
    return path.read_text() if in_step(stored) else nbformat.writes(execute(stored)) + "\n"


def in_step(stored: NotebookNode) -> bool:
    """Return true if the stored outputs are of these sources and runs, and say what the cells say now."""
    return stored.metadata.get(_KEY) == digest(stored) and stored_sentences(stored) == sentences(stored)


def digest(notebook: NotebookNode) -> str:
    """The SHA-256 of a notebook's cells, and of the records of all runs that it reads."""
    sources = [(cell.cell_type, cell.source) for cell in notebook.cells]
    seen = sha256(json.dumps(sources).encode())
    for name in dict.fromkeys(_RUN.findall("\n".join(cell.source for cell in notebook.cells))):
        for file in sorted(find_run(_FOLDER / name).glob("*.json*")):
            seen.update(f"{file.name}\n".encode())
            seen.update(file.read_bytes())
    return seen.hexdigest()


def stored_sentences(notebook: NotebookNode) -> list[str]:
    """The sentences among the stored outputs."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.data[_SENTENCE] for output in outputs if _SENTENCE in output.data]


def sentences(notebook: NotebookNode, **environment: str) -> list[str]:
    """The sentences that the cells of a notebook display now, with more variables. Nothing is drawn."""
    said: list[str] = []
    kept = {name: value for name, value in os.environ.items() if name not in _OF_THE_USER} | environment
    with (
        chdir(_FOLDER),
        patch.dict(os.environ, {**kept, "MPLBACKEND": "agg"}, clear=True),
        patch("IPython.display.display", lambda shown: said.append(shown.data)),
    ):
        names: dict[str, Any] = {}
        for cell in notebook.cells:
            if cell.cell_type == "code":
                exec(cell.source, names)  # noqa: S102 - the notebook's own code
        names["plt"].close("all")
    return said


def execute(notebook: NotebookNode) -> NotebookNode:
    """A notebook, executed in its folder by a kernel, without what differs between two executions.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
        RuntimeError: A cell put out something else than sentences and pictures, such as a warning.
    """
    executed = copy.deepcopy(notebook)
    with TemporaryDirectory() as settings:
        client = NotebookClient(
            executed,
            kernel_manager_class=_Kernel,
            resources={"metadata": {"path": str(_FOLDER)}},
            coalesce_streams=True,
            record_timing=False,
            # A kernel that waits for a processor neither loses its outputs nor splits them.
            timeout=120,
            startup_timeout=120,
            iopub_timeout=120,
            raise_on_iopub_timeout=True,
        )
        kept = {name: value for name, value in os.environ.items() if name not in _OF_THE_USER}
        client.execute(env={**kept, "IPYTHONDIR": settings})
    executed.metadata = {**notebook.metadata, _KEY: digest(notebook)}
    for cell in executed.cells:
        if cell.cell_type == "code":
            cell.outputs = [_plain(output) for output in cell.outputs]
    return executed


def _plain(output: NotebookNode) -> NotebookNode:
    """An output without the addresses and names of Python's objects, and its picture with a palette."""
    shown = {kind: value for kind, value in output.get("data", {}).items() if kind != "text/plain"}
    if not shown:
        raise RuntimeError(f"a notebook shows sentences and pictures, and a cell put out {output}")
    if _PICTURE in shown:
        shown[_PICTURE] = _with_palette(shown[_PICTURE])
    return nbformat.v4.new_output("display_data", shown)


def _with_palette(picture: str) -> str:
    """A PNG in base64 with 256 colours, which is all that a chart needs: a third of its bytes."""
    smaller = io.BytesIO()
    image = Image.open(io.BytesIO(b64decode(picture))).convert("RGB")
    image.quantize(256, Image.Quantize.FASTOCTREE).save(smaller, "png", optimize=True)
    return b64encode(smaller.getvalue()).decode()


class _Kernel(AsyncKernelManager):
    """A kernel of this interpreter, whatever kernels the user has installed."""

    @property
    def kernel_spec(self) -> KernelSpec:
        # It warns that its sockets are not encrypted; they are on loopback alone.
        quiet = "--log-level=ERROR"
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", quiet]
        return KernelSpec(argv=command, display_name="Python 3", language="python")
