"""A run tells how far it is, also where there is no terminal to draw on."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from spillway.bench.progress import Progress
from spillway.harness.schedule import schedule

from .conftest import cell


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def taken(outcome="ok", **changes):
    return {"outcome": outcome, "error": None, "died_in": "write", **changes}


@pytest.fixture
def clock():
    return Clock()


def follow(console, clock, *, blocks, seconds, record=None):
    """A run of three cells, each of whose samples takes so long."""
    progress = Progress(console, clock)
    slots = list(schedule([cell("spillway"), cell("arro3"), cell("polars")], blocks=blocks, seed=1))
    progress.sampling(slots)
    for slot in slots:
        progress.sample_begins(slot)
        clock.now += seconds
        progress.sample_ended(slot, record or taken())
    progress.stop()
    return console.file.getvalue().splitlines()


def test_each_block_has_a_line_with_the_time_that_is_left(clock):
    lines = follow(Console(file=io.StringIO(), width=100), clock, blocks=3, seconds=5)
    assert lines == [
        "taking 9 samples in 3 blocks",
        "block 1 of 3 done: 3 of 9 samples, 0:15 passed, about 0:30 left",
        "block 2 of 3 done: 6 of 9 samples, 0:30 passed, about 0:15 left",
        "block 3 of 3 done: 9 of 9 samples, 0:45 passed",
    ]


def test_within_a_long_block_half_a_minute_is_not_passed_in_silence(clock):
    lines = follow(Console(file=io.StringIO(), width=100), clock, blocks=1, seconds=40)
    assert lines == [
        "taking 3 samples in 1 block",
        "block 1 of 1: 1 of 3 samples, 0:40 passed, about 1:20 left",
        "block 1 of 1: 2 of 3 samples, 1:20 passed, about 0:40 left",
        "block 1 of 1 done: 3 of 3 samples, 2:00 passed",
    ]


def test_a_terminal_has_the_live_line_alone(clock):
    console = Console(file=io.StringIO(), width=100, force_terminal=True, legacy_windows=False)
    shown = "\n".join(follow(console, clock, blocks=2, seconds=40))
    assert "samples" in shown
    assert "done:" not in shown
    assert "taking" not in shown


def test_a_failure_that_comes_again_is_said_once(clock):
    error = {"type": "OSError", "message": "No space left on device\nand more"}
    lines = follow(
        Console(file=io.StringIO(), width=100),
        clock,
        blocks=3,
        seconds=1,
        record=taken("library_error", error=error, cell={}),
    )
    failures = [line for line in lines if "library error" in line]
    assert len(failures) == 3  # one for each cell
    assert "arro3, batches, 10,000 rows: library error: OSError: No space left on device" in failures


def test_reading_back_says_how_far_it_is(clock):
    console = Console(file=io.StringIO(), width=100)
    progress = Progress(console, clock)
    progress.validating(3, ["spark"])
    for done in range(1, 4):
        clock.now += 31
        progress.validated(done, 6, "spark-row reads 3 files")
    progress.stop()
    assert console.file.getvalue().splitlines() == [
        "reading 3 distinct outputs back with spark",
        *(f"spark-row reads 3 files: {done} of 6 readings done" for done in range(1, 4)),
    ]
