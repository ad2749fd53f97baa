"""``spillway race``: many writers append to one Delta table at once, or change rows of it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillway.cli.common import (
    INTERRUPTED,
    Out,
    fail,
    failing,
    first_interrupt_alone,
    given,
    listed,
    pairs,
    print_tables,
    termination_as_interrupt,
    whole_numbers,
)

if TYPE_CHECKING:
    from rich.console import Console

    from spillway.race.run import Finished


_INTERRUPTED = "interrupted during the first race: no result was kept"
_OF_CELLS = (
    "writers",
    "rows",
    "appends",
    "seconds",
    "rate",
    "noise",
    "committers",
    "workloads",
    "partitions",
    "table_rows",
    "spread",
)
"""The options that say which races are held."""


def race(  # noqa: PLR0913 - one argument per option of the command
    context: typer.Context,
    *,
    work: Annotated[
        str,
        typer.Option(
            help="The operation of the writers. append: each appends. delete, update, merge: each "
            "changes its own rows of one file. mixed: half of them delete, half append. "
            "optimize: half update, half append, while one optimiser compacts the table in a "
            "loop."
        ),
    ] = "append",
    writers: Annotated[
        str,
        typer.Option(
            help="Numbers of writers that start at the same time, separated by commas: 1,100,2000,10000."
        ),
    ] = "1,10,50,100,1000",
    rows: Annotated[int, typer.Option(help="Rows per operation.")] = 10,
    appends: Annotated[
        int,
        typer.Option(help="Number of operations of each writer, one after another; 200 with --writers 1."),
    ] = 1,
    seconds: Annotated[
        float | None,
        typer.Option(help="Seconds for which each writer keeps appending, instead of --appends."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Appends due per second, for all writers together: an open loop. Needs --seconds. "
            "Arrivals are a Poisson process seeded by --seed; each writer has an equal share, "
            "and a late one starts immediately. Response times count from the time when an "
            "append was due. By default the loop is closed: a writer starts when its last append "
            "was acknowledged, which measures only throughput."
        ),
    ] = None,
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Run a process that writes and syncs files on the disk of the tables."),
    ] = False,
    committers: Annotated[
        str | None,
        typer.Option(
            help="Committers, separated by commas. For appends: spillway: spillway.delta. "
            "spillway-coalesce: the same, sharing files. put-if-absent: each writer alone, in "
            "plain Python. delta-rs: deltalake with its defaults. delta-rs-retry: the same, "
            "retried with back-off. For any work: row-level: spillway.delta with deletion "
            "vectors. file-level: without them. partition-level: the same with a partition for "
            "each writer. delta-rs. By default the first five with --work append, otherwise the "
            "last four. lance, pyiceberg: appends on a local disk, to tables of their own "
            "format; only if you name them."
        ),
    ] = None,
    workloads: Annotated[
        str | None,
        typer.Option(
            help="For appends. merge: each append merges schemas. append-only: none does, and the "
            "table has delta.appendOnly; the default. batched:N: the same with N rows per "
            "append. One or more, separated by commas."
        ),
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            help="For appends. own: a partition for each writer; the default. one: all write to the "
            "same partition. Or own,one."
        ),
    ] = None,
    table_rows: Annotated[
        int | None,
        typer.Option(
            help="Rows in the table before the race, for any work except append; 100,000 by default."
        ),
    ] = None,
    spread: Annotated[
        str,
        typer.Option(
            help="threads of one process, processes (one per writer), or processes:N with threads in each."
        ),
    ] = "threads",
    store: Annotated[
        str | None,
        typer.Option(
            help="Where tables are created: a folder on a disk, or s3://BUCKET/PREFIX; below --out by "
            "default."
        ),
    ] = None,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE for s3://, such as AWS_ENDPOINT_URL=...; AWS_* in the environment also apply."
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            help="Seconds that a race may take, in addition to --seconds; a race that is not over by "
            "then counts as stalled."
        ),
    ] = 60.0,
    samples: Annotated[
        int, typer.Option(help="Races of each cell: 5 for a rough figure, 12 for one to quote.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the order of races, and of the arrivals of --rate.")] = 1,
    targets: Annotated[
        bool,
        typer.Option(
            "--targets",
            help="Run the acceptance races of all kinds of work instead, and say which targets are "
            "met (15 minutes).",
        ),
    ] = False,
    real_s3: Annotated[
        bool,
        typer.Option(
            "--real-s3",
            help="Run a few races on Amazon S3 instead, below an empty --store s3://BUCKET/PREFIX, and empty "
            "it again. Prints requests, cost and time, and asks before anything is written.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, with --real-s3.")] = False,
    keep_tables: Annotated[bool, typer.Option(help="Keep the written tables.")] = False,
    out: Out = Path("runs/race"),
) -> None:
    """Race many writers that append to one Delta table at the same time, or change rows of one file.

    Each race has a fresh table and fresh processes, and all writers start
    together. The race measures how long each writer waits for its
    acknowledgement. Afterwards it checks the log, and two engines read all
    rows: the table must contain every acknowledged append once, and no row
    that an acknowledged delete or update removed. An operation that ends in a
    conflict is counted, but not retried. Results, figures and a report go to a
    new folder below --out. The exit status is 1 if a table is wrong.

    Examples:
    spillway race --writers 10,100,1000 --committers spillway,delta-rs-retry;
    spillway race --writers 1024 --spread processes:64;
    spillway race --writers 1 --appends 200;
    spillway race --writers 64 --spread processes --seconds 60 --committers spillway;
    spillway race --writers 16 --rate 200 --seconds 30 --committers spillway,delta-rs-retry;
    spillway race --workloads merge,append-only,batched:1000 --writers 50;
    spillway race --work delete --writers 100 --rows 500 --committers row-level,file-level;
    spillway race --work update --writers 1000 --rows 1 --table-rows 1000000 --committers row-level;
    spillway race --work optimize --writers 32 --appends 20 --committers row-level,delta-rs;
    spillway race --real-s3 --store s3://BUCKET/PREFIX
    """
    from rich.console import Console

    from spillway.errors import OptionError
    from spillway.race.cell import Progress
    from spillway.race.committers import usual
    from spillway.race.real_s3 import CELLS, RealS3
    from spillway.race.run import Options, hold_races, plan_cells
    from spillway.race.tables import target_cells

    console = Console()
    progress = Progress(console)
    with first_interrupt_alone(), termination_as_interrupt(), failing("race", _INTERRUPTED):
        if (targets or real_s3) and work != "append":
            raise OptionError(
                f"--targets and --real-s3 choose the kinds of work themselves: leave --work {work} out"
            )
        if targets and real_s3:
            raise OptionError("--targets and --real-s3 are different races: leave one out")
        named = given(context)
        if (targets or real_s3) and (unused := [name for name in _OF_CELLS if name in named]):
            options_of = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
            raise OptionError(f"--targets and --real-s3 choose the races themselves: leave {options_of} out")
        if yes and not real_s3:
            raise OptionError("--yes answers the question of --real-s3: leave it out")
        options = Options(
            committers=_chosen(committers, usual(work)),
            writers=whole_numbers("--writers", writers),
            work=work,
            workloads=_chosen(workloads, ("append-only",) if work == "append" else ()),
            rows=rows,
            appends=appends,
            partitions=_chosen(partitions, ("own",) if work == "append" else ()),
            table_rows=table_rows,
            spread=spread,
            seconds=seconds,
            noise=noise,
            rate=rate,
            samples=samples,
            seed=seed,
            time_limit=time_limit,
        )
        on_s3 = store is not None and "://" in store
        cells = target_cells("S3" if on_s3 else "local disk") if targets else plan_cells(options)
        storage_options = pairs("--storage-option", storage_option or [])
        bucket = None
        with ExitStack() as emptied:
            if real_s3:
                bucket = RealS3.find(store, storage_options, options, progress.say, keep=keep_tables)
                print_tables(console, [bucket.plan()], [], [])
                if not yes:
                    typer.confirm("Run these races?", abort=True)
                emptied.enter_context(bucket).prove()
                cells, storage_options = list(CELLS), bucket.location.storage_options
            finished = hold_races(
                cells,
                options,
                store=store,
                storage_options=storage_options,
                out=out,
                keep_tables=keep_tables,
                targets=targets,
                progress=progress,
                real_s3=bucket,
            )
    wrong = _report(console, finished)
    if finished.error is not None:
        fail("race", f"{finished.error}: the report covers the races before")
    if finished.interrupted:
        raise typer.Exit(INTERRUPTED)
    if wrong:
        raise typer.Exit(1)


def _chosen(given: str | None, default: tuple[str, ...]) -> tuple[str, ...]:
    return default if given is None else tuple(listed(given))


def _report(console: Console, finished: Finished) -> list[str]:
    """Write the report from what is on disk, and print its tables; what is wrong with tables."""
    from spillway.race.record import read_run
    from spillway.race.report import all_tables, draw_figures, write_report

    run = read_run(finished.folder)
    report = write_report(run, draw_figures(run))
    print_tables(console, all_tables(run), [], run.warnings())
    wrong = run.wrong()
    for each in wrong:
        console.print(f"wrong: {each}", style="red", highlight=False, markup=False)
    if finished.interrupted:
        console.print("interrupted: the report covers the finished races", style="yellow")
    console.print(f"report: {report}", highlight=False, soft_wrap=True)
    return wrong
