"""Values that a shell completes: those of options that take lists, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.cli.common import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["complete_backend", "complete_codec", "complete_dataset", "complete_mode", "complete_process"]


def complete_process(incomplete: str) -> list[str]:
    """Names of process settings. The percentage of ``quota-`` is left to the user."""
    from spillway.bench.process_settings import PROCESS_NAMES

    return _last_part(incomplete, (*PROCESS_NAMES[:-1], "quota-"))


def complete_backend(incomplete: str) -> list[str]:
    """Names of backends."""
    from spillway.backends import names

    return _last_part(incomplete, names())


def complete_codec(incomplete: str) -> list[str]:
    """Names of codecs."""
    from spillway.backends import CODECS

    return _last_part(incomplete, CODECS)


def complete_dataset(incomplete: str) -> list[str]:
    """Names of datasets. The width of ``wide:`` is left to the user."""
    from spillway.datasets import names

    return _last_part(incomplete, (*names(), "lineitem", "wide:"))


def complete_mode(incomplete: str) -> list[str]:
    """Names of modes."""
    from spillway.bench.plan import MODES

    return _last_part(incomplete, MODES)


def _last_part(incomplete: str, values: Iterable[str]) -> list[str]:
    """The list with its last part completed, by values that are not in it yet."""
    before, comma, last = incomplete.rpartition(",")
    taken = listed(before)
    return [f"{before}{comma}{value}" for value in values if value.startswith(last) and value not in taken]
