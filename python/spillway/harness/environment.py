"""The environment of a run: machine, libraries and options, without host name or paths."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError
from spillway.harness.host import read_load
from spillway.harness.machine import read_settings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "CHECKED_BUILD",
    "cpu_model",
    "describe_machine",
    "describe_run",
    "describe_software",
    "git_state",
    "native_build",
    "refuse_debug_build",
]

_LIBRARIES = (
    "spillway",
    "pyarrow",
    "polars",
    "duckdb",
    "arro3-core",
    "arro3-io",
    "numpy",
    "memray",
    "pandas",
    "pyspark",
    "deltalake",
    "pylance",
    "pyiceberg",
)
CHECKED_BUILD = "SPILLWAY_ALLOW_CHECKED_BUILD"
_MALLOC_VARIABLES = (
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "ARROW_DEFAULT_MEMORY_POOL",
    "_RJEM_MALLOC_CONF",
)
_GIT_SECONDS = 5


def describe_run(run_id: str, options: DataclassInstance, *, schema_version: int) -> dict[str, Any]:
    """The part of ``environment.json`` that all runs share: name, machine, libraries and options."""
    return {
        "schema_version": schema_version,
        "run_id": run_id,
        **describe_machine(),
        "load_before": read_load(),
        "options": asdict(options),
    }


def describe_machine() -> dict[str, Any]:
    """Kernel, processor, memory, Python, libraries with their builds, and the state of the checkout."""
    settings = {each.name: each.value for each in read_settings()}
    return {
        "kernel": platform.release(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpu_model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "transparent_huge_pages": settings["transparent huge pages"],
        "settings": [{"name": name, "value": value} for name, value in settings.items()],
        "malloc": _malloc_settings(),
        "libc": " ".join(platform.libc_ver()),
        **describe_software(),
        "git": git_state(),
    }


def describe_software() -> dict[str, Any]:
    """Python and the libraries of the environment that this runs in, with their builds."""
    return {
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "compiler": platform.python_compiler(),
            "switch_interval_seconds": sys.getswitchinterval(),
        },
        "libraries": [{"name": name, "version": version} for name, version in _libraries().items()],
        "pyarrow_build": _pyarrow_build(),
        "native_build": native_build(),
    }


def cpu_model() -> str:
    """The processor's name, by which a machine is named here."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.machine()


def native_build() -> dict[str, Any] | None:
    """The native module's account of its build with the SHA-256 of its file, or None where it is not built.

    The commit says what the sources were. Of two runs the digests say that they had the same build.
    """
    try:
        from spillway import _native
    except ImportError:
        return None
    with Path(_native.__file__).open("rb") as module:
        digest = hashlib.file_digest(module, "sha256").hexdigest()
    return {**_native.build_info(), "sha256": digest}


def refuse_debug_build(elsewhere: dict[str, Any] | None = None, where: str = "") -> None:
    """Check that a native module is a release build.

    The tests, which look at no speed, set the environment variable named in the error.

    Args:
        elsewhere: What `describe_software` said in another environment; by default that of this process.
        where: The name of that environment.

    Raises:
        OptionError: It is a build with debug assertions, whose speed says nothing.
    """
    build = native_build() if elsewhere is None else elsewhere["native_build"]
    if build is not None and build["debug_assertions"] and not os.environ.get(CHECKED_BUILD):
        raise OptionError(
            f"spillway._native{where and f' in {where}'} is built for tests, with debug assertions, and "
            "slower than a release: run `make bench` or `maturin develop --release`, or set "
            f"{CHECKED_BUILD}=1 where no figure matters"
        )


def _libraries() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _pyarrow_build() -> dict[str, str] | None:
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        return None
    info = pa.cpp_build_info
    return {
        "build_type": info.build_type,
        "package_kind": info.package_kind,
        "compiler": f"{info.compiler_id} {info.compiler_version}",
        "simd_level": pa.runtime_info().simd_level,
        "memory_pool": pa.default_memory_pool().backend_name,
    }


def _malloc_settings() -> list[dict[str, str]]:
    """Variables that change an allocator; of a preloaded library only its name."""
    chosen = {name: value for name, value in os.environ.items() if name.startswith(_MALLOC_VARIABLES)}
    return [{"name": name, "value": Path(value).name} for name, value in sorted(chosen.items())]


def git_state() -> dict[str, Any] | None:
    """Commit of the checkout this runs from and whether it is changed; None for an installed wheel."""
    git = shutil.which("git")
    if git is None:
        return None
    folder = Path(__file__).parent

    def ask(*arguments: str) -> str:
        return subprocess.run(
            [git, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        ).stdout.strip()

    try:
        # A wheel installed below somebody's repository is not a checkout of ours.
        tracked = ask("ls-files", Path(__file__).name)
        if not tracked:
            return None
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "--", ":/"))}
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
