"""Lists in the problems that a check finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Step", "listed", "named"]

_MOST_NAMED = 3

Step = tuple[int, int]
"""One operation: the number of its writer, and its own among the writer's."""


def named(steps: Iterable[Step], noun: str) -> str:
    """Operations for people."""
    return listed([f"writer {writer}, {noun} {number}" for writer, number in sorted(steps)])


def listed(names: Sequence[object]) -> str:
    """The first of many."""
    text = "; ".join(map(str, names[:_MOST_NAMED]))
    return text if len(names) <= _MOST_NAMED else f"{text}; and {len(names) - _MOST_NAMED:,} more"
