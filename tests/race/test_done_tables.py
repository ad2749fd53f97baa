"""Tables are removed after the last race, so that no race is slowed down by what was deleted before it."""

from __future__ import annotations

import io
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from spillway.race.cell import DoneTables, Progress, creation_seconds
from spillway.race.location import Location

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def done(said: io.StringIO) -> DoneTables:
    return DoneTables(Progress(Console(file=said, width=100)))


def table(place: Path, name: str) -> Location:
    (place / name / "_delta_log").mkdir(parents=True)
    return Location.of(str(place / name), {})


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A disk of which so many of 100 bytes are free."""

    def of(free: int) -> None:
        usage = SimpleNamespace(total=100, used=100 - free, free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)

    return of


def test_tables_wait_for_the_end(tmp_path: Path, done: DoneTables, disk: Any) -> None:
    disk(25)
    for name in ("a", "b"):
        done.add(table(tmp_path, name))
    # A race that failed early has none.
    done.add(Location.of(str(tmp_path / "never"), {}))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]
    done.remove()
    assert not list(tmp_path.iterdir())
    done.remove()


def test_a_disk_that_fills_up_is_not_filled_by_tables_that_wait(
    tmp_path: Path, done: DoneTables, disk: Any
) -> None:
    disk(25)
    done.add(table(tmp_path, "a"))
    disk(24)
    done.add(table(tmp_path, "b"))
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    done.remove()
    assert not list(tmp_path.iterdir())


def test_ctrl_c_says_what_is_left_behind(
    tmp_path: Path, done: DoneTables, disk: Any, said: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk(25)
    for name in ("a", "b", "c"):
        done.add(table(tmp_path, name))
    remove = shutil.rmtree

    def interrupted(folder: Path, **options: Any) -> None:
        if folder.name == "b":
            raise KeyboardInterrupt
        remove(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    done.remove()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]
    assert f"interrupted: 2 tables left in {tmp_path}" in said.getvalue().replace("\n", "")


def test_the_time_of_creating_a_file_is_measured_and_nothing_is_left(tmp_path: Path) -> None:
    assert 0 < creation_seconds(tmp_path) < 1
    assert not list(tmp_path.iterdir())
