"""The Python of Spark's workers: what it lacks, told before the first task, and `pack`, which sends it.

`pack` makes an archive with Spillway for executors on which it is not installed. Errors of tasks that lack
something are told in a sentence, instead of by a traceback.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spillway.errors import MissingExtraError, OptionError, SpillwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["Packed", "check_workers", "missing_on_workers", "pack", "requirements"]

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


_log = logging.getLogger("spillway.spark.pack")

# The folder that executors unpack the archive into, below their working folder. A stray folder of this name
# in the driver's own would hide that an archive is missing, so it is a name that nobody else uses.
_FOLDER = "spillway-packed"
_MODULES = ("spillway", "pyspark_spillway")
# Spark's workers exchange batches by pyarrow alone; rows and pandas are not in the path of these batches.
_EXCHANGED_BY = "pyarrow"
# pyarrow's own tests and C++ headers are many files, and read by no executor; the others say where on this
# machine a package came from.
_UNUSED = frozenset({"tests", "include", "__pycache__", "direct_url.json", "uv_cache.json"})
_MANYLINUX = re.compile(r"manylinux_2_(\d+)_(\w+)")
_PYTHON = re.compile(r"3\.\d+")
# The oldest C library that pip is told of for a platform: wheels of this project are built for it.
_OLDEST_GLIBC = 17
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*")
# Most of it is machine code, which higher levels hardly make smaller, and somebody waits for the archive.
_LEVEL = 1


@dataclass(frozen=True)
class Packed:
    """An archive that `pack` wrote.

    Attributes:
        path: The archive, as an absolute path.
        folders: The folders on this machine that contain its modules.
        files: Number of files in the archive.
        bytes: Size of the archive.
    """

    path: Path
    folders: tuple[Path, ...]
    files: int
    bytes: int

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a Spark session that distribute the archive to executors.

        ``spark.archives`` unpacks it in the working folder of each executor, and
        ``spark.executorEnv.PYTHONPATH`` lets their Python find it there.
        """
        return {
            "spark.archives": f"{self.path.as_uri()}#{_FOLDER}",
            "spark.executorEnv.PYTHONPATH": f"./{_FOLDER}",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The environment for the driver's JVM: ``PYTHONPATH``, with absolute paths.

        To plan a write with ``format("spillway")``, Spark also starts Python on the driver: the interpreter
        of executors, in a folder without the archive.
        """
        inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        return {"PYTHONPATH": os.pathsep.join([*map(str, self.folders), *inherited])}


def pack(  # noqa: PLR0913 - what is packed, and for which machines
    path: str | os.PathLike[str],
    *,
    wheel: str | os.PathLike[str] | None = None,
    python: str | None = None,
    platform: str | None = None,
    also: Sequence[str] = (),
    say: Callable[[str], None] | None = None,
) -> Packed:
    """Pack Spillway and pyarrow into an archive for executors.

    Without a wheel, the installed Spillway and pyarrow are packed. Their modules are compiled for machines
    like this one: executors need the same processor architecture, the same minor version of Python, and a C
    library that is not older than the wheels require.

    With a wheel of Spillway, pip (or uv, if pip is missing) downloads the other packages from its package
    index, for the executors' Python and platform; nothing is installed on this machine. If pyarrow is
    installed here, the same version is downloaded.

    The archive appears at its path once it is complete. The same packages give the same bytes.

    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> packed = spillway.spark.pack("spillway.tar.gz")  # doctest: +SKIP
    >>> os.environ.update(packed.environment)  # doctest: +SKIP
    >>> SparkSession.builder.config(map=packed.settings).getOrCreate()  # doctest: +SKIP

    Args:
        path: The archive to write, ``.tar.gz``; an existing file is replaced.
        wheel: A wheel of Spillway for the executors.
        python: The executors' minor version of Python, such as ``"3.12"``; this Python's by default.
        platform: The executors' platform, as a wheel tag: ``"manylinux_2_28_aarch64"`` is Linux on 64-bit Arm
            with glibc 2.28 or later. By default this machine's.
        also: Other packages that executors need, such as ``"numpy"``: the names of installed packages, which
            are packed without their dependencies; with a wheel, any requirements, which are packed with their
            dependencies.
        say: Called with a line that says what the call is waiting for; by default, the line is logged.

    Raises:
        MissingExtraError: pyarrow, or a package in `also`, is not installed.
        OptionError: The name does not end in ``.tar.gz`` or ``.tgz``, which Spark needs to unpack it; or
            `wheel` is not a wheel of Spillway; or `python` or `platform` is not accepted, or there is no
            wheel for it.
        FileNotFoundError: The folder of the archive is missing, or the wheel is.
        SpillwayError: There is neither pip nor uv, or a package has no wheel for the executors.
    """
    say = say or _log.info
    destination = Path(path).absolute()
    if not destination.name.endswith((".tar.gz", ".tgz")):
        raise OptionError(
            f"{destination.name!r} does not end in .tar.gz or .tgz: Spark unpacks an archive by its name",
            option="path",
            accepted=(".tar.gz", ".tgz"),
        )
    if not destination.parent.is_dir():
        raise FileNotFoundError(f"{destination.parent} is not a folder: create it, or choose another one")
    if wheel is None:
        for name, value in (("python", python), ("platform", platform)):
            if value is not None:
                message = f"{name} needs a wheel of Spillway: pass wheel, or leave {name} out"
                raise OptionError(message, name)
        members = _members(also)
        return _packed(destination, members, _folders(members), say)
    with tempfile.TemporaryDirectory(prefix="spillway-pack-") as site:
        _install(Path(site), _checked(wheel), also, _target(python, platform), say)
        found: dict[str, Path] = {}
        for package in distributions(path=[site]):
            found.update(_of_distribution(package))
        return _packed(destination, found, _folders(_own()), say)


def _packed(
    destination: Path, members: dict[str, Path], folders: tuple[Path, ...], say: Callable[[str], None]
) -> Packed:
    say(f"packing {len(members)} files into {destination}; this takes a few seconds")
    started = time.monotonic()
    _write(destination, members)
    size = destination.stat().st_size
    say(f"packed {size / 1e6:.0f} MB after {time.monotonic() - started:.0f} s")
    return Packed(destination, folders, len(members), size)


def _folders(members: dict[str, Path]) -> tuple[Path, ...]:
    """The folders that modules are in, by their names below these."""
    return tuple(dict.fromkeys(Path(str(source)[: -len(name) - 1]) for name, source in members.items()))


@dataclass(frozen=True)
class _Target:
    """The executors' Python and platform.

    Args:
        python: The minor version of Python.
        glibc: The minor version of the C library; None for this machine's.
        architecture: The processor's, as tags of wheels have it; None for this machine's.
    """

    python: str
    glibc: int | None
    architecture: str | None

    def of_pip(self) -> list[str]:
        """The options of ``pip install``."""
        options = ["--python-version", self.python]
        if self.glibc is not None:
            # Older releases of pip know no tag of an older C library but those that they are given.
            tags = [
                f"manylinux_2_{minor}_{self.architecture}"
                for minor in range(self.glibc, _OLDEST_GLIBC - 1, -1)
            ]
            for tag in (*tags, f"manylinux2014_{self.architecture}"):
                options += ["--platform", tag]
        return options

    def of_uv(self) -> list[str]:
        """The options of ``uv pip install``."""
        options = ["--python-version", self.python]
        if self.glibc is not None:
            options += ["--python-platform", f"{self.architecture}-manylinux_2_{self.glibc}"]
        return options

    def __str__(self) -> str:
        on = "this machine" if self.glibc is None else f"{self.architecture} with glibc 2.{self.glibc}"
        return f"Python {self.python} on {on}"


def _target(python: str | None, platform: str | None) -> _Target:
    """Check the names of a Python and a platform.

    Raises:
        OptionError: One is not accepted.
    """
    if python is not None and _PYTHON.fullmatch(python) is None:
        raise OptionError(
            f'python={python!r} is not accepted: give a minor version, such as "3.12"', "python"
        )
    match = None if platform is None else _MANYLINUX.fullmatch(platform)
    if platform is not None and (match is None or int(match[1]) < _OLDEST_GLIBC):
        raise OptionError(
            f"platform={platform!r} is not accepted: give the tag of wheels for Linux with glibc "
            f'2.{_OLDEST_GLIBC} or later, such as "manylinux_2_28_x86_64" or "manylinux_2_28_aarch64"',
            "platform",
        )
    own = ".".join(map(str, sys.version_info[:2]))
    return _Target(python or own, int(match[1]) if match else None, match[2] if match else None)


def _checked(wheel: str | os.PathLike[str]) -> Path:
    """The path of a wheel of this project.

    Raises:
        OptionError: It is another file.
        FileNotFoundError: It is not there.
    """
    path = Path(wheel).absolute()
    if not (path.name.startswith("spillway-") and path.name.endswith(".whl")):
        raise OptionError(f"wheel={str(wheel)!r} is not a wheel of Spillway: give spillway-....whl", "wheel")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: build it with `make dist`, or download it")
    return path


def _install(
    site: Path, wheel: Path, also: Sequence[str], target: _Target, say: Callable[[str], None]
) -> None:
    """Install a wheel and what executors need with it into a folder.

    Raises:
        SpillwayError: There is no installer, or it failed.
    """
    try:
        pyarrow = f"{_EXCHANGED_BY}=={version(_EXCHANGED_BY)}"
    except PackageNotFoundError:
        pyarrow = _EXCHANGED_BY
    say(f"getting {', '.join([pyarrow, *also])} for {target}")
    command = [*_installer(target), "--quiet", "--only-binary", ":all:", "--target", str(site)]
    done = subprocess.run([*command, str(wheel), pyarrow, *also], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[-1000:]
        raise SpillwayError(f"the packages for {target} could not be downloaded: {said}")


def _installer(target: _Target) -> list[str]:
    """The command of pip, or of uv, that installs for a target.

    Raises:
        SpillwayError: Neither pip nor uv is installed.
    """
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-compile", *target.of_pip()]
    uv = [sys.executable, "-m", "uv"] if find_spec("uv") is not None else [shutil.which("uv") or ""]
    if uv == [""]:
        raise SpillwayError(
            f"neither pip nor uv is installed, and one of them is needed to download pyarrow for "
            f"{target}: {sys.executable} -m "
            "ensurepip installs pip"
        )
    return [*uv, "pip", "install", "--python", sys.executable, *target.of_uv()]


def requirements(names: Sequence[str]) -> list[str]:
    """Installed packages with all that they need, for `pack`; extras are not followed.

    Raises:
        MissingExtraError: One of the given packages is not installed.
    """
    found: dict[str, None] = {}
    left = list(names)
    while left:
        name = left.pop(0)
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError as error:
            if name in names:
                raise MissingExtraError(name, "bench", "send it to executors") from error
            continue  # for another platform or Python
        found[name] = None
        for requirement in package.requires or ():
            needed, _, marker = requirement.partition(";")
            if "extra" not in marker and (match := _PACKAGE.match(needed.strip())):
                left.append(match[0])
    return list(found)


def _members(also: Sequence[str]) -> dict[str, Path]:
    """The files by their names in the archive: this project's first."""
    found = dict(_of_modules())
    for name in (_EXCHANGED_BY, *also):
        try:
            needed = distribution(name)
        except PackageNotFoundError as error:
            raise MissingExtraError(name, "spark", "write from Spark's executors") from error
        found.update(_of_distribution(needed))
    return found


def _own() -> dict[str, Path]:
    """The files of this project's modules and of pyarrow, as far as they are installed here."""
    found = dict(_of_modules())
    with contextlib.suppress(PackageNotFoundError):
        found.update(_of_distribution(distribution(_EXCHANGED_BY)))
    return found


def _of_modules() -> Iterator[tuple[str, Path]]:
    """The files of this project's modules: those that were imported, however they were installed."""
    for module in _MODULES:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin).absolute()
        top = origin.parent if spec.submodule_search_locations else origin
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            name = file.relative_to(top.parent)
            if file.is_file() and not _UNUSED & set(name.parts):
                yield name.as_posix(), file


def _of_distribution(package: Distribution) -> Iterator[tuple[str, Path]]:
    """The files of an installed package, by its record, without programs beside the modules."""
    for file in package.files or ():
        located = Path(str(package.locate_file(file)))
        is_module = not {"..", "bin"} & set(file.parts[:1]) and not _UNUSED & set(file.parts)
        if is_module and located.is_file():
            yield file.as_posix(), located


def _write(destination: Path, members: dict[str, Path]) -> None:
    """Write the archive beside its destination, and move it there when it is complete."""
    number, name = tempfile.mkstemp(prefix=f".{destination.name}.", dir=destination.parent)
    try:
        with os.fdopen(number, "wb") as file:
            # Neither the archive nor its members hold a time or a user.
            with (
                gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packer,
                tarfile.open(fileobj=packer, mode="w", format=tarfile.PAX_FORMAT) as archive,
            ):
                for member, source in sorted(members.items()):
                    _add(archive, member, source)
            os.fchmod(file.fileno(), 0o644)
        Path(name).replace(destination)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _add(archive: tarfile.TarFile, member: str, source: Path) -> None:
    info = tarfile.TarInfo(member)
    info.size = source.stat().st_size
    info.mode = 0o644
    with source.open("rb") as content:
        archive.addfile(info, content)
