"""What the commands that measure have in common: lists as options, tables, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from rich.console import Console

    from spillway.harness.text_table import Table

__all__ = ["INTERRUPTED", "fail", "interrupt", "listed", "print_tables", "whole_numbers"]

INTERRUPTED = 130


def listed(text: str) -> list[str]:
    """The parts between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Numbers between commas.

    Raises:
        OptionError: A part is none; the message names `option`.
    """
    from spillway.errors import OptionError

    try:
        return tuple(int(part.replace("_", "")) for part in listed(text))
    except ValueError as error:
        raise OptionError(f"{option} {text!r}: give whole numbers, separated by commas") from error


def print_tables(
    console: Console, tables: Iterable[Table], legend: Iterable[str], warnings: Iterable[str]
) -> None:
    """The tables of a run, how to read them, and what a reader has to know before believing them."""
    from spillway.harness.text_table import terminal_tables

    for table in tables:
        console.print(table.title, style="bold", highlight=False, markup=False)
        for part in terminal_tables(table, console.width):
            console.print(part)
        for note in table.notes:
            console.print(note, highlight=False, markup=False)
        console.print()
    for line in legend:
        console.print(line, style="dim", highlight=False, markup=False)
    for warning in warnings:
        console.print(f"! {warning}", style="yellow", highlight=False, markup=False)


def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Treat a request to end as Ctrl-C, so that nothing is left running."""
    raise KeyboardInterrupt


def fail(command: str, message: str) -> NoReturn:
    """Say why a command cannot do what was asked, and end."""
    typer.secho(f"spillway {command}: {message}", err=True, fg=typer.colors.RED)
    raise typer.Exit(2)
