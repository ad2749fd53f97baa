"""What the commands that measure have in common: lists as options, and how they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["INTERRUPTED", "fail", "interrupt", "listed", "whole_numbers"]

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


def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Treat a request to end as Ctrl-C, so that nothing is left running."""
    raise KeyboardInterrupt


def fail(command: str, message: str) -> NoReturn:
    """Say why a command cannot do what was asked, and end."""
    typer.secho(f"spillway {command}: {message}", err=True, fg=typer.colors.RED)
    raise typer.Exit(2)
