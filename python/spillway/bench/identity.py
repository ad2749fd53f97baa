"""The identity of a measurement: the measuring code, the code that calls each library, and the rows.

Samples are comparable only if these are equal. A library's own version is not among them: to compare two of
them is what a comparison is for. Comments and docstrings do not count.

The process runs the environment's interpreter and the environment's libraries. Both environments use this
package's code to measure and to call the libraries, so a ratio depends only on the libraries: a folder with
only the package ``spillway`` comes first on the path. Only a measured writer of Spillway's own is the
environment's, which has to be measured by the same code.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import spillway
from spillway import backends
from spillway.backends import OWN_LIBRARY, library
from spillway.bench import worker
from spillway.errors import OptionError
from spillway.harness import probes
from spillway.harness.environment import refuse_debug_build
from spillway.validation import digest_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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


def fingerprints_of_rows(path: Path) -> dict[str, str]:
    """The fingerprints of the rows of an Arrow IPC file, and of those of its first record batch.

    They are of values and of the schema, each of 16 hexadecimal digits. The bytes of buffers would not do:
    those of equal batches differ in their padding, and under nulls.
    """
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        first = reader.get_batch(0).num_rows if reader.num_record_batches else 0
        schema = str(reader.schema)
    return {"first_batch": _of_rows(path, schema, first), "all_rows": _of_rows(path, schema, None)}


def _of_rows(path: Path, schema: str, rows: int | None) -> str:
    try:
        found = digest_source(path, rows=rows)
        values = repr((schema, found.rows, found.sequence_checksum)).encode()
    except OptionError:  # a type that has no digest
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all().slice(0, rows)
            values = b"".join(batch.serialize() for batch in table.to_batches())
    return blake2b(values, digest_size=_DIGEST_BYTES).hexdigest()


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


_SURVEY = Path(__file__).with_name("python_survey.py")
_SURVEY_SECONDS = 120
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Which say where another interpreter's modules lie.
_OF_THIS_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONEXECUTABLE", "VIRTUAL_ENV")


@dataclass(frozen=True)
class PythonEnvironment:
    """A Python environment in which backends are measured.

    Attributes:
        name: Its name in ``--python``.
        interpreter: The path of its interpreter.
        shared: The folder that contains only this package.
        missing: Why each backend that cannot run there cannot.
        pools: The memory pools of its pyarrow.
        described: Its Python and libraries, for the record.
    """

    name: str
    interpreter: Path
    shared: Path
    missing: Mapping[str, str]
    pools: Sequence[str]
    described: dict[str, Any]

    def variables(self, environment: Mapping[str, str], backend: str) -> dict[str, str]:
        """The environment variables of a process that measures a backend there."""
        return _variables(environment, None if library(backend) == OWN_LIBRARY else self.shared)

    def version_of(self, name: str) -> str | None:
        """The version of a distribution in the environment; None if it is not installed, or not needed."""
        return next((each["version"] for each in self.described["libraries"] if each["name"] == name), None)


def parse_pythons(given: Iterable[str]) -> dict[str, Path]:
    """The interpreters by name, of arguments NAME=PATH.

    Raises:
        OptionError: One is not of this form, or names no interpreter.
    """
    found: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (equals and path and _NAME.fullmatch(name)):
            raise OptionError(f"--python {text!r}: give NAME=PATH, as old=venvs/old/bin/python")
        if name in found:
            raise OptionError(f"--python {name}: two environments have this name")
        found[name] = _interpreter(name, Path(path).expanduser())
    return found


def _interpreter(name: str, path: Path) -> Path:
    """The interpreter that a path is, or that an environment's folder has. A link stays a link."""
    place = path / "bin" / "python" if path.is_dir() else path
    if not (place.is_file() and os.access(place, os.X_OK)):
        raise OptionError(
            f"--python {name}={path}: there is no interpreter: name one, or the folder of an environment "
            f"with bin/python in it"
        )
    return place.absolute()


@contextmanager
def python_environments(
    interpreters: Mapping[str, Path], backends: Sequence[str]
) -> Iterator[dict[str, PythonEnvironment]]:
    """The environments by name, for as long as processes start in them.

    Args:
        interpreters: Their interpreters by name.
        backends: The backends that are to be measured there.

    Raises:
        OptionError: Nothing can be measured in one; the message says what is missing.
    """
    with tempfile.TemporaryDirectory(prefix="spillway-python-") as folder:
        shared = Path(folder)
        (shared / spillway.__name__).symlink_to(Path(spillway.__file__).absolute().parent)
        yield {name: _look_at(name, path, shared, backends) for name, path in interpreters.items()}


def _look_at(name: str, interpreter: Path, shared: Path, backends: Sequence[str]) -> PythonEnvironment:
    own = [each for each in backends if library(each) == OWN_LIBRARY]
    others = [each for each in backends if each not in own]
    found = _survey(name, interpreter, shared, others)
    if found["refusal"] is not None:
        raise OptionError(f"--python {name}: {found['refusal']}")
    missing = {backend: _reason(name, backend, why) for backend, why in found["missing"].items()}
    described = {key: found[key] for key in ("python", "libraries", "pyarrow_build")}
    build = None
    if own:
        ours = _survey(name, interpreter, None, own)
        why = _why_not_own(ours, own)
        if why is None:
            refuse_debug_build(ours, f"the environment {name}")
            build = ours["native_build"]
        else:
            missing |= dict.fromkeys(own, f"in the environment {name}: {why}")
    return PythonEnvironment(
        name, interpreter, shared, missing, found["pools"], {"name": name, **described, "native_build": build}
    )


def _survey(name: str, interpreter: Path, shared: Path | None, backends: Sequence[str]) -> dict[str, Any]:
    """What an environment says of itself.

    Raises:
        OptionError: It says nothing.
    """
    try:
        done = subprocess.run(
            [interpreter, _SURVEY],
            input=json.dumps(list(backends)),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SURVEY_SECONDS,
            # The script's folder is no place for imports: names there are also those of the standard library.
            env={**_variables(os.environ, shared), "PYTHONSAFEPATH": "1"},
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise OptionError(
            f"--python {name}: {interpreter} is not a working Python interpreter: {error}"
        ) from error
    return answer


def _reason(name: str, backend: str, why: str) -> str:
    """Why a backend cannot run in an environment, which needs its library and no extra of this package."""
    package = library(backend)
    if "pip install 'spillway[" not in why:
        return f"in the environment {name}: {why}"
    return f"{package} is not installed in the environment {name}: pip install {package} there"


def _why_not_own(found: dict[str, Any], backends: Sequence[str]) -> str | None:
    """Why Spillway's own writers cannot be measured in an environment that says this of itself."""
    if found["refusal"] is not None:
        return str(found["refusal"])
    if not of_same_code(measuring_files(backends), Path(found["spillway"])):
        return "its spillway measures by other code than this one, and a difference might be of that"
    return None


def _variables(environment: Mapping[str, str], path: Path | None) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if key not in _OF_THIS_PYTHON}
    return kept if path is None else {**kept, "PYTHONPATH": str(path)}
