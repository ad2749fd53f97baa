"""Process settings: named changes to the process that writes, measured beside the process as it is.

It changes what a user can change without touching the writer: the thresholds of the garbage collector, the
memory pool of Arrow, the settings of malloc, the share of processor time. A library that does not use what
is changed is measured all the same: that it makes no difference is a finding. Records call it `arm`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "DEFAULT_PROCESS",
    "PROCESS_NAMES",
    "ProcessSetting",
    "how_to_have",
    "process_setting",
    "require_process_settings",
]

DEFAULT_PROCESS = "default"
"""The name of the process as it is."""

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
_QUOTA = re.compile(r"quota-([1-9]\d{0,4})")
_MIB = 1 << 20


@dataclass(frozen=True)
class ProcessSetting:
    """A change to the measured process.

    Attributes:
        words: The change in words; none for the process as it is.
        environment: Variables of its environment.
        gc_threshold: Thresholds of Python's garbage collector; None for Python's own.
        cores: Cores whose time it may take, 1.5 for one and a half; None for all that it is pinned to.
        cold: True if the measured write is the first of the process. A JVM is warm in any case.
    """

    words: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    gc_threshold: tuple[int, int, int] | None = None
    cores: float | None = None
    cold: bool = False

    def changes(self, threads: int) -> bool:
        """Return true if a process pinned to this number of cores could exceed its processor quota."""
        return self.cores is None or self.cores < threads


def _pool(name: str) -> ProcessSetting:
    return ProcessSetting(f"Arrow's pool {name}", {_POOL: name})


_SETTINGS = {
    DEFAULT_PROCESS: ProcessSetting(),
    "gc-aggressive": ProcessSetting("garbage collected after 50 objects", gc_threshold=(50, 5, 5)),
    **{f"pool-{name}": _pool(name) for name in ("system", "mimalloc", "jemalloc")},
    "malloc-one-arena": ProcessSetting("malloc with one arena", {"MALLOC_ARENA_MAX": "1"}),
    # Set, these thresholds stay as they are: glibc lets its own grow with the blocks that are freed.
    "malloc-trim": ProcessSetting(
        "malloc that gives back from 128 KiB on",
        {"MALLOC_TRIM_THRESHOLD_": str(_MIB // 8), "MALLOC_MMAP_THRESHOLD_": str(_MIB // 8)},
    ),
    "malloc-keep": ProcessSetting(
        "malloc that gives back only above 1 GiB",
        {"MALLOC_TRIM_THRESHOLD_": str(1024 * _MIB), "MALLOC_MMAP_MAX_": "0"},
    ),
    "cold": ProcessSetting("no write before", cold=True),
}
PROCESS_NAMES = (*_SETTINGS, "quota-PERCENT")
"""The process settings by name, the last of them a pattern."""


def process_setting(name: str) -> ProcessSetting:
    """The process setting of this name; ``quota-150`` is one and a half cores' time.

    Raises:
        OptionError: There is none.
    """
    quota = _QUOTA.fullmatch(name)
    if quota is not None:
        return ProcessSetting(f"a quota of {quota[1]} % of a core", cores=int(quota[1]) / 100)
    if name not in _SETTINGS:
        raise OptionError(
            f"--process-setting {name}: choose from: {', '.join(PROCESS_NAMES)}, as in quota-150"
        )
    return _SETTINGS[name]


def how_to_have(name: str) -> list[str]:
    """A line that says how a program of one's own has this process setting; none for the process as it is."""
    found = process_setting(name)
    variables = " ".join(f"{key}={value}" for key, value in found.environment.items())
    steps = [f"start Python with {variables}"] if variables else []
    steps += [f"call gc.set_threshold{found.gc_threshold}"] if found.gc_threshold else []
    steps += (
        [f"start it by systemd-run --scope -p CPUQuota={found.cores:.0%}"] if found.cores is not None else []
    )
    steps += ["write nothing else in the process"] if found.cold else []
    return [f"Measured with {found.words}: {', '.join(steps)}."] if steps else []


def require_process_settings(names: Iterable[str], elsewhere: Sequence[str] | None = None) -> None:
    """Refuse a pool that the build of pyarrow lacks: it would warn, and take another one.

    Args:
        names: The process settings.
        elsewhere: The pools of another environment's pyarrow; by default those of this one are looked at.

    Raises:
        OptionError: It lacks one.
    """
    wanted = {
        name: pool for name in names if (pool := process_setting(name).environment.get(_POOL)) is not None
    }
    if not wanted:
        return
    built = _pools() if elsewhere is None else elsewhere
    for name, pool in wanted.items():
        if pool not in built:
            raise OptionError(
                f"--process-setting {name}: this build of pyarrow has no such pool: it has {', '.join(built)}"
            )


def _pools() -> Sequence[str]:
    import pyarrow as pa

    return pa.supported_memory_backends()
