"""Backends that are programs of any language: they read an Arrow IPC stream, and say what their write took.

A TOML file names them; ``$SPILLWAY_EXTERNAL`` lists such files, so that every measured process knows them.
The program reads all rows before its clock starts. It measures itself, because reading and writing cannot be
told apart from outside; its file is read back like any other.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

from spillway._parent import kill_with_parent
from spillway._wording import and_joined
from spillway.errors import OptionError, SpillwayError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from spillway.backends.protocol import Mode, Settings

_VARIABLE = "SPILLWAY_EXTERNAL"
_BYTES = ("baseline_bytes", "peak_bytes")
_NUMBERS = ("seconds", "user_seconds", "system_seconds", *_BYTES)
_NEEDED = ("rows", "version", *_NUMBERS)
_KEYS = ("command", "environment", "toolchain", "build")


@dataclass(frozen=True)
class Program:
    """A program that is a backend.

    Attributes:
        name: The backend's name.
        command: The program and its arguments; the program by its whole path.
        environment: Environment variables in addition to those of the bench.
        build: The command that builds it, if it has to be built.
        toolchain: The program without which it cannot be built.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    build: str | None
    toolchain: str | None

    @property
    def missing(self) -> str | None:
        """The reason why it cannot run, with what to do; None if it can."""
        if shutil.which(self.command[0]) is not None:
            return None
        if self.toolchain is not None and shutil.which(self.toolchain) is None:
            return f"{self.toolchain} is not on the path, which builds it: install it, then {self.build}"
        return f"it is not built: {self.build or Path(self.command[0]).name + ' is not there'}"


def programs() -> dict[str, Program]:
    """The programs of all TOML files that ``$SPILLWAY_EXTERNAL`` lists, by name.

    Raises:
        OptionError: A file cannot be read, says no command for a name, or has a key that is not known.
    """
    listed = os.environ.get(_VARIABLE, "")
    return {each.name: each for text in listed.split(os.pathsep) if text for each in _read(Path(text))}


def _read(path: Path) -> list[Program]:
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(
            f"--external {path}: {error}; give a TOML file with a table for each name"
        ) from error
    return [_program(path, name, table) for name, table in content.items()]


def _program(path: Path, name: str, table: Any) -> Program:
    unknown = [key for key in table if key not in _KEYS] if isinstance(table, dict) else []
    if unknown:
        raise OptionError(
            f"--external {path}: [{name}] has unknown keys, {and_joined(unknown)}: "
            f"choose from {and_joined(_KEYS)}"
        )
    command = table.get("command") if isinstance(table, dict) else None
    if not isinstance(command, list) or not command or not all(isinstance(each, str) for each in command):
        raise OptionError(f'--external {path}: [{name}] needs command = ["PROGRAM", "ARGUMENT", ...]')
    variables = table.get("environment", {})
    if not isinstance(variables, dict):
        raise OptionError(f'--external {path}: [{name}] needs environment = {{ NAME = "VALUE", ... }}')
    program, *arguments = command
    beside = path.parent.absolute() / program
    # A program with a folder in its name is beside the file; others are looked for on the path.
    first = str(beside) if os.sep in program else program
    return Program(
        name,
        (first, *arguments),
        {key: str(value) for key, value in variables.items()},
        table.get("build"),
        table.get("toolchain"),
    )


class External:
    """A backend that hands rows to a program and takes its figures."""

    modes: frozenset[Mode] = frozenset({"batches", "table"})

    def __init__(self, program: Program) -> None:
        self.name = program.name
        self._program = program
        self._last: _Sink | None = None

    def version(self) -> str:
        """The version that the program said of its library; unknown before its first write."""
        figures = self.own_figures()
        return "unknown" if figures is None else str(figures["version"])

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> _Sink:
        """Start the program."""
        self._last = _Sink(self._program, path, schema, settings)
        return self._last

    def own_figures(self) -> dict[str, Any] | None:
        """The figures that the program printed of the last write."""
        return None if self._last is None else self._last.figures


class _Sink:
    def __init__(self, program: Program, path: Path, schema: pa.Schema, settings: Settings) -> None:
        import pyarrow as pa

        self.figures: dict[str, Any] | None = None
        self._name, self._rows = program.name, 0
        self._printed = _scratch(path)
        self._errors = _scratch(path)
        self._process = subprocess.Popen(
            program.command,
            stdin=subprocess.PIPE,
            stdout=self._printed,
            stderr=self._errors,
            env={**os.environ, **program.environment, **_request(path, settings)},
            preexec_fn=kill_with_parent,  # noqa: PLW1509 - one call into the kernel, before any thread
        )
        try:
            self._writer = pa.ipc.new_stream(cast("Any", self._process.stdin), schema)
        except OSError:
            self._fail()

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        self._rows += data.num_rows
        try:
            self._writer.write(data)
        except OSError:
            self._fail()

    def close(self) -> None:
        try:
            self._writer.close()
            if self._process.stdin is not None:
                self._process.stdin.close()
        except OSError:
            self._fail()
        if self._process.wait() != 0:
            self._fail()
        with self._printed, self._errors:
            self._printed.seek(0)
            self.figures = _figures(self._name, self._printed.read().decode(errors="replace"), self._rows)

    def _fail(self) -> NoReturn:
        """Say how the program ended, in its own last words."""
        if self._process.stdin is not None:
            # What it did not read cannot be written any more.
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        status = self._process.wait()
        with self._printed, self._errors:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
        if status == -signal.SIGKILL:
            raise MemoryError(f"{self._name} was killed, as at a memory limit")
        raise SpillwayError(
            f"{self._name} ended with status {status}: {said[-1] if said else 'it printed nothing'}"
        )


def _scratch(path: Path) -> IO[bytes]:
    """A file without a name beside the output."""
    return tempfile.TemporaryFile(dir=path.parent)


def _request(path: Path, settings: Settings) -> dict[str, str]:
    """The variables that say what to write."""
    return {
        "SPILLWAY_OUTPUT": str(path),
        "SPILLWAY_CODEC": settings.codec,
        "SPILLWAY_LEVEL": "" if settings.level is None else str(settings.level),
        "SPILLWAY_ROW_GROUP_ROWS": str(settings.row_group_rows),
        "SPILLWAY_THREADS": str(settings.threads),
    }


def _figures(name: str, printed: str, rows: int) -> dict[str, Any]:
    """The program's line of figures, checked. Of figures that only it has, numbers alone are kept.

    Raises:
        SpillwayError: The output is not a line of figures.
    """
    try:
        found = json.loads(printed)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SpillwayError(
            f"{name} should have printed a JSON line of figures, but printed {printed[:200]!r}"
        )
    absent = [key for key in _NEEDED if key not in found]
    if absent:
        raise SpillwayError(f"{name}: the line of figures lacks {', '.join(absent)}")
    if found["rows"] != rows:
        raise SpillwayError(f"{name} says that it wrote {found['rows']!r} rows; it was given {rows:,}")
    for key in _NUMBERS:
        _require_number(name, key, found[key])
    # Some languages print every number with a fraction.
    whole = {key: round(found[key]) for key in _BYTES}
    return {key: value for key, value in found.items() if key in _NEEDED or _is_number(value)} | whole


def _require_number(name: str, key: str, value: Any) -> None:
    if _is_number(value) and (value > 0 if key == "seconds" else value >= 0):
        return
    least = "above 0" if key == "seconds" else "of at least 0"
    raise SpillwayError(f"{name} says {key!r}: {value!r}; it must print a number {least}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
