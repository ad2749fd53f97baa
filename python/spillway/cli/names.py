"""Commands that write: an option as another library spells it is refused with the one that is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["WritingCommand"]

# The options of commands that have a shorter name than in Python.
_SHORTER = {"compression": "codec", "compression_level": "level"}
# It is the encoding of columns in Python, and that of text in commands.
_OTHER = "encoding"


class WritingCommand(TyperCommand):
    """A command whose error for an unknown option names what it is here, and not what looks like it."""

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
    """The arguments of a command that an unknown one stands for, as far as its options have them."""
    from spillway._spellings import ELSEWHERE, option_of

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
