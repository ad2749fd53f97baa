"""Numbers, lists and messages as people write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["and_joined", "counted", "joined", "parse_bytes", "shortened"]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


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


def joined(values: Iterable[object]) -> str:
    """Values as a message lists them."""
    return ", ".join(map(str, values))


def parse_bytes(text: str) -> int:
    """Bytes from a number with a unit: 512MiB, 2276MB, 1.5GB, 4096.

    Raises:
        ValueError: It is no such number; the message says what is.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = match[2].upper() if match else ""
    if match is None or unit not in _UNITS:
        raise ValueError(f"{text!r} is not an amount of memory; write it as 512MB, 512MiB, 2GB or in bytes")
    return int(float(match[1]) * _UNITS[unit])
