"""Control groups: found, made, joined and removed. Limits of memory and of processor time build on them."""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.harness.limits.guard import guard

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["around", "joining", "new_group", "v1_parents", "v2_parents"]

_serial = itertools.count()
_EMPTYING_SECONDS = 5.0


def v1_parents(controller: str) -> Iterator[Path]:
    """The groups below which this process may make groups of a v1 controller, the nearest first."""
    for mount in _mounts():
        if mount.kind == "cgroup" and controller in mount.options:
            yield from (
                each for each in _candidates(mount, _own_group(controller)) if os.access(each, os.W_OK)
            )


def v2_parents(controller: str) -> Iterator[Path]:
    """The v2 groups that hand this controller down and may be written to, the nearest first."""
    for mount in _mounts():
        if mount.kind == "cgroup2":
            for parent in _candidates(mount, _own_group("")):
                handed_down = parent / "cgroup.subtree_control"
                if (
                    handed_down.exists()
                    and os.access(parent, os.W_OK)
                    and controller in handed_down.read_text().split()
                ):
                    yield parent


def around(controller: str) -> Iterator[Path]:
    """This process's groups of a controller, v1 and v2, each with those around it that are mounted."""
    for mount in _mounts():
        is_v1 = mount.kind == "cgroup" and controller in mount.options
        if is_v1 or mount.kind == "cgroup2":
            own = mount.point / _relative(mount, _own_group(controller if is_v1 else ""))
            yield from (each for each in (own, *own.parents) if each.is_relative_to(mount.point))


@contextmanager
def new_group(parent: Path) -> Iterator[Path]:
    """A group below `parent`, gone when the context ends, and with it whatever still runs in it."""
    group = parent / f"spillway-{os.getpid()}-{next(_serial)}"
    guard(group)
    group.mkdir()
    try:
        yield group
    finally:
        _remove(group)


def joining(group: Path) -> tuple[str, ...]:
    """A shell that moves itself into the group and becomes the command: its imports are counted too."""
    return ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"))


@dataclass(frozen=True)
class _Mount:
    point: Path
    root: str
    kind: str
    options: frozenset[str]


def _mounts() -> list[_Mount]:
    """All mounts of this process; see proc_pid_mountinfo(5) for the fields."""
    mounts = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split()
        mounts.append(_Mount(Path(fields[4]), fields[3], kind, frozenset(options.split(","))))
    return mounts


def _own_group(controller: str) -> str:
    """This process's group under a v1 controller, or under v2 for the empty name."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if controller in controllers.split(","):
            return group
    return "/"


def _candidates(mount: _Mount, own: str) -> list[Path]:
    """Find a place for a group: in this process's own, else beside it, else at the top of what is mounted."""
    group = mount.point / _relative(mount, own)
    places = [group, group.parent] if group != mount.point else []
    return [place for place in (*places, mount.point) if place.is_dir()]


def _relative(mount: _Mount, own: str) -> str:
    """The path of a group below the place where its tree is mounted."""
    return (own.removeprefix(mount.root) if mount.root != "/" else own).lstrip("/")


def _remove(group: Path) -> None:
    """Remove a group once its last process has gone; what is left in it is killed."""
    deadline = time.monotonic() + _EMPTYING_SECONDS
    while True:
        is_last = time.monotonic() > deadline
        try:
            group.rmdir()
        except OSError:
            if is_last:
                raise
            for pid in (group / "cgroup.procs").read_text().split():
                _kill(int(pid))
            time.sleep(0.002)
        else:
            return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
