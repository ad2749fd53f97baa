"""The kinds of memory limit that this machine offers, the best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.errors import OptionError
from spillway.harness.limits.cgroup import find_v1, find_v2
from spillway.harness.limits.plain import RlimitData
from spillway.harness.limits.systemd import find_systemd

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.harness.limits.memory_limit import Limiter

__all__ = ["LIMIT_KINDS", "choose_limiter", "detect_limiters"]

_FINDERS: dict[str, Callable[[], Limiter | None]] = {
    "cgroup-v2": find_v2,
    "cgroup-v1": find_v1,
    "systemd-scope": find_systemd,
    "rlimit-data": RlimitData,
}
LIMIT_KINDS = tuple(_FINDERS)
"""The kinds, the best first. ``RLIMIT_AS`` is none of them: it counts what is only reserved."""


def detect_limiters() -> list[Limiter]:
    """The kinds that this machine offers, the best first."""
    found = (find() for find in _FINDERS.values())
    return [limiter for limiter in found if limiter is not None]


def choose_limiter(kind: str | None) -> Limiter:
    """The limiter of this kind, or the best there is for None.

    Raises:
        OptionError: The kind is unknown or not offered here.
    """
    if kind is None:
        return next(limiter for find in _FINDERS.values() if (limiter := find()) is not None)
    if kind not in _FINDERS:
        raise OptionError(f"there is no limit kind {kind!r}; choose from: {', '.join(LIMIT_KINDS)}")
    limiter = _FINDERS[kind]()
    if limiter is None:
        offered = ", ".join(each.kind for each in detect_limiters())
        raise OptionError(f"this machine does not offer {kind} limits; it offers: {offered}")
    return limiter
