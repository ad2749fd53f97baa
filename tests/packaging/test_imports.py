"""No module imports itself by way of others, not even where a function imports when it is called.

What a type checker alone follows is no import: nothing is loaded by it.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from .conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PYTHON = ROOT / "python"


def modules(folder: Path) -> dict[str, Path]:
    """The modules below a folder by their names; a compiled one by its stub."""
    paths = [*folder.rglob("*.py"), *folder.rglob("*.pyi")]
    named = {path: path.relative_to(folder).with_suffix("").parts for path in paths}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in named.items()}


def imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Each import of a syntax tree: the module, and the name that is taken from it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, "") for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module is not None and not child.level:
            yield from ((child.module, alias.name) for alias in child.names)
        elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from imports(child)


def cycle(known: dict[str, Path]) -> list[str]:
    """Modules each of which imports the next, and the last the first; none without such."""
    graph = {}
    for name, path in known.items():
        found = (
            f"{module}.{taken}" if f"{module}.{taken}" in known else module for module, taken in _of(path)
        )
        graph[name] = {each for each in found if each in known and each != name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _of(path: Path) -> list[tuple[str, str]]:
    # A stub imports for type checkers alone.
    return [] if path.suffix == ".pyi" else list(imports(ast.parse(path.read_text())))


def test_imports_form_no_cycle() -> None:
    known = modules(PYTHON)
    assert len(known) > 100
    assert cycle(known) == []


def test_a_cycle_through_a_function_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("def late():\n    from two import there\n    return there\n")
    (tmp_path / "two.py").write_text("import one\nthere = one.late\n")
    assert set(cycle(modules(tmp_path))) == {"one", "two"}


def test_an_import_for_type_checkers_alone_is_no_cycle(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import two\n")
    (tmp_path / "two.py").write_text("import one\n")
    assert cycle(modules(tmp_path)) == []
