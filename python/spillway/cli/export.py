"""``spillway export``: a run for other tools, as a table or as benchmarks of github-action-benchmark."""

from __future__ import annotations

import json
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from spillway.cli.common import fail, reason, write_whole
from spillway.cli.options import RunFolder  # noqa: TC001 - typer reads the annotations

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary

__all__ = ["export"]

_BENCHMARKS = "github-action-benchmark"
_FORMS = (_BENCHMARKS, "csv", "parquet")


def export(
    run: RunFolder,
    *,
    to: Annotated[str, typer.Option(help="github-action-benchmark, csv or parquet.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; standard output by default.", show_default=False),
    ] = None,
) -> None:
    """Export a run to a form that other tools read.

    csv and parquet have a row for each sample, as `spillway.load_run` gives
    it; in CSV lists are JSON. github-action-benchmark gets time, peak memory,
    file size and allocated bytes of each cell, as JSON for its tool
    customSmallerIsBetter.

    A file appears when it is whole, and an old one stays until then.

    Exit status 2: there is no run, or the file cannot be written.
    """
    from spillway.errors import OptionError, SpillwayError
    from spillway.runs import find_run

    try:
        if to not in _FORMS:
            raise OptionError(f"--to {to}: choose from {', '.join(_FORMS)}")
        folder = find_run(run)
        if to == "parquet":
            _write_parquet(folder, out)
        else:
            _write_text(_benchmarks(folder) if to == _BENCHMARKS else _csv(folder), out)
    except (SpillwayError, OSError) as error:
        fail("export", reason(error))


def _benchmarks(folder: Path) -> str:
    from spillway.bench.exporting import custom_benchmarks
    from spillway.bench.record import SAMPLES
    from spillway.bench.summary import read_run
    from spillway.errors import OptionError
    from spillway.harness.records import is_stored

    if not is_stored(folder / SAMPLES):
        raise OptionError(
            f"--to {_BENCHMARKS}: {folder} is no run of `spillway bench`: csv and parquet take it"
        )
    run = read_run(folder)
    _say_what_is_left_out(run)
    return json.dumps(custom_benchmarks(run), indent=2) + "\n"


def _say_what_is_left_out(run: RunSummary) -> None:
    from spillway._wording import counted
    from spillway.bench.failures import outcome_words

    for each in run.cells:
        if not each.is_right:
            cell = f"{each.cell.backend}, {each.cell.mode}, {counted(each.cell.rows, 'row')}"
            typer.secho(f"left out: {cell}: {outcome_words(each.outcome)}", err=True, fg="yellow")


def _csv(folder: Path) -> str:
    from spillway.bench.exporting import comma_separated
    from spillway.runs import load_run

    return comma_separated(load_run(folder))


def _write_parquet(folder: Path, out: Path | None) -> None:
    from spillway.errors import OptionError
    from spillway.runs import load_run
    from spillway.writer import write_parquet

    if out is None and sys.stdout.isatty():
        raise OptionError("--to parquet: a terminal shows no Parquet: name a file by --out")
    write_parquet(load_run(folder), sys.stdout.buffer if out is None else out)


def _write_text(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        write_whole(text, out)
