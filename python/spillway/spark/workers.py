"""The Python of Spark's workers: reports what it lacks before the first task, or instead of its traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spillway.errors import SpillwayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["check_workers", "missing_on_workers"]

_SECONDS = 60.0

_LOCAL = re.compile(r"local(\[.*\])?")

# What workers import of this project's.
_NEEDED = ("spillway", "pyarrow")

# It imports nothing of what it looks for: an import of pyarrow takes half a second.
_ASK = f"""
import sys
from importlib.util import find_spec
from json import dumps
missing = [name for name in {_NEEDED!r} if find_spec(name) is None]
print(dumps({{"version": sys.version_info[:2], "missing": missing}}))
"""

# What a worker ends in: Python's words, PySpark's for its own import of pyarrow, and Java's.
_NO_MODULE = re.compile(rf"No module named '({'|'.join(_NEEDED)})'")
_NO_PYARROW = re.compile(r"PyArrow >= [\d.]+ must be installed; however, it was not found")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]*)"')

_CHECKED: WeakSet[SparkContext] = WeakSet()


def check_workers(session: SparkSession) -> None:
    """Ask the Python that a local master starts for its workers whether it can write, once for each session.

    The workers of other masters are on other machines, as is the server of a Spark Connect session: they are
    not checked, and `missing_on_workers` explains how their first task fails.

    Raises:
        SpillwayError: The interpreter does not run, is another minor version of Python than this one, or
            finds no Spillway or no pyarrow.
    """
    context: SparkContext | None = getattr(session, "_sc", None)  # a session of Connect has none
    if context is None or context in _CHECKED or _LOCAL.fullmatch(str(context.master)) is None:
        return
    interpreter = context.pythonExec
    version, missing = _asked(interpreter, _environment(context), _folder(context))
    if version != sys.version_info[:2]:
        found, own = (".".join(map(str, each)) for each in (version, sys.version_info[:2]))
        raise SpillwayError(_sentence(interpreter, f"is Python {found}, and the driver has {own}"))
    if missing:
        raise SpillwayError(_sentence(interpreter, _lacks(missing)))
    _CHECKED.add(context)


def missing_on_workers(error: BaseException) -> SpillwayError | None:
    """The error of a task in a sentence, if it is that workers have no Python, no Spillway or no pyarrow."""
    said = str(error)
    if (program := _NO_PROGRAM.search(said)) is not None:
        return SpillwayError(_sentence(program[1], "does not run there"))
    if (module := _NO_MODULE.search(said)) is not None:
        return SpillwayError(_sentence("", _lacks([module[1]])))
    if _NO_PYARROW.search(said) is not None:
        return SpillwayError(_sentence("", _lacks(["pyarrow"])))
    return None


def _asked(
    interpreter: str, environment: dict[str, str], folder: str
) -> tuple[tuple[int, ...], Sequence[str]]:
    """The minor version of an interpreter, and the modules that it does not find.

    Raises:
        SpillwayError: It does not run.
    """
    try:
        done = subprocess.run(
            [interpreter, "-c", _ASK],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise SpillwayError(_sentence(interpreter, f"does not run: {error}")) from error
    return tuple(told["version"]), told["missing"]


def _environment(context: SparkContext) -> dict[str, str]:
    """The environment that Spark gives a worker: the JVM's, with the settings of executors over it."""
    from pyspark import SparkFiles

    inherited = {entry.getKey(): entry.getValue() for entry in _system(context).getenv().entrySet()}
    given: dict[str, str] = context.environment
    # Workers import from the folder of an application's files, too.
    paths = (given.get("PYTHONPATH"), inherited.get("PYTHONPATH"), SparkFiles.getRootDirectory())
    return {**inherited, **given, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _folder(context: SparkContext) -> str:
    folder: str = _system(context).getProperty("user.dir")
    return folder


def _system(context: SparkContext) -> Any:  # a class of Java
    return context._jvm.java.lang.System  # type: ignore[union-attr]  # noqa: SLF001 - there is no public way to the JVM


def _lacks(modules: Sequence[str]) -> str:
    return f"has no {' and no '.join(modules)}"


def _sentence(interpreter: str, what: str) -> str:
    name = f"the Python of Spark's workers{f', {interpreter},' if interpreter else ''}"
    return (
        f"{name} {what}: set PYSPARK_PYTHON to one that has Spillway and pyarrow before Spark starts, such "
        f"as {sys.executable} on this machine, or give executors an environment, as spillway.spark.pack does"
    )
