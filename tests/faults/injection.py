"""Calls to the operating system that fail as a test tells: rules for `injection.c`, and what it noted."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("injection.c")


class Call(NamedTuple):
    """A call that the library noted.

    Attributes:
        name: What it does, by the names of `injection.c`.
        path: The path that it is about.
        how: How it failed or waited; empty if it did not.
    """

    name: str
    path: str
    how: str


def build(folder: Path) -> Path:
    """The library, compiled into a folder."""
    library = folder / "injection.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-Wall", "-o", library, SOURCE], check=True)
    return library


def rule(
    calls: str = "*", path: str = "*", *, nth: str = "1", how: str = "before", number: int = errno.EIO
) -> str:
    """A rule: the `nth` of these calls about such a path fails, with ``3+`` all from the third on."""
    return f"{calls} {path} {nth} {how} {number}"


def environment(library: Path, rules: list[str], log: Path, below: Path) -> dict[str, str]:
    """The variables that load the library into a program."""
    settings = {"FAULTS": "\n".join(rules), "FAULTS_LOG": str(log), "FAULTS_BELOW": str(below)}
    return {**os.environ, "LD_PRELOAD": str(library), **settings}


def noted(log: Path) -> list[Call]:
    """The calls of a log, in their order, without its lines about meetings."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [Call(*(*line.split(" "), "")[:3]) for line in lines if " " in line]
