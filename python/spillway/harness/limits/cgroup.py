"""Memory limits by control groups, v1 and v2, told apart by mount type and controller."""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.harness.limits.guard import guard
from spillway.harness.limits.memory_limit import MemoryLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CgroupV1", "CgroupV2", "accounting_group", "find_v1", "find_v2"]

_serial = itertools.count()
_EMPTYING_SECONDS = 5.0


@dataclass(frozen=True)
class CgroupV1:
    """The v1 memory controller. Groups are made below `parent`."""

    parent: Path
    kind = "cgroup-v1"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A group with this limit on memory, and on memory plus swap where the kernel counts swap."""
        with self.account() as account:
            group = Path(str(account.group))
            (group / "memory.limit_in_bytes").write_text(str(size))
            with_swap = group / "memory.memsw.limit_in_bytes"
            if with_swap.exists():
                with_swap.write_text(str(size))
            yield account

    @contextmanager
    def account(self) -> Iterator[MemoryLimit]:
        """A group without a limit, which only counts."""
        with _group(self.parent) as group:
            yield MemoryLimit(
                prefix=_join(group),
                oom_kills=lambda: _counter(group / "memory.oom_control"),
                group=str(group),
                peak=lambda: _number(group / "memory.max_usage_in_bytes"),
            )


@dataclass(frozen=True)
class CgroupV2:
    """The v2 memory controller. Groups are made below `parent`, which hands the controller down."""

    parent: Path
    kind = "cgroup-v2"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A group with this limit and no swap."""
        with self.account() as account:
            group = Path(str(account.group))
            (group / "memory.max").write_text(str(size))
            swap = group / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")
            yield account

    @contextmanager
    def account(self) -> Iterator[MemoryLimit]:
        """A group without a limit, which only counts."""
        with _group(self.parent) as group:
            yield MemoryLimit(
                prefix=_join(group),
                oom_kills=lambda: _counter(group / "memory.events"),
                group=str(group),
                peak=lambda: _number(group / "memory.peak"),
            )


def find_v1() -> CgroupV1 | None:
    """The v1 memory controller, if it is mounted and this process may make groups in it."""
    for mount in _mounts():
        if mount.kind == "cgroup" and "memory" in mount.options:
            own = _own_group("memory")
            for parent in _candidates(mount, own):
                if os.access(parent, os.W_OK) and (parent / "memory.limit_in_bytes").exists():
                    return CgroupV1(parent)
    return None


def find_v2() -> CgroupV2 | None:
    """The v2 memory controller, if a group near this process hands it down and may be written to."""
    for mount in _mounts():
        if mount.kind != "cgroup2":
            continue
        own = _own_group("")
        for parent in _candidates(mount, own):
            handed_down = parent / "cgroup.subtree_control"
            if (
                handed_down.exists()
                and os.access(parent, os.W_OK)
                and "memory" in handed_down.read_text().split()
            ):
                return CgroupV2(parent)
    return None


@contextmanager
def accounting_group() -> Iterator[MemoryLimit]:
    """A group that counts the memory of one process and limits nothing; none where groups cannot be made."""
    controller = _controller()
    if controller is None:
        yield MemoryLimit()
        return
    with controller.account() as account:
        yield account


@cache
def _controller() -> CgroupV1 | CgroupV2 | None:
    return find_v2() or find_v1()


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
    relative = own.removeprefix(mount.root) if mount.root != "/" else own
    group = mount.point / relative.lstrip("/")
    places = [group, group.parent] if group != mount.point else []
    return [place for place in (*places, mount.point) if place.is_dir()]


@contextmanager
def _group(parent: Path) -> Iterator[Path]:
    group = parent / f"spillway-{os.getpid()}-{next(_serial)}"
    guard(group)
    group.mkdir()
    try:
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Remove a group once its last process has gone; what is left in it is killed."""
    deadline = time.monotonic() + _EMPTYING_SECONDS
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
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


def _join(group: Path) -> tuple[str, ...]:
    """A shell that moves itself into the group and becomes the command: its imports are counted too."""
    return ("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"))


def _counter(path: Path) -> int:
    """The field ``oom_kill`` of a flat keyed file."""
    for line in path.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == "oom_kill":
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    """The number in a file; None where the kernel has no such file."""
    return int(path.read_text()) if path.exists() else None
