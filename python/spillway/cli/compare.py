"""``spillway compare``: two runs, or two backends of one run, with an exit status that gates a change."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from spillway.cli.common import fail, listed, percentage, print_tables, reason, write_whole

if TYPE_CHECKING:
    from spillway.bench.compare import Comparison, Measure
    from spillway.harness.report.table import Table

__all__ = ["compare"]

_TWO = 2
_BEYOND_GATE = 1
_UNTOLD = 2


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of two runs, the old one first; or of one, for its two Python environments or two "
            "of its backends."
        ),
    ],
    *,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Of one run OLD,NEW: its two backends. Of two runs the backends to compare; all by default."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="speed, memory, size, cpu, time, allocated: one or more, separated by commas; by default "
            "speed,memory,size, of two Python environments time,cpu,memory,size.",
            show_default=False,
        ),
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option(
            help="End with 1 if anything that is compared got worse by more: 5%.", show_default=False
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            help="File to write the same to as Markdown, for a comment on a change.", show_default=False
        ),
    ] = None,
) -> None:
    """Compare two runs, or two backends or Python environments of a run, cell by cell.

    A run that was measured before a change, beside one after it:

    \b
        spillway bench --backend mine --samples 12 --out before
        spillway bench --backend mine --samples 12 --out after
        spillway compare before after --gate 5%

    Two backends of a run, whose samples are pairs and tell smaller changes:

    \b
        spillway compare runs --backend pyarrow-streaming,spillway

    Two releases of a library, in two environments of one run:

    \b
        spillway bench --backend polars --samples 12 --python old=A --python new=B
        spillway compare runs --gate 5%

    A change is printed only where the samples tell it from none, else ~. The
    interval says how large it may be. Runs are refused that do not compare:
    other kinds of limit, rows, or code that measures; and other machines,
    unless --metric names only size and allocated, which no machine changes.

    Exit status 0: compared, and within the gate.

    Exit status 1: something got worse by more than the gate, fails now, or is
    not in the new run.

    Exit status 2: it cannot be compared, or so few samples tell nothing for
    the gate; the message says why.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph
    from rich.console import Console

    from spillway.bench.compare_tables import gate_lines, markdown_of
    from spillway.errors import SpillwayError

    console = Console()
    try:
        share = None if gate is None else percentage("--gate", gate)
        shown = _compared(runs, listed(backend or ""), metric)
        found = shown.found
        lines = [] if share is None else gate_lines(found, share)
        verdict, style, status = _verdict(found, share)
        if markdown is not None:
            write_whole(markdown_of(shown.tables, [verdict, *lines], shown.reading, shown.notes), markdown)
    except (SpillwayError, OSError) as error:
        fail("compare", reason(error))
    print_tables(console, shown.tables, shown.reading, shown.notes)
    for line in lines:
        console.print(line, highlight=False, markup=False)
    if status == _UNTOLD:
        fail("compare", verdict)
    if verdict:
        console.print(verdict, style=style, highlight=False)
    if status:
        raise typer.Exit(status)


class _Shown(NamedTuple):
    """A comparison, its tables, the meaning of their columns, and what else to know."""

    found: Comparison
    tables: list[Table]
    reading: list[str]
    notes: list[str]


def _verdict(found: Comparison, share: float | None) -> tuple[str, str, int]:
    """The verdict on the gate with its style and the exit status."""
    if share is None:
        return "", "", 0
    gate = f"gate of {share:.1%}"
    if found.beyond(share) or found.lost:
        return f"{gate}: exceeded", "bold red", _BEYOND_GATE
    if found.is_blind:
        return f"{gate}: so few samples tell no change, however large: take more --samples", "", _UNTOLD
    if found.unclear(share):
        return f"{gate}: not exceeded as far as the samples tell", "bold yellow", 0
    return f"{gate}: kept", "bold green", 0


def _compared(runs: list[Path], backends: list[str], metric: str | None) -> _Shown:
    from spillway.bench.builds import BUILD_LEGEND, build_table
    from spillway.bench.compare import compare_backends, compare_pythons, compare_runs, pythons_of
    from spillway.bench.compare_tables import comparison_tables, legend
    from spillway.bench.summary import read_run
    from spillway.errors import OptionError
    from spillway.runs import find_run

    if len(runs) > _TWO:
        raise OptionError(f"give one run or two, not {len(runs)}")
    read = [read_run(find_run(each)) for each in runs]
    of_pythons = len(read) == 1 and bool(pythons_of(read[0])) and len(backends) != _TWO
    measures = _measures(metric, of_pythons=of_pythons)
    if of_pythons:
        found = compare_pythons(read[0], measures, backends)
        return _Shown(found, [build_table(read[0], found)], [BUILD_LEGEND], read[0].noise())
    if len(read) == _TWO:
        found = compare_runs(read[0], read[1], measures, backends)
    elif len(backends) == _TWO:
        found = compare_backends(read[0], backends[0], backends[1], measures)
    else:
        known = ", ".join(dict.fromkeys(each.cell.backend for each in read[0].cells))
        raise OptionError(f"of one run two backends are compared: --backend OLD,NEW out of {known}")
    notes = [*(f"differs: {each}" for each in found.differences), *found.alone]
    return _Shown(found, comparison_tables(found), legend(found), notes)


def _measures(text: str | None, *, of_pythons: bool) -> list[Measure]:
    from spillway.bench.compare import METRICS, usual_metrics
    from spillway.errors import OptionError

    if text is None:
        return usual_metrics(of_pythons=of_pythons)
    names = listed(text)
    if not names or set(names) - set(METRICS):
        raise OptionError(f"--metric {text!r}: choose from {', '.join(METRICS)}")
    return [METRICS[name] for name in names]
