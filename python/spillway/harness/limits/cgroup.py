"""Memory limits by control groups, v1 and v2, told apart by mount type and controller, or by systemd scopes.

Groups go even if this process is killed: a shell waits for its end, and removes what it left. It is one shell
for a process. It reads the names of groups from a pipe of which only this process holds the other end, and is
woken by nothing else, so that it takes no time from what is measured.

A scope of the user's own systemd is for machines where groups cannot be written directly.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager


@dataclass(frozen=True)
class MemoryLimit:
    """One limit, ready for one process.

    Attributes:
        prefix: A command that joins the limit and then becomes the command that follows it.
        data_limit: Bytes of ``RLIMIT_DATA`` the process has to set for itself, or None.
        oom_kills: Number of processes that the kernel has killed at this limit, or None if they are not
            counted.
        group: Folder of the control group that contains only the process; "self" if the process has to find
            it; None without such a group.
        peak: The most bytes of this group, page cache included, or None.
    """

    prefix: tuple[str, ...] = ()
    data_limit: int | None = None
    oom_kills: Callable[[], int | None] = lambda: 0
    group: str | None = None
    peak: Callable[[], int | None] = lambda: None


class Limiter(Protocol):
    """One kind of memory limit."""

    kind: str

    def limit(self, size: int, /) -> AbstractContextManager[MemoryLimit]:
        """A limit of `size` bytes, which is removed when the context ends.

        Raises:
            OSError: This machine does not let it be set.
        """


_SHELL = "/bin/sh"
# Processes in the groups die with their parent; five seconds are given to those that have to be killed.
_SCRIPT = """
trap '' INT TERM HUP
groups=
while IFS= read -r group; do groups="$groups $group"; done
tries=100
for group in $groups; do
    while [ -d "$group" ] && ! rmdir "$group" 2>/dev/null && [ $tries -gt 0 ]; do
        for pid in $(cat "$group/cgroup.procs" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
        tries=$((tries - 1))
        sleep 0.05
    done
done
"""


def guard(group: Path) -> None:
    """Ensure that a control group is removed after this process ends, however it ends."""
    os.write(_shell(os.getpid()), f"{group}\n".encode())


@cache
def _shell(pid: int) -> int:  # noqa: ARG001 - a forked process has a shell of its own
    """The descriptor by which the shell is told of groups."""
    read_end, write_end = os.pipe()
    started = os.posix_spawn(
        _SHELL,
        [_SHELL, "-c", _SCRIPT],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, read_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        setsid=True,
    )
    os.close(read_end)
    atexit.register(_end, write_end, started, os.getpid())
    return write_end


def _end(write_end: int, started: int, parent: int) -> None:
    if os.getpid() == parent:
        os.close(write_end)
        os.waitpid(started, 0)


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
    """A group below `parent`, which is removed when the context ends, together with all processes in it."""
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


@dataclass(frozen=True)
class _MemoryController:
    """A memory controller, by the names that its version has for its files.

    Attributes:
        parent: The group that groups are made below.
    """

    parent: Path
    _limit: ClassVar[str]
    _of_swap: ClassVar[str]
    _kills: ClassVar[str]
    _peak: ClassVar[str]
    _swap_includes_memory: ClassVar[bool]

    @contextmanager
    def account(self) -> Iterator[MemoryLimit]:
        """A group without a limit, which only counts."""
        with new_group(self.parent) as group:
            yield MemoryLimit(
                prefix=joining(group),
                oom_kills=lambda: _counter(group / self._kills),
                group=str(group),
                peak=lambda: _number(group / self._peak),
            )

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A group with this limit on memory, and no swap where the kernel counts it."""
        with self.account() as account:
            group = Path(str(account.group))
            (group / self._limit).write_text(str(size))
            if (group / self._of_swap).exists():
                (group / self._of_swap).write_text(str(size if self._swap_includes_memory else 0))
            yield account


@dataclass(frozen=True)
class CgroupV1(_MemoryController):
    """The v1 memory controller. Groups are made below `parent`."""

    kind = "cgroup-v1"
    _limit = "memory.limit_in_bytes"
    _of_swap = "memory.memsw.limit_in_bytes"
    _kills = "memory.oom_control"
    _peak = "memory.max_usage_in_bytes"
    _swap_includes_memory = True


@dataclass(frozen=True)
class CgroupV2(_MemoryController):
    """The v2 memory controller. Groups are made below `parent`, which hands the controller down."""

    kind = "cgroup-v2"
    _limit = "memory.max"
    _of_swap = "memory.swap.max"
    _kills = "memory.events"
    _peak = "memory.peak"
    _swap_includes_memory = False


def find_v1() -> CgroupV1 | None:
    """The v1 memory controller, if it is mounted and this process may make groups in it."""
    parents = (each for each in v1_parents("memory") if (each / "memory.limit_in_bytes").exists())
    return next(map(CgroupV1, parents), None)


def find_v2() -> CgroupV2 | None:
    """The v2 memory controller, if a group near this process hands it down and may be written to."""
    return next(map(CgroupV2, v2_parents("memory")), None)


def enclosing_limit() -> int | None:
    """The least memory limit in bytes of this process's groups and those around them; None without any."""
    names = ("memory.limit_in_bytes", "memory.max")
    return _least([group / name for group in around("memory") for name in names])


def _least(files: Iterable[Path]) -> int | None:
    """The least number in files, of which some may lack; "max" stands for none."""
    texts = (file.read_text().strip() for file in files if file.exists())
    return min((int(text) for text in texts if text != "max"), default=None)


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


_PROBE_SECONDS = 5


@dataclass(frozen=True)
class SystemdScope:
    """A transient scope with ``MemoryMax``. Its count of kills disappears with it.

    So a process that dies by SIGKILL under it, not by the bench's own hand, is taken to have been killed for
    the limit, which a limit check has confirmed.
    """

    command: str
    kind = "systemd-scope"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A scope with this limit and no swap."""
        properties = ("-p", f"MemoryMax={size}", "-p", "MemorySwapMax=0")
        prefix = (self.command, "--user", "--scope", "--quiet", *properties, "--")
        yield MemoryLimit(prefix=prefix, oom_kills=lambda: None, group="self")


def find_systemd() -> SystemdScope | None:
    """The user's systemd, if it answers and starts a scope."""
    command = shutil.which("systemd-run")
    if command is None:
        return None
    try:
        tried = subprocess.run(
            [command, "--user", "--scope", "--quiet", "-p", "MemoryMax=64M", "--", "true"],
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return SystemdScope(command) if tried.returncode == 0 else None
