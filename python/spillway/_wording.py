"""Numbers, lists and messages as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["and_joined", "counted", "shortened"]


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the singular for one: "1 sample", "2,000 samples"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def and_joined(names: Sequence[str]) -> str:
    """Names in a row: "a", "a and b", "a, b and c"."""
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), *names[-1:]])


def shortened(text: str, most: int | None = None) -> str:
    """A message on one line: all of it, or its first line within `most` characters."""
    if most is None:
        return " ".join(text.split())
    line = " ".join(next(iter(text.strip().splitlines()), "").split())
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."
