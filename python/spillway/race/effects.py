"""The times of committers' effects, by their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EffectTimes", "merged"]


class EffectTimes(TypedDict):
    """The times of effects of one kind, of all processes.

    Attributes:
        count: The number of effects.
        total_seconds: The time of all of them.
        longest_seconds: The time of the longest one.
    """

    count: int
    total_seconds: float
    longest_seconds: float


def merged(one: Mapping[str, EffectTimes], other: Mapping[str, EffectTimes]) -> dict[str, EffectTimes]:
    """The times of two processes together."""
    both = dict(one)
    for kind, times in other.items():
        if (known := both.get(kind)) is None:
            both[kind] = times
            continue
        both[kind] = {
            "count": known["count"] + times["count"],
            "total_seconds": known["total_seconds"] + times["total_seconds"],
            "longest_seconds": max(known["longest_seconds"], times["longest_seconds"]),
        }
    return both
