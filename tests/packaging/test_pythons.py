"""The wheel works on every version of Python from 3.11 that this machine has."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conftest import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).with_name("write_with_wheel.py")


def folders() -> Iterator[Path]:
    """Folders of interpreters: the path without the stand-ins of pyenv, and the versions that it has."""
    path = map(Path, os.environ["PATH"].split(os.pathsep))
    yield from (folder for folder in path if folder.name != "shims")
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob("versions/*/bin"))


def pythons() -> dict[str, Path]:
    """An interpreter of each version from 3.11."""
    found: dict[str, Path] = {}
    for folder in folders():
        for path in folder.glob("python3.*"):
            version = re.fullmatch(r"python(3\.(\d+))", path.name)
            if version and int(version[2]) >= 11:
                found.setdefault(version[1], path)
    return dict(sorted(found.items()))


PYTHONS = pythons()


def test_the_oldest_python_is_here() -> None:
    assert "3.11" in PYTHONS


@pytest.mark.parametrize("version", PYTHONS)
def test_files_are_written_with_the_wheel_on_every_python(tmp_path: Path, wheel: Path, version: str) -> None:
    made = environment(tmp_path / "venv", wheel, PYTHONS[version])
    assert made.evaluate("import sys; print('%d.%d' % sys.version_info[:2])") == version
    done = made.run("python", "-W", "error", str(PROGRAM))
    assert done.returncode == 0, done.stderr
