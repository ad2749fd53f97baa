"""Quantiles of waits: values that were measured, never ones between them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["percentiles", "quantile"]

_DIGITS = 6
_PERCENT = 100


def quantile(ordered: list[float], share: float) -> float:
    """The value that `share` of the ordered ones do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentiles(values: Iterable[float]) -> list[float] | None:
    """The quantiles 0 to 100 %, rounded to microseconds where values are seconds; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return [round(quantile(ordered, each / _PERCENT), _DIGITS) for each in range(_PERCENT + 1)]
