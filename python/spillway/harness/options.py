"""Checks that the options of all runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["joined", "require_counts"]


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
