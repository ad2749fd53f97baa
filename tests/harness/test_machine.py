"""Settings of a machine that make figures worse are found, each with its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spillway.harness.environment import read_settings

if TYPE_CHECKING:
    from pathlib import Path

CPU = "sys/devices/system/cpu"
STEADY = {
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/intel_pstate/no_turbo": "1",
    f"{CPU}/smt/active": "0",
    "proc/sys/kernel/randomize_va_space": "2",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "proc/meminfo": "MemTotal:  9 kB\nMemAvailable: 33554432 kB",
}


def machine(folder: Path, **changes: str | None) -> dict[str, tuple[str | None, bool]]:
    """The settings of a machine that is steady but for some files; None is a file that is not there."""
    for name, text in {**STEADY, **changes}.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n")
    return {each.name: (each.value, each.is_steady) for each in read_settings(folder)}


def test_a_steady_machine_has_nothing_to_mend(tmp_path: Path) -> None:
    found = machine(tmp_path)
    assert found["free memory"] == ("32.0 GiB available", True)
    assert all(is_steady for _, is_steady in found.values())
    assert None not in {value for value, _ in found.values()}


@pytest.mark.parametrize(
    ("name", "text", "setting", "value"),
    [
        (f"{CPU}/cpu0/cpufreq/scaling_governor", "powersave", "frequency governor", "powersave"),
        (f"{CPU}/intel_pstate/no_turbo", "0", "turbo", "on"),
        (f"{CPU}/smt/active", "1", "SMT", "on"),
        ("proc/sys/kernel/randomize_va_space", "0", "ASLR", "off"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet", "clock source", "hpet"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never",
            "transparent huge pages",
            "always",
        ),
        ("proc/meminfo", "MemAvailable: 1048576 kB", "free memory", "1.0 GiB available"),
    ],
)
def test_what_makes_figures_worse_is_found_alone_and_has_a_remedy(
    tmp_path: Path, name: str, text: str, setting: str, value: str
) -> None:
    found = machine(tmp_path, **{name: text})
    assert {each for each, (_, is_steady) in found.items() if not is_steady} == {setting}
    assert found[setting][0] == value
    (bad,) = [each for each in read_settings(tmp_path) if not each.is_steady]
    assert bad.effect
    assert bad.remedy


def test_turbo_is_found_by_the_driver_of_other_processors_too(tmp_path: Path) -> None:
    found = machine(tmp_path, **{f"{CPU}/intel_pstate/no_turbo": None, f"{CPU}/cpufreq/boost": "1"})
    assert found["turbo"] == ("on", False)


def test_what_a_machine_does_not_show_is_nothing_to_mend(tmp_path: Path) -> None:
    found = machine(tmp_path, **dict.fromkeys(STEADY, None) | {"proc/meminfo": "MemTotal: 9 kB"})
    assert set(found.values()) == {(None, True)}


def test_this_machine_is_read() -> None:
    assert {each.name for each in read_settings()} >= {"ASLR", "SMT", "free memory"}
