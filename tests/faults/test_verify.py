"""What the system damaged without an error is not published, at each level of `verify` that reads the place.

`injection.c` damages what a write has written, and tells of success.
"""

from __future__ import annotations

import random
import shutil
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ..counts import count
from .faulty_calls import LEVELS, OLD
from .injection import rule
from .test_calls import Program, after, found, make

if TYPE_CHECKING:
    from collections.abc import Iterator

DAMAGE = ("flip", "torn", "cut")
#: All of them, in the first write and in the last.
CASES = count(quick=1, ci=2, soak=6)
#: The kind of a file, and where it lies until it is published.
KINDS = {"file": "*.tmp", "dataset": "*.tmp", "append": "*/part-*.parquet"}


@pytest.fixture(scope="module")
def program(injection: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(injection, tmp_path_factory.mktemp("program"))
    yield program
    program.end()


def names(target: Path) -> set[str]:
    """All that lies beside the target and in it, but for logs: intents of an append that failed may stay."""
    paths = target.parent.rglob("*")
    return {str(path) for path in paths if "_delta_log" not in path.parts and not path.is_dir()}


@pytest.mark.parametrize(("kind", "level"), list(product(KINDS, LEVELS)))
def test_damage_is_found_before_anything_appears(
    program: Program, tmp_path: Path, seed: int, kind: str, level: str
) -> None:
    way, pattern = f"{kind} {level}", KINDS[kind]
    before = tmp_path / "before"
    before.mkdir()
    make(kind, before / "to")
    whole = Path(shutil.copytree(before, tmp_path / "whole")) / "to"
    done = program.run(way, whole)
    assert done.error is None
    old = np.arange(len(OLD))
    suffix = pattern.rpartition("*")[2]
    writes = [call for call in done.calls if call.name == "write" and call.path.endswith(suffix)]
    writes = [call for call in writes if "_delta_log" not in call.path]
    assert len(writes) > 1, "the first write has pages alone, the last one the footer"
    # The footer level reads no page: the first write is none of its business.
    seen = [len(writes)] if level == "footer" else [1, len(writes)]
    cases = list(product(DAMAGE, seen))
    drawn = random.Random(f"{seed} {way}").sample(cases, min(CASES, len(cases)))  # noqa: S311 - of cases
    for damage, nth in drawn:
        target = Path(shutil.copytree(before, tmp_path / f"{damage}-{nth}")) / "to"
        there = names(target)
        done = program.run(way, target, rule("write", pattern, nth=str(nth), how=damage))
        assert damage in {call.how for call in done.calls}
        assert done.error is not None, f"{damage} of write {nth} is published"
        assert done.error.startswith("CorruptFileError"), done.error
        assert np.array_equal(found(target), old)
        assert names(target) == there
    # The same target takes the rows afterwards.
    assert program.run(way, target).error is None
    assert np.array_equal(found(target), after(kind, old))
