"""The command tree. A subcommand's own file does the work and is imported when the command runs."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from spillway.cli import bench, inspect, race, runs, spark, tune, validate, write
from spillway.cli.common import WritingCommand

app = typer.Typer(
    name="spillway",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        typer.echo(f"spillway {metadata.version('spillway')}")
        raise typer.Exit


@app.callback()
def spillway(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Write Parquet files and Delta tables, measure Parquet writers on your rows, and check files."""


app.command()(runs.advise)
app.command()(bench.bench)
app.command()(runs.compare)
app.command()(bench.doctor)
app.command()(runs.export)
app.command()(inspect.inspect)
app.command(cls=WritingCommand)(spark.pipeline)
app.command()(race.race)
app.command()(runs.report)
app.command()(tune.tune)
app.command()(spark.uploads)
app.command()(validate.validate)
app.command(cls=WritingCommand)(write.write)
