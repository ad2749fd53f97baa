"""The settings of a machine that figures depend on: their state, and how to mend each.

The list is that of ``pyperf system show``, as far as a setting moves what is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["MachineSetting", "read_settings"]

_GIB = 1 << 30
_LEAST_AVAILABLE = 4 * _GIB  # the inputs of a reference run in the page cache, and the largest writer
_CPU = "sys/devices/system/cpu"


@dataclass(frozen=True)
class MachineSetting:
    """One setting.

    Attributes:
        name: Its name.
        value: Its state, or None where this machine does not show it.
        is_steady: Figures do not suffer from it.
        effect: The way in which they do.
        remedy: The command or change that mends it.
    """

    name: str
    value: str | None
    is_steady: bool
    effect: str = ""
    remedy: str = ""


def read_settings(root: Path = Path("/")) -> Iterator[MachineSetting]:
    """Read all settings.

    Args:
        root: Folder that holds ``proc`` and ``sys``.
    """
    yield _setting(
        "frequency governor",
        _first_line(root / f"{_CPU}/cpu0/cpufreq/scaling_governor"),
        lambda value: value == "performance",
        "the clock follows the load, so that short writes are slower",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
    yield _turbo(root)
    yield _setting(
        "SMT",
        _named(_first_line(root / f"{_CPU}/smt/active"), {"0": "off", "1": "on"}),
        lambda value: value == "off",
        "a core shares its units with its sibling's work: leave the sibling idle",
        "echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )
    yield _setting(
        "ASLR",
        _named(
            _first_line(root / "proc/sys/kernel/randomize_va_space"), {"0": "off", "1": "partial", "2": "on"}
        ),
        lambda value: value in {"on", "partial"},
        "every process has one layout of memory, whose luck no number of samples averages out",
        "echo 2 | sudo tee /proc/sys/kernel/randomize_va_space",
    )
    yield _setting(
        "clock source",
        _first_line(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        lambda value: value in {"tsc", "kvm-clock", "arch_sys_counter"},
        "reading the time is a system call",
        "boot with clocksource=tsc, if the processor's counter is steady",
    )
    yield _setting(
        "transparent huge pages",
        _chosen(_first_line(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        lambda value: value != "always",
        "memory is touched by 2 MB, so that resident memory exceeds what was asked for",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )
    yield _available_memory(root)


def _turbo(root: Path) -> MachineSetting:
    """The turbo, by Intel's driver or by that of others."""
    value = _named(_first_line(root / f"{_CPU}/intel_pstate/no_turbo"), {"0": "on", "1": "off"})
    remedy = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
    if value is None:
        value = _named(_first_line(root / f"{_CPU}/cpufreq/boost"), {"0": "off", "1": "on"})
        remedy = "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
    effect = "the clock falls as the processor warms up: speeds drift over a run"
    return _setting("turbo", value, lambda found: found == "off", effect, remedy)


def _available_memory(root: Path) -> MachineSetting:
    text = next(
        (
            line.split()[1]
            for line in (root / "proc/meminfo").read_text().splitlines()
            if line.startswith("MemAvailable:")
        ),
        None,
    )
    size = 0 if text is None else int(text) * 1024
    return MachineSetting(
        "free memory",
        None if text is None else f"{size / _GIB:.1f} GiB available",
        text is None or size >= _LEAST_AVAILABLE,
        "inputs leave the page cache between samples, and swapping makes every figure worthless",
        "end other programs, or measure fewer rows",
    )


def _setting(
    name: str, value: str | None, is_steady: Callable[[str], bool], effect: str, remedy: str
) -> MachineSetting:
    return MachineSetting(name, value, value is None or is_steady(value), effect, remedy)


def _named(value: str | None, names: dict[str, str]) -> str | None:
    return None if value is None else names.get(value, value)


def _chosen(text: str | None) -> str | None:
    """The bracketed word of a choice."""
    return None if text is None else text[text.find("[") + 1 : text.find("]")]


def _first_line(path: Path) -> str | None:
    """The first line of a file; None where the kernel has none, or shows it to nobody here."""
    try:
        return path.read_text().split("\n", 1)[0].strip()
    except OSError:
        return None
