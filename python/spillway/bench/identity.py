"""The identity of what is measured: the code that measures, the code that calls each library, and the rows.

Samples compare only where these are equal. A library's own version is not among them: to compare two of them
is what a comparison is for. Comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import spillway
from spillway import backends
from spillway.bench import worker
from spillway.errors import OptionError
from spillway.harness import probes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "describe_benchmark",
    "fingerprint_of_code",
    "fingerprint_of_rows",
    "measuring_files",
    "of_same_code",
]

_DIGEST_BYTES = 8
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def describe_benchmark(names: Iterable[str]) -> dict[str, Any]:
    """The fingerprints of the worker with its probes, and of each backend's code that calls its library."""
    return {
        "worker": fingerprint_of_code(_measuring()),
        "backends": [{"backend": name, "code": _of_backend(name)} for name in names],
    }


def measuring_files(names: Iterable[str]) -> list[Path]:
    """The files of the worker with its probes, and of these backends, which are this package's own."""
    return [*_measuring(), *dict.fromkeys(path for name in names for path in _sources(name))]


def of_same_code(files: Sequence[Path], package: Path) -> bool:
    """Return true if another copy of this package, in its folder, has the same code in these files."""
    root = Path(spillway.__file__).parent
    others = [package / path.relative_to(root) for path in files]
    return all(path.is_file() for path in others) and fingerprint_of_code(others) == fingerprint_of_code(
        files
    )


def fingerprint_of_rows(path: Path) -> str:
    """The fingerprint of an Arrow IPC file's schema and first record batch: 16 hexadecimal digits."""
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        head = reader.get_batch(0) if reader.num_record_batches else None
        digest = blake2b(str(reader.schema).encode(), digest_size=_DIGEST_BYTES)
        if head is not None:
            digest.update(head.serialize())
        return digest.hexdigest()


def fingerprint_of_code(paths: Iterable[Path]) -> str:
    """The fingerprint of modules by their syntax trees: 16 hexadecimal digits, the same in any Python."""
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for path in paths:
        digest.update(repr((path.name, _shape(ast.parse(path.read_text(encoding="utf-8"))))).encode())
    return digest.hexdigest()


def _shape(node: Any) -> Any:
    """A syntax tree without places, docstrings, and the empty fields in which versions of Python differ."""
    if isinstance(node, ast.Constant):  # also None, 0 and False, which are no empty fields
        return ("Constant", repr(node.value))
    if isinstance(node, ast.AST):
        fields = {name: _shape(value) for name, value in ast.iter_fields(node)}
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            fields["body"] = fields["body"][1:]
        return (type(node).__name__, *((name, value) for name, value in fields.items() if value))
    return [_shape(each) for each in node] if isinstance(node, list) else repr(node) if node else None


def _of_backend(name: str) -> str:
    """The fingerprint of a backend's code; of an external program with its command and its file."""
    code = fingerprint_of_code(_sources(name))
    if not backends.is_external(name):
        return code
    from spillway.backends.external import programs

    program = programs()[name]
    digest = blake2b(repr((code, program.command)).encode(), digest_size=_DIGEST_BYTES)
    found = shutil.which(program.command[0])
    if found is not None:
        digest.update(Path(found).read_bytes())
    return digest.hexdigest()


def _measuring() -> list[Path]:
    return [path for package in (worker, probes) for path in sorted(_folder(package).glob("*.py"))]


def _folder(package: Any) -> Path:
    return Path(package.__file__).parent


def _sources(name: str) -> list[Path]:
    """A backend's module, and those of `spillway.backends` that it imports from. No library is loaded."""
    module = backends.module_of(name)
    own = _path(module)
    shared = {
        node.module
        for node in ast.walk(ast.parse(own.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{backends.__name__}.")
    }
    return [own, *sorted(_path(each) for each in shared if each is not None)]


def _path(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise OptionError(f"the source of {module}, which is measured, is not found: install it again")
    return Path(spec.origin)
