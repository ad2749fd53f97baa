"""The storage of a folder of files: what a job does there, in the same calls locally and in a store."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from spillway import _native
from spillway.errors import OptionError
from spillway.spark.location import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

__all__ = ["MARK", "SINK", "STAGING", "Entry", "FolderStorage"]

#: The folder of jobs inside the destination. Spark, pyarrow and Hive read no folder that begins with `_`.
#: `_temporary` is Hadoop's: its committer removes that whole folder when a job of Spark's own ends.
STAGING = "_spillway_jobs"
#: The file that is in a job's folder while the job is under way.
MARK = "_job"
#: The folder of manifests of micro-batches inside the destination. Readers skip folders that begin with `_`.
SINK = "_spillway_sink"

_Answer = TypeVar("_Answer")

_THREADS = 16
#: Times that a folder is removed in which an attempt may still make files.
_TRIES = 5
#: Errors of file systems without hard links, such as some network mounts.
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class Entry(NamedTuple):
    """Something that is in a folder.

    Attributes:
        name: Its name, relative to the root.
        kind: The kind; a link is local, whatever it leads to.
        size: Bytes of a file.
    """

    name: str
    kind: Literal["file", "folder", "link"]
    size: int


class FolderStorage:
    """A folder that files are written to. Names are relative to it, with ``/`` between their parts.

    Args:
        path: An absolute path, or the URL of a prefix of an object store.
        storage_options: Settings and credentials of the object store.

    Raises:
        OptionError: The URL does not name an object store, or an option is unknown; or there are options, and
            the folder is a path.

    Attributes:
        root: The path or URL.
        objects: The prefix of the object store; None for a path of this machine.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None) -> None:
        self.root = path
        self._options = dict(storage_options or {})
        if self._options and is_local(path):
            message = (
                f"storage_options only apply to object store URLs, and {path} is a local path: remove them"
            )
            raise OptionError(message, "storage_options")
        self.objects = None if is_local(path) else _native.ObjectFolder(path, self._options)

    def __str__(self) -> str:
        return self.root

    @property
    def is_local(self) -> bool:
        """True for a path of this machine."""
        return self.objects is None

    def exists(self) -> bool:
        """Return True if the folder exists; in a store, if it contains anything."""
        return Path(self.root).exists() if self.objects is None else self.objects.exists("")

    def has(self, name: str) -> bool:
        """Return True if there is a file of this name."""
        if self.objects is None:
            return Path(self._path(name)).is_file()
        return self.objects.sizes([name]) != [None]

    def present(self, names: Sequence[str]) -> list[str]:
        """Return those names of which there is a file."""
        if self.objects is None:
            return [name for name in names if Path(self._path(name)).is_file()]
        sizes = self.objects.sizes(list(names))
        return [name for name, size in zip(names, sizes, strict=True) if size is not None]

    def any_of(self, names: Sequence[str]) -> list[str]:
        """Return those names of which there is a file or a folder."""
        if self.objects is None:
            return [name for name in names if Path(self._path(name)).exists()]
        found = self._at_once(self.objects.exists, names)
        return [name for name, is_there in zip(names, found, strict=True) if is_there]

    def listed(
        self, folder: str = "", *, recursive: bool = False, enters: Callable[[str], bool] | None = None
    ) -> list[Entry]:
        """Return the entries of a folder; none if it does not exist.

        A link below the root is one entry, and its target is not listed, because it is not part of the
        folder.

        Args:
            folder: The folder; without it, the root, which may be a link.
            recursive: True to list subfolders recursively. In a store, the subfolders themselves are then not
                listed, except those with an object as their marker.
            enters: Says for the name of a folder if it is looked into. An object store is listed whole.
        """
        if self.objects is None:
            return list(_entries(Path(self.root), folder, enters or (lambda _: True), recursive=recursive))
        folders: list[str] = []
        if recursive:
            found = self.objects.list(folder)
        else:
            found, folders = self.objects.children(folder)
        inside = f"{folder}/" if folder else ""
        entries = [Entry(inside + name, "folder", 0) for name in folders]
        entries += [Entry(inside + name, "file", size) for name, size, _ in found if name]
        return _with_marks(self.objects, entries)

    def read(self, name: str) -> bytes:
        """Return a whole file."""
        if self.objects is None:
            return Path(self._path(name)).read_bytes()
        (body,) = self.objects.read([name])
        if body is None:
            raise _missing(self._path(name))
        return body

    def mark(self, name: str) -> None:
        """Make an empty file, with the folders that it lies in."""
        if self.objects is not None:
            self.objects.write(name, b"")
            return
        path = Path(self._path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")

    def create_once(self, name: str, content: bytes) -> bool:
        """Create a file atomically, unless it exists; return False if it does.

        A store decides by a conditional PUT, a local file system by a hard link. Where there are no hard
        links, two that make the file at once may both believe that they did. It survives a power cut.

        Args:
            name: The name of the file.
            content: Unique bytes: if the response of a store is lost, they show who wrote the file.

        Raises:
            OSError: It is uncertain who created the file, or the store replaces objects that it should only
                create.
        """
        if self.is_local:
            is_new = _linked_once(Path(self._path(name)), content)
            self.sync_folders([name])
            return is_new
        return _native.create_object(self.root, name, content, self._options)

    def move(self, places: Mapping[str, str]) -> None:
        """Move local files to other names."""
        for folder in {place.rpartition("/")[0] for place in places.values()}:
            Path(self._path(folder)).mkdir(parents=True, exist_ok=True)
        self._at_once(lambda name: Path(self._path(name)).replace(self._path(places[name])), list(places))

    def sync_folders(self, names: Iterable[str]) -> None:
        """Make the names of local files, or their removal, survive a power cut.

        Their contents are synced by who writes them. An object store needs neither.

        Args:
            names: Names of files, which are in their folders or were moved or removed from them.
        """
        if not self.is_local:
            return
        root = Path(self.root).absolute()
        folders = {root}
        for name in names:
            folders.update(root.joinpath(above) for above in PurePosixPath(name).parents)
        self._at_once(_sync_folder, sorted(map(str, folders)))
        # Parent folders may be new as well. Those of other users may not be readable.
        with contextlib.suppress(PermissionError):
            for above in root.parents:
                _sync_folder(str(above))

    def copy(self, places: Mapping[str, str]) -> None:
        """Copy objects of a store to other names, several at a time; existing objects are replaced.

        Raises:
            FileNotFoundError: An object is gone.
            OSError: The store refuses or does not answer. Any of the copies may be there.
        """
        assert self.objects is not None  # noqa: S101 - local files are moved
        self.objects.copy(list(places.items()))

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and locally the folders that are then empty; a missing file is not an error.

        A local file also counts as missing if a folder below the root has become a link.
        """
        if self.objects is not None:
            for _, error in self.objects.delete(list(names)):
                raise error
            return
        self._at_once(lambda name: _unlink_below(self.root, name), names)
        self._remove_empty({Path(self._path(name)).parent for name in names})

    def discard(self, names: Sequence[str]) -> dict[str, OSError]:
        """Remove files of one's own as far as that can be done; return the errors of those that stay."""
        if self.objects is not None:
            return dict(self.objects.delete(list(names)))
        failed: dict[str, OSError] = {}

        def discard(name: str) -> None:
            try:
                Path(self._path(name)).unlink(missing_ok=True)
            except OSError as error:
                failed[name] = error

        self._at_once(discard, names)
        self._remove_empty({Path(self._path(name)).parent for name in names})
        return failed

    def remove_but(self, folder: str, keep: Collection[str]) -> None:
        """Remove the files of a folder but those to keep, and local folders in which nothing is left."""
        found = self.listed(folder, recursive=True)
        strays = [each.name for each in found if each.kind == "file" and each.name not in keep]
        self.remove(strays)
        folders = [each.name for each in found if each.kind == "folder"]
        self.remove_if_empty(*sorted(folders, key=len, reverse=True), folder)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with its contents. Locally, attempts may still create files there meanwhile.

        Raises:
            OSError: Something is left.
        """
        if self.objects is not None:
            self.remove([each.name for each in self.listed(folder, recursive=True)])
            return
        local = Path(self._path(folder))
        for _ in range(_TRIES - 1):
            shutil.rmtree(local, ignore_errors=True)
            if not local.exists():
                return
        shutil.rmtree(local)

    def remove_if_empty(self, *folders: str) -> None:
        """Remove local folders in which nothing is left."""
        for folder in folders if self.is_local else ():
            with contextlib.suppress(OSError):
                Path(self._path(folder)).rmdir()

    def _remove_empty(self, folders: Iterable[Path]) -> None:
        """Remove folders in which nothing is left, and those above that only they were in."""
        root = Path(self.root)
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            for above in (folder, *folder.parents):
                if above == root or not above.is_relative_to(root):
                    break
                try:
                    above.rmdir()
                except OSError:
                    break

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    @staticmethod
    def _at_once(work: Callable[[str], _Answer], names: Sequence[str]) -> list[_Answer]:
        """Do the same to many files, some at a time; raise what the first failure raised."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(work, names))


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _with_marks(objects: _native.ObjectFolder, entries: Sequence[Entry]) -> list[Entry]:
    """Tell empty objects whose keys end in a slash from files: consoles and Hadoop mark folders so."""
    empty = [each.name for each in entries if each.kind == "file" and not each.size]
    sizes = objects.sizes(empty)
    # The listing leaves the slash out, and nothing has the name without it.
    marks = {name for name, size in zip(empty, sizes, strict=True) if size is None}
    return [each._replace(kind="folder") if each.name in marks else each for each in entries]


def _entries(root: Path, top: str, enters: Callable[[str], bool], *, recursive: bool) -> Iterator[Entry]:
    """Yield the contents of a local folder, without following a link below the root."""
    parts = PurePosixPath(top).parts
    above = (root.joinpath(*parts[:number]) for number in range(1, len(parts) + 1))
    if any(folder.is_symlink() for folder in above):
        return
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            found = list(os.scandir(root / folder))
        except FileNotFoundError:
            continue
        for each in found:
            name = f"{folder}/{each.name}" if folder else each.name
            if each.is_symlink():
                yield Entry(name, "link", 0)
            elif each.is_dir(follow_symlinks=False):
                yield Entry(name, "folder", 0)
                if recursive and enters(name):
                    waiting.append(name)
            else:
                with contextlib.suppress(FileNotFoundError):
                    yield Entry(name, "file", each.stat(follow_symlinks=False).st_size)


def _unlink_below(root: str, name: str) -> None:
    """Remove a file below a local folder, unless it is behind a link to a folder, or gone."""
    *folders, last = PurePosixPath(name).parts
    flags = os.O_RDONLY | os.O_DIRECTORY
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        held = os.open(root, flags)
        try:
            for folder in folders:
                # With O_DIRECTORY, a link is no folder.
                inner = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=held)
                os.close(held)
                held = inner
            os.unlink(last, dir_fd=held)
        finally:
            os.close(held)


def _sync_folder(folder: str) -> None:
    """Sync a folder, unless it is gone."""
    with contextlib.suppress(FileNotFoundError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(held)
        finally:
            os.close(held)


def _linked_once(path: Path, content: bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A rename would replace what is there.
            os.link(new, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return True
