"""The report on a run of races: ``report.md`` in its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.harness.report.markdown import (
    bullets,
    caveats,
    checkout,
    figure_section,
    machine,
    software,
    table_section,
    write_document,
)
from spillway.race import committers
from spillway.race.published import published_table
from spillway.race.tables import run_tables
from spillway.race.targets import targets_table
from spillway.race.works import WORKS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spillway.harness.report.plots import Figure
    from spillway.harness.report.table import Table
    from spillway.race.summary import RunSummary

__all__ = ["all_tables", "write_report"]

_APPENDS = (
    "Medians over the races of a cell. *Committed* is what all readers found in the table afterwards, "
    "whole and once; *lost* are appends that were acknowledged and not found, *doubled* those of which a "
    "row was there again. A *service* time begins when all rows are handed over (the end of the `with` "
    "block, or the call) and ends with the acknowledgement: the file is written in it. It is of appends "
    "that were acknowledged, or still waited when the time was up. Writers start an append when their "
    "last one was answered (a closed loop), so waits that a slow append causes are not in it, and there is "
    "no 99th percentile. With a rate (an open loop) a *response* time counts from the moment at which the "
    "append was due by the schedule. *Offered* are appends that were due, and *achieved* those that were "
    "acknowledged by the end of the schedule, over its seconds. *Attempts* are tries to write a version for "
    "each append that was acknowledged; of delta-rs-retry and pyiceberg they are calls, each of which "
    "retries inside. *Most races lost* is the worst that one append met. Outcomes: *stalled* means that "
    "the time was up (`>` marks waits that were cut short by it), *incomplete* that writers gave up with an "
    "error, *failed* that a process died, *wrong_output* that the table is not what the writers were told."
)
_CHANGES = (
    "Each race begins with a table of one file, of which the writers have rows in turns; with "
    "partition-level each writer has a file. An operation begins at the newest version and is called once, "
    "whoever commits: a conflict with a transaction that committed first is counted, and nothing is tried "
    "again after it. A version that somebody else wrote first is no conflict: the libraries themselves try "
    "the next one, delta-rs 15 times. Medians over the races of a cell. *Committed* are the operations that "
    "two readers found done in the table afterwards, with all their rows; *rows left* is what they counted. "
    "*Lost* are operations that were acknowledged and not found, *doubled* those of which a row was there "
    "again. *Compactions* are calls of the optimiser that wrote files again, *failed compactions* those that "
    "ended with an error or a conflict; their versions count. A *service* time begins with the call of an "
    "operation (of an append, when its rows are handed over) and ends with the acknowledgement; *in all* is "
    "the time until the last one, *all answered* until the last writer had an answer, also of a conflict. "
    "*Attempts* are tries to write a version for each operation that was acknowledged. Outcomes: "
    "*conflicts* means that all writers had an answer, and some that of a conflict; *stalled* that the "
    "time was up (`>` marks waits that were cut short by it), *incomplete* that writers gave up with an "
    "error, *failed* that a process died, *wrong_output* that the table is not what the writers were "
    "told."
)


def all_tables(run: RunSummary) -> list[Table]:
    """The targets where they were asked for, and the tables of all settings."""
    return [*([targets_table(run)] if run.environment["targets"] else []), *run_tables(run)]


def write_report(run: RunSummary, figures: Sequence[Figure]) -> Path:
    """Write ``report.md`` into the run's folder."""
    changes = [name for name in run.works if name != "append"]
    title = f"# Race {run.run_id}" + (f": {', '.join(run.works)}" if changes else "")
    appends = not changes or "append" in run.works
    parts = [title, _environment(run), *caveats(run.warnings()), _wrong(run)]
    parts += [f"{name.capitalize()}: {WORKS[name].what}." for name in changes]
    parts += [table_section(table) for table in all_tables(run)]
    parts += [*([_APPENDS] if appends else []), *([_CHANGES] if changes else [])]
    parts += [_who(run), *_skipped(run)]
    parts += [figure_section(figure) for figure in figures]
    # They are of appends.
    parts += [table_section(published_table())] if appends else []
    return write_document(run.folder, parts)


def _store(environment: dict[str, Any]) -> str:
    """The disk, or which server spoke the protocol of S3: Amazon's answers take longer than a local one's."""
    if environment["store"] == "local disk":
        return "local disk"
    if "endpoint" not in environment:
        return "an S3 server that the record does not name"
    if environment["endpoint"] is None:
        return "Amazon S3"
    return f"an S3 server at {environment['endpoint']}, not on Amazon S3"


def _environment(run: RunSummary) -> str:
    environment = run.environment
    lines = [
        f"{machine(environment)}; tables on {_store(environment)}.",
        software(environment),
        f"Each race has a fresh table and fresh processes, and {environment['options']['time_limit']:g} s.",
        *checkout(environment),
    ]
    return bullets(lines)


def _wrong(run: RunSummary) -> str:
    wrong = run.wrong()
    if wrong:
        return f"**Tables are wrong:**\n\n{bullets(wrong)}"
    races = [race for each in run.cells for race in each.races]
    if not races:
        return "No race was over."
    sentences = []
    if delta := _readers(run, [name for name in committers.NAMES if name not in committers.OWN_TABLES]):
        sentences.append(
            "After each race of Delta tables the log was contiguous, had no file twice and named none that "
            f"is not there; every row was counted by {' and by '.join(delta)}."
        )
    sentences += [
        f"Tables of {name} are no Delta tables: every row was counted by {' and by '.join(readers)} alone."
        for name in committers.OWN_TABLES
        if (readers := _readers(run, [name]))
    ]
    return " ".join(sentences)


def _readers(run: RunSummary, names: Sequence[str]) -> list[str]:
    """The readers that counted the rows of all races of these committers; none if there was no race."""
    found = [
        set(race["table"]["rows"])
        for each in run.cells
        if each.cell.committer in names
        for race in each.races
    ]
    return sorted(set.intersection(*found)) if found else []


def _who(run: RunSummary) -> str:
    raced = {each.cell.committer for each in run.cells}
    names = [name for name in committers.NAMES if name in raced]
    lines = bullets(f"{name}: {committers.what(name)}." for name in names)
    text = f"## The committers\n\n{lines}"
    if run.environment["store"] != "local disk":
        return text + "\n\nOn an object store, what is written survives for all of them."
    synced = bullets(f"{name}: {committers.SYNCED[name]}." for name in names)
    return f"{text}\n\nWhat is on the disk when a commit is acknowledged:\n\n{synced}"


def _skipped(run: RunSummary) -> list[str]:
    lines = [f"{each['words']}: {each['reason']}" for each in run.environment["skipped"]]
    return [f"## Not run\n\n{bullets(lines)}"] if lines else []
