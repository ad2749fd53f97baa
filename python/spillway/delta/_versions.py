"""Versions of a table: by their numbers, and by times at which they were the newest."""

from __future__ import annotations

import contextlib
import datetime as dt
import operator
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError

if TYPE_CHECKING:
    from spillway import _native
    from spillway.types import Version

__all__ = ["number_of"]

_LAST = (1 << 63) - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def number_of(version: Version, table: _native.DeltaTable) -> int:
    """The number of a version.

    Raises:
        OptionError: A time has no time zone, or a text is not a time.
        VersionNotFoundError: The table has no version of that time.
    """
    # Integers of numpy, too.
    given: Any = version
    if not isinstance(given, bool):
        with contextlib.suppress(TypeError):
            # Delta versions are 64-bit; a larger number names a version that does not exist.
            return min(operator.index(given), _LAST)
    # Versions have whole milliseconds.
    return table.version_at((_time(version) - _EPOCH) // dt.timedelta(milliseconds=1))


def _time(given: object) -> dt.datetime:
    time = given
    if isinstance(given, str):
        try:
            time = dt.datetime.fromisoformat(given)
        except ValueError:
            time = None
    if not isinstance(time, dt.datetime):
        message = (
            f"version={given!r} is not accepted: give the number of a version, a datetime with a time zone, "
            "or a text such as '2026-11-20T12:00:00Z'"
        )
        raise OptionError(message, "version")
    if time.utcoffset() is None:
        message = (
            f"version={given!r} has no time zone, so it is ambiguous: give one, such as "
            f"{time.isoformat() + 'Z'!r}"
        )
        raise OptionError(message, "version")
    return time
