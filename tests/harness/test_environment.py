"""The account of a run's environment."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import spillway
from spillway import _native, backends
from spillway.harness.environment import describe_software, native_build

if TYPE_CHECKING:
    import pytest


def test_two_runs_had_the_same_native_module_if_its_digest_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = native_build()
    assert build is not None
    assert build["sha256"] == hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()
    assert {name: value for name, value in build.items() if name != "sha256"} == spillway.build_info()
    other = tmp_path / "other.so"
    other.write_bytes(b"another build")
    monkeypatch.setattr(_native, "__file__", str(other))
    again = native_build()
    assert again is not None
    assert again["sha256"] != build["sha256"]


def test_the_version_of_every_backends_library_is_recorded() -> None:
    recorded = {library["name"] for library in describe_software()["libraries"]}
    assert {backends.library(name) for name in backends.names()} <= recorded


def test_a_module_that_is_not_built_has_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spillway._native", None)
    monkeypatch.delattr(spillway, "_native")
    assert native_build() is None
