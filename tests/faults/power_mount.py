"""A file system in memory that notes each call, for a power cut to be drawn from them.

``python -m tests.faults.power_mount FOLDER BEFORE EVENTS`` mounts it at a folder, with what is in another
one. At the end it leaves the number of events before, and all of them. It needs ``mfusepy`` and libfuse 2,
and knows as much as writers ask of a file system.
"""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import stat
import sys
import time
from pathlib import Path
from typing import Any

import mfusepy as fuse

from .power import ROOT, Event, MakeNode, Name, Names, Sync, Told, Write, put, walk

#: A name that a program looks for when its operation is done.
TOLD = "told"


class Node:
    """A file or a folder that is there."""

    def __init__(self, number: int, mode: int) -> None:
        self.number = number
        self.mode = mode
        self.links = 0
        self.content = bytearray()
        self.names: dict[str, Node] = {}
        self.changed = time.time_ns()

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Volatile(fuse.Operations):
    """The file system."""

    use_ns = True

    def __init__(self, before: Path) -> None:
        self.events: list[Event] = []
        self._root = Node(ROOT, stat.S_IFDIR | 0o755)
        self._numbers = itertools.count(ROOT + 1)
        self._open: dict[int, Node] = {}
        self._handles = itertools.count(1)
        for path, is_folder in walk(before):
            name = f"/{path.relative_to(before)}"
            if is_folder:
                self.mkdir(name, 0o755)
                continue
            handle = self.create(name, 0o644)
            self.write(name, path.read_bytes(), 0, handle)
            self.fsync(name, 0, handle)
            self.release(name, handle)
        for path, is_folder in [(before, True), *walk(before)]:
            if is_folder:
                self.fsyncdir(f"/{path.relative_to(before)}", 0, 0)
        self.before = len(self.events)

    def _node(self, path: str) -> Node:
        node = self._root
        for name in path.split("/"):
            if name not in {"", "."}:
                if name not in node.names:
                    raise fuse.FuseOSError(errno.ENOENT)
                node = node.names[name]
        return node

    def _split(self, path: str) -> tuple[Node, str]:
        folder, _, name = path.rpartition("/")
        return self._node(folder), name

    def _rename(self, *changes: tuple[Node, str, Node | None]) -> None:
        for folder, name, node in changes:
            old = folder.names.pop(name, None)
            if old is not None:
                old.links -= 1
            if node is not None:
                folder.names[name] = node
                node.links += 1
            folder.changed = time.time_ns()
        made = (Name(folder.number, name, node and node.number) for folder, name, node in changes)
        self.events.append(Names(tuple(made)))

    def _make(self, path: str, mode: int) -> Node:
        folder, name = self._split(path)
        if name in folder.names:
            raise fuse.FuseOSError(errno.EEXIST)
        node = Node(next(self._numbers), mode)
        self.events.append(MakeNode(node.number, node.is_folder))
        self._rename((folder, name, node))
        return node

    def _opened(self, node: Node) -> int:
        handle = next(self._handles)
        self._open[handle] = node
        return handle

    def _of(self, path: str, handle: int | None) -> Node:
        return self._open[handle] if handle in self._open else self._node(path)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        if path == f"/{TOLD}":
            self.events.append(Told())
        node = self._of(path, fh)
        return {
            "st_ino": node.number,
            "st_mode": node.mode,
            "st_nlink": max(node.links, 1),
            "st_size": len(node.content),
            "st_mtime": node.changed,
            "st_ctime": node.changed,
            "st_atime": node.changed,
            "st_uid": os.getuid(),
            "st_gid": os.getgid(),
        }

    def readdir(self, path: str, _fh: int) -> list[tuple[str, dict[str, int], int]]:
        node = self._node(path)
        found = {".": node, "..": node, **node.names}
        return [(name, {"st_ino": each.number, "st_mode": each.mode}, 0) for name, each in found.items()]

    def mkdir(self, path: str, mode: int) -> int:
        self._make(path, stat.S_IFDIR | mode)
        return 0

    def create(self, path: str, mode: int, _fi: Any = None) -> int:
        return self._opened(self._make(path, stat.S_IFREG | stat.S_IMODE(mode)))

    def open(self, path: str, _flags: int) -> int:
        return self._opened(self._node(path))

    def opendir(self, path: str) -> int:
        return self._opened(self._node(path))

    def release(self, _path: str, fh: int) -> int:
        del self._open[fh]
        return 0

    def releasedir(self, _path: str, fh: int) -> int:
        del self._open[fh]
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._of(path, fh).content[offset : offset + size])

    def _write(self, node: Node, write: Write) -> None:
        put(node.content, write)
        node.changed = time.time_ns()
        self.events.append(write)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        node = self._of(path, fh)
        self._write(node, Write(node.number, offset, data))
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        node = self._of(path, fh)
        self._write(node, Write(node.number, length, None))
        return 0

    def fsync(self, path: str, _datasync: int, fh: int) -> int:
        self.events.append(Sync(self._of(path, fh).number))
        return 0

    def fsyncdir(self, path: str, _datasync: int, fh: int) -> int:
        self.events.append(Sync(self._of(path, fh).number))
        return 0

    def unlink(self, path: str) -> int:
        folder, name = self._split(path)
        self._node(path)
        self._rename((folder, name, None))
        return 0

    def rmdir(self, path: str) -> int:
        if self._node(path).names:
            raise fuse.FuseOSError(errno.ENOTEMPTY)
        return self.unlink(path)

    def rename(self, old: str, new: str) -> int:
        node, (source, name), (to, new_name) = self._node(old), self._split(old), self._split(new)
        there = to.names.get(new_name)
        if there is node:
            return 0
        if there is not None and there.names:
            raise fuse.FuseOSError(errno.ENOTEMPTY)
        self._rename((source, name, None), (to, new_name, node))
        return 0

    def link(self, target: str, source: str) -> int:
        folder, name = self._split(target)
        if name in folder.names:
            raise fuse.FuseOSError(errno.EEXIST)
        self._rename((folder, name, self._node(source)))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        node = self._node(path)
        node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        return 0

    def chown(self, _path: str, _uid: int, _gid: int) -> int:
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        self._node(path).changed = times[1] if times else time.time_ns()
        return 0


def main() -> None:
    at, before, events = map(Path, sys.argv[1:])
    system = Volatile(before)
    options = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}
    fuse.FUSE(
        system,
        str(at),
        foreground=True,
        nothreads=True,
        use_ino=True,
        hard_remove=True,
        big_writes=True,
        **options,
    )
    events.write_bytes(pickle.dumps((system.before, system.events)))


if __name__ == "__main__":
    main()
