"""The start of a race and the end of its optimiser are told to all processes through one pipe."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from spillway.race import worker
from spillway.race.model import Cell
from spillway.race.worker import START

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_the_end_is_not_taken_for_the_start_that_others_have_not_read(pipe: tuple[int, int]) -> None:
    told, tell = pipe
    cell = Cell(committer="spillway", workload="append-only", writers=2, processes=3)
    optimiser = worker._Race(cell, told, tell)
    assert not optimiser._is_told(0.0)
    os.write(tell, START.pack(1.5) * 3)
    for _ in range(3):
        assert not optimiser._is_told(0.0)
        assert START.unpack(os.read(told, START.size)) == (1.5,)
    os.write(tell, START.pack(1.5) + b"f")
    assert optimiser._is_told(0.0)
    os.read(told, START.size)
    assert optimiser._is_told(0.0)
