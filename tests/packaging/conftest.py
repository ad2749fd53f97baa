"""The wheel, built once, and environments that hold little more than it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..counts import SOAK

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent
SECONDS = 900  # a cold build of all crates on two cores


@dataclass(frozen=True)
class Environment:
    """A virtual environment without pip."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *packages: str) -> None:
        subprocess.run(
            [TOOLS / "uv", "pip", "install", "-q", "--python", self.python, *packages],
            check=True,
            timeout=SECONDS,
        )

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs one of the environment's programs, in its own folder and without what would lend it
        packages.
        """
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
        )

    def evaluate(self, code: str) -> str:
        """The output of a Python program.

        Raises:
            AssertionError: It failed.
        """
        done = self.run("python", "-W", "error", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A wheel of this tree: before a release the one that ships, else one of the module that all tests load.

    To make the latter nothing is compiled. It holds 60 MB, and is removed in the end.
    """
    folder = tmp_path_factory.mktemp("wheel")
    build = [TOOLS / "maturin", "build", "--locked", "--interpreter", sys.executable]
    dev = [*build, "--compression-method", "stored", "--out", folder]
    subprocess.run(
        ["make", "wheel", f"DIST={folder}"] if SOAK else dev, check=True, cwd=ROOT, timeout=SECONDS
    )
    (built,) = folder.glob("*.whl")
    yield built
    shutil.rmtree(folder)


def environment(folder: Path, wheel: Path, python: str | Path = sys.executable) -> Environment:
    """An environment of an interpreter that holds the wheel alone."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, timeout=SECONDS)
    made = Environment(folder)
    made.install("--offline", "--no-cache", "--no-deps", str(wheel))
    return made


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """The wheel alone."""
    return environment(tmp_path_factory.mktemp("bare") / "venv", wheel)


@pytest.fixture(scope="session")
def with_polars(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """The wheel and the locked polars."""
    made = environment(tmp_path_factory.mktemp("polars") / "venv", wheel)
    made.install(*(f"{name}=={version}" for name, version in locked() if name.startswith("polars")))
    return made


def locked() -> list[tuple[str, str]]:
    """The packages of the lock and their versions."""
    text = (ROOT / "requirements" / "dev.txt").read_text()
    return re.findall(r"^([a-z0-9._-]+)==(\S+)", text, flags=re.MULTILINE)
