"""The rehearsal of a release: its index serves what was built, as an installer reads it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest

from .conftest import ROOT, TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def rehearsal() -> Any:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("rehearse", ROOT / "scripts" / "rehearse.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A folder with a wheel of one line and something that stands for the sdist."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "spillway-9.9.tar.gz").write_bytes(b"no archive")
    info = "spillway-9.9.dist-info"
    with ZipFile(folder / "spillway-9.9-py3-none-any.whl", "w") as wheel:
        wheel.writestr("spillway.py", "VERSION = 9.9\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: spillway\nVersion: 9.9\nProvides-Extra: spark\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture
def index(dist: Path, tmp_path: Path) -> Iterator[str]:
    program = rehearsal()
    program.make_index(dist, tmp_path)
    server, address = program.serve(tmp_path)
    yield address
    server.shutdown()
    server.server_close()


def test_an_installer_takes_the_wheel_from_the_index_alone(index: str, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    command = [TOOLS / "uv", "pip", "install", "--quiet", "--no-cache", "--target", target]
    subprocess.run([*command, "--default-index", index, "spillway"], check=True, timeout=60)
    assert (target / "spillway.py").read_text() == "VERSION = 9.9\n"


def test_each_file_of_the_index_has_its_hash(index: str) -> None:
    with urllib.request.urlopen(f"{index}spillway/") as answer:  # noqa: S310 - the server above
        page = answer.read().decode()
    assert len(re.findall(r'href="spillway-9\.9[^"#]*#sha256=[0-9a-f]{64}"', page)) == 2


def test_a_folder_without_the_sdist_is_refused(dist: Path, tmp_path: Path) -> None:
    (dist / "spillway-9.9.tar.gz").unlink()
    with pytest.raises(SystemExit, match="make dist"):
        rehearsal().make_index(dist, tmp_path)


def test_the_rehearsal_finds_this_python_and_the_extras_of_a_wheel(dist: Path) -> None:
    assert "3.11" in rehearsal().pythons()
    assert rehearsal().extras(dist) == ["spark"]
