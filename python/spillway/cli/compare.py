"""``spillway compare``: two runs, or two backends of one run, with an exit status that gates a change."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from spillway.cli.common import fail, listed, percentage, print_tables, reason

if TYPE_CHECKING:
    from spillway.bench.compare import Comparison, Measure
    from spillway.harness.report.table import Table

__all__ = ["compare"]

_TWO = 2
_BEYOND_GATE = 1


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
            "speed,memory,size, of two Python environments time,memory,size.",
            show_default=False,
        ),
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option(
            help="End with 1 if anything that is compared got worse by more: 5%.", show_default=False
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

    from spillway.bench.compare_tables import gate_lines
    from spillway.errors import SpillwayError

    console = Console()
    try:
        share = None if gate is None else percentage("--gate", gate)
        tables, reading, found = _compared(runs, listed(backend or ""), metric)
    except (SpillwayError, OSError) as error:
        fail("compare", reason(error))
    notes = [*(f"differs: {each}" for each in found.differences), *found.alone]
    print_tables(console, tables, reading, notes)
    if share is None:
        return
    for line in gate_lines(found, share):
        console.print(line, highlight=False, markup=False)
    beyond = bool(found.beyond(share) or found.lost)
    if found.is_blind and not beyond:
        fail("compare", f"--gate {gate}: so few samples tell no change, however large: take more --samples")
    verdict, style = _verdict(found, share, beyond=beyond)
    console.print(f"gate of {share:.1%}: {verdict}", style=style, highlight=False)
    if beyond:
        raise typer.Exit(_BEYOND_GATE)


def _verdict(found: Comparison, share: float, *, beyond: bool) -> tuple[str, str]:
    """The word on the gate and its style."""
    if beyond:
        return "exceeded", "bold red"
    if found.unclear(share):
        return "not exceeded as far as the samples tell", "bold yellow"
    return "kept", "bold green"


def _compared(
    runs: list[Path], backends: list[str], metric: str | None
) -> tuple[list[Table], list[str], Comparison]:
    """The comparison as tables, with the meaning of their columns, and as it is."""
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
        return [build_table(read[0], found)], [BUILD_LEGEND], found
    if len(read) == _TWO:
        found = compare_runs(read[0], read[1], measures, backends)
    elif len(backends) == _TWO:
        found = compare_backends(read[0], backends[0], backends[1], measures)
    else:
        known = ", ".join(dict.fromkeys(each.cell.backend for each in read[0].cells))
        raise OptionError(f"of one run two backends are compared: --backend OLD,NEW out of {known}")
    return comparison_tables(found), legend(found), found


def _measures(text: str | None, *, of_pythons: bool) -> list[Measure]:
    from spillway.bench.compare import METRICS, usual_metrics
    from spillway.errors import OptionError

    if text is None:
        return usual_metrics(of_pythons=of_pythons)
    names = listed(text)
    if not names or set(names) - set(METRICS):
        raise OptionError(f"--metric {text!r}: choose from {', '.join(METRICS)}")
    return [METRICS[name] for name in names]
