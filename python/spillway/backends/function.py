"""A backend that is one function, ``write(data, path)``: the pytest plugin measures such functions.

The measured process imports the function by its module and its qualified name. It finds them in a JSON file
that the parent wrote (`describe`). The backend's name is ``function:`` and the path of that file.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spillway.backends.protocol import FUNCTION_PREFIX
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spillway.backends.protocol import Mode, Settings

_REMEDY = "define it with `def` at the top level of a module"


class ArrowStream:
    """Record batches that offer only the Arrow PyCapsule interface, so any library can take them.

    Args:
        schema: The schema of all batches.
        batches: The batches; they stay valid for as long as anything refers to them.
    """

    def __init__(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] | None = batches

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the stream, once.

        Raises:
            ValueError: It was exported before.
        """
        batches, self._batches = self._batches, None
        if batches is None:
            raise ValueError("this Arrow stream was read already: a stream can be read once")
        reader = pa.RecordBatchReader.from_batches(self._schema, batches)
        export: Any = reader.__arrow_c_stream__
        capsule: object = export(requested_schema)
        return capsule


class Function:
    """A writer that takes all rows in one call: an `ArrowStream`, and the path of the file to write.

    It writes in mode "batches-retained", since whoever reads a stream owns its batches. The call, and with it
    the function's work, is in `close`: until then the batches lie in the mapped input.

    Args:
        name: ``function:`` and the path of a file that `describe` wrote.

    Raises:
        ImportError: The function's module cannot be imported here.
    """

    modes: frozenset[Mode] = frozenset({"batches-retained"})

    def __init__(self, name: str) -> None:
        self.name = name
        described = json.loads(Path(name.removeprefix(FUNCTION_PREFIX)).read_text(encoding="utf-8"))
        with _traceback_to_stderr():
            self._function: Callable[[ArrowStream, Path], object] = _imported(described)

    def version(self) -> str:
        """Return "unknown": a function has no version."""
        return "unknown"

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:  # noqa: ARG002 - its own ones
        """Start a file. Codec, level and row groups are the function's own."""
        return _Sink(self._function, path, schema)


class _Sink:
    def __init__(
        self, function: Callable[[ArrowStream, Path], object], path: Path, schema: pa.Schema
    ) -> None:
        self._function, self._path, self._schema = function, path, schema
        self._batches: list[pa.RecordBatch] = []

    def write(self, data: pa.RecordBatch) -> None:
        self._batches.append(data)

    def close(self) -> None:
        with _traceback_to_stderr():
            self._function(ArrowStream(self._schema, self._batches), self._path)
            if not self._path.exists():
                raise FileNotFoundError(
                    f"{self._function.__qualname__} wrote no file to the given path: write the "
                    f"Parquet file there"
                )


def describe(function: Callable[..., object], file: Path) -> str:
    """Write down how another process imports a function; the name of the backend that does.

    Args:
        function: Takes an Arrow stream and a path.
        file: The JSON file to write.

    Raises:
        OptionError: Another process cannot import it, or it does not take these two arguments.
    """
    module = _require_importable(function)
    _require_two_arguments(function)
    parts = module.__name__.split(".")
    names = [".".join(parts[: count + 1]) for count in range(len(parts))]
    described = {
        "qualified_name": function.__qualname__,
        # An empty entry is the working folder, which is another one there.
        "path": [os.path.abspath(each) for each in sys.path],  # noqa: PTH100 - entries are text
        "modules": [_module(name) for name in names if name in sys.modules],
    }
    file.write_text(json.dumps(described), encoding="utf-8")
    return f"{FUNCTION_PREFIX}{file}"


def _require_importable(function: Callable[..., object]) -> ModuleType:
    """The function's module.

    Raises:
        OptionError: The function cannot be found by its module and qualified name.
    """
    if isinstance(function, type) or not all(
        hasattr(function, each) for each in ("__module__", "__qualname__")
    ):
        raise OptionError(f"{function!r} is a {type(function).__name__}, not a function: {_REMEDY}")
    name, qualified = str(function.__module__), function.__qualname__
    refused = f"{qualified} in {name} cannot be imported by another process"
    if "<lambda>" in qualified:
        raise OptionError(f"{refused}, since it is a lambda: {_REMEDY}")
    if "<locals>" in qualified:
        raise OptionError(f"{refused}, since it is defined within another function: {_REMEDY}")
    module = sys.modules.get(name)
    if module is None or name == "__main__" or getattr(module, "__file__", None) is None:
        raise OptionError(f"{refused}, since its module has no file: {_REMEDY}")
    try:
        found = attrgetter(qualified)(module)
    except AttributeError:
        found = None
    if found != function:
        raise OptionError(f"{refused}, since this name there is not this function: {_REMEDY}")
    return module


def _require_two_arguments(function: Callable[..., object]) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise OptionError(
            f"{function.__qualname__} does not run when it is called: define it with plain `def`"
        )
    try:
        signature = inspect.signature(function)
    except ValueError:  # of some functions in C, nothing is known
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise OptionError(
            f"{function.__qualname__}{signature} cannot be called with (data, path): {error}"
        ) from error


def _module(name: str) -> dict[str, Any]:
    module = sys.modules[name]
    folders = getattr(module, "__path__", None)
    return {
        "name": name,
        "file": getattr(module, "__file__", None),
        "folders": None if folders is None else list(folders),
    }


def _imported(described: dict[str, Any]) -> Callable[[ArrowStream, Path], object]:
    sys.path[:] = described["path"]
    for each in described["modules"]:
        module = _import(each)
    function: Callable[[ArrowStream, Path], object] = attrgetter(described["qualified_name"])(module)
    return function


def _import(described: dict[str, Any]) -> ModuleType:
    """Import a module by its name, or from its file where its name does not lead there.

    pytest imports a test module from its file in mode "importlib", by a name that no finder knows.
    """
    name, file, folders = described["name"], described["file"], described["folders"]
    if name in sys.modules:
        return sys.modules[name]
    if _leads_to(name, file):
        return importlib.import_module(name)
    if file is None:  # a namespace package, or one that pytest made up
        module = ModuleType(name)
        module.__path__ = folders or []
        sys.modules[name] = module
        return module
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} cannot be imported from {file}", name=name, path=file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _leads_to(name: str, file: str | None) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin is None or file is None:
        return spec is not None and spec.origin is None and file is None
    return Path(spec.origin).exists() and Path(spec.origin).samefile(file)


@contextmanager
def _traceback_to_stderr() -> Iterator[None]:
    """Print the traceback of an error, which the process sends to its parent without one."""
    try:
        yield
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        raise
