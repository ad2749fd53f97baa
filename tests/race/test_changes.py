"""The check of a race of deletes finds what is planted: rows that came back, are doubled, or went unasked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

import spillway.delta
from spillway.errors import ConcurrentDeleteDelete
from spillway.race import committers
from spillway.race.check import Verdict, check
from spillway.race.location import Location, log_name
from spillway.race.model import OPERATIONS, Cell, first_table, load, own_conditions, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.race.check import Step

ROWS = 400
DELETED = 5
STEPS = [(writer, number) for writer in range(4) for number in range(2)]
Line = dict[str, dict[str, Any]]


def cell(committer: str = "row-level", work: str = "delete") -> Cell:
    return Cell(
        committer=committer,
        work=work,
        writers=4,
        appends=2,
        rows=DELETED,
        partitions=committers.partitions(committer),
        file_rows=ROWS,
    )


def made(folder: Path, of: Cell, steps: Sequence[Step] = STEPS) -> Location:
    """A table in which these operations were done one after the other."""
    location = Location(str(folder / "table"))
    committer = load(of.committer)
    committer.create(location, of)
    for step in steps:
        OPERATIONS[of.work](of, *step).run(committer.writer(location, of))
    return location


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Location:
    """A table of which all rows that are marked are in one vector."""
    return made(tmp_path_factory.mktemp("done"), cell())


@pytest.fixture
def location(done: Location, tmp_path: Path) -> Location:
    """A copy to plant a fault in."""
    shutil.copytree(done.uri, tmp_path / "copy")
    return Location(str(tmp_path / "copy"))


def change(location: Location, version: int, changed: Callable[[list[Line]], list[Line]]) -> None:
    """Write a version of the log anew."""
    path = Path(location.uri) / log_name(version)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in changed(lines)))


def line_of(location: Location, version: int, action: str) -> dict[str, Any]:
    text = (Path(location.uri) / log_name(version)).read_text()
    (body,) = [line[action] for line in map(json.loads, text.splitlines()) if action in line]
    return dict(body)


def append(location: Location, data: object) -> None:
    with spillway.delta.open(location.uri).append() as append:
        append.write(data)


def both(fault: str) -> list[str]:
    """A fault that both readers find."""
    return [f"delta-rs {fault}", f"polars {fault}"]


@pytest.mark.parametrize("committer", committers.able("delete"))
def test_a_good_table_passes_whoever_commits(tmp_path: Path, committer: str) -> None:
    left = ROWS - len(STEPS) * DELETED
    assert check(made(tmp_path, cell(committer)), cell(committer), STEPS) == Verdict(
        versions=8, present=8, rows={"delta-rs": left, "polars": left}
    )


@pytest.mark.parametrize("committer", committers.able("mixed"))
def test_deletes_and_appends_are_told_apart(tmp_path: Path, committer: str) -> None:
    mixed = cell(committer, "mixed")
    assert check(made(tmp_path, mixed), mixed, STEPS) == Verdict(
        versions=8, present=8, rows={"delta-rs": ROWS, "polars": ROWS}
    )


def test_what_nobody_heard_of_is_counted_and_no_fault(location: Location) -> None:
    verdict = check(location, cell(), STEPS[:6])
    assert (verdict.present, verdict.unacknowledged, verdict.problems) == (8, 2, [])


def test_what_was_not_done_and_not_acknowledged_is_no_fault(tmp_path: Path) -> None:
    verdict = check(made(tmp_path, cell(), STEPS[:3]), cell(), STEPS[:3], STEPS[3:])
    assert (verdict.present, verdict.lost, verdict.problems) == (3, 0, [])


@pytest.mark.parametrize("forgotten", range(1, len(STEPS)))
def test_a_delete_whose_marks_another_one_forgot_is_lost(location: Location, forgotten: int) -> None:
    """As a merge would lose them that took the marks of its own for all."""
    newest = 1 + len(STEPS)
    entry, older = (line_of(location, version, "add") for version in (newest, newest - forgotten))
    removed = {name: entry[name] for name in ("path", "size", "partitionValues", "deletionVector")}
    lines = [{"remove": removed | {"dataChange": True, "deletionTimestamp": 1}}, {"add": older}]
    path = Path(location.uri) / log_name(newest + 1)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    verdict = check(location, cell(), STEPS)
    assert (verdict.lost, verdict.present) == (forgotten, len(STEPS) - forgotten)
    assert verdict.rows["delta-rs"] == verdict.rows["polars"] == ROWS - verdict.present * DELETED
    (problem,) = verdict.problems
    assert problem.startswith("acknowledged, and not in the table: writer ")


def test_a_delete_of_some_of_its_rows_is_lost(location: Location) -> None:
    append(location, first_table(cell()).slice(0, 1))
    verdict = check(location, cell(), STEPS)
    assert verdict.lost == 1
    assert verdict.problems == ["acknowledged, and not in the table: writer 0, delete 0"]


def test_a_delete_of_some_of_its_rows_is_found_though_nobody_heard_of_it(location: Location) -> None:
    append(location, first_table(cell()).slice(0, 1))
    assert check(location, cell(), STEPS[1:]).problems == ["in the table in part: writer 0, delete 0"]


def test_a_row_that_is_there_again_is_found(location: Location) -> None:
    append(location, first_table(cell()).slice(ROWS - 1))
    verdict = check(location, cell(), STEPS)
    assert verdict.problems == both("finds 1 row more than once that no operation is about")


def test_a_row_to_delete_that_is_there_twice_is_doubled(tmp_path: Path) -> None:
    location = made(tmp_path, cell(), STEPS[1:])
    append(location, first_table(cell()).slice(0, 1))
    verdict = check(location, cell(), STEPS[1:])
    assert (verdict.doubled, verdict.lost) == (1, 0)
    assert verdict.problems == ["in the table more than once: writer 0, delete 0"]


def test_an_append_beside_deletes_that_is_there_twice_is_doubled(tmp_path: Path) -> None:
    mixed = cell(work="mixed")
    location = made(tmp_path, mixed)
    append(location, rows(mixed, 3, 1))
    verdict = check(location, mixed, STEPS)
    assert (verdict.doubled, verdict.lost) == (1, 0)
    assert verdict.problems == ["in the table more than once: writer 3, operation 1"]


def test_an_entry_beside_the_one_that_it_should_replace_is_found(location: Location) -> None:
    """As two deletes would leave them that were not merged: then marked rows are back."""
    change(location, 1 + len(STEPS), lambda lines: [line for line in lines if "remove" not in line])
    problems = check(location, cell(), STEPS).problems
    assert problems[0].startswith("added more than once: partition=all/")


def test_an_entry_that_is_removed_and_was_not_there_is_found(location: Location) -> None:
    """As a delete would write it that removes the entry it read, and not the one that came first."""
    base = line_of(location, 2, "add")

    def stale(lines: list[Line]) -> list[Line]:
        vector = base["deletionVector"]
        return [
            {"remove": line["remove"] | {"deletionVector": vector}} if "remove" in line else line
            for line in lines
        ]

    change(location, 1 + len(STEPS), stale)
    problems = check(location, cell(), STEPS).problems
    assert any(
        problem.startswith("removed, and was not in the table: partition=all/") for problem in problems
    )


def test_a_file_that_is_written_again_and_stays_is_found(tmp_path: Path) -> None:
    location = made(tmp_path, cell("file-level"))
    change(location, 1 + len(STEPS), lambda lines: [line for line in lines if "remove" not in line])
    verdict = check(location, cell("file-level"), STEPS)
    assert verdict.problems
    assert verdict.rows["delta-rs"] > ROWS


def test_rows_that_went_unasked_are_found(location: Location) -> None:
    table = spillway.delta.open(location.uri)
    gone = table.delete([("writer", "=", 2), ("row", ">=", 2 * DELETED), ("row", "<", 2 * DELETED + 3)])
    assert gone.rows == 3
    problems = check(location, cell(), STEPS).problems
    assert problems == both("does not find 3 rows that no operation is about")


def test_a_delete_that_was_refused_and_is_in_the_table_is_found(location: Location) -> None:
    problems = check(location, cell(), STEPS[:-1], STEPS[-1:]).problems
    assert problems == ["refused with a conflict, and in the table: writer 3, delete 1"]


def test_rows_that_nobody_wrote_are_found(location: Location) -> None:
    append(location, rows(Cell(committer="row-level", work="append", writers=9), 8, 0).slice(0, 1))
    problems = check(location, cell(), STEPS).problems
    assert "delta-rs finds rows that nobody wrote so: writer 8, number 0, row 0" in problems


def test_an_acknowledgement_that_comes_twice_is_found(location: Location) -> None:
    assert check(location, cell(), [*STEPS, STEPS[0]]).problems == ["a delete was acknowledged twice"]


def test_a_vector_that_is_not_there_is_found(location: Location) -> None:
    def elsewhere(lines: list[Line]) -> list[Line]:
        name = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1}
        return [
            {"add": line["add"] | {"deletionVector": line["add"]["deletionVector"] | name}}
            if "add" in line
            else line
            for line in lines
        ]

    change(location, 1 + len(STEPS), elsewhere)
    problems = check(location, cell(), STEPS).problems
    assert any(
        problem.startswith("polars cannot read the table: ValueError: there is no") for problem in problems
    )


@pytest.mark.parametrize("committer", committers.able("delete"))
def test_the_rows_of_an_operation_are_those_that_its_conditions_find(tmp_path: Path, committer: str) -> None:
    of = cell(committer)
    location = made(tmp_path, of, [])
    table = spillway.delta.open(location.uri)
    for step in STEPS:
        found = table.scan(["writer", "number", "row", "message"], where=own_conditions(of, *step))
        columns = pa.table(found).to_pydict()
        assert sorted(zip(*columns.values(), strict=True)) == OPERATIONS["delete"](of, *step).takes()


def test_conflicts_of_delta_rs_are_told_by_their_words(tmp_path: Path) -> None:
    of = cell("delta-rs")
    committer = load("delta-rs")
    location = made(tmp_path, of, [])
    first, second = (deltalake.DeltaTable(location.uri) for _ in range(2))
    OPERATIONS["delete"](of, 0, 0).by_delta_rs(first)
    with pytest.raises(CommitFailedError) as raised:
        OPERATIONS["delete"](of, 1, 0).by_delta_rs(second)
    assert committer.conflict(raised.value) in {
        "ConcurrentAppend",
        "ConcurrentDeleteRead",
        "ConcurrentDeleteDelete",
    }
    assert committer.conflict(OSError("a concurrent transaction deleted the same data")) is None


def test_conflicts_of_spillway_are_told_by_their_class() -> None:
    committer = load("row-level")
    assert committer.conflict(ConcurrentDeleteDelete("words")) == "ConcurrentDeleteDelete"
    assert committer.conflict(TimeoutError("conflict")) is None
