"""The archive that brings Spillway to executors on which it is not installed."""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import re
import tarfile
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Packed", "pack", "requirements"]

_log = logging.getLogger(__name__)

# The folder that executors unpack the archive into, below their working folder. A stray folder of this name
# in the driver's own would hide that an archive is missing, so it is a name that nobody else uses.
_FOLDER = "spillway-packed"
_MODULES = ("spillway", "pyspark_spillway")
# Spark's workers exchange batches by pyarrow alone; rows and pandas are not in the path of these batches.
_NEEDED = "pyarrow"
# pyarrow's own tests and C++ headers are many files, and read by no executor.
_UNUSED = frozenset({"tests", "include", "__pycache__"})
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*")
# Most of it is machine code, which higher levels hardly make smaller, and somebody waits for the archive.
_LEVEL = 1


@dataclass(frozen=True)
class Packed:
    """An archive of `pack`.

    Attributes:
        path: The archive, as an absolute path.
        folders: The folders that its modules were found in, on this machine.
        files: Files in the archive.
        bytes: Size of the archive.
    """

    path: Path
    folders: tuple[Path, ...]
    files: int
    bytes: int

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a Spark session whose executors get the archive.

        ``spark.archives`` unpacks it in the working folder of each executor, and
        ``spark.executorEnv.PYTHONPATH`` lets their Python find it there.
        """
        return {
            "spark.archives": f"{self.path.as_uri()}#{_FOLDER}",
            "spark.executorEnv.PYTHONPATH": f"./{_FOLDER}",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which the driver's JVM has to start: ``PYTHONPATH``, with absolute paths.

        To plan a write by ``format("spillway")``, Spark starts Python on the driver too: the interpreter that
        executors have, in a folder where no archive is unpacked.
        """
        inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        return {"PYTHONPATH": os.pathsep.join([*map(str, self.folders), *inherited])}


def pack(
    path: str | os.PathLike[str], *, also: Sequence[str] = (), say: Callable[[str], None] | None = None
) -> Packed:
    """Pack this Spillway, and the pyarrow that it finds, into an archive for executors.

    Its modules are compiled for machines like this one: executors need the same processor architecture, the
    same minor version of Python, and a C library that is not older than the wheels ask for. The archive
    appears at its path when it is complete. The same packages make the same bytes.

    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> packed = spillway.spark.pack("spillway.tar.gz")  # doctest: +SKIP
    >>> os.environ.update(packed.environment)  # doctest: +SKIP
    >>> SparkSession.builder.config(map=packed.settings).getOrCreate()  # doctest: +SKIP

    Args:
        path: The archive to write, ``.tar.gz``; what is there already is replaced.
        also: Names of other installed packages that executors need, such as ``"numpy"``; not what those need.
        say: Told in one line what is being waited for; by default the log is.

    Raises:
        MissingExtraError: pyarrow, or one of the others, is not installed.
        OptionError: The name does not end in ``.tar.gz`` or ``.tgz``, by which Spark knows how to unpack it.
        FileNotFoundError: The folder of the archive is missing.
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
        raise FileNotFoundError(f"{destination.parent} is no folder: create it, or pack into another one")
    members = _members(also)
    say(f"packing {len(members)} files into {destination}; this takes some seconds")
    started = time.monotonic()
    _write(destination, members)
    size = destination.stat().st_size
    say(f"packed {size / 1e6:.0f} MB after {time.monotonic() - started:.0f} s")
    folders = dict.fromkeys(Path(str(source)[: -len(name) - 1]) for name, source in members.items())
    return Packed(destination, tuple(folders), len(members), size)


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
    for name in (_NEEDED, *also):
        try:
            needed = distribution(name)
        except PackageNotFoundError as error:
            raise MissingExtraError(name, "spark", "write from Spark's executors") from error
        found.update(_of_distribution(needed))
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
        if ".." not in file.parts and not _UNUSED & set(file.parts) and located.is_file():
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
