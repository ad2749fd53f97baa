"""The command tree. A subcommand's own file does the work and is imported when the command runs."""

from __future__ import annotations

import typer

from spillway.cli import bench, doctor, inspect, race, validate

__all__ = ["app"]

app = typer.Typer(
    name="spillway",
    help="Write rows to Parquet, measure every writer under your limits, and check what was written.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(bench.bench)
app.command()(doctor.doctor)
app.command()(inspect.inspect)
app.command()(race.race)
app.command()(validate.validate)
