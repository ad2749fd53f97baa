"""Checks that the options of all runs share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def require_counts(options: Mapping[str, Sequence[int]]) -> None:
    """Check that options have whole numbers from 1 up.

    Raises:
        OptionError: One has none, or a smaller one.
    """
    for option, values in options.items():
        if not values or min(values) < 1:
            raise OptionError(f"{option} takes whole numbers from 1 up, not {joined(values)}")


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
        raise ValueError(f"{text!r} is no amount of memory; write it as 512MB, 512MiB, 2GB or in bytes")
    return int(float(match[1]) * _UNITS[unit])
