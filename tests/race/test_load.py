"""Programs that hold races of load that does not end, and of writers of several kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SIDES = ("spillway", "spillway", "delta-rs", "optimiser")


@pytest.fixture(autouse=True)
def scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield
        sys.modules.pop("load", None)


def test_each_load_is_held_alone_and_beside_noise() -> None:
    from load import endless  # noqa: PLC0415 - of a folder of programs

    cells = endless(60.0, on_s3=False)
    spreads = {(64, 1), (8, 8), (64, 64)}
    for noise in (False, True):
        assert spreads <= {(cell.writers, cell.processes) for cell in cells if cell.noise == noise}
    assert [(cell.writers, cell.processes, cell.seconds) for cell in endless(9.0, on_s3=True)] == [
        (64, 64, 9.0)
    ]


def test_the_published_cells_differ() -> None:
    from load import published  # noqa: PLC0415 - of a folder of programs

    cells = published()
    assert len(cells) == len(set(cells))
    assert {(cell.writers, cell.processes) for cell in cells} >= {(1, 1), (10, 1), (2_000, 1), (10_000, 16)}
    assert {cell.rows for cell in cells} >= {1, 10, 100, 1_000}


def test_writers_of_several_kinds_lose_and_double_nothing(disk: Path) -> None:
    folder = disk / "foreign"
    program = str(ROOT / "scripts" / "foreign_writers.py")
    asked = ("--seconds", "2", "--sides", "spillway:2,delta-rs,optimiser")
    done = subprocess.run(
        [sys.executable, program, str(folder), *asked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = folder.iterdir()
    found = json.loads(record.read_text())
    assert tuple(each["side"] for each in found["writers"]) == SIDES
    appends = sum(each["done"] for each in found["writers"] if each["side"] != "optimiser")
    assert found["table"]["present"] == appends + found["table"]["unacknowledged"]
    assert (found["table"]["lost"], found["table"]["doubled"], found["table"]["problems"]) == (0, 0, [])
