"""`spillway race --work` from its command line to the files it leaves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spillway.harness import records
from spillway.race import committers
from spillway.race.location import Location
from spillway.race.model import FILE_ROWS, OPERATIONS, WORKS, Cell, Compaction, load
from spillway.race.record import RACES, read_run
from spillway.race.report import draw_figures, write_report
from spillway.race.run import Options, plan_cells
from spillway.race.tables import targets_table

from ..counts import SOAK, count
from .conftest import invoke, races_in

if TYPE_CHECKING:
    from collections.abc import Mapping

WRITERS = count(quick=4, ci=6, soak=20)
DELETED = 5
ROOT = Path(__file__).parents[2]
CONFLICTS = {"ConcurrentAppend", "ConcurrentDeleteRead", "ConcurrentDeleteDelete"}


@pytest.fixture(scope="module")
def deletes(disk: Path) -> Path:
    """The folder of a run in which each committer deletes."""
    small = ("--writers", str(WRITERS), "--rows", str(DELETED), "--appends", "2")
    result = invoke(disk / "deletes", "--work", "delete", *small)
    assert result.exit_code == 0, result.output
    (folder,) = (disk / "deletes").iterdir()
    return folder


def conflicts(record: Mapping[str, Any]) -> int:
    return sum(each["count"] for each in record["conflicts"])


def test_every_committer_deletes_what_it_says_and_nothing_else(deletes: Path) -> None:
    found = {each["cell"]["committer"]: each for each in records.read_lines(deletes / RACES)}
    assert set(found) == {"row-level", "file-level", "partition-level", "delta-rs"}
    for each in found.values():
        assert (each["cell"]["work"], each["cell"]["workload"]) == ("delete", None)
        assert each["acknowledged"] + conflicts(each) == 2 * WRITERS
        assert each["outcome"] == ("conflicts" if conflicts(each) else "ok")
        # Those that wait at the same time share a version.
        assert each["acknowledged"] == each["table"]["present"] >= each["table"]["versions"] > 0
        left = FILE_ROWS - DELETED * each["acknowledged"]
        assert each["table"]["rows"] == {"delta-rs": left, "polars": left}
        assert (each["errors"], each["failed"], each["table"]["problems"]) == ([], 0, [])
        assert {one["operation"] for one in each["conflicts"]} <= {"delete"}
        assert {one["conflict"] for one in each["conflicts"]} <= CONFLICTS
        assert 0 < each["wait_seconds"][100] <= each["seconds"] <= each["answered_seconds"]
    assert found["row-level"]["outcome"] == found["partition-level"]["outcome"] == "ok"


# Each committer changes rows by one of the two; in a soak, by both.
CHANGES = {"update": ("row-level", "file-level"), "merge": ("partition-level", "delta-rs")}
if SOAK:
    CHANGES = dict.fromkeys(CHANGES, ("row-level", "file-level", "partition-level", "delta-rs"))


@pytest.mark.parametrize("work", CHANGES)
def test_updates_and_merges_change_what_they_say_and_nothing_else(disk: Path, work: str) -> None:
    raced = CHANGES[work]
    small = ("--writers", str(WRITERS), "--rows", str(DELETED), "--committers", ",".join(raced))
    result = invoke(disk / work, "--work", work, *small)
    assert result.exit_code == 0, result.output
    (folder,) = (disk / work).iterdir()
    found = {each["cell"]["committer"]: each for each in records.read_lines(folder / RACES)}
    assert set(found) == set(raced)
    for each in found.values():
        assert each["acknowledged"] + conflicts(each) == WRITERS
        # Those that wait at the same time share a version.
        assert each["acknowledged"] == each["table"]["present"] >= each["table"]["versions"] > 0
        assert each["table"]["rows"] == {"delta-rs": FILE_ROWS, "polars": FILE_ROWS}
        assert (each["errors"], each["failed"], each["table"]["problems"]) == ([], 0, [])
        assert {one["operation"] for one in each["conflicts"]} <= {work}
    without_conflict = {"row-level", "partition-level"} & set(raced)
    assert {found[name]["outcome"] for name in without_conflict} == {"ok"}


def test_the_report_of_deletes_tells_the_work_and_the_rule(deletes: Path) -> None:
    report = (deletes / "report.md").read_text()
    assert re.match(r"# Race \S+: delete\n", report)
    assert "Delete: each writer deletes rows of its own." in report
    assert (
        f"delete, {DELETED} rows a delete, 2 deletes each, in sequence, 100,000 rows in the table" in report
    )
    assert "is called once, whoever commits" in report
    assert "nothing is tried again after it" in report
    assert "row-level: `spillway.delta`, with deletion vectors" in report
    # The published figures are of appends.
    assert "Published" not in report
    (head,) = [line for line in report.splitlines() if line.startswith("| committer")]
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    assert {"committed", "conflicts", "rows left", "lost", "doubled", "deletes/s", "versions"} <= set(columns)
    assert {"service p50 s", "longest service s", "all answered s", "attempts a delete"} <= set(columns)
    page = (ROOT / "docs" / "guide" / "races.md").read_text()
    assert set(columns) <= set(re.findall(r"(?<!`)`([^`\n]+)`", page))


def test_the_report_of_deletes_is_made_from_the_disk_alone(deletes: Path) -> None:
    before = (deletes / "report.md").read_text()
    run = read_run(deletes)
    assert [each.cell.committer for each in run.cells] == list(committers.able("delete"))
    assert write_report(run, draw_figures(run)).read_text() == before


def test_deletes_and_appends_race_in_processes(out: Path) -> None:
    small = ("--writers", str(WRITERS), "--spread", "processes:2", "--rows", str(DELETED))
    result = invoke(out, "--work", "mixed", "--committers", "row-level,delta-rs", *small)
    assert result.exit_code == 0, result.output
    assert "row-level, mixed" in " ".join(result.output.split())
    deleters = WRITERS // 2
    for each in races_in(out):
        assert (each["cell"]["work"], each["cell"]["processes"]) == ("mixed", 2)
        assert each["acknowledged"] + conflicts(each) == WRITERS
        assert each["acknowledged"] == each["table"]["present"]
        assert each["table"]["problems"] == []
        lost = {one["operation"]: one["count"] for one in each["conflicts"]}
        done = deleters - lost.get("delete", 0)
        added = WRITERS - deleters - lost.get("append", 0)
        assert each["table"]["rows"]["polars"] == FILE_ROWS + DELETED * (added - done)
        if each["cell"]["committer"] == "row-level":
            assert each["outcome"] == "ok"


# Each committer compacts in a soak.
COMPACT = committers.able("optimize") if SOAK else ("row-level", "delta-rs")


def test_an_optimiser_compacts_beside_writers(out: Path) -> None:
    small = ("--writers", str(WRITERS), "--appends", "2", "--rows", str(DELETED), "--table-rows", "5000")
    result = invoke(out, "--work", "optimize", "--committers", ",".join(COMPACT), *small)
    assert result.exit_code == 0, result.output
    found = {each["cell"]["committer"]: each for each in races_in(out)}
    assert set(found) == set(COMPACT)
    appended = WRITERS // 2 * 2
    for name, each in found.items():
        assert each["cell"]["file_rows"] == 5_000
        assert each["acknowledged"] + conflicts(each) == 2 * WRITERS
        assert each["acknowledged"] == each["table"]["present"]
        assert each["table"]["problems"] == []
        lost = {one["operation"]: one["count"] for one in each["conflicts"]}
        rows = 5_000 + DELETED * (appended - lost.get("append", 0))
        assert each["table"]["rows"] == {"delta-rs": rows, "polars": rows}
        compactions = each["compactions"]
        # On a busy machine all may be over before there is something to compact.
        assert compactions["finished"] + compactions["idle"] + compactions["failed"] >= 1
        assert compactions["failed"] == sum(error["count"] for error in compactions["errors"])
        if name == "row-level":
            assert (each["outcome"], compactions["failed"]) == ("ok", 0)
    (report,) = out.rglob("report.md")
    (head,) = [line for line in report.read_text().splitlines() if line.startswith("| committer")]
    columns = {cell.strip() for cell in head.strip("|").split("|")}
    assert {"compactions", "failed compactions"} <= columns
    page = (ROOT / "docs" / "guide" / "races.md").read_text()
    assert columns <= set(re.findall(r"(?<!`)`([^`\n]+)`", page))


@pytest.mark.parametrize("committer", committers.able("optimize"))
def test_a_compaction_counts_the_files_that_it_replaces(tmp_path: Path, committer: str) -> None:
    cell = Cell(committer=committer, work="optimize", writers=2, partitions="one", file_rows=40)
    by, location = load(committer), Location(str(tmp_path / "t"))
    by.create(location, cell)
    writer = by.writer(location, cell)
    replaced = []
    for _ in range(2):
        OPERATIONS["append"](cell, 1, 0).run(writer)
        for _ in range(2):
            compaction = Compaction()
            writer.change(compaction)
            replaced.append(compaction.files)
    assert replaced == [2, 0, 2, 0]


def test_two_streams_merge_into_one_table(out: Path) -> None:
    streams = ("--writers", "2", "--spread", "processes", "--appends", "3", "--rows", str(DELETED))
    result = invoke(out, "--work", "merge", "--committers", "row-level", "--table-rows", "5000", *streams)
    assert result.exit_code == 0, result.output
    (each,) = races_in(out)
    assert (each["outcome"], each["acknowledged"], conflicts(each)) == ("ok", 6, 0)
    assert each["table"]["rows"] == {"delta-rs": 5_000, "polars": 5_000}


def test_targets_of_changes_are_judged_by_what_was_run(deletes: Path, tmp_path: Path) -> None:
    """By records that are written here: the races take minutes."""
    template = records.read_lines(deletes / RACES)[0]

    def line(work: str, committer: str, writers: int, rows: int, **more: Any) -> dict[str, Any]:
        cell = {"committer": committer, "work": work, "writers": writers, "rows": rows, "appends": 1}
        cell |= {"partitions": "one", "processes": 1, "file_rows": FILE_ROWS, "workload": None}
        cell |= more.pop("cell", {})
        return template | {"cell": cell, "outcome": "ok", "acknowledged": writers, "conflicts": []} | more

    refused = {"outcome": "conflicts", "acknowledged": 1}
    compactions = {"finished": 2, "idle": 7, "failed": 0, "errors": []}
    lines = [
        line("delete", "row-level", 100, 500),
        line("delete", "file-level", 100, 500, **refused),
        line("delete", "row-level", 100, 500, cell={"processes": 100}, **refused),
        line("update", "row-level", 1_000, 1, cell={"file_rows": 1_000_000}, seconds=7.25),
        line("optimize", "row-level", 32, 10, cell={"appends": 300}, compactions=compactions),
    ]
    (tmp_path / "environment.json").write_text((deletes / "environment.json").read_text())
    for each in lines:
        records.append(tmp_path / RACES, each)
    run = read_run(tmp_path)
    found = {row[0].text: [each.text for each in row[1:]] for row in targets_table(run).rows}
    assert found["100 threads delete rows of one file"] == ["100 commit", "100 (file-level: 1)", "yes"]
    assert found["100 processes delete rows of one file"] == [
        "100 commit",
        "conflicts, 1 of 100 acknowledged",
        "no",
    ]
    assert found["1,000 threads update a row each of 1,000,000"] == ["all in 10 s", "7.25", "yes"]
    assert found["32 writers beside an optimiser: compactions"] == [
        "3 at least",
        "2 (delta-rs: not run)",
        "no",
    ]
    assert found["32 writers beside an optimiser: failed compactions"] == ["0", "0", "yes"]
    assert found["300 writers"] == ["100 x", "not run", "-"]


def test_those_that_change_rows_append_as_well(out: Path) -> None:
    levels = ("--committers", "row-level,partition-level", "--partitions", "one", "--writers", "2")
    result = invoke(out, "--work", "append", *levels)
    assert result.exit_code == 0, result.output
    (record,) = races_in(out)
    assert (record["cell"]["committer"], record["outcome"]) == ("row-level", "ok")
    assert record["table"]["rows"] == {"delta-rs": 20, "polars": 20}
    assert "partition-level, append-only, 2 writers: skipped, its writers have a partition each" in " ".join(
        result.output.split()
    )


def test_a_wrong_table_after_deletes_is_said_first(deletes: Path, tmp_path: Path) -> None:
    record = records.read_lines(deletes / RACES)[0]
    record["outcome"] = "wrong_output"
    record["table"] |= {"lost": 1, "problems": ["acknowledged, and not in the table: writer 0, delete 0"]}
    (tmp_path / "environment.json").write_text((deletes / "environment.json").read_text())
    records.append(tmp_path / RACES, record)
    run = read_run(tmp_path)
    (wrong,) = run.wrong()
    assert wrong.endswith("acknowledged, and not in the table: writer 0, delete 0")
    assert "**Tables are wrong:**" in write_report(run, draw_figures(run)).read_text()


def test_operations_of_a_race_change_different_rows() -> None:
    for work in WORKS:
        options = Options(
            committers=("row-level",),
            writers=(7,),
            work=work,
            rows=9,
            appends=3,
            **({} if work == "append" else {"workloads": (), "partitions": ()}),
        )
        (cell,) = plan_cells(options)
        every = [
            row
            for writer in range(cell.writers)
            for number in range(cell.appends)
            for operation in [OPERATIONS[work](cell, writer, number)]
            for row in (*operation.takes(), *operation.puts())
        ]
        # An update has a row as it was, and as it is then. Beside an optimiser four of the seven update.
        sides = {"update": 2 * 7, "merge": 2 * 7, "optimize": 2 * 4 + 3}.get(work, 7)
        assert len(every) == len(set(every)) == sides * 3 * 9


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_half_of_the_writers_of_each_process_delete(processes: int) -> None:
    cell = Cell(committer="row-level", work="mixed", writers=32, processes=processes, file_rows=FILE_ROWS)
    for process in range(processes):
        kinds = [OPERATIONS["mixed"](cell, writer, 0).kind for writer in cell.share(process)]
        assert kinds.count("delete") == kinds.count("append")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--work", "upsert"], "--work upsert: choose from append, delete, update, merge, mixed, optimize"),
        (
            ["--work", "delete", "--committers", "spillway,row-level"],
            "--committers spillway: for appends only; with --work delete choose from row-level, file-level",
        ),
        (["--work", "mixed", "--committers", "delta-rs-retry"], "for appends only; with --work mixed"),
        (["--work", "delete", "--workloads", "merge"], "--workloads needs --work append: leave it out"),
        (["--work", "delete", "--partitions", "own"], "--partitions needs --work append: leave it out"),
        (
            ["--work", "delete", "--targets"],
            "--targets and --real-s3 choose the kinds of work themselves: leave --work delete out",
        ),
        (
            ["--targets", "--committers", "spillway"],
            "choose the races themselves: leave --writers, --committers out",
        ),
        (["--yes"], "--yes answers the question of --real-s3"),
        (["--work", "delete", "--writers", "1000", "--rows", "101"], "may be 100 at most"),
        (
            ["--work", "delete", "--writers", "10", "--rows", "5000", "--appends", "3"],
            "may be 10,000 at most",
        ),
        (
            ["--work", "delete", "--table-rows", "99", "--writers", "10"],
            "may be 9 at most; --table-rows makes",
        ),
        (["--work", "delete", "--table-rows", "0"], "--table-rows takes whole numbers from 1 up"),
        (["--table-rows", "1000"], "leave it out with --work append"),
        (["--committers", "partition-level", "--partitions", "one"], "--partitions own"),
    ],
)
def test_what_does_not_go_together_says_what_does(out: Path, arguments: list[str], words: str) -> None:
    result = invoke(out, "--writers", "1", *arguments)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not list(out.iterdir())


def test_help_teaches_deletes() -> None:
    text = " ".join(re.sub(r"[│\s]+", " ", invoke(Path("unused"), "--help").output).split())
    assert "--work delete --writers 100 --rows 500 --committers row-level,file-level" in text
    for word in ("mixed", "optimize", "--table-rows", "row-level", "partition-level", "not retried"):
        assert word in text
