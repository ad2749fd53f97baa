"""The extras of the race and of the notebooks install what these import."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "python"
RACE = [*PYTHON.glob("spillway/race/**/*.py"), PYTHON / "spillway/cli/race.py"]
#: Committers that are in the race where they are named: their extra is `peers`.
NAMED = {"iceberg.py", "lance.py"}
ROOTS = {
    "race": [path for path in RACE if path.name not in NAMED],
    "notebooks": [*ROOT.glob("notebooks/*.ipynb")],
}
#: What `scripts/notebooks.py` executes them by.
NEEDED = {"notebooks": {"ipykernel", "nbclient", "nbformat"}}


def code(path: Path) -> ast.Module:
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    return ast.parse(text)


def imports(node: ast.AST, *, in_functions: bool) -> Iterator[str]:
    """The modules that are imported, but for those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        elif in_functions or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from imports(child, in_functions=in_functions)


def files(module: str) -> Iterator[Path]:
    """The files of a module of this package, and of the packages it is in."""
    parts = module.split(".")
    for number in range(1, len(parts) + 1):
        place = PYTHON.joinpath(*parts[:number])
        yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def needed(roots: Iterable[Path]) -> set[str]:
    """The packages that the roots import anywhere, and what those of this package import when loaded."""
    first, found, seen = set(roots), set(), set()
    waiting = list(first)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for module in imports(code(path), in_functions=path in first):
            top = module.partition(".")[0]
            if top == "spillway":
                waiting += files(module)
            elif top not in sys.stdlib_module_names:
                found.add(top)
    return found


def installed(requirements: Iterable[str]) -> set[str]:
    """The packages that are installed for these requirements."""
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = requirement.name.lower().replace("_", "-")
        if name == "spillway":
            waiting += [Requirement(text) for extra in requirement.extras for text in own[extra]]
        elif name not in found:
            found.add(name)
            waiting += [Requirement(text) for text in metadata.requires(name) or ()]
    return found


@pytest.mark.parametrize("extra", ROOTS)
def test_an_extra_installs_what_is_imported(extra: str) -> None:
    names = {
        module: {each.lower() for each in found}
        for module, found in metadata.packages_distributions().items()
    }
    has = installed([f"spillway[{extra}]"])
    imported = needed(ROOTS[extra]) | NEEDED.get(extra, set())
    assert len(imported) > 3
    assert {module for module in imported if not names[module] & has} == set()
