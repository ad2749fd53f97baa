"""The public names: a list that is committed, so that none comes, goes or moves unseen."""

from __future__ import annotations

import subprocess
import sys

import pytest

import spillway

from .public_names import LIST, defined_without_saying, modules, public_names


def test_public_names_are_those_on_the_list() -> None:
    expected, found = set(LIST.read_text().splitlines()), set(public_names())
    advice = "python -m tests.packaging.public_names writes the list anew; say in CHANGELOG.md what changed"
    assert (sorted(found - expected), sorted(expected - found)) == ([], []), advice


@pytest.mark.parametrize("module", modules())
def test_what_is_not_public_begins_with_an_underscore(module: str) -> None:
    assert defined_without_saying(module) == []


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["backends", "delta", "runs"])
def test_a_submodule_is_imported_when_it_is_first_named(name: str) -> None:
    there = f"'spillway.{name}' in sys.modules"
    code = f"import sys, spillway; print({there}, end=' '); spillway.{name}.__all__; print({there})"
    assert run(code) == "False True"


def test_a_table_is_opened_without_a_second_import() -> None:
    code = "import spillway; print(spillway.delta.open.__module__, spillway.types.Compression.__args__[0])"
    assert run(code) == "spillway.delta.table zstd"


def test_dir_lists_what_is_imported_late() -> None:
    listed = run("import spillway; print(' '.join(dir(spillway)))").split()
    assert set(spillway.__all__) <= set(listed)
    assert "import_module" not in listed


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'spillway' has no attribute 'no_such'"):
        spillway.no_such  # noqa: B018 - what is tested
    with pytest.raises(ImportError):
        from spillway import no_such  # noqa: F401, PLC0415
