"""``spillway tune``: the best settings of a library's own writer on the user's rows, as code to paste."""

from __future__ import annotations

import math
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from spillway.cli.common import (
    complete_dataset,
    failing,
    print_tables,
    termination_as_interrupt,
    whole_numbers,
)

if TYPE_CHECKING:
    from rich.console import Console

    from spillway.datasets import PreparedInput
    from spillway.tune.search import Found

_DATASET_ROWS = 400_000


def tune(  # noqa: PLR0913 - one argument per option of the command
    *,
    input: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(help="Your rows: a file, a folder or a quoted glob, as in `spillway bench`."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Generated rows instead, for a trial: logs, lineitem.", autocompletion=complete_dataset
        ),
    ] = None,
    library: Annotated[
        str,
        typer.Option("--for", help="The library that writes: pyarrow, polars, duckdb, arro3 or spillway."),
    ] = "pyarrow",
    goal: Annotated[
        str,
        typer.Option(
            help="smaller: the smallest file that takes no longer than with the defaults; faster: the "
            "fastest write whose file is no larger; both: the best product of time and size, "
            "without a loss in either."
        ),
    ] = "both",
    minutes: Annotated[
        float, typer.Option(help="Approximate time that the search may take, in minutes.")
    ] = 3.0,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Use only the first ROWS rows; by default all rows of --input, or 400000 of a dataset."
        ),
    ] = None,
) -> None:
    """Find the best settings of your Parquet writer for your rows.

    You keep your library. Each column is written with every encoding and codec
    that the library offers. The results are combined into settings for whole
    files, which are written in separate processes and measured alternately
    with the library's defaults: speed, size and memory. At the end, the
    command prints the code that writes exactly the measured file.

    The settings suit rows like those measured, so give enough of them.
    Everything is measured on one core.

    Exit status 0: the search is complete, even if nothing beats the defaults.
    2: the search cannot be carried out. 130: interrupted.
    """
    from rich.console import Console

    console = Console()
    with termination_as_interrupt(), failing("tune", "interrupted: nothing is left of it"):
        prepared = _prepared(console, input, dataset, rows)
        found = _search(console, prepared, library, goal, minutes)
    _print(console, prepared.source, library, found)


def _prepared(console: Console, own: str | None, dataset: str | None, rows: str | None) -> PreparedInput:
    from spillway import datasets
    from spillway.errors import OptionError

    if (own is None) == (dataset is None):
        raise OptionError("give either your rows with --input FILE, or --dataset logs for a trial")
    counts = (None,) if rows is None else whole_numbers("--rows", rows)
    if len(counts) != 1:
        raise OptionError(f"--rows {rows}: give one number")
    endless = dataset is not None and dataset not in datasets.packaged_names()
    wanted = _DATASET_ROWS if endless and counts[0] is None else counts[0]
    source = datasets.FileSource(own) if own is not None else str(dataset)
    packaged = datasets.packaged_names()
    if isinstance(source, str) and not (datasets.is_dataset(source) or source in packaged):
        raise OptionError(
            f"--dataset {source}: choose from {', '.join((*datasets.names(), 'lineitem', *packaged))}"
        )
    with console.status("preparing the input"):
        return datasets.prepare(source, seed=1, rows=wanted)


def _search(console: Console, prepared: PreparedInput, library: str, goal: str, minutes: float) -> Found:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from spillway.errors import MissingExtraError, OptionError
    from spillway.tune.search import GOALS, tune
    from spillway.tune.writers import WRITERS

    if library not in WRITERS:
        raise OptionError(f"--for {library}: choose from {', '.join(WRITERS)}")
    chosen = next((each for each in GOALS if each == goal), None)
    if chosen is None:
        raise OptionError(f"--goal {goal}: choose from {', '.join(GOALS)}")
    if not 0 < minutes < math.inf:
        raise OptionError(f"--minutes {minutes:g}: give minutes above 0")
    said: set[str] = set()
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bars.update(task, description=f"measuring {what}", completed=done, total=total)
            if what not in said and not console.is_terminal:
                console.print(f"measuring {what}: {total:,} steps", highlight=False)
            said.add(what)

        try:
            return tune(library, prepared, goal=chosen, minutes=minutes, progress=show)
        except ModuleNotFoundError as error:
            raise MissingExtraError(WRITERS[library].package, "bench", f"tune {library}") from error


def _print(console: Console, source: str, library: str, found: Found) -> None:
    from spillway.tune.search import legend, settings_table, verdict

    print_tables(console, [settings_table(found, f"{library} on {source}")], legend(found), [])
    console.print(verdict(found, library), style="bold", highlight=False, markup=False)
    if found.best is not found.default:
        console.print(
            "To write like this, with your own `table` and `path`:\n", highlight=False, markup=False
        )
        console.print(
            indent(found.best.code, "    "), style="cyan", highlight=False, markup=False, soft_wrap=True
        )
