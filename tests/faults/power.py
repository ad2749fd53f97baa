"""What a power cut may leave of a file system: what was synced, and any part of what was not.

A disk keeps the bytes of a file that was synced, and the names in a folder that was synced. Of all else
it may have written anything, in any order: some of the bytes of a file, and some changes of names. A
rename happens as a whole or not at all, as on every file system with a journal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = [
    "ROOT",
    "Cut",
    "Event",
    "MakeNode",
    "Name",
    "Names",
    "Sync",
    "Told",
    "Write",
    "states_after",
    "walk",
]

ROOT = 1


class Write(NamedTuple):
    """Bytes at a place of a file; None for its new length."""

    node: int
    place: int
    content: bytes | None


class Name(NamedTuple):
    """A name in a folder gets another node, or none."""

    folder: int
    name: str
    node: int | None


class Names(NamedTuple):
    """Changes of names by one call."""

    changes: tuple[Name, ...]


class MakeNode(NamedTuple):
    """A file or a folder, before it has a name."""

    node: int
    is_folder: bool


class Sync(NamedTuple):
    """A file or a folder is synced."""

    node: int


class Told(NamedTuple):
    """The program told that its operation is done."""


Event = Write | Names | MakeNode | Sync | Told


class Cut(NamedTuple):
    """How much of what was not synced is kept: the chance of a change of names, and of a write."""

    names: float
    writes: float


@dataclass
class Disk:
    """What is on a disk, and what is only on its way there."""

    files: dict[int, bytearray] = field(default_factory=dict)
    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    writes: dict[int, list[Write]] = field(default_factory=dict)
    names: list[Names] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Do one call."""
        match event:
            case MakeNode(node, True):
                self.folders[node] = {}
            case MakeNode(node, _):
                self.files[node] = bytearray()
            case Write():
                self.writes.setdefault(event.node, []).append(event)
            case Names():
                self.names.append(event)
            case Sync(node) if node in self.folders:
                self._sync_folder(node)
            case Sync(node):
                for write in self.writes.pop(node, ()):
                    put(self.files[node], write)
            case Told():
                pass

    def _sync_folder(self, folder: int) -> None:
        """Keep the changes of names in a folder, and those before them of the same names elsewhere."""
        kept, met = [], set[tuple[int, str]]()
        for each in reversed(self.names):
            places = {change[:2] for change in each.changes}
            if met & places or any(place[0] == folder for place in places):
                met |= places
                kept.append(each)
        for each in reversed(kept):
            self._rename(each)
        self.names = [each for each in self.names if each not in kept]

    def _rename(self, names: Names) -> None:
        for folder, name, node in names.changes:
            if node is None:
                self.folders[folder].pop(name, None)
            else:
                self.folders[folder][name] = node

    def lose_power(self, cut: Cut, chance: random.Random) -> None:
        """Draw what is left."""
        for each in self.names:
            if chance.random() < cut.names:
                self._rename(each)
        for node, writes in self.writes.items():
            for write in writes:
                if chance.random() < cut.writes:
                    put(self.files[node], write)
        self.names, self.writes = [], {}

    def copy(self) -> Disk:
        return Disk(
            {node: bytearray(content) for node, content in self.files.items()},
            {node: dict(names) for node, names in self.folders.items()},
            {node: list(writes) for node, writes in self.writes.items()},
            list(self.names),
        )

    def save(self, path: Path, node: int = ROOT) -> None:
        """Write it into a real folder."""
        path.mkdir()
        for name, inner in self.folders[node].items():
            if inner in self.folders:
                self.save(path / name, inner)
            else:
                (path / name).write_bytes(self.files[inner])

    def listed(self, node: int = ROOT) -> tuple[object, ...]:
        """All that is there, to be compared."""
        return tuple(
            (name, self.listed(inner) if inner in self.folders else bytes(self.files[inner]))
            for name, inner in sorted(self.folders[node].items())
        )


def put(file: bytearray, write: Write) -> None:
    """Do a write; what lies between it and the end before is zeros."""
    file.extend(bytes(max(0, write.place - len(file))))
    if write.content is None:
        del file[write.place :]
    else:
        file[write.place : write.place + len(write.content)] = write.content


def walk(root: Path) -> Iterable[tuple[Path, bool]]:
    """What is below a real folder, folders before what is in them."""
    for folder, folders, files in os.walk(root):
        here = root / folder
        yield from ((here / name, True) for name in folders)
        yield from ((here / name, False) for name in files)


def states_after(
    events: Sequence[Event], first: int, chance: random.Random, cuts: Sequence[Cut]
) -> Iterable[tuple[int, bool, Disk]]:
    """Different states that a cut after some of the events may leave, and if the end was told before.

    Args:
        events: What was done; those before `first` were done before the operation.
        first: The number of the first event after which the power may fail.
        chance: Draws.
        cuts: How much is kept. For each moment, one state is drawn for each of them.
    """
    disk, seen, told = Disk(), set[int](), False
    for number, event in enumerate(events):
        disk.take(event)
        told |= isinstance(event, Told)
        if number < first:
            continue
        for cut in cuts:
            left = disk.copy()
            left.lose_power(cut, chance)
            mark = hash((told, left.listed()))
            if mark not in seen:
                seen.add(mark)
                yield number, told, left
