"""The report on a run of races, ``report.md`` in its folder, with its charts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted
from spillway.backends import OWN_LIBRARY
from spillway.harness.plots import Axis, Chart, Figure, Line, lines, save, styles_of
from spillway.harness.report import (
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
from spillway.race.model import WORKS
from spillway.race.tables import published_table, run_tables, targets_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spillway.harness.report import Table
    from spillway.harness.statistics import Estimate
    from spillway.race.record import CellSummary, RunSummary, Setting

_MEDIAN, _LONGEST = 50, 100
_DOTTED = (0, (1, 1.5))
_PEERS = ("put-if-absent", "delta-rs", "delta-rs-retry", *committers.OWN_TABLES)


def draw_figures(run: RunSummary) -> list[Figure]:
    """Draw each setting in which numbers of writers differ into the run's folder.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    return [save(run.folder, chart) for chart in charts(run)]


def charts(run: RunSummary) -> list[Chart]:
    """The charts of each setting in which numbers of writers differ."""
    found = []
    for setting in run.settings:
        cells = [each for each in run.of(setting) if each.speed]
        if len({each.cell.writers for each in cells}) > 1:
            found += [_speeds(run, setting, cells), _waits(run, setting, cells)]
    return found


def _speeds(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> Chart:
    nouns = f"{setting.kind.noun}s"
    drawn = []
    for name, own in _by_committer(cells):
        drawn += _lines(name, own, lambda each: each.estimate(lambda race: race["appends_per_second"]))
    writers, found = _compared(drawn)
    (best, fastest), *others = sorted(found.items(), key=lambda each: -each[1])
    title = f"{best} commits {_plain(fastest)} {nouns} a second with {counted(writers, 'writer')}"
    if others:
        title += f", {others[-1][0]} {_plain(others[-1][1])}"
    chart = lines(drawn, _writers(cells), Axis(f"{nouns} acknowledged per second", _plain, "log"))
    return Chart(f"{nouns}-{_place(setting)}", title, _below(run, setting, cells), chart)


def _waits(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> Chart:
    medians, longest = [], []
    for name, own in _by_committer(cells):
        longest += _lines(name, own, lambda each: _wait(each, _LONGEST))
        medians += _lines(name, own, lambda each: _wait(each, _MEDIAN))
    title = "Waits by the number of writers"
    if longest:
        writers, found = _compared(longest)
        (best, shortest), *others = sorted(found.items(), key=lambda each: each[1])
        title = f"With {counted(writers, 'writer')} the longest wait is {_plain(shortest)} s for {best}"
        if others:
            title += f", {_plain(others[-1][1])} s for {others[-1][0]}"
    drawn = [replace(each, name=f"{each.name}, longest") for each in longest]
    for each in medians:
        style = replace(each.style, dash=_DOTTED, marker="_", width=1)
        drawn.append(replace(each, name=f"{each.name}, median", style=style))
    chart = lines(drawn, _writers(cells), Axis("seconds from the call to the acknowledgement", _plain, "log"))
    return Chart(f"waits-{_place(setting)}", title, _below(run, setting, cells), chart)


def _wait(cell: CellSummary, percent: int) -> Estimate | None:
    return cell.estimate(lambda race: race["wait_seconds"] and race["wait_seconds"][percent])


def _lines(
    name: str, cells: Sequence[CellSummary], metric: Callable[[CellSummary], Estimate | None]
) -> list[Line]:
    """A committer's line, none without a point; points of races that were cut short are ringed."""
    known = [(each, found) for each in cells if (found := metric(each)) is not None and found.low > 0]
    if not known:
        return []
    return [
        Line(
            name,
            styles_of(committers.NAMES, _library, OWN_LIBRARY)[name],
            [(float(each.cell.writers), found.median) for each, found in known],
            [(found.low, found.high) for _, found in known],
            [float(each.cell.writers) for each, _ in known if each.outcome != "ok"],
        )
    ]


def _library(committer: str) -> str:
    """What a committer's colour stands for."""
    return committer.removesuffix("-retry") if committer in _PEERS else OWN_LIBRARY


def _compared(drawn: Sequence[Line]) -> tuple[int, dict[str, float]]:
    """The values of all lines at the most writers with which several raced, or else the most of all."""
    at: dict[int, dict[str, float]] = {}
    for each in drawn:
        for writers, value in each.points:
            at.setdefault(int(writers), {})[each.name] = value
    most = max(at, key=lambda writers: (len({_library(name) for name in at[writers]}) > 1, writers))
    return most, at[most]


def _writers(cells: Sequence[CellSummary]) -> Axis:
    counts = sorted({float(each.cell.writers) for each in cells})
    return Axis("writers at once", lambda value: f"{value:,.0f}", "log", counts)


def _below(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> str:
    """How the chart is read, the setting, and the committers that have no point at the most writers."""
    fewest = min(len(each.races) for each in cells)
    most = max(each.cell.writers for each in cells)
    parts = [f"Medians of {counted(fewest, 'race')} a point, with their interval."]
    if fewest == 1:
        parts = ["One race a point, which shows no spread."]
    if any(each.outcome != "ok" for each in cells):
        parts.append("Ringed: not all committed in time.")
    words = setting.words
    parts.append(f"{words[:1].upper()}{words[1:]}. {run.environment['cpu_model']}.")
    for name, own in _by_committer(cells):
        last = max(each.cell.writers for each in own)
        if last < most:
            parts.append(f"{name} raced with at most {counted(last, 'writer')}.")
    absent = [name for name in _named(run.of(setting)) if name not in _named(cells)]
    if absent:
        parts.append(f"No point of {and_joined(absent)}.")
    return " ".join(parts)


def _by_committer(cells: Sequence[CellSummary]) -> list[tuple[str, list[CellSummary]]]:
    return [(name, [each for each in cells if each.cell.committer == name]) for name in _named(cells)]


def _named(cells: Sequence[CellSummary]) -> list[str]:
    return [name for name in committers.NAMES if any(each.cell.committer == name for each in cells)]


def _place(setting: Setting) -> str:
    parts = [
        setting.name,
        f"{setting.rows}rows",
        f"{setting.appends}x" if setting.seconds is None else f"{setting.seconds:g}s",
        *([setting.partitions] if setting.partitions is not None else []),
        setting.spread,
        *(["noise"] if setting.noise else []),
        *([f"{setting.rate:g}a-second"] if setting.rate is not None else []),
    ]
    return "-".join(part.replace(":", "").replace(" ", "-").replace(",", "") for part in parts)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.2g}"


_WHOLE_FROM = 10


_APPENDS = (
    "Medians over the races of a cell. *Committed* is what all readers found in the table afterwards, "
    "whole and once; *lost* are appends that were acknowledged and not found, *doubled* those of which a "
    "row was there again. A *service* time begins with the call of an append, of a writer's first one with "
    "the start of the race, and ends with the acknowledgement: the file is written in it. It is of appends "
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
    "operation, of a writer's first one with the start of the race, and ends with the acknowledgement; *in "
    "all* is the time until the last one, *all answered* until the last writer had an answer, also of a "
    "conflict. *Attempts* are tries to write a version for each operation that was acknowledged. Outcomes: "
    "*conflicts* means that all writers had an answer, and some that of a conflict; *stalled* that the "
    "time was up (`>` marks waits that were cut short by it), *incomplete* that writers gave up with an "
    "error, *failed* that a process died, *wrong_output* that the table is not what the writers were "
    "told."
)


def all_tables(run: RunSummary) -> list[Table]:
    """The targets, if requested, and the tables of all settings."""
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
    if (seconds := environment.get("get_seconds")) is None:
        measured = ""
    else:
        where = f" in {environment['region']}" if environment["region"] else ""
        measured = f"{where}, where a GET took {seconds * 1000:,.1f} ms"
    if environment["endpoint"] is None:
        return f"Amazon S3{measured}"
    return f"an S3 server at {environment['endpoint']}, not on Amazon S3{measured}"


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
