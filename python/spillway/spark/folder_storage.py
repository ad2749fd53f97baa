"""The storage of a folder of files: what a job does there, in calls that mean the same locally and on S3."""

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
from spillway.spark.location import is_local
from spillway.spark.storage import filesystem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

__all__ = ["Entry", "FolderStorage"]

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
        path: An absolute path, or ``s3://bucket/folder``.
        storage_options: Settings and credentials of the object store.

    Raises:
        OptionError: It is in an object store that folders of files are not written to.

    Attributes:
        files: Its file system.
        root: Its path there.
        is_local: True for a path of this machine.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None) -> None:
        self.files, self.root = filesystem_of(path, storage_options)
        self.is_local = is_local(path)
        self._url = path
        self._options = dict(storage_options or {})

    def __str__(self) -> str:
        return self._url

    def exists(self) -> bool:
        """Return True if the folder is there; on S3, if anything is in it."""
        from pyarrow import fs

        return bool(self.files.get_file_info(self.root).type != fs.FileType.NotFound)

    def has(self, name: str) -> bool:
        """Return True if there is a file of this name."""
        return bool(self.files.get_file_info(self._path(name)).is_file)

    def present(self, names: Sequence[str]) -> list[str]:
        """Return those names of which there is a file."""
        infos = self.files.get_file_info([self._path(name) for name in names]) if names else []
        return [name for name, info in zip(names, infos, strict=True) if info.is_file]

    def any_of(self, names: Sequence[str]) -> list[str]:
        """Return those names of which there is a file or a folder."""
        from pyarrow import fs

        found = self._at_once(lambda name: self.files.get_file_info(self._path(name)).type, names)
        return [name for name, kind in zip(names, found, strict=True) if kind != fs.FileType.NotFound]

    def listed(
        self, folder: str = "", *, recursive: bool = False, enters: Callable[[str], bool] | None = None
    ) -> list[Entry]:
        """Return what is in a folder; nothing where there is none.

        A link below the root is one entry, and nothing behind it is listed: it belongs to somebody else.

        Args:
            folder: The folder; without it, the root, which may be a link.
            recursive: True if what is in its folders is listed, too.
            enters: Says for the name of a folder if it is looked into. An object store is listed whole.
        """
        if self.is_local:
            return list(_entries(Path(self.root), folder, enters or (lambda _: True), recursive=recursive))
        from pyarrow import fs

        selector = fs.FileSelector(self._path(folder), allow_not_found=True, recursive=recursive)
        infos = self.files.get_file_info(selector)
        return [
            Entry(
                PurePosixPath(info.path).relative_to(self.root).as_posix(),
                "file" if info.is_file else "folder",
                info.size or 0,
            )
            for info in infos
        ]

    def read(self, name: str) -> bytes:
        """Return a whole file."""
        with self.files.open_input_stream(self._path(name)) as stream:
            return bytes(stream.read())

    def mark(self, name: str) -> None:
        """Make an empty file, with the folders that it lies in."""
        path = self._path(name)
        if self.is_local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with self.files.open_output_stream(path) as mark:
            mark.write(b"")

    def create_once(self, name: str, content: bytes) -> bool:
        """Make a file that appears whole, unless there is one; return False if there is.

        S3 decides by a conditional PUT, a local file system by a hard link. Where there are no hard links,
        two that make the file at once may both believe that they did.

        Args:
            name: The name of the file.
            content: Bytes that nobody else writes: where an answer of S3 is lost, they tell whose file it is.

        Raises:
            OSError: It is not certain who made the file, or S3 replaces what it should only create.
        """
        if self.is_local:
            return _linked_once(Path(self._path(name)), content)
        return _native.create_object(self._url, name, content, self._options)

    def move(self, places: Mapping[str, str]) -> None:
        """Move files to other names. On S3 they are copied, and then deleted."""
        if self.is_local:
            for folder in {place.rpartition("/")[0] for place in places.values()}:
                Path(self._path(folder)).mkdir(parents=True, exist_ok=True)
        self._at_once(lambda name: self.files.move(self._path(name), self._path(places[name])), list(places))

    def upload(self, scratch: Path, names: Sequence[str], folder: str) -> None:
        """Copy files of this machine into a folder, by their names."""
        from pyarrow import fs

        local = fs.LocalFileSystem()

        def upload(name: str) -> None:
            fs.copy_files(
                str(scratch / name),
                self._path(f"{folder}/{name}"),
                source_filesystem=local,
                destination_filesystem=self.files,
            )

        self._at_once(upload, names)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, and locally the folders that only they were in; one that is gone is no error.

        A local file is gone, too, if a folder below the root has become a link.
        """
        self._at_once(self._remove_listed, names)
        if self.is_local:
            self._remove_empty({Path(self._path(name)).parent for name in names})

    def discard(self, names: Sequence[str]) -> dict[str, OSError]:
        """Remove files of one's own as far as that can be done; return the errors of those that stay."""
        failed: dict[str, OSError] = {}

        def discard(name: str) -> None:
            try:
                self._remove_one(name)
            except OSError as error:
                failed[name] = error

        self._at_once(discard, names)
        if self.is_local:
            self._remove_empty({Path(self._path(name)).parent for name in names})
        return failed

    def _remove_listed(self, name: str) -> None:
        if self.is_local:
            _unlink_below(self.root, name)
        else:
            self._remove_one(name)

    def _remove_one(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.files.delete_file(self._path(name))

    def remove_but(self, folder: str, keep: Collection[str]) -> None:
        """Remove the files of a folder but those to keep, and local folders in which nothing is left."""
        found = self.listed(folder, recursive=True)
        strays = [each.name for each in found if each.kind == "file" and each.name not in keep]
        self._at_once(self._remove_listed, strays)
        folders = [each.name for each in found if each.kind == "folder"]
        self.remove_if_empty(*sorted(folders, key=len, reverse=True), folder)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder and all that is in it. Locally, attempts may still make files there meanwhile.

        Raises:
            OSError: Something is left.
        """
        if not self.is_local:
            with contextlib.suppress(FileNotFoundError):
                self.files.delete_dir(self._path(folder))
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


def _linked_once(path: Path, content: bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        new.write_bytes(content)
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
