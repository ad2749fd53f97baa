"""Memory limits by control groups, v1 and v2, told apart by mount type and controller."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from spillway.harness.limits.groups import around, joining, new_group, v1_parents, v2_parents
from spillway.harness.limits.memory_limit import MemoryLimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CgroupV1", "CgroupV2", "accounting_group", "enclosing_limit", "find_v1", "find_v2"]


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
    def _limited(self, size: int, swap: int) -> Iterator[MemoryLimit]:
        """A group with a limit on memory and, where the kernel counts it, one on its file for swap."""
        with self.account() as account:
            group = Path(str(account.group))
            (group / self._limit).write_text(str(size))
            if (group / self._of_swap).exists():
                (group / self._of_swap).write_text(str(swap))
            yield account


@dataclass(frozen=True)
class CgroupV1(_MemoryController):
    """The v1 memory controller. Groups are made below `parent`."""

    kind = "cgroup-v1"
    _limit = "memory.limit_in_bytes"
    _of_swap = "memory.memsw.limit_in_bytes"
    _kills = "memory.oom_control"
    _peak = "memory.max_usage_in_bytes"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A group with this limit on memory, and on memory plus swap where the kernel counts swap."""
        with self._limited(size, swap=size) as limited:
            yield limited


@dataclass(frozen=True)
class CgroupV2(_MemoryController):
    """The v2 memory controller. Groups are made below `parent`, which hands the controller down."""

    kind = "cgroup-v2"
    _limit = "memory.max"
    _of_swap = "memory.swap.max"
    _kills = "memory.events"
    _peak = "memory.peak"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A group with this limit and no swap."""
        with self._limited(size, swap=0) as limited:
            yield limited


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
