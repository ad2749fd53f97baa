"""Figures in the docs that are not of the reference run: least memory, crossovers, allocators, equal pairs.

Each is of the newest run below a folder of ``results/``, by the same rule of quoting: twelve samples a cell
on a quiet host. Least memory is no time: each side of it is proved by five writes.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted
from spillway.bench.conclusion import why_limits_not_quoted, why_not_quoted
from spillway.bench.ratio_tables import crossover_of, crossover_text, ratio_tables, variation_tables
from spillway.bench.side_tables import found_limits
from spillway.bench.summary import speed
from spillway.bench.tables import megabytes, ratio, ratio_text
from spillway.harness.report import REPORT, Entry, Table, markdown_table
from stored_runs import stored_run
from study import Answer, answers_of, misses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spillway.bench.side_tables import Found
    from spillway.bench.summary import CellSummary, RunSummary, Setting

PAIR = ("spillway", "pyarrow-buffered")
NO_RUN = "No run is on record that may be quoted: twelve samples a cell, on a quiet host."
_MODES = {"batches": "Batches that are copied to be kept", "batches-retained": "Batches that may be kept"}


def quoted(results: Path, kind: str) -> RunSummary | None:
    """The newest run in a folder of ``results/``, or None; a run that may not be quoted ends the program."""
    runs = sorted(path.parent for path in (results / kind).glob(f"*/{REPORT}"))  # which begin with their date
    if not runs:
        return None
    run = stored_run(runs[-1])
    reasons = why_limits_not_quoted(run) if kind == "limits" else why_not_quoted(run)
    if reasons:
        sys.exit(f"scripts/render.py: run {run.run_id} is not to be quoted: {'; '.join(reasons)}")
    return run


def shown(run: RunSummary | None, text: Callable[[RunSummary], str]) -> str:
    """The figures of a run, and where they are from; a word where there is no run to quote."""
    return NO_RUN if run is None else f"{text(run)}\n\n{source(run)}"


def source(run: RunSummary) -> str:
    """The run that figures are of: its place, its processor, and its samples of a cell."""
    fewest = min(len(each.samples) for each in run.cells)
    samples = "" if run.limit_trials else f", {counted(fewest, 'sample')} a cell"
    place = f"results/{run.folder.parent.name}/{run.folder.name}"
    return f"`{place}`, {run.environment['cpu_model']}{samples}."


def least_memory(run: RunSummary) -> str:
    """The least memory of each backend with what proves its sides, the leanest first, in Markdown."""
    found = found_limits(run, run.settings[0])
    lines = [[Entry(text) for text in _limits(each)] for each in found]
    header = ("backend", "survives from MB", "dies at MB", "ends below")
    cell = found[0].cell
    said = f"At {counted(cell.rows, 'row')}, by limits of kind {cell.limit_kind}; in brackets the writes"
    return f"{markdown_table(Table('', header, lines, []))}\n\n{said} that prove each side."


def _limits(found: Found) -> list[str]:
    bounds = found.bounds
    lives = "-" if bounds.survives_from is None else f"{megabytes(bounds.survives_from)} ({bounds.survived})"
    dies = f"{megabytes(bounds.dies_at)} ({bounds.died})" if bounds.dies_at else "-"
    return [found.cell.backend, lives, dies, and_joined(found.ends) or "-"]


def crossovers(run: RunSummary) -> str:
    """The crossover of the two of `PAIR` in each mode, and the ratio at each number of rows, in Markdown."""
    lines = "\n".join(f"- {_MODES[setting.mode]}: {_crossing(run, setting)}." for setting in run.settings)
    setting, table = next(iter(ratio_tables(run).items()))
    rows = [[Entry(setting.mode), *table.rows[0][1:]]]
    return f"{lines}\n\n{markdown_table(Table('', ('mode', *table.header[1:]), rows, []))}"


def _crossing(run: RunSummary, setting: Setting) -> str:
    ours, theirs = ([each for each in run.of(setting) if each.cell.backend == name] for name in PAIR)
    if len(ours) == 1:
        return f"at {counted(ours[0].cell.rows, 'row')}, all that was measured, {_lead(ours[0], theirs[0])}"
    found = crossover_of(ours, theirs)
    if found is None:
        return _no_crossing(ours, theirs)
    where = crossover_text(found)
    if where == "~":
        return "samples cannot tell where they cross"
    return f"{found.leader} is faster than {found.other} from {where} rows on"


def _lead(mine: CellSummary, other: CellSummary) -> str:
    found = ratio(mine, other, speed)
    assert found is not None  # the cells of a run share its blocks
    return f"{PAIR[0]} writes {ratio_text(found)} times the rows/s of {PAIR[1]}"


def _no_crossing(ours: list[CellSummary], theirs: list[CellSummary]) -> str:
    counts = [each.cell.rows for each in ours]
    ahead = sum(
        mine.rows_per_second.median > other.rows_per_second.median
        for mine, other in zip(ours, theirs, strict=True)
        if mine.rows_per_second is not None and other.rows_per_second is not None
    )
    leader, other = PAIR if ahead * 2 > len(ours) else PAIR[::-1]
    return f"they do not cross: {leader} leads {other} from {min(counts):,} to {max(counts):,} rows"


def process_settings(run: RunSummary) -> str:
    """The sentence that each backend gets for its process settings, and the table behind it, in Markdown."""
    (table,) = variation_tables(run)
    lines = "\n".join(f"- {note}" for note in table.notes)
    return f"{lines}\n\n{markdown_table(Table('', table.header, table.rows, []))}"


def equal_pairs(results: Path) -> str:
    """The answers of each study of known differences, by rows, and those of them that miss what is asked."""
    studies = [json.loads(path.read_text()) for path in sorted((results / "study").glob("*.json"))]
    parts = [_study(each) for each in sorted(studies, key=lambda each: (each["rows"], each["beside"]))]
    return "\n\n".join(parts) or NO_RUN


def _study(study: dict[str, Any]) -> str:
    found = answers_of(study)
    samples = min(each.n for answer in found for each in answer.ratios)
    noisy = sum(bool(each["noise"]) for each in study["runs"])
    missed = misses(found)
    runs = counted(len(found[0].ratios), "run")
    parts = [
        f"{counted(study['rows'], 'row')}, {_writes(samples, study)}, {study['cpu_model']}:",
        markdown_table(Table("", _HEADER, [_line(each) for each in found], [])),
        f"{_asked(missed)}. The host was busy during {noisy} of {runs}.",
    ]
    return "\n\n".join(parts)


def _writes(samples: int, study: dict[str, Any]) -> str:
    if study["beside"]:
        return f"{counted(samples, 'pair')} of writes on one core"
    return f"{counted(samples, 'sample')} a cell, one after the other"


def _asked(missed: list[str]) -> str:
    return f"Not as asked: {'; '.join(missed)}" if missed else "All is as asked"


_HEADER = ("backend", "planted", "called by the interval", "after Holm", "the interval covers the truth")


def _line(found: Answer) -> list[Entry]:
    n = len(found.ratios)
    counts = [f"{count} of {n}" for count in (found.called, found.called_of_all, found.covered)]
    planted = f"{found.planted:.0%} slower" if found.planted else "nothing"
    return [Entry(text) for text in (found.backend, planted, *counts)]
