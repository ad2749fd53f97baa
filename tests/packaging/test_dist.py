"""The check of what is published: each promise that a wheel's name makes is held against its module."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from .conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CHECK = ROOT / "scripts" / "check_dist.py"
POLICY = "manylinux_2_17"
# Since 2.34 the C library has threads in itself: a module that starts one cannot be loaded by any older.
MODULE = """
#include <pthread.h>
static void *nothing(void *it) { return it; }
int PyInit__module(void) { pthread_t thread; return pthread_create(&thread, 0, nothing, 0); }
"""
METADATA = """Metadata-Version: 2.4
Name: module
Version: 1.0
Summary: A module.
Description-Content-Type: text/markdown

# A module
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: cp311-abi3-{tag}\n"


def make_wheel(folder: Path, architecture: str, glibc: str, tag: str) -> Path:
    """A wheel whose module is linked against the given C library by the compiler that links the real ones."""
    source, module = folder / "module.c", folder / "_module.abi3.so"
    source.write_text(MODULE)
    target = f"{architecture}-linux-gnu.{glibc}"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared", "-fPIC", "-O1"]
    subprocess.run([*command, "-o", module, source], check=True, timeout=120)
    wheel = folder / "dist" / f"module-1.0-cp311-abi3-{tag}.whl"
    wheel.parent.mkdir()
    info = "module-1.0.dist-info"
    with ZipFile(wheel, "w") as archive:
        archive.write(module, "_module.abi3.so")
        archive.writestr(f"{info}/METADATA", METADATA)
        archive.writestr(f"{info}/WHEEL", WHEEL.format(tag=tag))
        # auditwheel looks at what the record lists.
        listed = [*archive.namelist(), f"{info}/RECORD"]
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in listed))
    return wheel


def make_sdist(folder: Path) -> None:
    info = folder / "PKG-INFO"
    info.write_text(METADATA)
    with tarfile.open(folder / "dist" / "module-1.0.tar.gz", "w:gz") as archive:
        for name in ("PKG-INFO", "README.md"):
            archive.add(info, f"module-1.0/{name}")


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHECK, folder / "dist", "--policy", POLICY],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"COLUMNS": "200"},
    )


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_a_wheel_for_an_old_c_library_passes_with_its_size(tmp_path: Path, architecture: str) -> None:
    tag = f"manylinux_2_17_{architecture}.manylinux2014_{architecture}"
    wheel = make_wheel(tmp_path, architecture, "2.17", tag)
    make_sdist(tmp_path)
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"\d MB  {re.escape(wheel.name)}", done.stdout)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_a_wheel_that_needs_a_newer_c_library_than_it_says_fails(tmp_path: Path, architecture: str) -> None:
    make_wheel(tmp_path, architecture, "2.34", f"manylinux_2_17_{architecture}")
    make_sdist(tmp_path)
    done = check(tmp_path)
    assert done.returncode == 1
    assert f"it needs manylinux_2_34_{architecture}" in done.stdout


def test_a_wheel_for_newer_c_libraries_alone_fails(tmp_path: Path) -> None:
    make_wheel(tmp_path, "x86_64", "2.17", "manylinux_2_34_x86_64")
    make_sdist(tmp_path)
    done = check(tmp_path)
    assert done.returncode == 1
    assert "it is for manylinux_2_34_x86_64, not for manylinux_2_17" in done.stdout


def test_wheels_without_the_sdist_fail(tmp_path: Path) -> None:
    make_wheel(tmp_path, "x86_64", "2.17", "manylinux_2_17_x86_64")
    done = check(tmp_path)
    assert done.returncode == 1
    assert "lacks wheels or the sdist" in done.stderr


def test_a_target_without_its_standard_library_is_named_with_its_remedy() -> None:
    script = ROOT / "requirements" / "prerequisites.sh"
    done = subprocess.run(
        [script, "dist", "no-such-target"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "Rust's standard library for no-such-target: rustup target add no-such-target" in done.stderr
