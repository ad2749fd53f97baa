"""Destinations of files: a path, a URL, a file object, or a path on a file system of pyarrow or fsspec."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "ArrowFileSystem",
    "Destination",
    "FsspecFileSystem",
    "naming_modes",
    "open_on",
    "resolve",
    "resolve_folder",
]

#: Schemes whose objects the native module writes itself.
OBJECT_STORES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")
_SCHEMES = {*OBJECT_STORES, "file", "dbfs", "gcs", "hdfs", "s3n", "viewfs", "wasb", "wasbs"}


#: Methods of a file system of fsspec by which its `rm_file` works.
_REMOVERS = ("rm_file", "_rm", "_rm_file")


@runtime_checkable
class ArrowFileSystem(Protocol):
    """The methods of a ``pyarrow.fs.FileSystem`` that are called."""

    def open_output_stream(self, path: str, /, *, compression: str | None) -> Any:
        """Open a file for writing."""

    def move(self, source: str, destination: str, /) -> None:
        """Rename a file over another."""

    def delete_file(self, path: str, /) -> None:
        """Remove a file."""


@runtime_checkable
class FsspecFileSystem(Protocol):
    """The methods of an ``fsspec.AbstractFileSystem`` that are called."""

    def open(self, path: str, mode: str, /, **options: Any) -> Any:
        """Open a file."""

    def mv(self, source: str, destination: str, /) -> None:
        """Rename a file over another."""

    def cp_file(self, source: str, destination: str, /) -> None:
        """Copy a file over another."""

    def rm_file(self, path: str, /) -> None:
        """Remove a file."""


class Destination:
    """A file that the native writer fills and then lets appear, or not.

    Args:
        file: An open file with ``write()`` and ``close()``.
        appear: Makes the file, which is closed by then, appear at its path.
        remove: Removes what was written.
    """

    def __init__(self, file: Any, appear: Callable[[], object], remove: Callable[[], object]) -> None:
        self._file = file
        self._appear = appear
        self._remove = remove

    def write(self, data: bytes, /) -> int | None:
        """Take bytes; say how many, or nothing for all."""
        written: int | None = self._file.write(data)
        return written

    def commit(self) -> None:
        """Make the file appear."""
        self._file.close()
        self._appear()

    def discard(self) -> None:
        """Remove what was written, as far as the file system lets."""
        with contextlib.suppress(Exception):
            self._remove()


def resolve(
    destination: object,
    filesystem: ArrowFileSystem | FsspecFileSystem | None,
    storage_options: Mapping[str, str] | None,
) -> tuple[object, dict[str, str] | None]:
    """Decide what a writer's destination means.

    Args:
        destination: A path, a URL or an object with ``write()``.
        filesystem: The file system that the path is on, if it is not the machine's own.
        storage_options: Settings and credentials of an object store.

    Returns:
        What the native writer takes, which is a path, a URL, a file object or a `Destination`, and the
        options of a URL.

    Raises:
        OptionError: The arguments contradict each other, or nothing writes to such a URL.
        TypeError: An argument has another type.
        OSError: The path is empty or has a NUL character.
    """
    if not isinstance(destination, (str, os.PathLike)):
        if not callable(getattr(destination, "write", None)):
            message = (
                f"destination must be a path or an object with write(), not {type(destination).__name__}"
            )
            raise TypeError(message)
        if filesystem is not None or storage_options is not None:
            raise OptionError(
                "filesystem and storage_options need a path or URL, and destination is a file "
                "object: leave them out"
            )
        return destination, None
    place = os.fsdecode(os.fspath(destination))
    check_path(place, "destination")
    if filesystem is not None:
        if storage_options is not None:
            raise OptionError(
                "storage_options need a URL: pass the credentials to the filesystem when you create it"
            )
        return open_on(filesystem, place), None
    place = _with_slashes(place, "destination")
    scheme, separator, rest = place.partition("://")
    if separator and scheme.lower() == "file":
        place, separator = local_path(rest), ""
    if separator:
        return _url(place, scheme), _settings(storage_options)
    if storage_options is not None:
        raise OptionError(f"storage_options need a URL, and {place!r} is a path: leave them out")
    return place, None


@contextlib.contextmanager
def naming_modes(mode: str) -> Iterator[None]:
    """Adds to the error of a folder that is not empty which modes write to it all the same."""
    try:
        yield
    except FileExistsError as error:
        if mode == "error":
            error.add_note('mode="append" adds files to it, and mode="overwrite" replaces those of a dataset')
        raise


def resolve_folder(
    place: object, storage_options: Mapping[str, str] | None, name: str
) -> tuple[str, dict[str, str] | None]:
    """Decide what the location of a dataset or of a table means.

    Args:
        place: A path, or the URL of an object store.
        storage_options: Settings and credentials of the object store.
        name: The name of the argument.

    Returns:
        The path or the URL, and the options of a URL.

    Raises:
        OptionError: The arguments contradict each other, or it is another URL.
        TypeError: It is something else.
        OSError: The path is empty or has a NUL character.
    """
    if not isinstance(place, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path or a URL, not {type(place).__name__}")
    path = os.fsdecode(os.fspath(place))
    check_path(path, name)
    path = _with_slashes(path, name)
    scheme, separator, rest = path.partition("://")
    if separator and scheme.lower() in OBJECT_STORES:
        return path, _settings(storage_options)
    if storage_options is not None:
        given = f"{scheme}://" if separator else repr(path)
        message = f"storage_options need the URL of an object store, and {given} is not one: leave them out"
        raise OptionError(message, "storage_options")
    if separator and scheme.lower() == "file":
        return local_path(rest), None
    if separator:
        # The rest may hold a password or a signature.
        message = f"{scheme}:// is not accepted: choose a path, or s3://, gs://, az://, abfss:// or file://"
        raise OptionError(message, name)
    return path, None


def _with_slashes(path: str, name: str) -> str:
    """Refuse ``s3:/bucket`` and ``dbfs:/mnt``, which would be folders below the working directory.

    The first is what a path object makes of a URL, the second how Spark and Hadoop write some of theirs.
    ``file:/tmp`` is ``file:///tmp``.
    """
    scheme, separator, rest = path.partition(":/")
    if not separator or rest.startswith("/") or scheme.lower() not in _SCHEMES:
        return path
    if scheme.lower() == "file":
        return f"file:///{rest}"
    advice = "choose a path, or the URL of an object store"
    if scheme.lower() in OBJECT_STORES:
        advice = f"pass {scheme}://, as a string"
    raise OptionError(f"{scheme}:/ is not accepted: {advice}", name)


def _settings(storage_options: object) -> dict[str, str]:
    if storage_options is None:
        return {}
    if not isinstance(storage_options, Mapping):
        found = type(storage_options).__name__
        raise TypeError(f'storage_options must be a dict such as {{"AWS_REGION": "eu-west-1"}}, not {found}')
    return dict(storage_options)


def check_path(path: str, what: str) -> None:
    """Refuse what is no path on any system.

    Raises:
        OSError: It is empty, or has a NUL character.
    """
    if not path:
        raise OSError(f"{what} is an empty text, and a path is expected: give the path to write to")
    if "\0" in path:
        raise OSError(f"{what} {path!r} has a NUL character, which no path may have: remove it")


def _url(url: str, scheme: str) -> str:
    if scheme.lower() in OBJECT_STORES:
        return url
    message = (
        f"destination begins with {scheme}://, which is not accepted: choose s3://, gs://, az://, abfss:// "
        "or file://, or pass filesystem= of pyarrow or fsspec with the path on it"
    )
    raise OptionError(message)


def local_path(rest: str) -> str:
    """Return the path that a ``file://`` URL names.

    Args:
        rest: The part of the URL behind ``file://``.

    Raises:
        OptionError: It names another machine.
    """
    from urllib.parse import unquote  # noqa: PLC0415 - a path needs none of it

    host, separator, path = rest.partition("/")
    if not separator or host not in {"", "localhost"}:
        raise OptionError(f"file://{rest} does not name a file on this machine: write file:///path/to/file")
    return "/" + unquote(path)


def _local(filesystem: object, path: str) -> str | None:
    """Return the path on this machine that `path` on a file system means, if it is one of this machine's.

    The native module writes it then: it gives a new file the mode and the owner of the one that it replaces.
    """
    inner: Any = filesystem
    match _kind(filesystem):
        case "pyarrow._fs.LocalFileSystem":
            return path
        case "pyarrow._fs.SubTreeFileSystem":
            base = inner.base_path.rstrip("/")
            return _local(inner.base_fs, f"{base}/{path}" if inner.base_path else path)
        case "fsspec.implementations.local.LocalFileSystem":
            place: str = inner._strip_protocol(path)  # noqa: SLF001 - each of its own methods begins with it
            if inner.auto_mkdir:
                inner.makedirs(inner._parent(place), exist_ok=True)  # noqa: SLF001 - as its `open` does
            return place
        case "fsspec.implementations.dirfs.DirFileSystem":
            # It refuses a path that leads out of its folder.
            return _local(inner.fs, inner._join(path))  # noqa: SLF001 - as its `open` does
    return None


def _kind(filesystem: object) -> str:
    return f"{type(filesystem).__module__}.{type(filesystem).__qualname__}"


def _of_fsspec(filesystem: Any) -> Any:
    """Return the file system of fsspec behind a handler of pyarrow, which takes brackets for patterns."""
    handler: Any = getattr(filesystem, "handler", None)
    return handler.fs if _kind(handler) == "pyarrow.fs.FSSpecHandler" else filesystem


def _unwrapped(filesystem: Any) -> Any:
    """Return the file system that fsspec's view of one of its folders delegates to."""
    while _kind(filesystem) == "fsspec.implementations.dirfs.DirFileSystem":
        filesystem = filesystem.fs
    return filesystem


def open_on(filesystem: object, path: str) -> Destination | str:
    """Open a file on a file system of pyarrow or fsspec that appears when it is complete.

    It is written to a hidden sibling, which is moved; where an fsspec file can be held back by itself, as
    those of object stores can, it is.

    Args:
        filesystem: A ``pyarrow.fs.FileSystem`` or an ``fsspec.AbstractFileSystem``.
        path: The path on it.

    Returns:
        What the writer fills, or the path on this machine where the file system is of this machine.

    Raises:
        TypeError: `filesystem` has another type.
        OptionError: `path` names no file, or the file system can neither move files nor hold one back.
        ValueError: `path` leads out of the folder that a file system of fsspec shows.
        OSError: The file system returns an error.
    """
    if path.endswith("/") or not path:
        raise OptionError(f"destination {path!r} names no file: put its name after the last slash")
    filesystem = _of_fsspec(filesystem)
    local = _local(filesystem, path)
    if local is not None:
        return local
    if isinstance(filesystem, ArrowFileSystem):
        return _on_arrow(filesystem, path)
    if isinstance(filesystem, FsspecFileSystem):
        return _on_fsspec(filesystem, path)
    message = f"filesystem must be one of pyarrow.fs or fsspec, not {type(filesystem).__name__}"
    raise TypeError(message)


def _hidden_sibling(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    # A file system takes 255 bytes.
    short = name.encode(errors="surrogateescape")[:200].decode(errors="ignore")
    return f"{folder}{slash}.{short}.{secrets.token_hex(4)}.tmp"


def _is_a_folder(path: str) -> IsADirectoryError:
    """The error for a path with a folder at it: file systems would move the file into that folder."""
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _on_arrow(filesystem: ArrowFileSystem, path: str) -> Destination:
    about: Any = filesystem
    if about.get_file_info(path).type.name == "Directory":
        raise _is_a_folder(path)
    hidden = _hidden_sibling(path)
    file = filesystem.open_output_stream(hidden, compression=None)

    def remove() -> None:
        with contextlib.suppress(Exception):
            file.close()
        filesystem.delete_file(hidden)

    return Destination(file, lambda: filesystem.move(hidden, path), remove)


def _on_fsspec(filesystem: FsspecFileSystem, path: str) -> Destination:
    if getattr(filesystem, "_intrans", False) is True:
        raise OptionError(
            "filesystem is in a transaction, at whose end it would move what is not complete: write the file "
            "before the transaction begins or after it ends"
        )
    hidden = _hidden_sibling(path)
    # What cannot be removed must not be made: an entry of a ZIP archive stays once it is opened.
    if not _has(filesystem, *_REMOVERS, "rm"):
        raise _cannot_move(filesystem, path)
    # A local file held back lies in another folder, from which it may have to be copied.
    if getattr(_unwrapped(filesystem), "local_file", False):
        return _moved(filesystem, filesystem.open(hidden, "wb", autocommit=True), hidden, path)
    file = _open_uncommitted(filesystem, hidden)
    if not _can_be_held(file):
        destination = _moved(filesystem, file, hidden, path)
        if not _has(filesystem, "mv", "cp_file", "_cp_file"):
            destination.discard()
            raise _cannot_move(filesystem, path)
        return destination
    # The sibling only served to find that out.
    _discard(file)
    file = _open_uncommitted(filesystem, path)
    return Destination(file, file.commit, lambda: _discard(file))


def _open_uncommitted(filesystem: FsspecFileSystem, path: str) -> Any:
    file = filesystem.open(path, "wb", autocommit=False)
    # fsspec would commit it with the next transaction of whoever shares the file system.
    owner: Any = getattr(file, "fs", filesystem)
    with contextlib.suppress(AttributeError, ValueError):
        owner.transaction.files.remove(file)
    return file


def _can_be_held(file: Any) -> bool:
    """Return True if the file appears at its own `commit`, and not before."""
    commit = getattr(file, "commit", None)
    # The base class has a `commit` that does nothing.
    own = getattr(commit, "__module__", "fsspec.spec") != "fsspec.spec"
    return own and getattr(file, "autocommit", True) is False


def _discard(file: Any) -> None:
    file.discard()
    # Else the garbage collector closes it, which uploads what is left in its buffer.
    with contextlib.suppress(AttributeError):
        file.closed = True


def _has(filesystem: object, *methods: str) -> bool:
    """Return True if the file system has one of the methods itself, and not from fsspec's base classes."""
    own = _unwrapped(filesystem)
    found = (getattr(own, name, None) for name in methods)
    bases = {"fsspec.spec", "fsspec.asyn"}
    return any(method is not None and method.__module__ not in bases for method in found)


def _cannot_move(filesystem: object, path: str) -> OptionError:
    return OptionError(
        f'filesystem {type(filesystem).__name__} cannot move files, so "{path}" could not appear there when '
        f'it is complete: open it by filesystem.open("{path}", "wb") and pass that file without filesystem=; '
        "close it when the writer is closed"
    )


def _moved(filesystem: FsspecFileSystem, file: Any, hidden: str, path: str) -> Destination:
    about: Any = filesystem

    def appear() -> None:
        if about.isdir(path):
            raise _is_a_folder(path)
        if _has(filesystem, "mv"):
            filesystem.mv(hidden, path)
        else:
            # The base class's `mv` does this too, but would take a name with brackets for a pattern.
            filesystem.cp_file(hidden, path)
            filesystem.rm_file(hidden)

    def remove() -> None:
        with contextlib.suppress(Exception):
            file.close()
        remover: Any = filesystem
        (remover.rm_file if _has(filesystem, *_REMOVERS) else remover.rm)(hidden)

    return Destination(file, appear, remove)
