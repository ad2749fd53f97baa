"""The check finds what is planted: rows that are gone or doubled, and a damaged log."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

import spillway.delta
from spillway.race.check import Verdict, check
from spillway.race.committers.spillway import Spillway
from spillway.race.location import Location, log_name
from spillway.race.model import Cell, rows

CELL = Cell(committer="spillway", workload="merge", writers=4, rows=5)
APPENDS = [(writer, 0) for writer in range(4)]


@pytest.fixture
def location(tmp_path: Path) -> Location:
    """A table with one version for each of four appends."""
    location = Location(str(tmp_path / "table"))
    committer = Spillway()
    committer.create(location, CELL)
    for writer, number in APPENDS:
        committer.writer(location, CELL).append(rows(CELL, writer, number))
    return location


def log(location: Location, version: int) -> Path:
    return Path(location.uri) / log_name(version)


def append(location: Location, data: object) -> None:
    with spillway.delta.open(location.uri).append() as append:
        append.write(data)


def only(verdict: Verdict) -> str:
    (problem,) = verdict.problems
    return problem


def test_a_good_table_passes(location: Location) -> None:
    verdict = check(location, CELL, APPENDS)
    assert verdict == Verdict(versions=4, present=4, rows={"delta-rs": 20, "polars": 20})


def test_what_nobody_heard_of_is_counted_and_no_fault(location: Location) -> None:
    verdict = check(location, CELL, APPENDS[:3])
    assert (verdict.present, verdict.unacknowledged, verdict.problems) == (4, 1, [])


def test_an_append_that_is_not_there_is_lost(location: Location) -> None:
    verdict = check(location, CELL, [*APPENDS, (9, 0)])
    assert verdict.lost == 1
    assert only(verdict) == "acknowledged, and not in the table: writer 9, append 0"


def test_an_append_that_lacks_a_row_is_lost(location: Location) -> None:
    append(location, rows(CELL, 9, 0).slice(1))
    verdict = check(location, CELL, [*APPENDS, (9, 0)])
    assert (verdict.lost, verdict.present) == (1, 4)


def test_a_row_that_is_there_again_is_doubled(location: Location) -> None:
    append(location, rows(CELL, 2, 0).slice(1, 1))
    verdict = check(location, CELL, APPENDS)
    assert (verdict.doubled, verdict.lost) == (1, 0)
    assert only(verdict) == "in the table more than once: writer 2, append 0"


def test_a_file_that_is_added_again_is_found(location: Location) -> None:
    shutil.copy(log(location, 4), log(location, 5))
    verdict = check(location, CELL, APPENDS)
    assert any(problem.startswith("added more than once: partition=w3/") for problem in verdict.problems)


def test_a_gap_in_the_log_is_found(location: Location) -> None:
    log(location, 2).unlink()
    verdict = check(location, CELL, APPENDS)
    assert "the log has no version 2" in verdict.problems
    assert verdict.lost


def test_a_version_that_is_no_json_is_found(location: Location) -> None:
    log(location, 4).write_text('{"commitInfo":')
    assert "version 4 is not JSON" in check(location, CELL, APPENDS).problems


def test_a_file_that_is_not_there_is_found(location: Location) -> None:
    table = spillway.delta.open(location.uri)
    gone = unquote(table.files()[0].path)
    (Path(location.uri) / gone).unlink()
    verdict = check(location, CELL, APPENDS)
    assert f"added, but there is no such file: {gone}" in verdict.problems
    assert any(problem.startswith("delta-rs cannot read") for problem in verdict.problems)


def test_an_acknowledgement_that_comes_twice_is_found(location: Location) -> None:
    assert only(check(location, CELL, [*APPENDS, APPENDS[0]])) == "an append was acknowledged twice"


def test_rows_in_another_partition_are_found(location: Location) -> None:
    moved = re.sub(r'"partition":"w\d"', '"partition":"w9"', log(location, 2).read_text())
    log(location, 2).write_text(moved)
    assert only(check(location, CELL, APPENDS)).startswith(
        "delta-rs finds rows that nobody wrote so: writer "
    )


def test_an_append_that_is_there_in_part_is_found_though_nobody_heard_of_it(location: Location) -> None:
    append(location, rows(Cell(committer="spillway", workload="merge", writers=5, rows=3), 4, 0))
    cell = Cell(committer="spillway", workload="merge", writers=5, rows=5)
    assert only(check(location, cell, APPENDS)) == "in the table in part: writer 4, append 0"
