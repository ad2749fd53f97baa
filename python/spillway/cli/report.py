"""``spillway report``: a run's report, made anew of its samples, as ``spillway bench`` prints it too."""

from __future__ import annotations

from textwrap import fill, indent
from typing import TYPE_CHECKING

import typer

from spillway.cli.common import INTERRUPTED, fail, print_tables, reason
from spillway.cli.options import RunFolder, Verbose  # noqa: TC001 - typer reads the annotations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from spillway.bench.summary import RunSummary
    from spillway.harness.report.table import Table

__all__ = ["report", "report_run"]


def report(
    run: RunFolder,
    *,
    verbose: Verbose = False,
) -> None:
    """Make a run's report anew, of its samples alone.

    For a run that was killed before it had a report, for one whose samples
    came from another machine, and after an update whose report says more.
    Nothing is measured, and no sample is changed: tables, verdict, figures
    and report.md are written again from samples.jsonl and the files beside it.

    Exit status as of `spillway bench`: 1 if the run holds wrong output of
    Spillway's own writer; 2 if there is no run.
    """
    from rich.console import Console

    from spillway.errors import SpillwayError
    from spillway.runs import find_run

    try:
        status = report_run(Console(), find_run(run), verbose=verbose)
    except (SpillwayError, OSError) as error:
        fail("report", reason(error))
    if status:
        raise typer.Exit(status)


def report_run(
    console: Console,
    folder: Path,
    *,
    verbose: bool,
    interrupted: bool = False,
    validation: Sequence[str] = (),
) -> int:
    """Write the report from what is on disk and print what a user needs of it; the exit status.

    Args:
        console: The console to print to.
        folder: The run's folder.
        verbose: All tables, not only those of speed.
        interrupted: Ctrl-C has just ended the run.
        validation: Lines that say what has just been validated.
    """
    from spillway.bench.failures import status_of, wrong_outputs
    from spillway.bench.figures import draw_figures
    from spillway.bench.html import write_html
    from spillway.bench.report import describe_run, run_tables, write_report
    from spillway.bench.summary import read_run
    from spillway.bench.tables import LEGEND

    run = read_run(folder)
    with console.status("drawing figures"):
        path = write_report(run, draw_figures(run))
        page = write_html(run)
    tables = run_tables(run) if verbose else _short_tables(run)
    print_tables(console, tables, [LEGEND] if tables else [], describe_run(run).caveats)
    wrong = wrong_outputs(run)
    for each in wrong:
        console.print(f"wrong output of {each}", style="red", highlight=False, markup=False)
    if wrong and not (folder / "outputs").exists():
        console.print("--keep-output keeps the files, for `spillway inspect`", highlight=False, markup=False)
    for line in validation:
        console.print(line, highlight=False, markup=False)
    if interrupted:
        covered = "covers the samples that were taken" if run.cells else "holds no sample: none was taken"
        console.print(f"interrupted: the report {covered}", style="yellow")
        if "hosts" not in run.environment:  # executors took its samples: no run of this machine goes on
            again = f"spillway bench --resume {folder} goes on"
            console.print(again, style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print(f"report: {path}, and {page.name} beside it", highlight=False, soft_wrap=True)
    _print_verdict(console, run)
    return INTERRUPTED if interrupted else status_of(run)


def _short_tables(run: RunSummary) -> list[Table]:
    """Who is how fast; of one backend in two Python environments how they compare, unless it failed."""
    from spillway.bench.builds import build_tables
    from spillway.bench.tables import short_tables

    builds = build_tables(run)
    asked = {each.cell.backend for each in run.cells}
    asked |= {each["backend"] for each in run.environment["absent_backends"]}
    is_alone = len(asked) == 1 and all(each.is_right for each in run.cells)
    return builds if builds and is_alone else [*builds, *short_tables(run)]


def _print_verdict(console: Console, run: RunSummary) -> None:
    """Print the verdict, with which the report ends too."""
    from spillway.bench.conclusion import conclude, verdict_caveats

    for each in conclude(run):
        console.print()
        console.print(f"Verdict: {each.title}", style="bold", highlight=False, markup=False)
        for line in each.lines:
            hanging = fill(
                line, console.width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
            )
            console.print(hanging, highlight=False, markup=False)
        if each.code is not None:
            console.print(f"To write as {each.writer} does:", highlight=False, markup=False)
            code = indent(each.code, "    ")
            console.print(code, style="cyan", highlight=False, markup=False, soft_wrap=True)
    console.print()
    for line in verdict_caveats(run):
        console.print(line, highlight=False, markup=False)
