"""The check of wheels that ship: what only the build of a release has is asked of each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from ..counts import SOAK
from .conftest import ROOT

CHECK = ROOT / "scripts" / "check_wheel.py"
OTHER = "module-1.0-cp311-abi3-manylinux_2_17_other.whl"


def check(wheel: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, CHECK, wheel], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stderr


def made(folder: Path, content: bytes) -> Path:
    """A wheel for another architecture, whose module holds the content."""
    with ZipFile(folder / OTHER, "w") as archive:
        archive.writestr("spillway/_native.abi3.so", content)
    return folder / OTHER


def test_a_small_wheel_that_names_no_place_passes(tmp_path: Path) -> None:
    assert check(made(tmp_path, b"a module")) == (0, "")


@pytest.mark.parametrize(
    ("what", "private"),
    [("checkout", f"{ROOT}/rust/rows/src/lib.rs"), ("home", f"{Path.home()}/.cargo/registry")],
)
def test_a_wheel_that_names_a_place_of_its_machine_is_refused(
    tmp_path: Path, what: str, private: str
) -> None:
    status, said = check(made(tmp_path, b"panicked at " + private.encode()))
    assert status == 1
    assert f"{OTHER}: spillway/_native.abi3.so holds the {what} of the machine that built it" in said


def test_a_wheel_with_its_symbols_is_refused_by_its_size(tmp_path: Path) -> None:
    status, said = check(made(tmp_path, bytes(16_000_000)))
    assert status == 1
    assert "it has 16,000,1" in said


def test_the_wheel_of_the_tests_is_none_to_publish(wheel: Path) -> None:
    status, said = check(wheel)
    assert status == (0 if SOAK else 1)
    assert ("debug assertions on: build it with --release" in said) is not SOAK
