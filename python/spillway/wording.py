"""Numbers with their nouns, as messages say them."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """A number of things: ``1 row``, ``20,000 rows``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
