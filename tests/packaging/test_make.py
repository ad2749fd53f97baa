"""What `make` builds for a target, by the modules that are there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "pyproject.toml"]
SOURCES += ["requirements/uv.txt", "requirements/dev.txt", "rust/lib.rs", ".build/environment"]


@pytest.mark.parametrize("module", ["module", "release-module", None])
def test_docs_build_no_module_beside_the_one_that_is_there(tmp_path: Path, module: str | None) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in [*SOURCES, *([f".build/{module}"] if module else [])]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    command = ["make", "--dry-run", "docs"]
    steps = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "mkdocs build" in steps
    # Without any, the one that `spillway doctor` asks for.
    assert ("maturin develop --release" in steps) == (module is None)
    assert steps.count("maturin") == (module is None)
