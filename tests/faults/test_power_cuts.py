"""After a power cut, what was told to be done is there, and what was overwritten is all old or all new.

A program writes on a file system in memory that notes its calls (`power_mount.py`). After each of them the
power may fail: what a disk may then have (`power.py`) is drawn, written into a folder, read by other
engines, and written to again.
"""

from __future__ import annotations

import ctypes.util
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from .faulty_calls import CUT_WAYS, OLD, SECONDS
from .power import ROOT, Cut, Disk, Event, MakeNode, Name, Names, Sync, Told, Write, states_after
from .test_calls import after, by_checkpoint, found, make

REPOSITORY = Path(__file__).parents[2]
#: mfusepy, of which `make soak` makes a folder.
LIBRARY = REPOSITORY / ".build" / "fuse"
MISSING = [
    what
    for what, is_there in {
        "/dev/fuse": os.access("/dev/fuse", os.R_OK | os.W_OK),
        "libfuse 2": ctypes.util.find_library("fuse") is not None,
        "fusermount": shutil.which("fusermount") is not None,
        str(LIBRARY.relative_to(REPOSITORY)): LIBRARY.exists(),
    }.items()
    if not is_there
]
#: Nothing that was not synced is kept, or its names alone, as on a file system with a journal; or any of it.
CUTS = [Cut(0, 0), Cut(1, 0), Cut(0.5, 0.5), Cut(1, 0.5), Cut(0.5, 1), Cut(0, 1)]
#: Times that what is left after a call is drawn.
DRAWS = 3
#: What may be lost after it was told: nobody asked for a durable file. The old one is there then.
NOT_DURABLE = {"file", "joined file"}
#: Both replace the rows of a folder.
AS = {"overwriting job": "overwritten dataset"}
#: It does one operation, and tells that it is done.
PROGRAM = """
import os, sys
from pathlib import Path
from tests.faults.faulty_calls import SECONDS, attempt
way, target = sys.argv[1:]
error = attempt(way, target, SECONDS)
assert error is None, error
Path(target).with_name("told").exists()
"""


def test_a_disk_keeps_what_was_synced_and_any_of_the_rest() -> None:
    """The model itself: a file that is renamed over another, with and without syncs."""
    file, old = MakeNode(2, is_folder=False), MakeNode(3, is_folder=False)
    before: list[Event] = [old, Write(3, 0, b"old"), Sync(3), Names((Name(ROOT, "a", 3),)), Sync(ROOT)]
    new: list[Event] = [
        file,
        Names((Name(ROOT, ".a", 2),)),
        Write(2, 0, b"n"),
        Write(2, 1, b"ew"),
        Names((Name(ROOT, ".a", None), Name(ROOT, "a", 2))),
        Sync(ROOT),
    ]

    def contents(events: list[Event]) -> set[bytes]:
        states = states_after([*before, *events], len(before), random.Random(0), CUTS * 20)  # noqa: S311
        return {read(disk, "a") for _, _, disk in states}

    assert contents(new) == {b"old", b"", b"n", b"\0ew", b"new"}
    assert contents([*new[:4], Sync(2), *new[4:]]) == {b"old", b"new"}


def read(disk: Disk, name: str) -> bytes:
    return bytes(disk.files[disk.folders[ROOT][name]])


def traced(way: str, folder: Path) -> tuple[int, list[Event]]:
    """The calls of an operation, with those that made what was there before."""
    before, mounted, events = folder / "before", folder / "mounted", folder / "events"
    for each in (before, mounted):
        each.mkdir()
    make(AS.get(way, way), before / "to")
    places = [str(LIBRARY), str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    program = [sys.executable, "-m", "tests.faults.power_mount", mounted, before, events]
    system = subprocess.Popen(program, env=environment, cwd=REPOSITORY)
    try:
        deadline = time.monotonic() + SECONDS
        while not os.path.ismount(mounted):
            assert system.poll() is None, "the file system ended"
            assert time.monotonic() < deadline, "the file system was not mounted"
            time.sleep(0.05)
        command = [sys.executable, "-c", PROGRAM, way, mounted / "to"]
        subprocess.run(command, env=environment, cwd=REPOSITORY, check=True, timeout=SECONDS)
        subprocess.run(["fusermount", "-u", mounted], check=True)
        assert system.wait(SECONDS) == 0
    finally:
        if system.poll() is None:
            subprocess.run(["fusermount", "-u", "-z", mounted], check=False)
            system.kill()
            system.wait()
    first, done = pickle.loads(events.read_bytes())  # noqa: S301 - the program above wrote it
    assert any(isinstance(each, Told) for each in done)
    return first, done


def check(way: str, target: Path, *, told: bool) -> None:
    """What is claimed of an operation when the power has failed, and of the next one."""
    old = np.arange(len(OLD))
    new, there = after(AS.get(way, way), old), found(target)
    if told and way not in NOT_DURABLE:
        assert np.array_equal(there, new), "what was told to be done is not there"
        assert way != "checkpoint" or np.array_equal(by_checkpoint(target), old)
    elif way in {"dataset", "stream"}:
        # Files appear one after the other.
        assert len(there) == len(np.unique(there)), "rows are doubled"
        assert np.isin(old, there).all()
        assert np.isin(there, new).all()
    elif way in {"overwritten dataset", "overwriting job"}:
        # New files appear one after the other, and old ones go one after the other.
        assert np.isin(old, there).all() or np.isin(new, there).all(), "neither the old rows nor the new"
        assert np.isin(there, np.union1d(old, new)).all()
        assert len(there) == len(np.unique(there)), "rows are doubled"
    else:
        assert any(np.array_equal(there, state) for state in (old, new)), "neither the old rows nor the new"
    CUT_WAYS[way](str(target), SECONDS)
    assert np.array_equal(found(target), after(AS.get(way, way), there)), (
        "the next one did not do what it tells"
    )


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", CUT_WAYS)
def test_a_power_cut_loses_nothing_that_was_told_and_nothing_old(tmp_path: Path, seed: int, way: str) -> None:
    assert not MISSING, f"needs {', '.join(MISSING)}: apt install libfuse2, make .build/fuse"
    first, events = traced(way, tmp_path)
    chance = random.Random(f"{seed} {way}")  # noqa: S311 - of cuts
    wrong, met = [], 0
    for number, told, disk in states_after(events, first, chance, CUTS * DRAWS):
        met += 1
        folder = tmp_path / f"after-{met}"
        disk.save(folder)
        try:
            check(way, folder / "to", told=told)
        except Exception as error:  # noqa: BLE001 - all that is wrong is told at the end
            wrong.append(f"after {number}, {events[number]!r:.100}: {type(error).__name__}: {error}")
        shutil.rmtree(folder)
    assert met > len(events[first:]) // 4
    assert not wrong, f"{len(wrong)} of {met}:\n" + "\n".join(wrong[:20])
