"""A quota of processor time beside a memory limit: on v2 in its control group, on v1 in one of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.errors import OptionError
from spillway.harness.limits.groups import joining, new_group, v1_parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillway.harness.limits.memory_limit import MemoryLimit

__all__ = ["with_quota"]

_PERIOD_MICROSECONDS = 100_000  # the kernel's own, and that of containers


@contextmanager
def with_quota(memory_limit: MemoryLimit, cores: float | None) -> Iterator[MemoryLimit]:
    """A memory limit whose process may also take the time of so many cores; of all for None.

    Raises:
        OptionError: This machine lets no quota be set.
    """
    if cores is None:
        yield memory_limit
        return
    quota = round(cores * _PERIOD_MICROSECONDS)
    own = None if memory_limit.group is None else Path(memory_limit.group) / "cpu.max"
    if own is not None and own.exists():
        own.write_text(f"{quota} {_PERIOD_MICROSECONDS}")
        yield memory_limit
        return
    parent = next((each for each in v1_parents("cpu") if (each / "cpu.cfs_quota_us").exists()), None)
    if parent is None:
        raise OptionError(
            "--process-setting quota: this machine lets no quota of processor time be set: it takes the "
            "controller cpu of control groups, where this process may make them"
        )
    with new_group(parent) as group:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
        yield replace(memory_limit, prefix=(*joining(group), *memory_limit.prefix))
