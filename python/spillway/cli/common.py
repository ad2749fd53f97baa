"""What the commands share: options, completion, lists and sizes, tables, and exit codes."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from rich.console import Console

    from spillway.harness.report import Table

Out = Annotated[Path, typer.Option(help="Folder in which runs are stored, on a disk.")]
"""The folder below which a run gets its own."""

RunFolder = Annotated[
    Path, typer.Argument(help="The folder of a run, or a folder of runs, whose newest run is used.")
]
"""A run that was measured before."""

Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", help="Print all tables of the report: every number of rows, and every measure."
    ),
]
"""More tables on the terminal."""

Delimiter = Annotated[
    str | None, typer.Option(help="Field separator of CSV files in --input: ';' or tab; a comma by default.")
]
"""The separator of CSV."""

Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of text files in --input: cp1252, latin-1, utf-16; UTF-8 by default."),
]
"""The encoding of text."""

StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE for an object store, such as AWS_ENDPOINT_URL=...; may be repeated. "
        "Other settings come from the environment."
    ),
]
"""Settings of an object store."""


# The options of commands that have a shorter name than in Python.
_SHORTER = {"compression": "codec", "compression_level": "level"}
# It is the encoding of columns in Python, and that of text in commands.
_OTHER = "encoding"


class WritingCommand(TyperCommand):
    """A command whose error for an unknown option suggests the option with the same meaning."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # of the click that this version of typer has
            unknown: Any = error
            name = getattr(error, "option_name", None)
            if isinstance(name, str) and hasattr(error, "possibilities"):
                options = [option for each in self.params for option in each.opts]
                unknown.possibilities = meant(name, options) or unknown.possibilities
            raise


def meant(name: str, options: Iterable[str]) -> list[str]:
    """The options of a command that an unknown option probably means."""
    from spillway._options import ELSEWHERE, option_of

    python = name.lstrip("-").replace("-", "_")
    spelling = ELSEWHERE.get(python)
    names = [python] if spelling is None else spelling.names
    for here in names:
        option = option_of(here)
        if option == _OTHER:
            continue
        flag = f"--{_SHORTER.get(option, option).replace('_', '-')}"
        if flag in options:
            value = here.removeprefix(option).lstrip("=").strip('"')
            # Commands take no mappings.
            return [flag if value.startswith("{") else f"{flag} {value}".strip()]
    return []


INTERRUPTED = 130
_CLOSED = 141


@contextmanager
def quiet_when_closed() -> Iterator[None]:
    """End the command without a message where nobody reads its output any more, as behind ``head``.

    The status is that of a program that SIGPIPE ends: others of a command have a meaning of their own.
    """
    try:
        yield
        sys.stdout.flush()
    except (OSError, SystemExit) as error:
        # What is still in a buffer would be written at the end of the process.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        # Rich ends the process with status 1 where a pipe is broken.
        if isinstance(error, BrokenPipeError | SystemExit):
            raise typer.Exit(_CLOSED) from None
        typer.secho(f"standard output: {reason(error)}", err=True, fg=typer.colors.RED)
        raise typer.Exit(2) from None


def listed(text: str) -> list[str]:
    """Split a list at its commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def given(context: typer.Context) -> set[str]:
    """The parameters of a command that are on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Parse a list of whole numbers.

    Raises:
        OptionError: A part is not a whole number; the message names `option`.
    """
    from spillway.errors import OptionError

    try:
        return tuple(int(part.replace("_", "")) for part in listed(text))
    except ValueError as error:
        raise OptionError(f"{option} {text!r}: give whole numbers, separated by commas") from error


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Parse NAME=VALUE, given as often as needed.

    Raises:
        OptionError: One is no such pair; the message names `option`.
    """
    from spillway.errors import OptionError

    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise OptionError(f"{option} takes NAME=VALUE")  # the text itself may be a secret
        found[name] = value
    return found


def size(option: str, text: str) -> int:
    """Parse a number of bytes, such as 512MB.

    Raises:
        OptionError: `text` is no such number; the message names `option`.
    """
    from spillway._wording import parse_bytes
    from spillway.errors import OptionError

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise OptionError(f"{option}: {error}") from error


def percentage(option: str, text: str, *, below: float = 1.0) -> float:
    """A share from a percentage: 0.05 for "5%".

    Raises:
        OptionError: It is not a percentage from 0% to below `below`; the message names `option`.
    """
    from spillway.errors import OptionError

    number = text.strip().removesuffix("%")
    try:
        found = float(number) / 100
    except ValueError:
        found = -1.0
    if not text.strip().endswith("%") or not 0 <= found < below:
        raise OptionError(f"{option} {text!r}: give a percentage from 0% to below {below:.0%}, as 5%")
    return found


def print_tables(
    console: Console, tables: Iterable[Table], legend: Iterable[str], warnings: Iterable[str]
) -> None:
    """Print the tables of a run, the way to read them, and the caveats."""
    from spillway.harness.report import terminal_tables

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


def write_whole(text: str, path: Path) -> None:
    """Write a file of text that appears when it is whole; an old one stays until then.

    What is no plain file, as a pipe, is written to.
    """
    place = path.resolve()  # a link stays one
    if place.exists() and not place.is_file():
        place.write_text(text, encoding="utf-8")
        return
    unfinished = place.with_name(f".{place.name}-{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(place)
    finally:
        unfinished.unlink(missing_ok=True)


def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    """Treat a request to end as Ctrl-C, so that nothing is left running.

    Only the first counts: ``timeout`` sends two at once, and the second would end the tidying up.
    """
    signal.signal(number, _unheard)
    # While it ends, Python gives back the default to all signals but those that are ignored.
    atexit.register(signal.signal, number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _unheard(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. Ignoring the signal instead would be inherited by the processes that are started."""


def _too_late(_number: int, _frame: FrameType | None) -> None:
    """Do nothing, since all is ended already. The handler before comes back."""


_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def termination_as_interrupt() -> Iterator[Callable[[], None]]:
    """Treat SIGTERM, and SIGHUP of a closed terminal, like Ctrl-C until the yielded function is called.

    Then the clean-up runs to its end.
    """
    # `nohup` has the second one ignored.
    heard = [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]

    def end_what_was_begun() -> None:
        for each in heard:
            if signal.getsignal(each) is not _unheard:
                signal.signal(each, _too_late)

    before = {each: signal.signal(each, interrupt) for each in heard}
    try:
        yield end_what_was_begun
    finally:
        for each in heard:
            _give_back(each, before[each])


@contextmanager
def first_interrupt_alone() -> Iterator[None]:
    """Handle only the first Ctrl-C: a second one would interrupt the clean-up."""
    before = signal.getsignal(signal.SIGINT)
    if callable(before):
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        _give_back(signal.SIGINT, before)


def _give_back(number: int, before: Callable[[int, FrameType | None], object] | int | None) -> None:
    """Put a signal's handler back, unless the signal came.

    Once it came, others may: they are for what is tidied up, not for the caller. They may come as late as the
    end of the process.
    """
    if signal.getsignal(number) is not _unheard:
        signal.signal(number, before)


def reason(error: Exception) -> str:
    """The message of an error, without the operating system's number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)


def fail(command: str, message: str) -> NoReturn:
    """Print the reason why a command cannot go on, and exit."""
    typer.secho(f"spillway {command}: {message}", err=True, fg=typer.colors.RED)
    raise typer.Exit(2)


@contextmanager
def failing(command: str, interrupted: str | None = None) -> Iterator[None]:
    """Report an error of the block and end the command; at Ctrl-C print `interrupted`, unless it is None."""
    from spillway.errors import SpillwayError

    try:
        yield
    except (SpillwayError, OSError) as error:
        fail(command, reason(error))
    except KeyboardInterrupt:
        if interrupted is None:
            raise
        if interrupted:
            typer.secho(interrupted, err=True, fg="yellow")
        raise typer.Exit(INTERRUPTED) from None


def complete_process(incomplete: str) -> list[str]:
    """Names of process settings. The percentage of ``quota-`` is left to the user."""
    from spillway.bench.plan import PROCESS_NAMES

    return _last_part(incomplete, (*PROCESS_NAMES[:-1], "quota-"))


def complete_backend(incomplete: str) -> list[str]:
    """Names of backends."""
    from spillway.backends import names

    return _last_part(incomplete, names())


def complete_codec(incomplete: str) -> list[str]:
    """Names of codecs."""
    from spillway.backends import CODECS

    return _last_part(incomplete, CODECS)


def complete_dataset(incomplete: str) -> list[str]:
    """Names of datasets. The width of ``wide:`` is left to the user."""
    from spillway.datasets import names

    return _last_part(incomplete, (*names(), "lineitem", "wide:"))


def complete_mode(incomplete: str) -> list[str]:
    """Names of modes."""
    from spillway.bench.plan import MODES

    return _last_part(incomplete, MODES)


def _last_part(incomplete: str, values: Iterable[str]) -> list[str]:
    """The list with its last part completed, by values that are not in it yet."""
    before, comma, last = incomplete.rpartition(",")
    taken = listed(before)
    return [f"{before}{comma}{value}" for value in values if value.startswith(last) and value not in taken]
