"""Every public name of the package: ``python -m tests.packaging.public_names`` writes their list anew."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path

import spillway

LIST = Path(__file__).with_name("public_names.txt")

#: Folders of the commands: their modules are for the commands alone.
OF_COMMANDS = {
    "backends",
    "bench",
    "cli",
    "datasets",
    "harness",
    "race",
    "reading",
    "shell",
    "spark",
    "tune",
    "validation",
}


def modules() -> list[str]:
    """The public modules: none of their names begins with an underscore."""
    found = ["spillway"]
    for module in pkgutil.walk_packages(spillway.__path__, "spillway."):
        parts = module.name.split(".")[1:]
        if parts[0] not in OF_COMMANDS and not any(part.startswith("_") for part in parts):
            found.append(module.name)
    return found


def is_public(name: str) -> bool:
    """Return true for a name without an underscore in front, or of a protocol of Python."""
    protocols = {"__version__", "__enter__", "__exit__", "__aenter__", "__aexit__"}
    return not name.startswith("_") or name in protocols


def members(owner: type) -> list[str]:
    """The public attributes of a class that this project defines, inherited ones too."""
    own = [base for base in owner.__mro__ if base.__module__.startswith("spillway")]
    names = {name for base in own for name in vars(base) if is_public(name)}
    if dataclasses.is_dataclass(owner):
        names |= {field.name for field in dataclasses.fields(owner)}
    names |= {name for base in own for name in inspect.get_annotations(base) if is_public(name)}
    return sorted(names)


def public_names() -> list[str]:
    """Each name in ``__all__`` of a public module, and each public attribute of the classes among them."""
    names = set()
    for path in modules():
        module = importlib.import_module(path)
        for name in module.__all__:
            names.add(f"{path}.{name}")
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__ == path:
                names |= {f"{path}.{name}.{member}" for member in members(value)}
    return sorted(names)


def defined_without_saying(path: str) -> list[str]:
    """Names that a module defines, and neither lists in ``__all__`` nor begins with an underscore."""
    module = importlib.import_module(path)
    defined = set()
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                defined.add(name)
    return sorted(name for name in defined if not name.startswith("_") and name not in module.__all__)


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n")
